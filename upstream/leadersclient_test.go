package upstream

import (
	"slices"
	"testing"
	"testing/synctest"
)

// A client tells the racks of leaders as soon as it was asked for metadata, of some topics or of all.
func TestClientTellsLeaderRacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := threeBrokers(t).node().client
		name := poll(t, c).Topics[0].Name
		want := slices.Repeat([]string{"krack"}, int(poll(t, c).Topics[0].Partitions)) // where all of kfake's brokers are
		if got := c.LeaderRacks(name); !slices.Equal(got, want) {
			t.Errorf("racks %q of %s, want %q", got, name, want)
		}
		other := threeBrokers(t).node().client
		if got := other.LeaderRacks(name); got != nil {
			t.Errorf("racks %q before anything was asked", got)
		}
		if _, err := other.NamedMetadata(t.Context(), []string{name}); err != nil {
			t.Fatal(err)
		}
		if got := other.LeaderRacks(name); !slices.Equal(got, want) || other.LeaderRacks("no-such-topic") != nil {
			t.Errorf("racks %q of %s, want %q", got, name, want)
		}
	})
}
