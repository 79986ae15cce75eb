package shard

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

func TestSteadyHeartbeatNeedsNoLog(t *testing.T) {
	r := newRig(t)
	h := r.joined("g", "a")
	r.send(report("g", "a", h.MemberEpoch, h.Active))
	r.commitAll()
	entries := len(r.proposed)
	for range 10 {
		r.now += 100
		r.freshProof()
		if c, a := r.send(beat("g", "a", h.MemberEpoch)); !a.done || c.Heartbeat.Err != nil || c.Heartbeat.Active != nil {
			t.Fatalf("%+v", c.Heartbeat)
		}
	}
	if len(r.proposed) != entries {
		t.Fatalf("%d entries for steady heartbeats", len(r.proposed)-entries)
	}
}

func TestReplyWaitsForCommit(t *testing.T) {
	r := newRig(t)
	c, a := r.send(join("g", "a"))
	r.ForeignChecked(r.now, "g", noForeign, nil)
	r.Flush()
	if a.done || len(r.proposed) != 1 {
		t.Fatalf("answered %v before the commit; %d entries", a.done, len(r.proposed))
	}
	later, b := r.send(beat("g", "a", 2)) // sees the join that is in flight
	other := r.otherGroupAnswers()
	if b.done || !other {
		t.Fatalf("a reply that saw uncommitted state was sent: %v; another group had to wait: %v", b.done, !other)
	}
	r.commitAll()
	if !a.done || !b.done || c.Heartbeat.MemberEpoch != 2 || later.Heartbeat.Err != nil {
		t.Fatalf("%v %v %+v %+v", a.done, b.done, c.Heartbeat, later.Heartbeat)
	}
}

// otherGroupAnswers says whether a request of a group without changes is answered at once.
func (r *rig) otherGroupAnswers() bool {
	c, a := r.send(beat("nobody", "x", 3))
	r.ForeignChecked(r.now, "nobody", noForeign, nil)
	return a.done && c.Heartbeat.Err != nil && c.Heartbeat.Err.Code == coordinator.UnknownMemberID
}

func TestQueuedCallsShareOneEntry(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	entries := len(r.proposed)
	var answers []*answer
	for i := range 20 {
		_, a := r.send(join("g", fmt.Sprintf("m%02d", i)))
		answers = append(answers, a)
	}
	r.commitAll()
	if n := len(r.proposed) - entries; n != 2 {
		t.Fatalf("%d entries for 20 joins, of which 19 came while the first was in flight", n)
	}
	for i, a := range answers {
		if a.n != 1 {
			t.Fatalf("join %d answered %d times", i, a.n)
		}
	}
	if n := r.committed.Group("g").NumMembers(); n != 21 {
		t.Fatalf("%d members", n)
	}
}

func TestAnswersFromMemoryNeedAFreshProof(t *testing.T) {
	r := newRig(t)
	h := r.joined("g", "a")
	r.now += r.options.LeaseMs + 1
	asked := len(r.verifies)
	c, a := r.send(beat("g", "a", h.MemberEpoch))
	_, b := r.send(beat("g", "a", h.MemberEpoch))
	if a.done || b.done || len(r.verifies) != asked+1 {
		t.Fatalf("answered without proof: %v %v, %d proofs asked for", a.done, b.done, len(r.verifies)-asked)
	}
	r.Verified(r.now, r.verifies[asked], true)
	if !a.done || !b.done || c.Heartbeat.Err != nil {
		t.Fatal("not answered after the proof")
	}
	r.now += r.options.LeaseMs + 1
	r.known = r.now - 10
	if _, a := r.send(beat("g", "a", h.MemberEpoch)); !a.done || len(r.verifies) != asked+1 {
		t.Fatal("the heartbeats that Raft sends anyway are proof enough")
	}
	r.now += r.options.LeaseMs + 1
	c, a = r.send(beat("g", "a", h.MemberEpoch))
	r.Verified(r.now, r.now, false)
	if !a.done || c.Err == nil || c.Err.Code != coordinator.NotCoordinator {
		t.Fatalf("a node without proof answered %+v", c.Err)
	}
}

