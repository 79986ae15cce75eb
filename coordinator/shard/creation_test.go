package shard

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/topology"
)

// waitsForTopics is a group with one held member whose changelog is missing.
func waitsForTopics(t *testing.T) (*rig, *line, *Call, *answer) {
	r := hanging(t)
	l := r.line()
	request := join("g", "a")
	request.Topology = &topology.Topology{Subtopologies: []topology.Subtopology{{
		ID: "0", SourceTopics: []string{"in"}, StateChangelogTopics: []topology.InternalTopic{{Name: "g-changelog"}},
	}}}
	c, a := l.send(request)
	r.ForeignChecked(r.now, "g", noForeign, nil)
	r.settle()
	if !a.done || len(c.Heartbeat.Status) != 1 || c.Heartbeat.Status[0].Code != streams.StatusMissingInternalTopics || len(r.created) == 0 {
		t.Fatalf("%v %+v, %d creations", a.done, c.Heartbeat, len(r.created))
	}
	c, a = l.send(report("g", "a", c.Heartbeat.MemberEpoch, c.Heartbeat.Active))
	r.settle()
	if a.done {
		t.Fatalf("not held: %+v", c.Heartbeat)
	}
	return r, l, c, a
}

// A member that waits for internal topics is told at once why they are not there, once for each reason.
func TestAHeldMemberIsToldWhyTopicsAreMissing(t *testing.T) {
	r, l, c, a := waitsForTopics(t)
	r.creationError = "POLICY_VIOLATION: no"
	r.CreationChanged(r.now, "another")
	r.settle()
	if a.done {
		t.Fatal("another group's creation was told")
	}
	r.CreationChanged(r.now, "g")
	r.settle()
	if !a.done || len(c.Heartbeat.Status) != 1 || !strings.HasSuffix(c.Heartbeat.Status[0].Detail, "; creation failed: g-changelog (POLICY_VIOLATION: no).") {
		t.Fatalf("%v %+v", a.done, c.Heartbeat)
	}
	r.pass(4000)
	c, a = l.send(beat("g", "a", c.Heartbeat.MemberEpoch))
	r.CreationChanged(r.now, "g")
	r.settle()
	if a.done {
		t.Fatalf("told again without a change: %+v", c.Heartbeat)
	}
	r.creationError = "" // it is there, but its metadata is not: nothing that a member must know
	r.CreationChanged(r.now, "g")
	r.settle()
	if a.done {
		t.Fatalf("told without need: %+v", c.Heartbeat)
	}
	r.topics = topics{"in": 4, "g-changelog": 4}
	r.TopicsChanged(r.now)
	r.settle()
	if !a.done || len(c.Heartbeat.Status) != 0 || len(c.Heartbeat.Active) == 0 {
		t.Fatalf("the topics are there: %v %+v", a.done, c.Heartbeat)
	}
}

// A leader asks for topics after the entry is committed, and takes its wishes back when it leads no more, in silence to
// whoever leads then.
func TestTopicsAreAskedForByTheLeaderAfterTheCommit(t *testing.T) {
	r := newRig(t)
	request := join("g", "a")
	request.Topology = &topology.Topology{Subtopologies: []topology.Subtopology{{
		ID: "0", SourceTopics: []string{"in"}, StateChangelogTopics: []topology.InternalTopic{{Name: "g-changelog"}},
	}}}
	r.Submit(r.now, &Call{Client: client, Request: request, Done: &answer{}})
	r.Flush()
	r.ForeignChecked(r.now, "g", noForeign, nil)
	r.Flush()
	if len(r.proposed) == 0 || len(r.created) != 0 {
		t.Fatalf("%d entries, creations before the commit: %v", len(r.proposed), r.created)
	}
	r.commitAll()
	if len(r.created) != 1 {
		t.Fatalf("creations after the commit: %v", r.created)
	}
	r.unwanted = nil
	state := r.committed
	r.Lost(r.now)
	if len(r.unwanted) != 1 || r.unwanted[0] != "g" {
		t.Errorf("taken back when deposed: %v", r.unwanted)
	}
	r.created = nil
	r.Elected(r.now, 2, state)
	r.settle()
	if len(r.created) > 1 {
		t.Errorf("creations of a new leader: %v", r.created)
	}
}

