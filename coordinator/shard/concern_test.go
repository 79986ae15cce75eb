package shard

import (
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

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

func TestASettingReachesEverybodyAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*coordinator.GroupSettings)
		told func(*streams.HeartbeatResponse) bool
	}{
		"heartbeat interval": {func(s *coordinator.GroupSettings) { s.HeartbeatIntervalMs = 6000 },
			func(r *streams.HeartbeatResponse) bool { return r.HeartbeatIntervalMs == 6000 }},
		"task offset interval": {func(s *coordinator.GroupSettings) { s.TaskOffsetIntervalMs = 30_000 },
			func(r *streams.HeartbeatResponse) bool { return r.TaskOffsetIntervalMs == 30_000 }},
		"acceptable recovery lag": {func(s *coordinator.GroupSettings) { s.AcceptableRecoveryLag = 7 },
			func(r *streams.HeartbeatResponse) bool { return r.AcceptableRecoveryLag == 7 }},
	} {
		r := hanging(t)
		_, calls, answers := r.stable("g", "a", "b")
		c.set(&r.settings)
		r.SettingsChanged(r.now, "g")
		r.Flush()
		r.settle()
		for i, call := range calls {
			if !answers[i].done || !c.told(&call.Heartbeat) {
				t.Errorf("%s: told %v: %+v", name, answers[i].done, call.Heartbeat)
			}
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
	r.ForeignChecked(r.now, "g", noForeign, nil)
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
	r.ForeignChecked(r.now, "g", noForeign, nil)
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
	r.ForeignChecked(r.now, "g", noForeign, nil)
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
