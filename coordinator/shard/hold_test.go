package shard

import (
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/topology"
)

func TestHeldUntilItsTimeIsOver(t *testing.T) {
	r := hanging(t)
	_, calls, answers := r.stable("g", "a")
	r.pass(4800)
	if answers[0].done || r.Held() != 1 {
		t.Fatalf("answered before 4,900 ms, or not counted: %v, %d", answers[0].done, r.Held())
	}
	r.pass(100)
	if r.Held() != 0 {
		t.Errorf("%d are held", r.Held())
	}
	if !answers[0].done || calls[0].Heartbeat.Err != nil || calls[0].Heartbeat.Active != nil {
		t.Fatalf("done %v, %+v", answers[0].done, calls[0].Heartbeat)
	}
	if answers[0].n != 1 {
		t.Fatalf("answered %d times", answers[0].n)
	}
}

// The epoch may be a newer one for a while than the member knows; it fetches offsets and commits with the one it knows.
func TestAHeldMemberThatWasMovedOnFetchesOffsets(t *testing.T) {
	r := hanging(t)
	r.topics = topics{"in": 2}
	ls, calls, answers := r.stable("g", "a", "b")
	known := calls[0].Request.(*streams.HeartbeatRequest).MemberEpoch
	r.topics = topics{"in": 3, "other": 1} // one of the two gets one more, the other a new epoch
	r.TopicsChanged(r.now)
	r.settle()
	moved := -1
	for i, id := range []string{"a", "b"} {
		if answers[i].done && calls[i].Heartbeat.Active == nil || !answers[i].done {
			moved = i
			if c := r.committed.Group("g").Member(id).Current; c.MemberEpoch <= known || c.PreviousEpoch != known {
				t.Fatalf("%+v, knows %d", c, known)
			}
		}
	}
	if moved < 0 {
		t.Fatal("both got tasks")
	}
	ls[moved].letGo()
	id := []string{"a", "b"}[moved]
	for _, epoch := range []int32{known, known - 1} {
		asked := len(r.ops)
		c, a := r.send(&offsets.FetchRequest{GroupID: "g", MemberID: &id, MemberEpoch: epoch})
		if taken := len(r.ops) > asked; taken != (epoch == known) {
			t.Fatalf("epoch %d: %v %+v", epoch, a.done, c.Response)
		}
	}
}

// A member that was moved on while its answer was held comes back after its connection broke, with the epoch that it knows
// and a report of all that it owns.
func TestAHeldMemberThatLosesItsConnectionIsNotFenced(t *testing.T) {
	r := hanging(t)
	ls, calls, answers := r.stable("g", "a", "b")
	owned := r.committed.Group("g").Member("a").Current.Assigned.Active
	known := calls[0].Request.(*streams.HeartbeatRequest).MemberEpoch
	ls[1].send(beat("g", "b", streams.LeaveEpoch))
	r.settle()
	if !answers[0].done {
		t.Fatal("a is told b's tasks")
	}
	r.Gone(r.now, ls[0].holder, true)
	c, a := r.line().send(report("g", "a", known, owned))
	r.settle()
	if !a.done || c.Heartbeat.Err != nil || c.Heartbeat.Active.Len() != 4 {
		t.Fatalf("%v %+v", a.done, c.Heartbeat)
	}
}

