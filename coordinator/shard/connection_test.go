package shard

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/coordinator/streams"
)

func TestConnectionsThatCloseShortenTheHold(t *testing.T) {
	r := hanging(t)
	ls, calls, answers := r.stable("g", "a")
	epoch := calls[0].Request.(*streams.HeartbeatRequest).MemberEpoch
	l := ls[0]
	for _, hold := range []int64{2450, 0} {
		r.Gone(r.now, l.holder, true)
		if !answers[0].done {
			t.Fatal("nobody is there any more")
		}
		r.pass(5000)
		l = r.line()
		calls[0], answers[0] = l.send(beat("g", "a", epoch))
		if hold > 0 {
			r.pass(hold - 50)
			if answers[0].done {
				t.Fatal("half the hold")
			}
			l.letGo()
			r.pass(5000)
			calls[0], answers[0] = l.send(beat("g", "a", epoch))
			r.pass(hold)
			if !answers[0].done {
				t.Fatal("half the hold is over")
			}
			r.pass(5000)
			calls[0], answers[0] = l.send(beat("g", "a", epoch))
		}
	}
	if !answers[0].done {
		t.Fatal("a member whose connection closed twice is not held")
	}
}

func TestDisconnect(t *testing.T) {
	r := hanging(t)
	r.settings.DisconnectTimeoutMs = 1000 // two intervals count
	ls, calls, answers := r.stable("g", "a", "b", "c")
	epoch := calls[0].Request.(*streams.HeartbeatRequest).MemberEpoch
	r.Gone(r.now, ls[0].holder, true)  // a does not come back
	r.Gone(r.now, ls[1].holder, true)  // b does
	r.Gone(r.now, ls[2].holder, false) // a node of coordd went, not c
	r.pass(5000)
	ls[1] = r.line()
	calls[1], answers[1] = ls[1].send(beat("g", "b", epoch))
	r.pass(4900)
	if n := r.committed.Group("g").NumMembers(); n != 3 {
		t.Fatalf("%d members before the time-out", n)
	}
	r.pass(100)
	g := r.committed.Group("g")
	if g.NumMembers() != 2 || g.Member("a") != nil {
		t.Fatalf("%d members", g.NumMembers())
	}
	var cause streams.Cause
	for _, e := range r.events {
		if e.Cause.Kinds&streams.CauseDisconnected != 0 {
			cause = e.Cause
		}
	}
	if cause.MemberID != "a" || cause.Kinds.String() != "disconnected" {
		t.Fatalf("%+v", cause)
	}
}

// Who came back is there, also while the topics are not known well enough to answer.
func TestWhoCameBackIsNotRemovedForWantOfTopics(t *testing.T) {
	r := hanging(t)
	r.settings.DisconnectTimeoutMs = 10_000
	ls, calls, _ := r.stable("g", "a")
	epoch := calls[0].Request.(*streams.HeartbeatRequest).MemberEpoch
	r.Gone(r.now, ls[0].holder, true)
	r.topics, r.oldTopics = topics{}, true
	r.changes += 5
	r.pass(1000)
	if c, a := r.line().send(beat("g", "a", epoch)); !a.done || c.Err == nil {
		t.Fatalf("done %v, %+v, %+v", a.done, c.Err, c.Heartbeat)
	}
	r.pass(10_000)
	if r.committed.Group("g").NumMembers() != 1 {
		t.Fatal("removed although it had come back")
	}
}

func TestADisconnectIsNothingWithoutTheSetting(t *testing.T) {
	r := hanging(t)
	ls, _, _ := r.stable("g", "a")
	r.Gone(r.now, ls[0].holder, true)
	r.pass(30_000)
	if r.committed.Group("g").NumMembers() != 1 {
		t.Fatal("only the session time-out counts")
	}
	if len(r.kept.connections) != 0 {
		t.Fatal("connections are remembered for nothing")
	}
}

// TestNothingIsKeptOfAnEndedConnection: a heartbeat of it may still wait for its turn when its end is told.
func TestNothingIsKeptOfAnEndedConnection(t *testing.T) {
	r := hanging(t)
	r.settings.DisconnectTimeoutMs = 20_000
	ls, calls, _ := r.stable("g", "a")
	r.Gone(r.now, ls[0].holder, false)
	l := r.line()
	l.holder.Release(1)
	r.Gone(r.now, l.holder, false)
	l.send(beat("g", "a", calls[0].Request.(*streams.HeartbeatRequest).MemberEpoch))
	if n := len(r.kept.connections); n != 0 {
		t.Fatalf("%d connections are remembered for ever", n)
	}
}