func TestLossOfLeadershipAnswersEverybodyOnce(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	var calls []*Call
	var answers []*answer
	keep := func(c *Call, a *answer) { calls, answers = append(calls, c), append(answers, a) }
	keep(r.send(join("g", "b")))    // in flight
	keep(r.send(join("g", "c")))    // queued
	keep(r.send(beat("g", "a", 2))) // queued behind the change
	keep(r.send(join("new", "d")))  // waits for the upstream
	r.now += r.options.LeaseMs + 1
	keep(r.send(beat("g", "a", 2))) // waits for a proof
	r.Lost(r.now)
	for i, a := range answers {
		if a.n != 1 || calls[i].Err == nil || calls[i].Err.Code != coordinator.NotCoordinator {
			t.Errorf("call %d: answered %d times with %v", i, a.n, calls[i].Err)
		}
	}
	if c, a := r.send(beat("g", "a", 2)); !a.done || c.Err.Code != coordinator.NotCoordinator {
		t.Error("a follower answered")
	}
}

func TestRefusedProposalIsDecidedAgain(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	c, a := r.send(join("g", "b"))
	r.ProposalFailed(r.now, r.inflight.id, true)
	r.Flush()
	if a.done || !r.leading {
		t.Fatal("a proposal that was not started must be tried again")
	}
	r.now += 50
	r.Tick(r.now)
	r.Flush()
	r.commitAll()
	if !a.done || c.Heartbeat.Err != nil || r.committed.Group("g").NumMembers() != 2 {
		t.Fatalf("%v %+v", a.done, c.Heartbeat)
	}
}

func TestUnknownOutcomeEndsTheLeadership(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	c, a := r.send(join("g", "b"))
	r.ProposalFailed(r.now, r.inflight.id, false)
	if !a.done || c.Err.Code != coordinator.NotCoordinator || r.leading {
		t.Fatalf("%v %v leading %v", a.done, c.Err, r.leading)
	}
}

func commit(group, member string, epoch int32) *offsets.CommitRequest {
	return &offsets.CommitRequest{Version: 9, GroupID: group, MemberID: member, MemberEpoch: epoch, Topics: []offsets.CommitTopic{
		{Name: "in", Partitions: []offsets.CommitPartition{{Partition: 0, Offset: 7, LeaderEpoch: -1}}}}}
}

func (r *rig) stored() {
	op := r.ops[0]
	r.ops = r.ops[1:]
	r.StoreDone(r.now, op, &offsets.CommitResponse{Topics: []offsets.CommitTopicResult{
		{Name: "in", Partitions: []offsets.PartitionResult{{Partition: 0}}}}})
	r.Flush()
	r.commitAll()
}

func TestFirstCommitClaimsTheMembershipUpstream(t *testing.T) {
	r := newRig(t)
	h := r.joined("g", "a")
	_, a := r.send(commit("g", "a", h.MemberEpoch))
	if len(r.claims) != 0 {
		t.Fatal("claimed before the log says so")
	}
	r.commitAll()
	if !r.committed.Group("g").OffsetsClaimed || !slices.Equal(r.claims, []string{"g"}) || len(r.commits) != 0 {
		t.Fatalf("claims %v, commits %d", r.claims, len(r.commits))
	}
	r.Claimed(r.now, "g", nil)
	if len(r.commits) != 1 || a.done {
		t.Fatal("the commit must follow the claim, and be answered by the store")
	}
	r.stored()
	if !a.done {
		t.Fatal("not answered")
	}
	if c, a := r.send(commit("g", "a", h.MemberEpoch+1)); !a.done || c.Response.(*offsets.CommitResponse).Topics[0].Partitions[0].Code != coordinator.StaleMemberEpoch {
		t.Fatal("a commit with a later epoch was not fenced")
	}
}

