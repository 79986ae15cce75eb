package shard

import (
	"testing"
)

func TestSessionExpiryRemovesTheMember(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.now += 30_000
	r.freshProof()
	r.joined("g", "b")
	r.now += 15_001
	r.timers.wakeAt = r.now // the timer fired in time
	r.Tick(r.now)
	r.Flush()
	r.commitAll()
	g := r.committed.Group("g")
	if g.Member("a") != nil || g.Member("b") == nil {
		t.Fatal("the silent member must go, the other stay")
	}
}

func TestNobodyExpiresWhileItsCommitIsUnderWay(t *testing.T) {
	r := newRig(t)
	h := r.joined("g", "a")
	r.send(commit("g", "a", h.MemberEpoch))
	r.commitAll()
	r.Claimed(r.now, "g", nil)
	r.stored()
	r.send(join("g", "b"))
	r.send(commit("g", "a", h.MemberEpoch)) // waits behind the join
	r.now += 45_001
	r.timers.wakeAt = r.now // the timer fired in time
	r.Tick(r.now)           // the expiry waits behind the commit
	r.Flush()
	r.commitAll()
	if len(r.ops) != 1 || r.committed.Group("g").Member("a") == nil {
		t.Fatalf("%d commits at the store; the member is there: %v", len(r.ops), r.committed.Group("g").Member("a") != nil)
	}
	r.stored()
	r.now += r.options.RetryMs
	r.timers.wakeAt = r.now
	r.Tick(r.now)
	r.Flush()
	r.commitAll()
	if r.committed.Group("g").Member("a") != nil {
		t.Fatal("the silent member must go after its commit")
	}
}

func TestSessionCountsOnAfterARebalanceTimerThatNoLongerMatters(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	sm := r.groups["g"].soft.Members["a"]
	sm.RebalanceDeadline, sm.RebalanceEpoch = r.now+1000, 99 // as a static member leaves behind that had tasks to revoke
	r.timers.arm(timerKey{kind: timerMember, group: "g", member: "a"}, sm.NextDeadline())
	for _, wait := range []int64{1000, 44_001} {
		r.now += wait
		r.timers.wakeAt = r.now
		r.Tick(r.now)
		r.Flush()
		r.commitAll()
	}
	if r.committed.Group("g").Member("a") != nil {
		t.Fatal("the silent member stays for ever")
	}
}

func TestNobodyExpiresForAPauseOfTheProcess(t *testing.T) {
	r := newRig(t)
	h := r.joined("g", "a")
	r.now += 60_000 // the process was stopped; its timer comes a minute late
	r.Tick(r.now)
	r.Flush()
	r.commitAll()
	if r.committed.Group("g").Member("a") == nil {
		t.Fatal("the member was expired for a time in which it could not be heard")
	}
	r.freshProof()
	if c, a := r.send(beat("g", "a", h.MemberEpoch)); !a.done || c.Heartbeat.Err != nil {
		t.Fatalf("%+v", c.Heartbeat)
	}
}

func TestNobodyExpiresRightAfterAPause(t *testing.T) {
	r := newRig(t)
	r.joined("old", "a")
	r.now += 20_000
	r.freshProof()
	r.joined("g", "b") // its deadline comes while members have not been heard again
	r.now += 44_000    // a's deadline is over, b's will be in a second
	r.Tick(r.now)
	r.now += 2_000
	r.timers.wakeAt = r.now
	r.Tick(r.now)
	r.Flush()
	r.commitAll()
	if r.committed.Group("old").Member("a") == nil || r.committed.Group("g").Member("b") == nil {
		t.Fatal("a member was expired for the time of a pause")
	}
	for range 100 {
		r.now += 1_000
		r.timers.wakeAt = r.now
		r.Tick(r.now)
		r.Flush()
		r.commitAll()
	}
	if r.committed.Group("g").NumMembers() != 0 {
		t.Fatal("silent members must go in the end")
	}
}
