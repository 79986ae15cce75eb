package shard

import (
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
)

// unread has the topics be as of now for ever, until read.
func (r *rig) unread() { r.topicsAsOf = r.now }
func (r *rig) read()   { r.topicsAsOf = 0 }

// foreignFree answers what is asked about the group's id.
func (r *rig) foreignFree(group string) {
	r.ForeignChecked(r.now, group, noForeign, nil)
	r.Flush()
}

// TestAMissingSourceIsToldOnceTheTopicsWereReadAgain: a new application whose source topic is missing is told so when the
// topics have been read after its join, and no group is made before.
func TestAMissingSourceIsToldOnceTheTopicsWereReadAgain(t *testing.T) {
	r := newRig(t)
	r.topics = topics{"another": 1}
	r.unread()
	c, a := r.send(join("g", "a"))
	r.foreignFree("g")
	r.commitAll()
	if a.done || r.committed.Group("g") != nil || r.refreshed == 0 {
		t.Fatalf("answered %v by topics of before: %+v; %d refreshes", a.done, c.Heartbeat, r.refreshed)
	}
	// Other members wait with it, and nobody waits for longer than a look.
	c2, a2 := r.send(join("g", "b"))
	r.foreignFree("g")
	r.tick(readPollMs)
	if a.done || a2.done {
		t.Fatal("answered before the topics were read")
	}
	r.read()
	r.tick(readPollMs)
	r.commitAll()
	for i, c := range []*Call{c, c2} {
		if done := []*answer{a, a2}[i].done; !done || c.Err != nil || len(c.Heartbeat.Status) != 1 || c.Heartbeat.Status[0].Code != streams.StatusMissingSourceTopics {
			t.Fatalf("call %d: done %v, %v, %+v", i, done, c.Err, c.Heartbeat)
		}
	}
	// It was seen and read: the next heartbeat need not wait.
	r.unread()
	c, a = r.send(beat("g", "a", c.Heartbeat.MemberEpoch))
	r.commitAll()
	if !a.done || c.Err != nil || c.Heartbeat.Status[0].Code != streams.StatusMissingSourceTopics {
		t.Fatalf("done %v, %v, %+v", a.done, c.Err, c.Heartbeat)
	}
}

// TestWhoseTopicIsThereAfterAllIsNotTold: the picture lagged behind.
func TestWhoseTopicIsThereAfterAllIsNotTold(t *testing.T) {
	r := newRig(t)
	known := r.topics
	r.topics = topics{"another": 1}
	r.unread()
	c, a := r.send(join("g", "a"))
	r.foreignFree("g")
	r.topics = known
	r.changes += 10
	r.read()
	r.TopicsChanged(r.now)
	r.tick(readPollMs)
	r.commitAll()
	if !a.done || c.Err != nil || len(c.Heartbeat.Status) != 0 || c.Heartbeat.Active.IsEmpty() {
		t.Fatalf("done %v, %v, %+v", a.done, c.Err, c.Heartbeat)
	}
}

// TestAnUpstreamThatIsAwayEndsNoApplication: while the topics cannot be read again nobody is told of a problem, and nothing
// is left of groups that nobody could make.
func TestAnUpstreamThatIsAwayEndsNoApplication(t *testing.T) {
	r := newRig(t)
	epoch := r.joined("g", "a").MemberEpoch
	state := r.committed
	r.topics = topics{"another": 1}
	r.changes += 10
	r.unread()
	for range 20 {
		r.freshProof()
		c, a := r.send(beat("g", "a", epoch))
		_, other := r.send(join("new", "b"))
		if len(r.foreign) > 1 {
			r.foreign = r.foreign[:1]
			r.foreignFree("new")
		}
		if a.done {
			t.Fatalf("%v, %+v", c.Err, c.Heartbeat)
		}
		for range readPatienceMs/readPollMs + 25 {
			r.tick(readPollMs)
		}
		r.commitAll()
		if !a.done || !other.done || c.Err == nil || c.Err.Code != coordinator.CoordinatorLoadInProgress {
			t.Fatalf("done %v %v, %v, %+v", a.done, other.done, c.Err, c.Heartbeat)
		}
		r.tick(10_000)
	}
	if g := r.committed.Group("g"); g.Epoch() != state.Group("g").Epoch() || g.NumMembers() != 1 {
		t.Fatalf("epoch %d, %d members", g.Epoch(), g.NumMembers())
	}
	if len(r.groups) != 1 {
		t.Fatalf("%d groups are kept", len(r.groups))
	}
	r.read()
	r.freshProof()
	c, _ := r.send(beat("g", "a", epoch))
	r.commitAll()
	if c.Err != nil || len(c.Heartbeat.Status) != 1 || c.Heartbeat.Status[0].Code != streams.StatusMissingSourceTopics {
		t.Fatalf("%v, %+v", c.Err, c.Heartbeat)
	}
}

// TestLosingTheLeadershipAnswersWhoWaitsForTheTopics: as whoever else waits.
func TestLosingTheLeadershipAnswersWhoWaitsForTheTopics(t *testing.T) {
	r := newRig(t)
	r.topics = topics{"another": 1}
	r.unread()
	c, a := r.send(join("g", "a"))
	r.foreignFree("g")
	r.Lost(r.now)
	if a.n != 1 || c.Err == nil || c.Err.Code != coordinator.NotCoordinator || !c.Err.NotStarted {
		t.Fatalf("%d answers, %v", a.n, c.Err)
	}
}

// TestAGraceEndsWithoutAHeartbeat: members whose answers are held are told when it is over, by topics that were read
// again, and what began and ended is observed.
func TestAGraceEndsWithoutAHeartbeat(t *testing.T) {
	r := hanging(t)
	r.settings.TopologyGraceMs, r.settings.SessionTimeoutMs = 60_000, 600_000
	_, calls, answers := r.stable("g", "a", "b")
	epoch := r.committed.Group("g").Epoch()
	r.topics = topics{"another": 1}
	r.changes += 10
	r.TopicsChanged(r.now)
	r.settle()
	if g := r.committed.Group("g"); g.Epoch() != epoch || !streams.InGrace(g) || streams.StateOf(g) != streams.StateStable || answers[0].done || answers[1].done {
		t.Fatalf("epoch %d after %d, %s; told %+v %+v", g.Epoch(), epoch, streams.StateOf(g), calls[0].Heartbeat, calls[1].Heartbeat)
	}
	graces := func() (list []streams.GraceChange) {
		for _, e := range r.events {
			if e.Grace != nil {
				list = append(list, *e.Grace)
			}
		}
		return list
	}
	if list := graces(); len(list) != 1 || !list[0].Began || list[0].LengthMs != 60_000 || list[0].Problem == "" {
		t.Fatalf("%+v", list)
	}
	r.topicsAsOf = r.now // the upstream goes away: it does not end
	r.elapse(70_000)
	if g := r.committed.Group("g"); g.Epoch() != epoch || !streams.InGrace(g) {
		t.Fatalf("epoch %d after %d", g.Epoch(), epoch)
	}
	r.read()
	r.elapse(1_500)
	r.settle()
	if g := r.committed.Group("g"); streams.StateOf(g) != streams.StateNotReady || streams.InGrace(g) {
		t.Fatal(streams.StateOf(g))
	}
	if list := graces(); len(list) != 2 || list[1].Began || list[1].Ready || list[1].LengthMs < 70_000 {
		t.Fatalf("%+v", list)
	}
}