func TestTaskIsHandedOnOnlyAfterTheMembersCommits(t *testing.T) {
	r := newRig(t)
	h := r.joined("g", "a")
	r.send(commit("g", "a", h.MemberEpoch))
	r.commitAll()
	r.Claimed(r.now, "g", nil)
	_, leave := r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	if leave.done || r.committed.Group("g").NumMembers() != 1 {
		t.Fatal("the member left although its commit was under way")
	}
	r.stored()
	if !leave.done || r.committed.Group("g").NumMembers() != 0 {
		t.Fatal("the leave must follow the commit")
	}
	if !slices.Equal(r.releases, []string{"g"}) {
		t.Fatalf("releases %v", r.releases)
	}
	r.Released(r.now, "g", nil)
	r.Flush()
	r.commitAll()
	if r.committed.Group("g").OffsetsClaimed {
		t.Fatal("the claim is still in the log")
	}
}

func TestNewLeaderTakesTheMembershipOverBeforeTasksMove(t *testing.T) {
	r := newRig(t)
	h := r.joined("g", "a")
	r.send(commit("g", "a", h.MemberEpoch))
	r.commitAll()
	r.Claimed(r.now, "g", nil)
	r.stored()
	state := r.committed

	next := newRig(t)
	next.Elected(next.now, 2, state)
	next.freshProof()
	if !slices.Equal(next.claims, []string{"g"}) {
		t.Fatalf("claims %v", next.claims)
	}
	if c, a := next.send(beat("g", "a", h.MemberEpoch)); !a.done || c.Heartbeat.Err != nil || c.Heartbeat.MemberEpoch != h.MemberEpoch {
		t.Fatalf("a steady member must not wait: %+v", c.Heartbeat)
	}
	b := next.joined("g", "b")
	c, _ := next.send(beat("g", "a", h.MemberEpoch))
	next.commitAll()
	next.send(report("g", "a", h.MemberEpoch, c.Heartbeat.Active))
	next.commitAll()
	if d, _ := next.send(report("g", "b", b.MemberEpoch, nil)); d.Heartbeat.Active.Len() != 0 {
		t.Fatal("a task moved before older commits were fenced upstream")
	}
	next.commitAll()
	next.Claimed(next.now, "g", nil)
	d, _ := next.send(report("g", "b", b.MemberEpoch, nil))
	next.commitAll()
	if d.Heartbeat.Active.Len() != 2 {
		t.Fatalf("after the takeover the tasks must move: %+v", d.Heartbeat)
	}
}

func TestClaimIsMadeBeforeTheFirstCommitAndHoldsNothingBack(t *testing.T) {
	r := newRig(t)
	h := r.joined("g", "a")
	r.now += claimAfterMs
	r.timers.wakeAt = r.now
	r.Tick(r.now)
	r.Flush()
	r.commitAll()
	if !slices.Equal(r.claims, []string{"g"}) {
		t.Fatalf("claims %v", r.claims)
	}
	r.freshProof()
	b := r.joined("g", "b")
	c, _ := r.send(beat("g", "a", h.MemberEpoch))
	r.commitAll()
	r.send(report("g", "a", h.MemberEpoch, c.Heartbeat.Active))
	r.commitAll()
	d, _ := r.send(report("g", "b", b.MemberEpoch, nil))
	r.commitAll()
	if d.Heartbeat.Active.Len() != 2 {
		t.Fatalf("the claim of this leader held a task back: %+v", d.Heartbeat)
	}
}

