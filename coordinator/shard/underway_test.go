package shard

import (
	"errors"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// Work that a leader notes as under way must not stay noted, whatever comes of it.

var errNoRoom = errors.New("no room in the log")

// refusing lets the state refuse decisions with such a record; nil lets it take all.
func (r *rig) refusing(bad func(*record.Record) bool) {
	r.evolve = func(s fsm.State, records []record.Record) (fsm.State, error) {
		for i := range records {
			if bad != nil && bad(&records[i]) {
				return s, errNoRoom
			}
		}
		return s.EvolveAll(records)
	}
}

func ofType(types ...record.Type) func(*record.Record) bool {
	return func(r *record.Record) bool {
		for _, t := range types {
			if r.Key.Type == t {
				return true
			}
		}
		return false
	}
}

// failures counts what the machine told of its own trouble.
func (r *rig) failures() (n int) {
	for _, e := range r.events {
		if errors.Is(e.Failed, errNoRoom) {
			n++
		}
	}
	return n
}

// passed fires what is due after a time.
func (r *rig) passed(ms int64) {
	r.now += ms
	r.timers.wakeAt = r.now
	r.freshProof()
	r.timer()
	r.commitAll()
}

func TestATargetThatCannotBeStoredIsComputedAgain(t *testing.T) {
	for name, refused := range map[string]func(*record.Record) bool{
		"the first part": func(x *record.Record) bool { return x.Key.Type == record.TypeTargetMember },
		"a later part": func(x *record.Record) bool {
			return x.Key.Type == record.TypeTargetMember && x.Key.Member == "d"
		},
		"the end": ofType(record.TypeTargetMetadata),
	} {
		r := offloading(t)
		c, _ := r.send(join("g", "d"))
		r.commitAll()
		r.timer()
		r.refusing(refused)
		r.compute()
		r.commitAll()
		g := r.committed.Group("g")
		if r.groups["g"].computing != 0 || g.AssignmentEpoch() == g.Epoch() || r.failures() != 1 {
			t.Fatalf("%s: computing %d, assignment epoch %d of %d, %d failures", name, r.groups["g"].computing, g.AssignmentEpoch(), g.Epoch(), r.failures())
		}
		if h, a := r.send(beat("g", "d", c.Heartbeat.MemberEpoch)); !a.done || h.Err != nil || h.Heartbeat.Err != nil ||
			len(h.Heartbeat.Status) != 1 || h.Heartbeat.Status[0].Code != streams.StatusAssignmentDelayed {
			t.Fatalf("%s: a member without tasks is told %v, %+v", name, h.Err, h.Heartbeat)
		}
		r.passed(5000)
		if len(r.jobs) != 0 {
			t.Fatalf("%s: a large target that cannot be stored is computed again at once", name)
		}
		r.refusing(nil)
		r.passed(5000)
		if len(r.jobs) != 1 {
			t.Fatalf("%s: %d computations after the rest", name, len(r.jobs))
		}
		r.compute()
		r.commitAll()
		if g := r.committed.Group("g"); g.AssignmentEpoch() != g.Epoch() || g.Member("d").Target == nil || r.groups["g"].soft.Torn {
			t.Fatalf("%s: assignment epoch %d of %d, torn %v", name, g.AssignmentEpoch(), g.Epoch(), r.groups["g"].soft.Torn)
		}
	}
}

// Computed by a heartbeat itself, the target is left out, and the member served.
func TestHeartbeatsGoOnWithoutATargetThatCannotBeStored(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.refusing(ofType(record.TypeTargetMember, record.TypeTargetMetadata))
	if c, a := r.send(join("g", "b")); !a.done || c.Err == nil || c.Err.Code != coordinator.CoordinatorNotAvailable {
		t.Fatalf("%v %v", a.done, c.Err)
	}
	b := r.joined("g", "b") // the client tries again
	if len(b.Status) != 1 || b.Status[0].Code != streams.StatusAssignmentDelayed {
		t.Fatalf("%+v", b)
	}
	r.refusing(nil)
	r.passed(10_000)
	if g := r.committed.Group("g"); g.AssignmentEpoch() != g.Epoch() || g.Member("b").Target == nil {
		t.Fatalf("assignment epoch %d of %d", g.AssignmentEpoch(), g.Epoch())
	}
}

func TestATimerIsNotLostWithADecisionThatCannotBeStored(t *testing.T) {
	r := newRig(t)
	r.settings.AssignmentIntervalMs = 1000
	r.joined("g", "a")
	r.joined("g", "b") // its target waits for the interval
	r.refusing(ofType(record.TypeTargetMetadata))
	r.passed(1000)
	r.refusing(nil)
	r.passed(10_000)
	if g := r.committed.Group("g"); g.AssignmentEpoch() != g.Epoch() {
		t.Fatalf("assignment epoch %d of %d", g.AssignmentEpoch(), g.Epoch())
	}
	r.refusing(ofType(record.TypeMemberMetadata))
	r.passed(45_000)
	if n := r.committed.Group("g").NumMembers(); n != 2 {
		t.Fatalf("%d members", n)
	}
	r.refusing(nil)
	r.passed(r.options.RetryMs)
	if n := r.committed.Group("g").NumMembers(); n != 0 {
		t.Fatalf("%d members stay for ever", n)
	}
}

// An epoch alone, with a target that is computed beside the shard later.
func TestAnEpochThatCannotBeStoredIsTriedAgain(t *testing.T) {
	r := newRig(t)
	r.settings.AssignmentIntervalMs = 1000
	r.joined("g", "a")
	r.joined("g", "b")
	r.settings.AssignorOffload, r.options.OffloadFrom = true, 1
	r.topics["in"] = 5
	r.changes++
	r.refusing(ofType(record.TypeGroupMetadata))
	r.passed(1000)
	r.refusing(nil)
	if r.failures() != 1 {
		t.Fatalf("%d failures", r.failures())
	}
	for range 2 { // the epoch, and what follows from it
		r.passed(r.options.RetryMs)
	}
	if len(r.jobs) != 1 {
		t.Fatalf("%d computations", len(r.jobs))
	}
}

// What was due went while its task waited for its turn; what is left is still looked at.
func TestATimerOfAGroupThatMovedIsArmedAgain(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	key := timerKey{kind: timerGroup, group: "g"}
	r.timers = newTimers()
	r.softOf("g").InitialDelayUntil = r.now + 3000
	r.decide(task{group: "g", internal: decideTick(key)})
	if at := r.timers.scheduled[key]; at != r.now+3000 {
		t.Fatalf("armed at %d", at)
	}
}

// Held members need not wait for the end of their holds.
func TestAChangeOfTopicsThatCannotBeStoredIsLookedAtAgain(t *testing.T) {
	r := hanging(t)
	_, _, answers := r.stable("g", "a", "b")
	epoch := r.committed.Group("g").Epoch()
	r.topics["in"] = 8
	r.changes++
	r.refusing(ofType(record.TypeGroupMetadata))
	r.TopicsChanged(r.now)
	r.settle()
	if r.failures() == 0 || answers[0].done || answers[1].done {
		t.Fatalf("%d failures, answered %v %v", r.failures(), answers[0].done, answers[1].done)
	}
	r.refusing(nil)
	r.pass(r.options.RetryMs)
	if g := r.committed.Group("g"); g.Epoch() == epoch {
		t.Fatal("the change is forgotten")
	}
}

func TestAClaimThatCannotBeStoredIsTriedAgain(t *testing.T) {
	r := newRig(t)
	h := r.joined("g", "a")
	r.refusing(ofType(record.TypeOffsetsClaim))
	c, a := r.send(commit("g", "a", h.MemberEpoch))
	if !a.done || c.Err == nil || c.Err.Code != coordinator.CoordinatorNotAvailable {
		t.Fatalf("a commit that waits for the claim: %v %v", a.done, c.Err)
	}
	r.refusing(nil)
	r.passed(r.options.RetryMs)
	if len(r.claims) != 1 {
		t.Fatalf("%d claims", len(r.claims))
	}
	r.Claimed(r.now, "g", nil)
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	r.refusing(ofType(record.TypeOffsetsClaim))
	r.Released(r.now, "g", nil)
	r.refusing(nil)
	r.passed(r.options.RetryMs)
	if len(r.releases) != 2 {
		t.Fatalf("%d releases", len(r.releases))
	}
	r.Released(r.now, "g", nil)
	r.Flush()
	r.commitAll()
	if r.committed.Group("g").OffsetsClaimed || r.groups["g"].claim != claimNone {
		t.Fatalf("claim %d", r.groups["g"].claim)
	}
}

// emptied is a rig with an empty group that has no claim.
func emptied(t *testing.T) *rig {
	r := newRig(t)
	r.joined("g", "a")
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	return r
}

func TestADeletionThatCannotBeStoredLetsJoinsGo(t *testing.T) {
	r := emptied(t)
	c, deleted := r.send(&DeleteGroupRequest{GroupID: "g"})
	j, joined := r.send(join("g", "b"))
	if joined.done || len(r.drops) != 1 {
		t.Fatal("a join does not wait for the deletion")
	}
	r.refusing(ofType(record.TypeTopology))
	r.StoreDone(r.now, r.drops[0], nil)
	r.Flush()
	r.refusing(nil)
	r.commitAll()
	if !deleted.done || c.Err == nil || c.Err.Code != coordinator.CoordinatorNotAvailable {
		t.Fatalf("the deletion: %v %v", deleted.done, c.Err)
	}
	if r.groups["g"].deleting != 0 || len(r.groups["g"].blocked) != 0 {
		t.Fatalf("%d deletions, %d calls wait", r.groups["g"].deleting, len(r.groups["g"].blocked))
	}
	_, again := r.send(join("g", "b"))
	r.ForeignChecked(r.now, "g", noForeign, nil)
	r.Flush()
	r.commitAll()
	if !again.done || !joined.done || j.Heartbeat.Err != nil {
		t.Fatalf("joins are stuck: %v %v", joined.done, again.done)
	}
}

// Of two deletions one finds the group gone, and another group under its id being deleted.
func TestADeletionEndsOnlyItself(t *testing.T) {
	r := emptied(t)
	r.send(&DeleteGroupRequest{GroupID: "g"})
	late, _ := r.send(&DeleteGroupRequest{GroupID: "g"})
	r.StoreDone(r.now, r.drops[0], nil)
	r.Flush()
	r.commitAll()
	r.joined("g", "a")
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	r.send(&DeleteGroupRequest{GroupID: "g"}) // of the group anew
	r.StoreDone(r.now, r.drops[1], nil)
	r.Flush()
	r.commitAll()
	if answer, ok := late.Response.(*DeleteGroupResponse); !ok || answer.Err == nil || answer.Err.Code != coordinator.GroupIDNotFound {
		t.Fatalf("%v %+v", late.Err, late.Response)
	}
	if g := r.groups["g"]; g == nil || g.deleting != 1 {
		t.Fatalf("%+v: one deletion is under way", g)
	}
}

// After a refused entry a leader starts anew in the same term: what was asked before counts for nothing.
func TestWhatWasUnderWayBeforeANewStartInTheSameTermCountsForNothing(t *testing.T) {
	r := emptied(t)
	c, a := r.send(&DeleteGroupRequest{GroupID: "g"})
	state := r.committed
	r.Lost(r.now)
	r.Elected(r.now, 1, state)
	r.freshProof()
	r.StoreDone(r.now, r.drops[0], errors.New("away"))
	if !a.done || c.Err == nil || c.Err.Code != coordinator.NotCoordinator {
		t.Fatalf("%v %v", a.done, c.Err)
	}
	if n := r.groups["g"].deleting; n != 0 {
		t.Fatalf("%d deletions", n)
	}
	r.joined("g", "b")

	h := r.committed.Group("g").Member("b").Current.MemberEpoch
	r.send(commit("g", "b", h))
	r.commitAll()
	r.Claimed(r.now, "g", nil)
	old := r.ops[len(r.ops)-1]
	state = r.committed
	r.Lost(r.now)
	r.Elected(r.now, 1, state)
	r.freshProof()
	r.Claimed(r.now, "g", nil)
	r.send(commit("g", "b", h))
	r.StoreDone(r.now, old, &offsets.CommitResponse{})
	if n := r.groups["g"].commits["b"]; n != 1 {
		t.Fatalf("%d commits are under way, one is", n)
	}
}

// A proposal that Raft refused takes with it what a timer of the group decided: the timer must fire again.
func TestATimerFiresAgainAfterARefusedProposal(t *testing.T) {
	r := newRig(t)
	r.settings.AssignmentIntervalMs = 1000
	r.joined("g", "a")
	r.joined("g", "b")
	r.now += 1000
	r.timers.wakeAt = r.now
	r.freshProof()
	r.timer()
	if r.inflight == nil {
		t.Fatal("no target was computed")
	}
	r.ProposalFailed(r.now, r.inflight.id, true)
	r.passed(retryProposalMs)
	if g := r.committed.Group("g"); g.AssignmentEpoch() != g.Epoch() {
		t.Fatalf("assignment epoch %d of %d", g.AssignmentEpoch(), g.Epoch())
	}
}

// The last part of a large target was refused: until it is written again nobody is moved to what is there.
func TestATargetStaysTornWhenItsLastPartIsRefused(t *testing.T) {
	r := offloading(t)
	r.send(join("g", "d"))
	r.commitAll()
	r.timer()
	r.compute()
	for r.softOf("g").Torn || r.committed.Group("g").AssignmentEpoch() == r.committed.Group("g").Epoch() {
		r.Committed(r.now, r.inflight.id)
		r.Flush()
	}
	if r.inflight == nil {
		t.Fatal("the last part is not on its way")
	}
	r.ProposalFailed(r.now, r.inflight.id, true)
	if !r.softOf("g").Torn {
		t.Fatal("half a target counts as whole")
	}
	r.passed(retryProposalMs)
	if g := r.committed.Group("g"); g.AssignmentEpoch() != g.Epoch() || r.softOf("g").Torn {
		t.Fatalf("assignment epoch %d of %d, torn %v", g.AssignmentEpoch(), g.Epoch(), r.softOf("g").Torn)
	}
}

// Topics that nobody waits for any more are not created, so that who deletes them does not get them back.
func TestMissingTopicsAreNotWantedForAGroupThatIsGone(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.unwanted = nil
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	if len(r.unwanted) != 1 || r.unwanted[0] != "g" {
		t.Fatalf("without members: %v", r.unwanted)
	}
	r.send(&DeleteGroupRequest{GroupID: "g"})
	r.StoreDone(r.now, r.drops[0], nil)
	r.Flush()
	r.commitAll()
	if len(r.unwanted) != 2 {
		t.Fatalf("deleted: %v", r.unwanted)
	}
	r.joined("h", "a")
	r.unwanted = nil
	r.Lost(r.now)
	if len(r.unwanted) != 1 || r.unwanted[0] != "h" {
		t.Fatalf("led elsewhere: %v", r.unwanted)
	}
}
