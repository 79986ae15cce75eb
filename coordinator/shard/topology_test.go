package shard

import (
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/topology"
)

// TestAnUpdateIsTakenBackByTopicsThatAreCurrent: with an older picture of the topics, or none, a topology that fits would
// count as one that does not, and the other way round.
func TestAnUpdateIsTakenBackByTopicsThatAreCurrent(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	next := join("g", "b")
	next.Topology = &topology.Topology{Epoch: 1, Subtopologies: []topology.Subtopology{{ID: "1", SourceTopics: []string{"in"}}}}
	if c, _ := r.send(next); c.Err != nil {
		t.Fatal(c.Err)
	}
	r.commitAll()
	known := r.topics
	for _, state := range []struct {
		name string
		old  bool
		topics
	}{{"topics of the leader before", true, known}, {"no topics", false, nil}} {
		r.oldTopics, r.topics, r.changes = state.old, state.topics, 0
		refreshed, proposed := r.refreshed, len(r.proposed)
		c, a := r.send(&AbortTopologyRequest{GroupID: "g", Epoch: 1})
		if !a.done || c.Err == nil || c.Err.Code != coordinator.CoordinatorLoadInProgress {
			t.Fatalf("%s: %v, %v", state.name, a.done, c.Err)
		}
		if len(r.proposed) != proposed || r.refreshed == refreshed {
			t.Errorf("%s: %d entries, %d reads", state.name, len(r.proposed)-proposed, r.refreshed-refreshed)
		}
	}
	r.oldTopics, r.topics = false, known
	c, a := r.send(&AbortTopologyRequest{GroupID: "g", Epoch: 1})
	r.commitAll()
	if !a.done || c.Err != nil {
		t.Fatal(a.done, c.Err)
	}
	if response := c.Response.(*AbortTopologyResponse); response.Err != nil || response.Epoch != 2 || response.Restored != 0 {
		t.Errorf("%+v", response)
	}
}