func TestDeleteGroup(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	c, a := r.send(&DeleteGroupRequest{GroupID: "g"})
	if !a.done || c.Response.(*DeleteGroupResponse).Err.Code != coordinator.NonEmptyGroup {
		t.Fatalf("%+v", c.Response)
	}
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	c, a = r.send(&DeleteGroupRequest{GroupID: "g"})
	if a.done || len(r.drops) != 1 {
		t.Fatal("the offsets must go first")
	}
	r.StoreDone(r.now, r.drops[0], nil)
	r.Flush()
	r.commitAll()
	if !a.done || c.Response.(*DeleteGroupResponse).Err != nil || r.committed.Group("g") != nil {
		t.Fatalf("%v %+v", a.done, c.Response)
	}
	var order []record.Type
	for _, rec := range r.proposed[len(r.proposed)-1].Records {
		if order = append(order, rec.Key.Type); rec.Value != nil {
			t.Errorf("%s is no tombstone", rec.Key)
		}
	}
	if want := []record.Type{record.TypeTargetMetadata, record.TypeGroupMetadata, record.TypeTopology}; !slices.Equal(order, want) {
		t.Errorf("tombstones %v, want %v", order, want)
	}
	c, _ = r.send(&DeleteGroupRequest{GroupID: "g"})
	if c.Response.(*DeleteGroupResponse).Err.Code != coordinator.GroupIDNotFound {
		t.Fatalf("%+v", c.Response)
	}
}

func TestNothingIsDecidedBeforeTheTopicsAreKnown(t *testing.T) {
	r := newRig(t)
	h := r.joined("g", "a")
	r.topics = nil
	c, a := r.send(beat("g", "a", h.MemberEpoch))
	if !a.done || c.Err == nil || c.Err.Code != coordinator.CoordinatorLoadInProgress {
		t.Fatalf("%+v", c.Err)
	}
}

func TestLargeDecisionIsSplitIntoEntries(t *testing.T) {
	r := newRig(t)
	r.options.MaxBatchBytes = 200
	h := r.joined("g", "a")
	if len(r.proposed) < 2 {
		t.Fatalf("%d entries", len(r.proposed))
	}
	var records int
	replayed := fsm.NewState()
	for _, e := range r.proposed {
		records += len(e.Records)
		var err error
		if replayed, err = replayed.EvolveAll(e.Records); err != nil {
			t.Fatal(err)
		}
	}
	if h.Active.Len() != 4 || replayed.Digest() != r.committed.Digest() {
		t.Fatalf("%d tasks, digests differ: %v", h.Active.Len(), replayed.Digest() != r.committed.Digest())
	}
}

func BenchmarkSteadyHeartbeat(b *testing.B) {
	r := newRig(&testing.T{})
	h := r.joined("g", "a")
	r.send(report("g", "a", h.MemberEpoch, h.Active))
	r.commitAll()
	call := &Call{Client: client, Request: beat("g", "a", h.MemberEpoch), Done: &answer{}}
	r.options.LeaseMs = 1 << 40
	b.ReportAllocs()
	for b.Loop() {
		r.Submit(r.now, call)
		r.Flush()
	}
}

func TestMissingSourceTopicIsLookedForAgain(t *testing.T) {
	r := newRig(t)
	r.topics = topics{"other": 1}
	h := r.joined("g", "a")
	if len(h.Status) == 0 || h.Status[0].Code != streams.StatusMissingSourceTopics || r.needed == 0 || r.refreshed != 0 {
		t.Fatalf("%+v, %d and %d refreshes", h.Status, r.needed, r.refreshed)
	}
}

func TestClaimsWithoutCommitsAreSpread(t *testing.T) {
	r := newRig(t)
	for i := range 5 {
		r.joined(fmt.Sprintf("g%d", i), "a")
	}
	for range int(claimAfterMs/10) + 1 {
		r.now += 10
		r.timers.wakeAt = r.now
		r.Tick(r.now)
		r.Flush()
		r.commitAll()
	}
	if len(r.claims) != 1 {
		t.Fatalf("%d claims at once", len(r.claims))
	}
	for range 4 * claimGapMs / 10 {
		r.now += 10
		r.timers.wakeAt = r.now
		r.Tick(r.now)
		r.Flush()
		r.commitAll()
	}
	if len(r.claims) != 5 {
		t.Fatalf("%d claims of 5 groups", len(r.claims))
	}
}
