package shard

import (
	"testing"

	"github.com/coordd/coordd/coordinator/streams"
)

// TestNoTargetIsComputedBeforeTheTopicsAreKnown: a new leader that does not know the topics yet would take them all for
// missing, and its timers would take the tasks of every member.
func TestNoTargetIsComputedBeforeTheTopicsAreKnown(t *testing.T) {
	r := newRig(t)
	r.settings.AssignmentIntervalMs = 1000
	r.joined("g", "a")
	r.joined("g", "b") // its target waits for the interval
	state := r.committed
	if g := state.Group("g"); streams.StateOf(g) != streams.StateAssigning {
		t.Fatal(streams.StateOf(g))
	}
	known := r.topics
	r.topics = topics{}
	r.Lost(r.now)
	r.Elected(r.now, 2, state)
	for range 10 {
		r.tick(500)
		r.commitAll()
	}
	if g := r.committed.Group("g"); streams.StateOf(g) != streams.StateAssigning || g.Epoch() != state.Group("g").Epoch() {
		t.Fatalf("without topics: %s at epoch %d", streams.StateOf(g), g.Epoch())
	}
	r.topics = known
	r.tick(500)
	r.commitAll()
	if g := r.committed.Group("g"); streams.StateOf(g) != streams.StateReconciling || g.Epoch() != state.Group("g").Epoch() {
		t.Fatalf("with topics: %s at epoch %d", streams.StateOf(g), g.Epoch())
	}
}

// tick lets the time pass, on time.
func (r *rig) tick(ms int64) {
	r.now += ms
	r.timers.wakeAt = r.now
	r.Tick(r.now)
	r.Flush()
}
