package shard

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/topology"
)

// withOffsets is a heartbeat that reports a task offset.
func withOffsets(group, member string, epoch int32) *streams.HeartbeatRequest {
	h := beat(group, member, epoch)
	h.TaskOffsets = []streams.TaskOffset{{Task: topology.Task{Subtopology: "0"}, Offset: 42}}
	return h
}

// TestTransferHandsOverSoftState: what is described, endpoint epochs and timers go on at the next leader.
func TestTransferHandsOverSoftState(t *testing.T) {
	old := newRig(t)
	h := old.joined("g", "a")
	old.groups["g"].soft.EndpointEpoch = 5
	old.send(withOffsets("g", "a", h.MemberEpoch))
	old.now += 20_000
	old.freshProof()
	old.joined("g", "b")
	old.Pause(old.now)
	content := old.HandOver(old.now)

	next := newRig(t)
	next.now = old.now + 3_600_000 // another clock
	next.Lost(next.now)
	if err := next.Inherit(next.now, content); err != nil {
		t.Fatal(err)
	}
	next.Elected(next.now, 2, old.committed)
	next.freshProof()
	c, _ := next.send(&DescribeRequest{GroupID: "g"})
	d := c.Response.(*streams.Description)
	if len(d.Members) != 2 || len(d.Members[0].TaskOffsets) != 1 || d.Members[0].TaskOffsets[0].Offset != 42 {
		t.Fatalf("the offsets are not described: %+v", d.Members)
	}
	if c, _ := next.send(beat("g", "b", next.committed.Group("g").Member("b").Current.MemberEpoch)); c.Heartbeat.EndpointEpoch != 5 {
		t.Fatalf("endpoint epoch %d", c.Heartbeat.EndpointEpoch)
	}
	next.elapse(24_000)
	if next.committed.Group("g").Member("a") == nil {
		t.Fatal("removed before its session time-out")
	}
	next.elapse(2_000)
	if g := next.committed.Group("g"); g.Member("a") != nil || g.Member("b") == nil {
		t.Fatal("the session of the silent member, and only that, must end 45 s after its last heartbeat")
	}
}

// TestHandoverCountsForOneElection: a leader that was elected later starts anew.
func TestHandoverCountsForOneElection(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.groups["g"].soft.EndpointEpoch = 5
	content, state := r.HandOver(r.now), r.committed
	r.Lost(r.now)
	if err := r.Inherit(r.now, append(content, 1)); err == nil {
		t.Fatal("garbage was taken")
	}
	r.Elected(r.now, 2, state)
	if e := r.groups["g"].soft.EndpointEpoch; e == 5 {
		t.Fatal("half a hand-over was taken")
	}
	r.Lost(r.now)
	if err := r.Inherit(r.now, content); err != nil {
		t.Fatal(err)
	}
	r.Elected(r.now, 3, state)
	if e := r.groups["g"].soft.EndpointEpoch; e != 5 {
		t.Fatalf("endpoint epoch %d", e)
	}
	r.Lost(r.now)
	r.Elected(r.now, 4, state)
	if e := r.groups["g"].soft.EndpointEpoch; e == 5 {
		t.Fatal("taken twice")
	}
	if r.Lost(r.now); r.HandOver(r.now) != nil {
		t.Fatal("a follower handed over")
	}
}

