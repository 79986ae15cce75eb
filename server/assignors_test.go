package server

import (
	"testing"

	"github.com/coordd/coordd/assignor"
)

// TestAssignorsByName: all that the default configuration lists are there, and a name that is not registered, or not any more,
// stands for the first.
func TestAssignorsByName(t *testing.T) {
	for _, c := range []struct {
		listed     []string
		name, want string
	}{
		{[]string{"sticky", "highly_available", "auto"}, "sticky", assignor.StickyName},
		{[]string{"sticky", "highly_available", "auto"}, "highly_available", assignor.HighlyAvailableName},
		{[]string{"sticky", "highly_available", "auto"}, "auto", assignor.AutoName},
		{[]string{"sticky", "highly_available", "auto"}, "gone", assignor.StickyName},
		{[]string{"auto", "sticky"}, "highly_available", assignor.AutoName},
		{[]string{"auto", "sticky"}, "", assignor.AutoName},
	} {
		if got := newAssignors(c.listed).named(c.name).Name(); got != c.want {
			t.Errorf("%q of %v is %s, want %s", c.name, c.listed, got, c.want)
		}
	}
}