// TestAConnectionRemembersOnlyTheMembersThatThereAre: a client may join and leave over one connection for ever.
func TestAConnectionRemembersOnlyTheMembersThatThereAre(t *testing.T) {
	r := hanging(t)
	r.settings.DisconnectTimeoutMs = 20_000
	ls, calls, _ := r.stable("g", "a")
	remembered := func() (n int) {
		for _, members := range r.kept.connections {
			n += len(members)
		}
		return n
	}
	l := r.line()
	for i := range 20 {
		id := fmt.Sprintf("m%d", i)
		c, _ := l.send(join("g", id))
		r.commitAll()
		if i%2 == 0 { // it goes on over another connection
			l.send(beat("g", id, c.Heartbeat.MemberEpoch))
			r.commitAll()
			other := r.line()
			other.send(beat("g", id, c.Heartbeat.MemberEpoch))
			r.settle()
			other.send(beat("g", id, streams.LeaveEpoch))
		} else {
			l.send(beat("g", id, streams.LeaveEpoch))
		}
		r.settle()
	}
	if n := remembered(); n != 1 || len(r.kept.connections) != 1 {
		t.Fatalf("%d members over %d connections are remembered, there is 1", n, len(r.kept.connections))
	}
	r.Gone(r.now, ls[0].holder, true)
	r.pass(21_000)
	if r.committed.Group("g").NumMembers() != 0 {
		t.Fatal("the member whose connection ended is still there")
	}
	_ = calls
}

// TestAMemberIsHeardAgainAfterARefusedLeave: what was forgotten for a leave that did not come to be is known again with the
// next heartbeat.
func TestAMemberIsHeardAgainAfterARefusedLeave(t *testing.T) {
	r := hanging(t)
	r.settings.DisconnectTimeoutMs = 20_000
	ls, calls, _ := r.stable("g", "a", "b")
	epoch := calls[0].Request.(*streams.HeartbeatRequest).MemberEpoch
	ls[0].send(beat("g", "a", streams.LeaveEpoch))
	r.ProposalFailed(r.now, r.inflight.id, true)
	r.queue = nil // the leave is lost with its client
	clear(r.queued)
	r.pass(100)
	l := r.line()
	l.send(beat("g", "a", epoch))
	r.settle()
	r.Gone(r.now, l.holder, true)
	r.pass(21_000)
	if g := r.committed.Group("g"); g.Member("a") != nil || g.Member("b") == nil {
		t.Fatal("the end of the member's connection was not noticed")
	}
}

// A static member that said that it goes for a while keeps its session time-out, whatever becomes of its connection.
func TestAStaticLeaveIsNoDisconnect(t *testing.T) {
	r := hanging(t)
	r.settings.DisconnectTimeoutMs = 10_000
	l, instance := r.line(), "i-s"
	static := func(h *streams.HeartbeatRequest) *streams.HeartbeatRequest { h.InstanceID = &instance; return h }
	c, _ := l.send(static(join("g", "s")))
	r.ForeignChecked(r.now, "g", noForeign, nil)
	r.settle()
	l.send(static(report("g", "s", c.Heartbeat.MemberEpoch, c.Heartbeat.Active)))
	r.settle()
	if c, a := l.send(static(beat("g", "s", streams.StaticLeaveEpoch))); c.Err != nil {
		t.Fatalf("%v %+v", a.done, c.Err)
	}
	r.settle()
	r.Gone(r.now, l.holder, true)
	r.pass(40_000)
	if r.committed.Group("g").NumMembers() != 1 {
		t.Fatal("removed before its session time-out")
	}
	r.pass(6000)
	if r.committed.Group("g").NumMembers() != 0 {
		t.Fatal("still there after its session time-out")
	}
}

// A connection that ends while its heartbeat waits for its turn has ended all the same.
func TestADisconnectBeforeTheHeartbeatsTurn(t *testing.T) {
	r := hanging(t)
	r.settings.DisconnectTimeoutMs = 10_000
	_, calls, _ := r.stable("g", "a", "b")
	r.send(join("g", "c")) // in flight: what follows waits
	l := r.line()
	l.n++
	r.Submit(r.now, &Call{Client: client, Done: &answer{}, Hold: l.holder, HoldNumber: l.n,
		Request: beat("g", "a", calls[0].Request.(*streams.HeartbeatRequest).MemberEpoch)})
	l.holder.Release(l.n)
	r.Gone(r.now, l.holder, true)
	r.commitAll()
	r.pass(9800)
	if r.committed.Group("g").Member("a") == nil {
		t.Fatal("removed before its time-out")
	}
	r.pass(300)
	if g := r.committed.Group("g"); g.Member("a") != nil || g.Member("b") == nil {
		t.Fatal("a did not come back; b's connection stands")
	}
}
