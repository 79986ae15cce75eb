package shard

import (
	"testing"

	"github.com/coordd/coordd/topology"
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

// committing is a rig whose member a has a commit under way.
func committing(t *testing.T) (r *rig, epoch int32) {
	r = newRig(t)
	epoch = r.joined("g", "a").MemberEpoch
	r.send(commit("g", "a", epoch))
	r.commitAll()
	r.Claimed(r.now, "g", nil)
	if len(r.ops) != 1 {
		t.Fatalf("%d commits at the store", len(r.ops))
	}
	return r, epoch
}

func TestWhoAlwaysHasACommitUnderWayExpires(t *testing.T) {
	r, epoch := committing(t)
	r.now += 45_001
	r.freshProof()
	r.timers.wakeAt = r.now // the timer fired in time
	r.Tick(r.now)           // the expiry waits for the commit
	r.Flush()
	_, late := r.send(commit("g", "a", epoch))
	if len(r.ops) != 1 {
		t.Fatalf("a commit behind the expiry is given to the store: %d are there", len(r.ops))
	}
	r.stored()
	if r.committed.Group("g").Member("a") != nil || len(r.ops) != 0 || !late.done {
		t.Fatalf("the member is there: %v; %d commits at the store; the late one is answered: %v", r.committed.Group("g").Member("a") != nil, len(r.ops), late.done)
	}
}

func TestAHeartbeatInTimeEndsTheWaitOfCommits(t *testing.T) {
	r, epoch := committing(t)
	r.now += 45_001
	r.freshProof()
	r.timers.wakeAt = r.now
	r.Tick(r.now)
	r.Flush()
	r.send(commit("g", "a", epoch))
	r.send(beat("g", "a", epoch))
	r.stored()
	if r.committed.Group("g").Member("a") == nil || len(r.ops) != 1 {
		t.Fatalf("the member is there: %v; %d commits at the store", r.committed.Group("g").Member("a") != nil, len(r.ops))
	}
	r.stored()
	r.now += 45_001
	r.timers.wakeAt = r.now
	r.Tick(r.now)
	r.Flush()
	r.commitAll()
	if r.committed.Group("g").Member("a") != nil {
		t.Fatal("the silent member stays for ever")
	}
}

func TestCommitsWaitBehindAReportOfTheirMember(t *testing.T) {
	r, epoch := committing(t)
	report := beat("g", "a", epoch)
	report.Active, report.Standby, report.Warmup = topology.Tasks{}, topology.Tasks{}, topology.Tasks{}
	_, reported := r.send(report)
	_, later := r.send(commit("g", "a", epoch))
	if reported.done || later.done || len(r.ops) != 1 {
		t.Fatalf("the report is answered: %v, the commit behind it: %v, %d commits at the store", reported.done, later.done, len(r.ops))
	}
	r.stored()
	if !reported.done {
		t.Fatal("the report waits on behind a commit that came later")
	}
}

func TestAReportThatWaitsForCommitsKeepsItsMemberAlive(t *testing.T) {
	r, epoch := committing(t)
	r.now += 40_000
	r.freshProof()
	report := beat("g", "a", epoch)
	report.Active, report.Standby, report.Warmup = topology.Tasks{}, topology.Tasks{}, topology.Tasks{}
	_, reported := r.send(report)
	r.now += 6_000
	r.freshProof()
	r.timers.wakeAt = r.now
	r.Tick(r.now)
	r.Flush()
	r.stored()
	if !reported.done || r.committed.Group("g").Member("a") == nil {
		t.Fatalf("the report is answered: %v; its member is there: %v", reported.done, r.committed.Group("g").Member("a") != nil)
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