// An entry that is not committed creates nothing.
func TestATopologyThatIsNotCommittedCreatesNothing(t *testing.T) {
	r := newRig(t)
	request := join("g", "a")
	request.Topology = &topology.Topology{Subtopologies: []topology.Subtopology{{
		ID: "0", SourceTopics: []string{"in"}, StateChangelogTopics: []topology.InternalTopic{{Name: "g-changelog"}},
	}}}
	r.Submit(r.now, &Call{Client: client, Request: request, Done: &answer{}})
	r.Flush()
	r.ForeignChecked(r.now, "g", noForeign, nil)
	r.Flush()
	r.Lost(r.now)
	if len(r.created) != 0 {
		t.Errorf("created %v", r.created)
	}
}

// What exists is compared once whenever the topics change, not with each heartbeat.
func TestTopicsAreComparedWhenTheyChange(t *testing.T) {
	r := newRig(t)
	r.topics = topics{"in": 4, "g-changelog": 4}
	request := join("g", "a")
	request.Topology = &topology.Topology{Subtopologies: []topology.Subtopology{{
		ID: "0", SourceTopics: []string{"in"}, StateChangelogTopics: []topology.InternalTopic{{Name: "g-changelog", ReplicationFactor: 3}},
	}}}
	c, a := r.send(request)
	r.ForeignChecked(r.now, "g", noForeign, nil)
	r.settle()
	for range 20 {
		if !a.done || c.Heartbeat.Err != nil {
			t.Fatal(a.done, c.Heartbeat.Err)
		}
		r.changes++ // of topics of others
		c, a = r.send(beat("g", "a", c.Heartbeat.MemberEpoch))
		r.settle()
	}
	if r.compared != 1 {
		t.Errorf("compared %d times", r.compared)
	}
	r.topics = topics{"in": 5, "g-changelog": 5}
	r.changes++
	r.send(beat("g", "a", c.Heartbeat.MemberEpoch))
	r.settle()
	if r.compared != 2 {
		t.Errorf("compared %d times after the topics changed", r.compared)
	}
}

// What a group asks for follows its topics before the next heartbeat: of another size when the source grew, not at all
// while the source is missing, and with no member left.
func TestWhatIsToBeCreatedFollowsTheTopics(t *testing.T) {
	r := newRig(t)
	request := join("g", "a")
	request.Topology = &topology.Topology{Subtopologies: []topology.Subtopology{{
		ID: "0", SourceTopics: []string{"in"}, StateChangelogTopics: []topology.InternalTopic{{Name: "g-changelog"}},
	}}}
	r.send(request)
	r.ForeignChecked(r.now, "g", noForeign, nil)
	r.settle()
	expect := func(when string, partitions int32) {
		t.Helper()
		r.settle()
		var got int32
		for _, topic := range r.wanted["g"] {
			got += topic.Partitions
		}
		if got != partitions {
			t.Fatalf("%s: topics of %d partitions are wanted, not %d", when, got, partitions)
		}
	}
	change := func(now topics) {
		r.topics = now
		r.changes++
		r.TopicsChanged(r.now)
	}
	expect("after the join", 4)
	change(topics{"in": 6})
	expect("after the source grew", 6)
	change(topics{"other": 1})
	expect("without a source", 0)
	change(topics{"in": 2})
	r.send(beat("g", "a", r.committed.Group("g").Member("a").Current.MemberEpoch))
	expect("with a new source", 2)
	change(topics{"in": 2, "g-changelog": 2})
	expect("when it is there", 0)
}

// While a group goes on without a changelog that is gone, that is asked for, and asked for on.
func TestWhatIsToBeCreatedInTheGrace(t *testing.T) {
	r := newRig(t)
	r.settings.TopologyGraceMs = 60_000
	r.topics = topics{"in": 4, "g-changelog": 4}
	request := join("g", "a")
	request.Topology = &topology.Topology{Subtopologies: []topology.Subtopology{{
		ID: "0", SourceTopics: []string{"in"}, StateChangelogTopics: []topology.InternalTopic{{Name: "g-changelog"}},
	}}}
	r.send(request)
	r.ForeignChecked(r.now, "g", noForeign, nil)
	r.settle()
	r.topics = topics{"in": 4}
	for range 5 {
		r.changes += 2 // the other one of topics of others
		r.unwanted = nil
		r.send(beat("g", "a", r.committed.Group("g").Member("a").Current.MemberEpoch))
		r.settle()
		if len(r.wanted["g"]) != 1 || len(r.unwanted) != 0 {
			t.Fatalf("wanted %v, taken back %v", r.wanted["g"], r.unwanted)
		}
	}
}
