package shard

import (
	"errors"
	"testing"

	"github.com/coordd/coordd/coordinator/streams"
)

func TestClaimIsDueWhileTheLastMemberLeaves(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.joined("h", "b")
	r.send(join("h", "c")) // in flight
	_, leave := r.send(beat("g", "a", streams.LeaveEpoch))
	r.now += claimAfterMs
	r.freshProof()
	r.Tick(r.now) // the claim waits behind the leave
	r.Flush()
	r.commitAll()
	g := r.committed.Group("g")
	if !leave.done || g.NumMembers() != 0 || g.OffsetsClaimed || r.groups["g"].claim != claimNone {
		t.Fatalf("left %v, members %d, claimed %v, claim %v", leave.done, g.NumMembers(), g.OffsetsClaimed, r.groups["g"].claim)
	}
}

func TestExpiryIsDecidedAgainAfterARefusedProposal(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.now += 45_001
	r.timers.wakeAt = r.now // the timer fired in time
	r.Tick(r.now)
	r.Flush()
	r.ProposalFailed(r.now, r.inflight.id, true)
	r.Flush()
	r.now += retryProposalMs
	r.Tick(r.now)
	r.Flush()
	r.commitAll()
	if r.committed.Group("g").Member("a") != nil {
		t.Fatal("the silent member stays for ever")
	}
}

func TestFailedClaimIsToldOnce(t *testing.T) {
	r := newRig(t)
	h := r.joined("g", "a")
	told := func() (n int) {
		for _, e := range r.events {
			if e.Failed != nil {
				n++
			}
		}
		return n
	}
	for range 3 {
		r.send(commit("g", "a", h.MemberEpoch))
		r.commitAll()
		r.Claimed(r.now, "g", errors.New("the id is another's"))
	}
	if told() != 1 {
		t.Fatalf("told %d times", told())
	}
	r.send(commit("g", "a", h.MemberEpoch))
	r.Claimed(r.now, "g", errors.New("no right"))
	if told() != 2 {
		t.Fatal("another reason must be told")
	}
}
