package shard

import (
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
)

// TestNoTargetIsComputedBeforeTheTopicsAreKnown: a new leader that does not know the topics yet would take them all for
// missing, and its timers would take the tasks of every member.
func TestNoTargetIsComputedBeforeTheTopicsAreKnown(t *testing.T) {
	r := newRig(t)
	r.settings.AssignmentIntervalMs = 1000
	r.joined("g", "a")
	r.joined("g", "b") // its target waits for the interval
	state := r.committed
	if g := state.Group("g"); streams.StateOf(g) != streams.StateAssigning {
		t.Fatal(streams.StateOf(g))
	}
	known := r.topics
	r.topics = topics{}
	r.Lost(r.now)
	r.Elected(r.now, 2, state)
	for range 10 {
		r.tick(500)
		r.commitAll()
	}
	if g := r.committed.Group("g"); streams.StateOf(g) != streams.StateAssigning || g.Epoch() != state.Group("g").Epoch() {
		t.Fatalf("without topics: %s at epoch %d", streams.StateOf(g), g.Epoch())
	}
	r.topics = known
	r.tick(500)
	r.commitAll()
	if g := r.committed.Group("g"); streams.StateOf(g) != streams.StateReconciling || g.Epoch() != state.Group("g").Epoch() {
		t.Fatalf("with topics: %s at epoch %d", streams.StateOf(g), g.Epoch())
	}
}

// tick lets the time pass, on time.
func (r *rig) tick(ms int64) {
	r.now += ms
	r.timers.wakeAt = r.now
	r.Tick(r.now)
	r.Flush()
}

// TestAnOldPictureOfTheTopicsTakesNoTask: a new leader whose picture of the topics is older than what the leader before
// decided by must not take a topic for missing that was created a moment ago.
func TestAnOldPictureOfTheTopicsTakesNoTask(t *testing.T) {
	r := newRig(t)
	epoch := r.joined("g", "a").MemberEpoch
	state := r.committed
	known := r.topics
	r.topics, r.oldTopics = topics{"another": 1}, true
	r.Lost(r.now)
	r.Elected(r.now, 2, state)
	r.freshProof()

	r.refreshed = 0
	beat := &streams.HeartbeatRequest{GroupID: "g", MemberID: "a", MemberEpoch: epoch, RebalanceTimeoutMs: -1}
	c, a := r.send(beat)
	r.commitAll()
	if !a.done || c.Err == nil || c.Err.Code != coordinator.CoordinatorLoadInProgress || r.refreshed == 0 {
		t.Fatalf("with an old picture: done %v, %v, %d refreshes", a.done, c.Err, r.refreshed)
	}
	if got := r.committed.Group("g").Epoch(); got != state.Group("g").Epoch() {
		t.Fatalf("group epoch %d after an old picture, want %d", got, state.Group("g").Epoch())
	}
	// What the old picture agrees with goes on.
	r.topics = known
	if c, _ := r.send(beat); c.Err != nil || c.Heartbeat.Err != nil || c.Heartbeat.MemberEpoch != epoch {
		t.Fatalf("with the right topics: %v, %+v", c.Err, c.Heartbeat)
	}
	// A current picture in which the topic is gone is believed.
	r.topics, r.oldTopics = topics{"another": 1}, false
	r.changes += 10
	c, _ = r.send(beat)
	r.commitAll()
	if c.Err != nil || len(c.Heartbeat.Status) != 1 || c.Heartbeat.Status[0].Code != streams.StatusMissingSourceTopics {
		t.Fatalf("with a current picture: %v, %+v", c.Err, c.Heartbeat)
	}
}

// Before the topics were ever seen no heartbeat can be answered, and so nobody is removed for his silence.
func TestNobodyExpiresBeforeTheTopicsAreKnown(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	state, known := r.committed, r.topics
	r.Lost(r.now)
	r.topics = topics{}
	if _, version := r.Topics(); version != 0 {
		t.Fatalf("topics of version %d", version)
	}
	r.Elected(r.now, 2, state)
	r.Flush()
	r.elapse(120_000)
	if r.committed.Group("g").NumMembers() != 1 {
		t.Fatal("removed although nobody could hear it")
	}
	r.topics = known
	r.elapse(1000)
	if r.committed.Group("g").NumMembers() != 0 {
		t.Fatal("silent for longer than its session time-out, and still there")
	}
}

// Held heartbeats are not decided by a picture of the topics that is older than the leadership either.
func TestAnOldPictureOfTheTopicsTakesNoTaskOfWhoIsHeld(t *testing.T) {
	for name, look := range map[string]func(*rig){
		"topics":   func(r *rig) { r.TopicsChanged(r.now) },
		"settings": func(r *rig) { r.lookAll(r.group("g")) },
	} {
		r := hanging(t)
		_, calls, answers := r.stable("g", "a", "b")
		epoch := r.committed.Group("g").Epoch()
		r.topics, r.oldTopics = topics{"another": 1}, true
		r.changes += 10
		look(r)
		r.settle()
		if g := r.committed.Group("g"); g.Epoch() != epoch || answers[0].done || answers[1].done {
			t.Fatalf("%s: epoch %d after %d; told %+v %+v", name, g.Epoch(), epoch, calls[0].Heartbeat, calls[1].Heartbeat)
		}
		r.oldTopics = false
		look(r)
		r.settle()
		if g := r.committed.Group("g"); g.Epoch() == epoch || !answers[0].done || !answers[1].done {
			t.Fatalf("%s: a current picture is not believed", name)
		}
	}
}
