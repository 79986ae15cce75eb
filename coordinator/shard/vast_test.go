package shard

import (
	"testing"

	"github.com/coordd/coordd/coordinator/streams"
)

// TestMoreTasksThanAMemberCanHave: a group whose tasks no record of its members can hold gets over it when more members
// come.
func TestMoreTasksThanAMemberCanHave(t *testing.T) {
	for _, offload := range []bool{false, true} {
		r := newRig(t)
		r.settings.AssignorOffload = offload
		r.topics["in"] = 60_000
		rest := func() {
			for range 4 {
				r.now += 1000
				r.freshProof()
				r.timer()
				for len(r.jobs) > 0 {
					r.compute()
				}
				r.commitAll()
			}
		}
		h := r.joined("g", "a")
		rest()
		if g := r.committed.Group("g"); g.AssignmentEpoch() == g.Epoch() || len(h.Status) != 1 || h.Status[0].Code != streams.StatusAssignmentDelayed {
			t.Fatalf("offload %v: %d tasks were given, status %v", offload, h.Active.Len(), h.Status)
		}
		failed := 0
		for _, e := range r.events {
			if e.Failed != nil {
				failed++
			}
		}
		if failed == 0 {
			t.Errorf("offload %v: nobody is told why", offload)
		}
		for _, id := range []string{"b", "c"} {
			r.joined("g", id)
		}
		rest()
		g := r.committed.Group("g")
		if g.AssignmentEpoch() != g.Epoch() || g.Member("a").Target.Assignment.Len() != 20_000 {
			t.Fatalf("offload %v: assignment epoch %d of %d", offload, g.AssignmentEpoch(), g.Epoch())
		}
		for m := range g.Members() {
			c, a := r.send(report("g", m.ID, m.Current.MemberEpoch, m.Current.Assigned.Active))
			r.commitAll()
			if !a.done || c.Err != nil || c.Heartbeat.Err != nil || c.Heartbeat.Active.Len() != 20_000 {
				t.Fatalf("offload %v: %s: %v %v %v", offload, m.ID, a.done, c.Err, c.Heartbeat.Err)
			}
		}
	}
}