// Moved on twice without being told, and then told over a connection that breaks: it knows the epoch of before all that.
func TestAMemberThatWasMovedOnTwiceIsNotFenced(t *testing.T) {
	r := hanging(t)
	ls, calls, answers := r.stable("g", "a", "b")
	known := calls[0].Request.(*streams.HeartbeatRequest).MemberEpoch
	r.line().send(join("g", "c")) // one of the two has to give a task up, and does not say that it has
	r.settle()
	moved := 0
	if answers[0].done {
		moved = 1
	}
	if answers[moved].done || !answers[1-moved].done {
		t.Fatal("one of the two is told to give a task up, the other stays held")
	}
	id := []string{"a", "b"}[moved]
	owned := r.committed.Group("g").Member(id).Current.Assigned.Active
	if c := r.committed.Group("g").Member(id).Current; c.MemberEpoch != known+1 || c.PreviousEpoch != known {
		t.Fatalf("%+v", c)
	}
	r.line().send(join("g", "d")) // now the other one has to, too
	r.settle()
	if !answers[moved].done || calls[moved].Heartbeat.Active.Len() != 1 {
		t.Fatalf("%v %+v", answers[moved].done, calls[moved].Heartbeat)
	}
	r.Gone(r.now, ls[moved].holder, true) // the answer is lost
	c, a := r.line().send(report("g", id, known, owned))
	r.settle()
	if !a.done || c.Heartbeat.Err != nil || c.Heartbeat.Active.Len() != 1 {
		t.Fatalf("%v %+v %v", a.done, c.Heartbeat, c.Heartbeat.Err)
	}
}

func TestAnotherRequestLetsTheHeartbeatGo(t *testing.T) {
	r := hanging(t)
	ls, calls, answers := r.stable("g", "a")
	ls[0].letGo()
	if !answers[0].done || calls[0].Heartbeat.Err != nil || calls[0].Err != nil {
		t.Fatalf("%v %+v", answers[0].done, calls[0].Heartbeat)
	}
}

func TestReleasedBeforeItIsHeld(t *testing.T) {
	r := hanging(t)
	ls, calls, _ := r.stable("g", "a")
	r.pass(4900)
	ls[0].n++
	a := &answer{}
	ls[0].holder.Release(ls[0].n)
	r.Submit(r.now+100, &Call{Client: client, Request: beat("g", "a", calls[0].Heartbeat.MemberEpoch), Done: a, Hold: ls[0].holder, HoldNumber: ls[0].n})
	if !a.done {
		t.Fatal("a heartbeat behind which another request came is not held")
	}
}

func TestALostLeadershipAnswersAtOnce(t *testing.T) {
	r := hanging(t)
	_, calls, answers := r.stable("g", "a", "b")
	r.Lost(r.now)
	for i := range calls {
		if !answers[i].done || calls[i].Err == nil || calls[i].Err.Code != coordinator.NotCoordinator || !calls[i].WasHeld() {
			t.Fatalf("%v %v", answers[i].done, calls[i].Err)
		}
	}
}

func TestNotHeld(t *testing.T) {
	for name, setup := range map[string]func(r *rig, l *line, epoch int32) *answer{
		"hold off": func(r *rig, l *line, epoch int32) *answer {
			r.settings.HeartbeatHoldMs = 0
			_, a := l.send(beat("g", "a", epoch))
			return a
		},
		"a heartbeat after less than half the interval told": func(r *rig, l *line, epoch int32) *answer {
			l.letGo()
			r.pass(200)
			_, a := l.send(beat("g", "a", epoch))
			return a
		},
		"a rejoin": func(r *rig, l *line, _ int32) *answer {
			_, a := l.send(join("g", "a"))
			return a
		},
		"a request for shutdown": func(r *rig, l *line, epoch int32) *answer {
			h := beat("g", "a", epoch)
			h.ShutdownApplication = true
			_, a := l.send(h)
			return a
		},
		"a report of other tasks than assigned": func(r *rig, l *line, epoch int32) *answer {
			_, a := l.send(report("g", "a", epoch, topology.Tasks{}))
			return a
		},
		"a gateway that cannot hold": func(r *rig, l *line, epoch int32) *answer {
			_, a := r.send(beat("g", "a", epoch))
			return a
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := hanging(t)
			ls, calls, _ := r.stable("g", "a")
			epoch := calls[0].Request.(*streams.HeartbeatRequest).MemberEpoch
			if name != "a heartbeat after less than half the interval told" {
				r.pass(5000)
			}
			a := setup(r, ls[0], epoch)
			r.commitAll()
			if !a.done {
				t.Fatal("held")
			}
		})
	}
}

