package server

import (
	"testing"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// TestCausesOfOtherReleasesAreShown: a log may have kinds of causes that this release does not know.
func TestCausesOfOtherReleasesAreShown(t *testing.T) {
	state, err := fsm.NewState().Evolve(record.Record{
		Key: record.Key{Type: record.TypeJournalEntry, Group: "g", ID: 1},
		Value: &record.JournalEntry{
			Sequence: 1, Counts: []record.JournalCount{{Kind: -1, Count: 1}, {Kind: 0, Count: 2}, {Kind: 127, Count: 3}},
			Causes: []record.JournalCause{{Kinds: 0xffff}}, Moves: []record.JournalMove{{Role: 77}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	view := journalView(state.Group("g"))
	if len(view) != 1 || len(view[0].Counts) != 3 || view[0].Counts[1].Count != 2 || view[0].Moves[0].Role != "unknown" {
		t.Fatalf("%+v", view)
	}
}
