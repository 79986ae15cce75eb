package shard

import (
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// line is a client connection of a member in a rig.
type line struct {
	r      *rig
	holder *Holder
	n      uint64
}

var lines uint64

func (r *rig) line() *line {
	lines++
	return &line{r: r, holder: NewHolder(lines)}
}

// send gives a request over the connection, as the gateway does: what is held there is let go first.
func (l *line) send(h *streams.HeartbeatRequest) (*Call, *answer) {
	l.letGo()
	l.n++
	a := &answer{}
	c := &Call{Client: client, Request: h, Done: a, Hold: l.holder, HoldNumber: l.n}
	l.r.Submit(l.r.now, c)
	l.r.Flush()
	return c, a
}

func (l *line) letGo() {
	if l.holder.Release(l.n) {
		l.r.LetGo(l.r.now, l.holder)
	}
}

// hanging is a rig whose settings hold heartbeats.
func hanging(t *testing.T) *rig {
	r := newRig(t)
	r.settings.HeartbeatHoldMs = -1
	return r
}

// settle lets everything that is due happen at this time.
func (r *rig) settle() {
	for range 10 {
		r.freshProof()
		r.Tick(r.now)
		r.Flush()
		r.commitAll()
	}
}

// pass lets time pass.
func (r *rig) pass(ms int64) {
	for ; ms > 0; ms -= min(ms, 100) {
		r.now += min(ms, 100)
		r.settle()
	}
}

// stable makes a group with members that each acknowledged what they were told, the last heartbeat of each being held.
func (r *rig) stable(group string, members ...string) (ls []*line, calls []*Call, answers []*answer) {
	r.t.Helper()
	epochs := map[string]int32{}
	for _, m := range members {
		l := r.line()
		asked := len(r.foreign)
		c, a := l.send(join(group, m))
		if len(r.foreign) > asked {
			r.ForeignChecked(r.now, group, "", nil)
			r.Flush()
		}
		r.commitAll()
		if !a.done || c.Heartbeat.Err != nil {
			r.t.Fatalf("join of %s: %v %v", m, a.done, c.Heartbeat.Err)
		}
		ls, calls, answers = append(ls, l), append(calls, c), append(answers, a)
	}
	for range 6 {
		for i, m := range members {
			for answers[i].done {
				epoch := calls[i].Heartbeat.MemberEpoch
				h := beat(group, m, epoch)
				if calls[i].Heartbeat.Active != nil {
					h = report(group, m, epoch, calls[i].Heartbeat.Active)
				} else if epochs[m] == epoch {
					break
				}
				epochs[m] = epoch
				calls[i], answers[i] = ls[i].send(h)
				r.settle()
			}
		}
	}
	for i, m := range members {
		if answers[i].done {
			r.pass(5000)
			calls[i], answers[i] = ls[i].send(beat(group, m, calls[i].Heartbeat.MemberEpoch))
		}
	}
	r.settle()
	for i, m := range members {
		if answers[i].done {
			r.t.Fatalf("the heartbeat of %s is not held: %+v", m, calls[i].Heartbeat)
		}
	}
	return ls, calls, answers
}

func TestHeldUntilItsTimeIsOver(t *testing.T) {
	r := hanging(t)
	_, calls, answers := r.stable("g", "a")
	r.pass(4800)
	if answers[0].done {
		t.Fatal("answered before 4,900 ms")
	}
	r.pass(100)
	if !answers[0].done || calls[0].Heartbeat.Err != nil || calls[0].Heartbeat.Active != nil {
		t.Fatalf("done %v, %+v", answers[0].done, calls[0].Heartbeat)
	}
	if answers[0].n != 1 {
		t.Fatalf("answered %d times", answers[0].n)
	}
}

func TestAnotherInstanceGetsItsTasksWhileAllAreHeld(t *testing.T) {
	r := hanging(t)
	ls, calls, answers := r.stable("g", "a")
	b := r.line()
	cb, ab := b.send(join("g", "b"))
	r.settle()
	if !ab.done || cb.Heartbeat.Active.Len() != 0 {
		t.Fatalf("b: %v %v", ab.done, cb.Heartbeat.Active)
	}
	cb, ab = b.send(report("g", "b", cb.Heartbeat.MemberEpoch, cb.Heartbeat.Active))
	r.settle()
	if ab.done {
		t.Fatal("b waits for tasks; its answer is to be held")
	}
	if !answers[0].done || calls[0].Heartbeat.Active.Len() != 2 {
		t.Fatalf("a is to be told at once to give up two of four tasks: %v %v", answers[0].done, calls[0].Heartbeat.Active)
	}
	calls[0], answers[0] = ls[0].send(report("g", "a", calls[0].Heartbeat.MemberEpoch, calls[0].Heartbeat.Active))
	r.settle()
	if !ab.done || cb.Heartbeat.Active.Len() != 2 {
		t.Fatalf("b is to be given two tasks at once: %v %v", ab.done, cb.Heartbeat.Active)
	}
	cb, ab = b.send(report("g", "b", cb.Heartbeat.MemberEpoch, cb.Heartbeat.Active))
	r.settle()
	if ab.done {
		t.Fatal("b has acknowledged: its answer is to be held")
	}
	if !answers[0].done || calls[0].Heartbeat.MemberEpoch != cb.Request.(*streams.HeartbeatRequest).MemberEpoch || calls[0].Heartbeat.Active != nil {
		t.Fatalf("a is to be told its epoch when the group is stable: %v %+v", answers[0].done, calls[0].Heartbeat)
	}
	if s := streams.StateOf(r.committed.Group("g")); s != streams.StateStable {
		t.Fatal(s)
	}
}

func TestTheEpochAloneIsToldWhenTheGroupIsStable(t *testing.T) {
	r := hanging(t)
	r.topics = topics{"in": 1}
	ls, calls, answers := r.stable("g", "a", "b")
	owner, other := 0, 1
	if calls[1].Request.(*streams.HeartbeatRequest).MemberEpoch == 0 || r.committed.Group("g").Member("b").Current.Assigned.Len() == 1 {
		owner, other = 1, 0
	}
	known := calls[other].Request.(*streams.HeartbeatRequest).MemberEpoch
	c := r.line()
	cc, ac := c.send(join("g", "c"))
	r.settle()
	if !ac.done {
		t.Fatal("a join is answered")
	}
	// c is told its assignment; the group is stable once everybody was moved to the new epoch, held as they are.
	if s := streams.StateOf(r.committed.Group("g")); s != streams.StateStable {
		t.Fatal(s)
	}
	for _, i := range []int{owner, other} {
		if !answers[i].done || calls[i].Heartbeat.MemberEpoch != cc.Heartbeat.MemberEpoch || calls[i].Heartbeat.MemberEpoch <= known {
			t.Fatalf("%d: %v %+v", i, answers[i].done, calls[i].Heartbeat)
		}
	}
	// It comes back at once with what it was told, which acknowledges it.
	calls[other], answers[other] = ls[other].send(beat("g", calls[other].Heartbeat.MemberID, calls[other].Heartbeat.MemberEpoch))
	if answers[other].done {
		t.Fatal("the first heartbeat with a new epoch is held")
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

func TestALeaversTasksGoOnAtOnce(t *testing.T) {
	r := hanging(t)
	ls, calls, answers := r.stable("g", "a", "b")
	c, a := ls[1].send(beat("g", "b", streams.LeaveEpoch))
	r.settle()
	if !answers[1].done || !a.done || c.Heartbeat.Err != nil {
		t.Fatal("the leave lets b's heartbeat go and is answered")
	}
	if !answers[0].done || calls[0].Heartbeat.Active.Len() != 4 {
		t.Fatalf("a: %v %v", answers[0].done, calls[0].Heartbeat.Active)
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
		"a heartbeat after less than half an interval": func(r *rig, l *line, epoch int32) *answer {
			l.letGo()
			r.pass(2300)
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
			_, a := r.Machine2(beat("g", "a", epoch))
			return a
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := hanging(t)
			ls, calls, _ := r.stable("g", "a")
			epoch := calls[0].Request.(*streams.HeartbeatRequest).MemberEpoch
			if name != "a heartbeat after less than half an interval" {
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

func (r *rig) Machine2(request any) (*Call, *answer) { return r.send(request) }

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

func TestTheShutdownReachesEverybodyAtOnce(t *testing.T) {
	r := hanging(t)
	ls, calls, answers := r.stable("g", "a", "b", "c")
	h := beat("g", "a", calls[0].Request.(*streams.HeartbeatRequest).MemberEpoch)
	h.ShutdownApplication = true
	ls[0].send(h)
	r.settle()
	for i := 1; i < 3; i++ {
		if !answers[i].done || len(calls[i].Heartbeat.Status) != 1 || calls[i].Heartbeat.Status[0].Code != streams.StatusShutdownApplication {
			t.Fatalf("%d: %v %v", i, answers[i].done, calls[i].Heartbeat.Status)
		}
	}
}

// Endpoints ask for no acknowledgement: while a group is rebalanced they would cost its members the heartbeats by which
// they are told their tasks.
func TestEndpointsAreToldWhenTheGroupIsStable(t *testing.T) {
	r := hanging(t)
	ls, calls, answers := r.stable("g", "a", "b")
	c := r.line()
	h := join("g", "c")
	h.UserEndpoint = &record.Endpoint{Host: "c", Port: 1}
	cc, _ := c.send(h)
	r.settle()
	cc, ac := c.send(report("g", "c", cc.Heartbeat.MemberEpoch, cc.Heartbeat.Active))
	r.settle()
	told := 0
	for i := range calls {
		if !answers[i].done {
			continue
		}
		if calls[i].Heartbeat.Active == nil {
			t.Fatalf("told nothing but endpoints during the rebalance: %+v", calls[i].Heartbeat)
		}
		told++
		calls[i], answers[i] = ls[i].send(endpointsOf(calls[i], report("g", calls[i].Heartbeat.MemberID, calls[i].Heartbeat.MemberEpoch, calls[i].Heartbeat.Active)))
	}
	if told == 0 {
		t.Fatal("nobody was told to give tasks up")
	}
	r.settle()
	if !ac.done || cc.Heartbeat.Active.Len() == 0 {
		t.Fatal("c is given its tasks")
	}
	for i := range calls {
		if !answers[i].done || len(calls[i].Heartbeat.Endpoints) != 1 || len(calls[i].Heartbeat.Endpoints[0].Active) != 1 {
			t.Fatalf("%d: %v %+v", i, answers[i].done, calls[i].Heartbeat)
		}
	}
}

// endpointsOf makes a request with the endpoint epoch that an answer told.
func endpointsOf(c *Call, h *streams.HeartbeatRequest) *streams.HeartbeatRequest {
	h.EndpointEpoch = c.Heartbeat.EndpointEpoch
	return h
}

func TestASettingReachesEverybodyAtOnce(t *testing.T) {
	r := hanging(t)
	_, calls, answers := r.stable("g", "a", "b")
	r.settings.HeartbeatIntervalMs = 6000
	r.SettingsChanged(r.now, "g")
	r.settle()
	for i := range calls {
		if !answers[i].done || calls[i].Heartbeat.HeartbeatIntervalMs != 6000 {
			t.Fatalf("%v %d", answers[i].done, calls[i].Heartbeat.HeartbeatIntervalMs)
		}
	}
}

func TestATopicReachesEverybodyAtOnce(t *testing.T) {
	r := hanging(t)
	_, calls, answers := r.stable("g", "a")
	r.topics = topics{"in": 6, "other": 1}
	r.TopicsChanged(r.now)
	r.settle()
	if !answers[0].done || calls[0].Heartbeat.Active.Len() != 6 {
		t.Fatalf("%v %v", answers[0].done, calls[0].Heartbeat.Active)
	}
}

// The acknowledgement of a first, empty assignment often is what finds the internal topics that were created meanwhile.
func TestAnAcknowledgementThatFindsNewTopicsIsHeld(t *testing.T) {
	r := hanging(t)
	r.settings.InitialRebalanceDelayMs = 3000
	l := r.line()
	c, _ := l.send(join("g", "a"))
	r.ForeignChecked(r.now, "g", "", nil)
	r.settle()
	r.topics = topics{"in": 6, "other": 1}
	c, a := l.send(report("g", "a", c.Heartbeat.MemberEpoch, c.Heartbeat.Active))
	r.settle()
	if g := r.committed.Group("g"); a.done || g.Epoch() != 3 {
		t.Fatalf("answered: %v, group epoch %d", a.done, g.Epoch())
	}
	r.pass(3000)
	if !a.done || c.Heartbeat.Active.Len() != 6 {
		t.Fatalf("%v %+v", a.done, c.Heartbeat)
	}
}

func TestTheEndOfTheInitialDelayIsPushed(t *testing.T) {
	r := hanging(t)
	r.settings.InitialRebalanceDelayMs = 3000
	l := r.line()
	c, _ := l.send(join("g", "a"))
	r.ForeignChecked(r.now, "g", "", nil)
	r.settle()
	c, a := l.send(report("g", "a", c.Heartbeat.MemberEpoch, c.Heartbeat.Active))
	r.settle()
	if a.done {
		t.Fatalf("a group that waits repeats itself: hold it: %+v", c.Heartbeat)
	}
	r.pass(2900)
	if a.done {
		t.Fatal("too early")
	}
	r.pass(100)
	if !a.done || c.Heartbeat.Active.Len() != 4 || len(c.Heartbeat.Status) != 0 {
		t.Fatalf("%v %+v", a.done, c.Heartbeat)
	}
}

// The second heartbeat of a new application's first member finds the internal topics that the first one asked for.
func TestAMemberThatFindsItsTopicsIsTold(t *testing.T) {
	r := hanging(t)
	r.settings.InitialRebalanceDelayMs = 3000
	l := r.line()
	first := join("g", "a")
	first.Topology.Subtopologies[0].StateChangelogTopics = []topology.InternalTopic{{Name: "store"}}
	c, _ := l.send(first)
	r.ForeignChecked(r.now, "g", "", nil)
	r.settle()
	if len(c.Heartbeat.Status) != 2 {
		t.Fatalf("a new group waits for its topics and for the delay: %+v", c.Heartbeat)
	}
	r.pass(100)
	r.topics = topics{"in": 4, "store": 4}
	c, a := l.send(report("g", "a", c.Heartbeat.MemberEpoch, c.Heartbeat.Active))
	r.commitAll()
	if a.done {
		t.Fatalf("answered, the member is out of reach for its interval: %+v", c.Heartbeat)
	}
	r.pass(2900)
	if !a.done || c.Heartbeat.Active.Len() != 4 || len(c.Heartbeat.Status) != 0 {
		t.Fatalf("%v %+v", a.done, c.Heartbeat)
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

func TestTheShorterIntervalIsForThoseThatCannotBeHeld(t *testing.T) {
	for _, hold := range []int32{-1, 0} {
		r := hanging(t)
		r.settings.HeartbeatHoldMs = hold
		r.settings.RebalanceHeartbeatIntervalMs = 500
		l := r.line()
		c, _ := l.send(join("g", "a"))
		r.ForeignChecked(r.now, "g", "", nil)
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

// A held member of a large group is not decided again for each acknowledgement of another one.
func TestAcknowledgementsWakeOnlyWhoWaitsForThem(t *testing.T) {
	r := hanging(t)
	r.topics = topics{"in": 8}
	names := []string{"a", "b", "c", "d"}
	ls, calls, _ := r.stable("g", names...)
	e := r.group("g")
	before := r.committed.Group("g").Member("a").Current
	r.Flush()
	r.lookAtReleased(e, before, before)
	if len(r.kept.due) != 0 {
		t.Fatal("nothing was released")
	}
	b := r.line()
	cb, _ := b.send(join("g", "e"))
	r.settle()
	_, ab := b.send(report("g", "e", cb.Heartbeat.MemberEpoch, cb.Heartbeat.Active))
	if r.settle(); ab.done {
		t.Fatal("e waits")
	}
	waits := e.held["e"].waits
	if len(waits) == 0 {
		t.Fatal("e waits for the tasks of its target")
	}
	for i := range names {
		if c := calls[i]; c.Heartbeat.Active != nil {
			ls[i].send(report("g", names[i], c.Heartbeat.MemberEpoch, c.Heartbeat.Active))
		}
	}
	r.settle()
	if !ab.done {
		t.Fatal("e is given its tasks")
	}
	if len(e.waits) != 0 {
		t.Fatalf("nobody waits any more: %v", e.waits)
	}
}

func (r *rig) group(id string) *group { return r.groups[id] }