func TestNotHeldWhileTasksAreToBeRevoked(t *testing.T) {
	r := hanging(t)
	ls, calls, _ := r.stable("g", "a")
	b := r.line()
	b.send(join("g", "b"))
	r.settle()
	epoch, tasks := calls[0].Heartbeat.MemberEpoch, calls[0].Heartbeat.Active
	if tasks.Len() != 2 {
		t.Fatal(tasks)
	}
	r.pass(2600)
	if _, a := ls[0].send(beat("g", "a", epoch)); !a.done {
		t.Fatal("a has to revoke; its heartbeat must be answered")
	}
}

func TestALaterHeartbeatOvertakesTheHeldOne(t *testing.T) {
	r := hanging(t)
	_, calls, answers := r.stable("g", "a")
	epoch := calls[0].Request.(*streams.HeartbeatRequest).MemberEpoch
	r.now += 3000
	r.freshProof()
	c, a := r.line().send(beat("g", "a", epoch))
	if !answers[0].done || calls[0].Heartbeat.MemberEpoch != epoch || calls[0].Heartbeat.Active != nil {
		t.Fatalf("%v %+v", answers[0].done, calls[0].Heartbeat)
	}
	if a.done {
		t.Fatalf("the later one keeps the interval and is held: %+v", c.Heartbeat)
	}
}

// TestAnOvertakenHeartbeatTellsWhatIsCommitted: another member's wish may be decided on and not be in the log yet.
func TestAnOvertakenHeartbeatTellsWhatIsCommitted(t *testing.T) {
	r := hanging(t)
	_, calls, answers := r.stable("g", "a", "b")
	epoch := calls[0].Request.(*streams.HeartbeatRequest).MemberEpoch
	r.freshProof()
	stop := beat("g", "b", calls[1].Request.(*streams.HeartbeatRequest).MemberEpoch)
	stop.ShutdownApplication = true
	wish, later := &answer{}, &answer{}
	r.Submit(r.now, &Call{Client: client, Request: stop, Done: wish})
	r.Submit(r.now, &Call{Client: client, Request: beat("g", "a", epoch), Done: later})
	if wish.done || !answers[0].done || len(calls[0].Heartbeat.Status) != 0 {
		t.Fatalf("wish %v, overtaken %v: %+v", wish.done, answers[0].done, calls[0].Heartbeat)
	}
	r.Flush()
	r.commitAll()
	if !wish.done || !later.done || answers[0].n != 1 {
		t.Fatalf("%v %v %d", wish.done, later.done, answers[0].n)
	}
}

func TestTheSessionCountsFromTheArrival(t *testing.T) {
	r := hanging(t)
	_, _, answers := r.stable("g", "a")
	at := r.now
	r.pass(44_900)
	if !answers[0].done || r.committed.Group("g").NumMembers() != 1 {
		t.Fatal("a is a member for its session time-out")
	}
	r.pass(100)
	if r.committed.Group("g").NumMembers() != 0 {
		t.Fatalf("a was silent for %d ms", r.now-at)
	}
}

