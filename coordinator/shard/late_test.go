package shard

import (
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/topology"
)

// sendLate sends what was read from its client some time ago.
func (r *rig) sendLate(request any, ageMs int64) (*Call, *answer) {
	a := &answer{}
	c := &Call{Client: client, Request: request, AgeMs: ageMs, Done: a}
	r.Submit(r.now, c)
	r.Flush()
	return c, a
}

// revoking is a group of which member a has all tasks and was told to give some up to b, which it has not done yet.
func revoking(t *testing.T) (r *rig, epochOfB int32) {
	r = newRig(t)
	first := r.joined("g", "a")
	r.now += 30_000
	r.freshProof()
	r.send(report("g", "a", first.MemberEpoch, first.Active))
	r.commitAll()
	b := r.joined("g", "b")
	c, _ := r.send(beat("g", "a", first.MemberEpoch))
	r.commitAll()
	if c.Heartbeat.Active.Len() >= first.Active.Len() {
		t.Fatalf("a is to revoke: %+v", c.Heartbeat)
	}
	r.now += 1000
	r.freshProof()
	return r, b.MemberEpoch
}

// granted is what b has.
func (r *rig) granted(epoch int32) topology.Tasks {
	r.send(beat("g", "b", epoch))
	r.commitAll()
	return r.committed.Group("g").Member("b").Current.Assigned.Active
}

// TestALateJoinReleasesNothing: a join that its client gave up long ago says that the member owns nothing, which is not so any
// more. Without the check the tasks that it runs would be given away.
func TestALateJoinReleasesNothing(t *testing.T) {
	r, epoch := revoking(t)
	for _, late := range []*streams.HeartbeatRequest{
		join("g", "a"), report("g", "a", r.committed.Group("g").Member("a").Current.MemberEpoch, nil),
	} {
		c, a := r.sendLate(late, 29_000)
		r.commitAll()
		if !a.done || c.Err == nil || c.Err.Code != coordinator.CoordinatorNotAvailable || !c.Err.NotStarted {
			t.Fatalf("epoch %d: %v, %v, %+v", late.MemberEpoch, a.done, c.Err, c.Heartbeat)
		}
		if got := r.granted(epoch); got.Len() != 0 {
			t.Fatalf("epoch %d: b was given %v, which a runs", late.MemberEpoch, got)
		}
	}
	// The same join in time counts, also by way of another node: its client has just begun anew.
	if c, _ := r.sendLate(join("g", "a"), overtakenMs); c.Err != nil {
		t.Fatal(c.Err)
	}
	r.commitAll()
	if got := r.granted(epoch); got.Len() == 0 {
		t.Fatal("b was given nothing")
	}
}

// TestALeaveThatFollowsAHeartbeatCounts: both may wait on the way to the leader, and come together.
func TestALeaveThatFollowsAHeartbeatCounts(t *testing.T) {
	r := newRig(t)
	first := r.joined("g", "a")
	r.now += 5000
	r.freshProof()
	r.sendLate(beat("g", "a", first.MemberEpoch), 100)
	r.now += 5
	if c, _ := r.sendLate(beat("g", "a", streams.LeaveEpoch), 100); c.Err != nil {
		t.Fatal(c.Err)
	}
	r.commitAll()
	if r.committed.Group("g").Member("a") != nil {
		t.Fatal("a is still in the group")
	}
}

// TestALateLeaveOfAMemberThatIsBackIsRefused, and one of a member that said nothing since counts, however old it is.
func TestALateLeaveOfAMemberThatIsBackIsRefused(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.now += 5000
	r.freshProof()
	if c, _ := r.sendLate(beat("g", "a", streams.LeaveEpoch), 6000); c.Err == nil || r.committed.Group("g").Member("a") == nil {
		t.Fatalf("%v", c.Err)
	}
	c, _ := r.sendLate(beat("g", "a", streams.LeaveEpoch), 4000)
	r.commitAll()
	if c.Err != nil || c.Heartbeat.Err != nil || r.committed.Group("g").Member("a") != nil {
		t.Fatalf("%v, %v", c.Err, c.Heartbeat.Err)
	}
}

// TestALateJoinBringsNobodyBack that has left since.
func TestALateJoinBringsNobodyBack(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.joined("g", "b")
	r.now += 1000
	r.freshProof()
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	for range 3 {
		r.now += 500
		r.freshProof()
		if c, _ := r.sendLate(join("g", "a"), 1900); c.Err == nil || !c.Err.NotStarted {
			t.Fatalf("%v", c.Err)
		}
	}
	c, _ := r.sendLate(join("g", "a"), 1000) // it joined after it had left
	r.commitAll()
	if c.Err != nil || r.committed.Group("g").Member("a") == nil {
		t.Fatalf("%v", c.Err)
	}
}

func TestDepartures(t *testing.T) {
	var d departures
	for at := int64(1); at < 60_000; at += 100 {
		d.add(memberName(int(at)), at)
		for _, ago := range []int64{0, 100, 2000, departedMs - departedMs%100} {
			if left := at - ago; left > 0 && !d.between(memberName(int(left)), left-1, at+1) {
				t.Fatalf("at %d: forgotten who left at %d", at, left)
			}
		}
		if n := len(d.lately) + len(d.before); n > 2*(departedMs/100+2) {
			t.Fatalf("%d are remembered", n)
		}
	}
	if d.between(memberName(59_901), 59_901, 60_000) || d.between(memberName(59_901), 0, 59_901) {
		t.Fatal("the time counts")
	}
}

