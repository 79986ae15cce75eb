package shard

import (
	"testing"

	"github.com/coordd/coordd/coordinator"
)

// vacation is a VacateRequest and where its answer comes.
type vacation struct {
	*Call
	*answer
}

func (r *rig) vacated(group string) vacation {
	c, a := r.send(&VacateRequest{GroupID: group})
	return vacation{c, a}
}

// memberWithClaim joins a member whose commit makes the shard hold the group's membership upstream.
func (r *rig) memberWithClaim(group, member string) {
	r.t.Helper()
	h := r.joined(group, member)
	r.send(commit(group, member, h.MemberEpoch))
	r.commitAll()
	r.Claimed(r.now, group, nil)
	r.Flush()
	r.stored()
	if r.groups[group].claim != claimHeld {
		r.t.Fatalf("claim %v", r.groups[group].claim)
	}
}

func (v vacation) says(t *testing.T) HoldsResponse {
	t.Helper()
	if v.n != 1 || v.Err != nil {
		t.Fatalf("%d answers, %v", v.n, v.Err)
	}
	return *v.Response.(*HoldsResponse)
}

func TestAGroupWithMembersDoesNotMakeRoom(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	if h := r.vacated("g").says(t); h != (HoldsResponse{Held: true}) || r.committed.Group("g") == nil {
		t.Errorf("%+v", h)
	}
	if h := r.vacated("nothing").says(t); h.Held {
		t.Errorf("%+v", h)
	}
}

// The membership upstream goes first: the classic group could not be made beside it. Offsets stay.
func TestAnEmptyGroupMakesRoomOnceItsMembershipIsGone(t *testing.T) {
	r := newRig(t)
	r.memberWithClaim("g", "a")
	r.send(beat("g", "a", -1))
	r.commitAll()
	v := r.vacated("g")
	if v.done || len(r.releases) != 1 {
		t.Fatalf("answered %v, releases %v", v.done, r.releases)
	}
	r.Released(r.now, "g", nil)
	r.Flush()
	r.commitAll()
	if h := v.says(t); h.Held || r.committed.Group("g") != nil {
		t.Errorf("%+v", h)
	}
	if len(r.drops) != 0 {
		t.Error("the offsets were dropped")
	}
}

// A join that comes in between wins.
func TestAJoinBeforeTheMembershipIsGoneKeepsTheGroup(t *testing.T) {
	r := newRig(t)
	r.memberWithClaim("g", "a")
	r.send(beat("g", "a", -1))
	r.commitAll()
	v := r.vacated("g")
	r.joined("g", "b")
	r.Released(r.now, "g", nil)
	r.Flush()
	r.commitAll()
	for v.n == 0 && len(r.claims) > 0 { // the call waits until the membership is held again
		r.Claimed(r.now, "g", nil)
		r.claims = nil
	}
	if h := v.says(t); !h.Held || h.Empty || r.committed.Group("g") == nil {
		t.Errorf("%+v", h)
	}
}

// A refused proposal is decided again, on what is true then.
func TestAVacateWhoseProposalIsRefused(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.send(beat("g", "a", -1))
	r.commitAll()
	v := r.vacated("g")
	r.ProposalFailed(r.now, r.inflight.id, true)
	if v.done {
		t.Fatal("answered although nothing is committed")
	}
	r.now += 100
	r.freshProof()
	r.Tick(r.now)
	r.Flush()
	r.commitAll()
	if h := v.says(t); h.Held {
		t.Errorf("%+v", h)
	}
}

func TestAVacateIsToldOfALostLeadership(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.send(beat("g", "a", -1))
	r.commitAll()
	v := r.vacated("g")
	r.Lost(r.now)
	if !v.done || v.Err == nil || v.Err.Code != coordinator.NotCoordinator {
		t.Errorf("%v %v", v.done, v.Err)
	}
}

// Who joins right after the group made room has made it anew: nobody is told that it is gone.
func TestAGroupThatIsBackIsNotSaidToBeGone(t *testing.T) {
	r := emptied(t)
	v := &answer{}
	c := &Call{Client: client, Request: &VacateRequest{GroupID: "g"}, Done: v}
	r.Submit(r.now, c)
	j := &answer{}
	r.Submit(r.now, &Call{Client: client, Request: join("g", "b"), Done: j, free: true})
	r.ForeignChecked(r.now, "g", coordinator.ForeignGroup{}, nil)
	r.Flush()
	r.commitAll()
	if held, ok := c.Response.(*HoldsResponse); !v.done || !j.done || !ok || !held.Held || held.Empty {
		t.Fatalf("%v %v %+v", v.done, j.done, c.Response)
	}
}