func TestTheShorterIntervalIsForThoseThatCannotBeHeld(t *testing.T) {
	for _, hold := range []int32{-1, 0} {
		r := hanging(t)
		r.settings.HeartbeatHoldMs = hold
		r.settings.RebalanceHeartbeatIntervalMs = 500
		l := r.line()
		c, _ := l.send(join("g", "a"))
		r.ForeignChecked(r.now, "g", noForeign, nil)
		r.settle()
		if c.Heartbeat.HeartbeatIntervalMs != 5000 {
			t.Fatal("a stable group is told the configured interval")
		}
		l.send(report("g", "a", c.Heartbeat.MemberEpoch, c.Heartbeat.Active))
		cb, _ := r.line().send(join("g", "b"))
		r.settle()
		want := int32(500)
		if hold < 0 {
			want = 5000
		}
		if got := cb.Heartbeat.HeartbeatIntervalMs; got != want {
			t.Fatalf("hold %d: a member that waits for tasks is told %d, want %d", hold, got, want)
		}
		if hold < 0 {
			continue
		}
		lb := r.line()
		for _, at := range []struct{ ms, want int64 }{{29_900, 500}, {200, 5000}} {
			for ms := at.ms; ms > 0; ms -= 100 {
				r.pass(100)
				_, a := l.send(beat("g", "a", c.Heartbeat.MemberEpoch))
				if r.settle(); !a.done {
					t.Fatal("held")
				}
			}
			if cb, _ = lb.send(beat("g", "b", cb.Heartbeat.MemberEpoch)); int64(cb.Heartbeat.HeartbeatIntervalMs) != at.want {
				t.Fatalf("told %d, want %d", cb.Heartbeat.HeartbeatIntervalMs, at.want)
			}
		}
	}
}

// TestAMemberThatCannotBeToldComesSoon: a client that sends something else while its heartbeat is held is out of reach until
// its next one, and so is told when that is to come.
func TestAMemberThatCannotBeToldComesSoon(t *testing.T) {
	r := hanging(t)
	lines, calls, answers := r.stable("g", "a")
	configured := r.settings.HeartbeatIntervalMs
	tell := func(want int32) {
		t.Helper()
		lines[0].letGo()
		if c := calls[0]; !answers[0].done || c.Heartbeat.Err != nil || c.Heartbeat.HeartbeatIntervalMs != want {
			t.Fatalf("let go: %v, %+v, wanted was an interval of %d ms", answers[0].done, c.Heartbeat, want)
		}
	}
	again := func(held bool) {
		t.Helper()
		calls[0], answers[0] = lines[0].send(beat("g", "a", calls[0].Heartbeat.MemberEpoch))
		r.settle()
		if answers[0].done == held {
			t.Fatalf("done %v, wanted held %v", answers[0].done, held)
		}
	}
	tell(500) // after an acknowledgement
	r.pass(500)
	again(true)
	r.pass(1000)
	tell(configured - 100 - 1000) // the rest of the hold
	r.pass(int64(configured) - 1100)
	again(true)
	r.pass(int64(configured))
	if !answers[0].done || calls[0].Heartbeat.HeartbeatIntervalMs != configured {
		t.Fatalf("at the end of the hold: %v %+v", answers[0].done, calls[0].Heartbeat)
	}
	again(true)
	tell(configured - 100)
	again(false) // sooner than it was told
	if got := calls[0].Heartbeat.HeartbeatIntervalMs; got != configured {
		t.Fatalf("told %d ms", got)
	}
}

// Requests are used again, with the room of their instance ids: what a held one keeps must not be the state's.
func TestAHeldRequestSharesNothingWithTheState(t *testing.T) {
	r := hanging(t)
	l := r.line()
	static := func(h *streams.HeartbeatRequest) *streams.HeartbeatRequest {
		instance := "i-s"
		h.InstanceID = &instance
		return h
	}
	c, _ := l.send(static(join("g", "s")))
	r.ForeignChecked(r.now, "g", noForeign, nil)
	r.settle()
	c, _ = l.send(static(report("g", "s", c.Heartbeat.MemberEpoch, c.Heartbeat.Active)))
	r.pass(5000)
	h := static(beat("g", "s", c.Heartbeat.MemberEpoch))
	c, a := l.send(endpointsOf(c, h))
	r.settle()
	if a.done || r.Held() != 1 {
		t.Fatalf("not held: %+v", c.Heartbeat)
	}
	if h.InstanceID == nil || *h.InstanceID != "i-s" {
		t.Fatalf("held with instance id %v", h.InstanceID)
	}
	*h.InstanceID = "of the next request"
	if m := r.committed.Group("g").Member("s"); *m.Meta.InstanceID != "i-s" {
		t.Errorf("the state has instance id %q", *m.Meta.InstanceID)
	}
}
