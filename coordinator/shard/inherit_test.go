package shard

import (
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
)

// inherited is a new leader of a group whose membership upstream an earlier one holds.
func inherited(t *testing.T) (r *rig, epoch int32) {
	r = newRig(t)
	h := r.joined("g", "a")
	r.send(commit("g", "a", h.MemberEpoch))
	r.commitAll()
	r.Claimed(r.now, "g", nil)
	r.stored()
	next := newRig(t)
	next.Elected(next.now, 2, r.committed)
	next.freshProof()
	return next, h.MemberEpoch
}

func TestMembersReadOffsetsOnlyAfterOlderCommitsAreFenced(t *testing.T) {
	r, epoch := inherited(t)
	member := "a"
	_, a := r.send(&offsets.FetchRequest{Version: 9, GroupID: "g", MemberID: &member, MemberEpoch: epoch})
	_, tool := r.send(&offsets.FetchRequest{Version: 9, GroupID: "g", MemberEpoch: -1})
	if len(r.ops) != 1 || a.done || tool.done {
		t.Fatalf("%d reads at the store: only the tool's may go on", len(r.ops))
	}
	r.Claimed(r.now, "g", nil)
	if len(r.ops) != 2 {
		t.Fatal("the member's read must follow the takeover")
	}
}

func TestFailedTakeoverLetsReadsGo(t *testing.T) {
	r, epoch := inherited(t)
	member := "a"
	c, a := r.send(&offsets.FetchRequest{Version: 9, GroupID: "g", MemberID: &member, MemberEpoch: epoch})
	r.Claimed(r.now, "g", coordinator.Errorf(coordinator.CoordinatorNotAvailable, "away"))
	if !a.done || c.Err == nil || c.Err.Code != coordinator.CoordinatorNotAvailable {
		t.Fatalf("answered %v, %v", a.done, c.Err)
	}
}

func TestLostLeaderForgetsClaimsThatTheStoreMayMakeAnew(t *testing.T) {
	r, epoch := inherited(t)
	r.Claimed(r.now, "g", nil)
	r.send(commit("g", "a", epoch))
	op := r.ops[0]
	r.StoreDone(r.now, op, &offsets.CommitResponse{Topics: []offsets.CommitTopicResult{
		{Name: "in", Partitions: []offsets.PartitionResult{{Code: coordinator.NotCoordinator}}}}}) // fenced upstream
	r.Lost(r.now)
	if len(r.forgotten) != 1 {
		t.Fatalf("forgotten %v", r.forgotten)
	}
}

func TestGroupIsOursUntilItsDeletionIsCommitted(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	r.send(&DeleteGroupRequest{GroupID: "g"})
	r.StoreDone(r.now, r.drops[0], nil)
	r.Flush()
	holds := func() bool {
		c, _ := r.send(&HoldsRequest{GroupID: "g"})
		return c.Response.(*HoldsResponse).Held
	}
	if r.inflight == nil || r.working.Group("g") != nil || !holds() {
		t.Error("given up before the deletion is committed")
	}
	r.commitAll()
	if holds() {
		t.Error("held although it is deleted")
	}
}

// TestTakingOverCountsGroupsOfEarlierLeaders: from the election until the membership is this leader's, is ended, or the
// leadership is lost.
func TestTakingOverCountsGroupsOfEarlierLeaders(t *testing.T) {
	r, _ := inherited(t)
	is := func(want int, when string) {
		t.Helper()
		if got := r.TakingOver(); got != want {
			t.Errorf("%s: %d, want %d", when, got, want)
		}
	}
	is(1, "elected")
	r.Claimed(r.now, "g", coordinator.Errorf(coordinator.CoordinatorNotAvailable, "away"))
	is(1, "the upstream is away")
	r.Lost(r.now)
	is(0, "lost")
	r, _ = inherited(t)
	is(1, "elected again")
	r.Claimed(r.now, "g", nil)
	is(0, "taken over")
	r.Claimed(r.now, "g", nil)
	is(0, "told twice")
}
