package shard

import (
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm/record"
)

// TestAPlanChangesNothing: the leader takes a snapshot, which is worked on beside it, and nothing is proposed.
func TestAPlanChangesNothing(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	proposed, digest := len(r.proposed), r.committed.Digest()
	c, a := r.send(&PlanRequest{GroupID: "g", Input: streams.PlanInput{Add: 1}})
	if !a.done || c.Err != nil {
		t.Fatal(a.done, c.Err)
	}
	response := c.Response.(*PlanResponse)
	if response.Err != nil {
		t.Fatal(response.Err)
	}
	p, err := response.Job.Run(func() bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Steps) != 1 || p.Steps[0].Moved[record.RoleActive] != 2 || p.Epoch != r.committed.Group("g").Epoch() {
		t.Errorf("%+v", p)
	}
	if len(r.proposed) != proposed || r.committed.Digest() != digest || r.Pending() > 0 || r.Waiting() > 0 {
		t.Error("a plan wrote something")
	}
}

// TestAPlanIsRefused: by a node that does not lead, by one that does not know the topics, and where there is nothing to plan.
func TestAPlanIsRefused(t *testing.T) {
	r := newRig(t)
	ask := func(group string) *Call {
		t.Helper()
		c, a := r.send(&PlanRequest{GroupID: group})
		if !a.done {
			t.Fatal("no answer")
		}
		return c
	}
	r.joined("g", "a")
	if response := ask("h").Response.(*PlanResponse); response.Err == nil || response.Err.Code != coordinator.GroupIDNotFound || response.Job != nil {
		t.Errorf("no such group: %+v", response)
	}
	r.topics, r.changes = topics{}, 0
	if c := ask("g"); c.Err == nil || c.Err.Code != coordinator.CoordinatorLoadInProgress {
		t.Errorf("without topics: %v", c.Err)
	}
	r.Lost(r.now)
	if c := ask("g"); c.Err == nil || c.Err.Code != coordinator.NotCoordinator {
		t.Errorf("not the leader: %v", c.Err)
	}
}