// TestACallThatIsDecidedAgainIsNotLate: what was noted of its own arrival says nothing against it.
func TestACallThatIsDecidedAgainIsNotLate(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.now += 60_000
	r.freshProof()
	c, a := r.sendLate(join("g", "b"), 3000)
	r.ProposalFailed(r.now, r.inflight.id, true)
	r.now += retryProposalMs
	r.Tick(r.now)
	r.Flush()
	r.commitAll()
	if !a.done || c.Err != nil {
		t.Fatalf("%v, %v", a.done, c.Err)
	}
}

// TestCallsKeepTheirOrderWhileLeadershipIsProven: a commit may prove it before the question is answered.
func TestCallsKeepTheirOrderWhileLeadershipIsProven(t *testing.T) {
	r := newRig(t)
	h := r.joined("g", "a")
	r.now += 1000
	first, a := r.send(beat("g", "a", h.MemberEpoch))
	if a.done {
		t.Fatal("answered without a proof")
	}
	r.proofAt = r.now // as a commit does
	second, b := r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	if !a.done || !b.done || first.Heartbeat.Err != nil || second.Heartbeat.Err != nil {
		t.Fatalf("%v %v, %v %v", a.done, b.done, first.Heartbeat.Err, second.Heartbeat.Err)
	}
}

// TestWhatWasNotStartedIsTold: a leader that goes says of each call whether it may be in the log.
func TestWhatWasNotStartedIsTold(t *testing.T) {
	leave := func(r *rig) *Call {
		a := &answer{}
		c := &Call{Client: client, Request: beat("g", "nobody", streams.LeaveEpoch), Done: a}
		r.Submit(r.now, c)
		return c
	}
	flushed := func(r *rig) *Call { c := leave(r); r.Flush(); return c }
	for name, tc := range map[string]struct {
		call       func(r *rig) *Call // what is refused, after the leadership was lost
		notStarted bool
	}{
		"it does not lead": {func(r *rig) *Call { r.Lost(r.now); return flushed(r) }, true},
		"it cannot prove that it leads": {func(r *rig) *Call {
			r.now += 10_000
			c := flushed(r)
			r.Verified(r.now, r.now, false)
			return c
		}, true},
		"it waits for the proof":           {func(r *rig) *Call { r.now += 10_000; return flushed(r) }, true},
		"leadership is being handed over":  {func(r *rig) *Call { r.Pause(r.now); return flushed(r) }, true},
		"it waits for the entry in flight": {func(r *rig) *Call { r.send(join("g", "b")); return flushed(r) }, true},
		"it saw what was not committed": {func(r *rig) *Call {
			r.Submit(r.now, &Call{Client: client, Request: join("g", "b"), Done: &answer{}})
			return flushed(r)
		}, true},
		"it waits for the upstream": {func(r *rig) *Call { c, _ := r.send(join("new", "b")); return c }, true},
		"it was decided and not proposed": {func(r *rig) *Call {
			c := &Call{Client: client, Request: join("g", "b"), Done: &answer{}}
			r.Submit(r.now, c)
			return c
		}, true},
		"it was proposed": {func(r *rig) *Call { c, _ := r.send(join("g", "b")); return c }, false},
		"it was proposed and then refused": {func(r *rig) *Call {
			c, _ := r.send(join("g", "b"))
			r.ProposalFailed(r.now, r.inflight.id, true)
			return c
		}, true},
		"it was proposed, outcome unknown": {func(r *rig) *Call {
			c, _ := r.send(join("g", "b"))
			r.ProposalFailed(r.now, r.inflight.id, false)
			return c
		}, false},
		"a static leave was proposed": {func(r *rig) *Call { c, _ := r.send(staticLeave()); return c }, false},
		"a static leave waits":        {func(r *rig) *Call { r.Pause(r.now); c, _ := r.send(staticLeave()); return c }, true},
		"a deletion waits":            {func(r *rig) *Call { r.Pause(r.now); c, _ := r.send(&DeleteGroupRequest{GroupID: "empty"}); return c }, true},
		"a deletion was begun": {func(r *rig) *Call {
			c, _ := r.send(&DeleteGroupRequest{GroupID: "empty"})
			r.Lost(r.now)
			r.StoreDone(r.now, r.drops[0], error(nil))
			return c
		}, false},
		"a deletion was proposed": {func(r *rig) *Call {
			c, _ := r.send(&DeleteGroupRequest{GroupID: "empty"})
			r.StoreDone(r.now, r.drops[0], error(nil))
			r.Flush()
			return c
		}, false},
		"offsets are to be deleted, paused": {func(r *rig) *Call { r.Pause(r.now); c, _ := r.send(&offsets.DeleteRequest{GroupID: "empty"}); return c }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.joined("g", "a")
			static := join("g", "s")
			instance := "i"
			static.InstanceID = &instance
			r.send(static)
			r.commitAll()
			r.joined("empty", "x")
			r.send(beat("empty", "x", streams.LeaveEpoch))
			r.commitAll()
			c := tc.call(r)
			r.Lost(r.now)
			if c.Err == nil || c.Err.Code != coordinator.NotCoordinator || c.Err.NotStarted != tc.notStarted {
				t.Fatalf("%+v", c.Err)
			}
		})
	}
}

func staticLeave() *streams.HeartbeatRequest {
	h, instance := beat("g", "s", streams.StaticLeaveEpoch), "i"
	h.InstanceID = &instance
	return h
}
