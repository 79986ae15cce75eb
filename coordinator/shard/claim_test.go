package shard

import (
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