// TestNothingIsDecidedWhilePaused: calls and timers wait, and go on when the transfer fails.
func TestNothingIsDecidedWhilePaused(t *testing.T) {
	r := newRig(t)
	h := r.joined("g", "a")
	c1, inFlight := r.send(join("g", "b"))
	_, queued := r.send(join("g", "c"))
	r.Pause(r.now)
	r.Flush()
	r.commitAll() // what was proposed before is answered
	if !inFlight.done || c1.Err != nil || queued.done {
		t.Fatal("the entry in flight must be answered, what waited behind it must not be decided")
	}
	before := string(r.HandOver(r.now))
	_, late := r.send(beat("g", "a", h.MemberEpoch))
	r.now += 46_000
	r.Tick(r.now)
	r.Flush()
	if late.done || r.inflight != nil || r.open != nil {
		t.Fatal("decided while paused")
	}
	if string(r.HandOver(r.now-46_000)) != before {
		t.Fatal("the soft state changed after it was handed over")
	}
	r.Resume(r.now)
	r.Flush()
	r.commitAll()
	r.freshProof()
	r.Flush()
	r.commitAll()
	if !queued.done || !late.done {
		t.Fatalf("not answered after the transfer failed: %v %v", queued.done, late.done)
	}
	r.Pause(r.now)
	c, waiting := r.send(beat("g", "b", 2))
	r.Lost(r.now)
	if !waiting.done || c.Err == nil || c.Err.Code != coordinator.NotCoordinator {
		t.Fatalf("%v %v", waiting.done, c.Err)
	}
}

// TestHeldHeartbeatsWaitWhilePaused: what a held member is told would change what was handed over.
func TestHeldHeartbeatsWaitWhilePaused(t *testing.T) {
	r := hanging(t)
	ls, calls, answers := r.stable("g", "a")
	r.groups["g"].soft.EndpointsStale = true // the next heartbeat raises the endpoint epoch
	r.Pause(r.now)
	before := string(r.HandOver(r.now))
	ls[0].letGo()
	r.Flush()
	if answers[0].done || string(r.HandOver(r.now)) != before {
		t.Fatalf("answered %v while paused, told endpoint epoch %d", answers[0].done, calls[0].Heartbeat.EndpointEpoch)
	}
	r.Resume(r.now)
	r.settle()
	if !answers[0].done || calls[0].Err != nil {
		t.Fatalf("%v %v after the transfer failed", answers[0].done, calls[0].Err)
	}
}

// TestATargetThatWasBeingComputedIsComputedByTheNextLeader: the job is lost with the old leader.
func TestATargetThatWasBeingComputedIsComputedByTheNextLeader(t *testing.T) {
	r := offloading(t)
	r.send(join("g", "d"))
	r.commitAll()
	r.timer()
	if len(r.jobs) != 1 {
		t.Fatalf("%d jobs", len(r.jobs))
	}
	r.Pause(r.now)
	content, state := r.HandOver(r.now), r.committed
	r.Lost(r.now)
	r.jobs = nil
	if err := r.Inherit(r.now, content); err != nil {
		t.Fatal(err)
	}
	r.Elected(r.now, 2, state)
	r.freshProof()
	r.timer()
	if len(r.jobs) != 1 {
		t.Fatal("the target waits for somebody's heartbeat")
	}
}

// TestHandoverIsBounded: offsets are left out first, then groups.
func TestHandoverIsBounded(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		id := fmt.Sprint("g", i)
		r.joined(id, "a")
		offsets := make([]streams.TaskOffset, 400_000)
		for k := range offsets {
			offsets[k] = streams.TaskOffset{Task: topology.Task{Subtopology: "0", Partition: int32(k)}, Offset: 1 << 50}
		}
		r.groups[id].soft.Members["a"].TaskOffsets = offsets
	}
	content, state := r.HandOver(r.now), r.committed
	if len(content) > MaxHandover {
		t.Fatalf("%d bytes", len(content))
	}
	r.Lost(r.now)
	if err := r.Inherit(r.now, content); err != nil {
		t.Fatal(err)
	}
	if len(r.inherited) != 3 {
		t.Fatalf("%d groups", len(r.inherited))
	}
	r.Elected(r.now, 2, state)
	if a := r.groups["g0"].soft.Members["a"]; len(a.TaskOffsets) != 400_000 {
		t.Fatal("what fits was left out")
	}
	if a := r.groups["g2"].soft.Members["a"]; a.TaskOffsets != nil {
		t.Fatal("more than fits")
	}
}
