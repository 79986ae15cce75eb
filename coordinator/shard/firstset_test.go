package shard

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/topology"
)

// storing is a join whose topology has a changelog.
func storing(member string, epoch int32, sources ...string) *streams.HeartbeatRequest {
	j := join("g", member)
	j.Topology = &topology.Topology{Epoch: epoch}
	for i, source := range sources {
		j.Topology.Subtopologies = append(j.Topology.Subtopologies, topology.Subtopology{
			ID: fmt.Sprint(i), SourceTopics: []string{source},
			StateChangelogTopics: []topology.InternalTopic{{Name: source + "-log"}},
		})
	}
	return j
}

// sized has the topic be of another size, which nobody has asked about yet.
func (r *rig) sized(name string, partitions int32) {
	grown := topics{name: partitions}
	for n, p := range r.topics {
		if n != name {
			grown[n] = p
		}
	}
	r.topics = grown
	r.changes += 10
}

func (r *rig) logSize(topic string) int32 {
	for _, t := range r.wanted["g"] {
		if t.Name == topic {
			return t.Partitions
		}
	}
	return 0
}

// TestATopologyIsFirstSetByTopicsThatWereAskedForAfterIt: nobody may have watched the topics of an application that is new, or
// was away, for a while. Its internal topics are of the size that the sources have now.
func TestATopologyIsFirstSetByTopicsThatWereAskedForAfterIt(t *testing.T) {
	for name, before := range map[string]func(r *rig) *streams.HeartbeatRequest{
		"a new group": func(*rig) *streams.HeartbeatRequest { return storing("a", 0, "in") },
		"a group that was empty": func(r *rig) *streams.HeartbeatRequest {
			c, _ := r.send(storing("old", 0, "in"))
			r.foreignFree("g")
			r.commitAll()
			leave := beat("g", "old", -1)
			if c.Heartbeat.Err != nil || c.Err != nil {
				t.Fatal(c.Err, c.Heartbeat.Err)
			}
			r.send(leave)
			r.commitAll()
			r.wanted = nil
			return storing("a", 0, "in")
		},
		"an update": func(r *rig) *streams.HeartbeatRequest {
			r.topics = topics{"in": 2, "early": 1}
			r.send(storing("old", 0, "early"))
			r.foreignFree("g")
			r.commitAll()
			r.wanted = nil
			return storing("a", 1, "early", "in")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.topics = topics{"in": 2}
			request := before(r)
			r.unread()
			r.refreshed = 0
			c, a := r.send(request)
			r.foreignFree("g")
			r.commitAll()
			r.tick(readPollMs)
			r.commitAll()
			if a.done || r.logSize("in-log") != 0 || r.refreshed == 0 {
				t.Fatalf("done %v, a log of %d partitions by topics of before, %d refreshes", a.done, r.logSize("in-log"), r.refreshed)
			}
			r.sized("in", 4)
			r.read()
			r.TopicsChanged(r.now)
			r.tick(readPollMs)
			r.commitAll()
			if !a.done || c.Err != nil || c.Heartbeat.Err != nil || r.logSize("in-log") != 4 {
				t.Fatalf("done %v, %v, %v, a log of %d partitions", a.done, c.Err, c.Heartbeat.Err, r.logSize("in-log"))
			}
		})
	}
}

// TestAnUpdateIsTakenBackByTopicsThatWereAskedForAfterIt: the topics of the topology of before may not have been watched.
func TestAnUpdateIsTakenBackByTopicsThatWereAskedForAfterIt(t *testing.T) {
	r := newRig(t)
	r.topics = topics{"in": 2, "late": 1}
	r.send(storing("old", 0, "in"))
	r.foreignFree("g")
	r.commitAll()
	r.send(storing("a", 1, "late"))
	r.commitAll()
	r.unread()
	c, a := r.send(&AbortTopologyRequest{GroupID: "g", Epoch: 1})
	r.commitAll()
	if a.done || r.committed.Group("g").Topology.Epoch != 1 {
		t.Fatalf("done %v, epoch %d by topics of before", a.done, r.committed.Group("g").Topology.Epoch)
	}
	for range readPatienceMs/readPollMs + 1 {
		r.tick(readPollMs)
	}
	if !a.done || c.Err == nil || c.Err.Code != coordinator.CoordinatorLoadInProgress {
		t.Fatalf("while they cannot be read: done %v, %v", a.done, c.Err)
	}
	r.freshProof()
	c, a = r.send(&AbortTopologyRequest{GroupID: "g", Epoch: 1})
	r.read()
	r.tick(readPollMs)
	r.commitAll()
	if !a.done || c.Err != nil || r.committed.Group("g").Topology.Epoch != 2 {
		t.Fatalf("done %v, %v, epoch %d", a.done, c.Err, r.committed.Group("g").Topology.Epoch)
	}
}

// TestASlowUpstreamLetsGroupsBeMadeAfterAll: whoever comes again, each time before the topics are read, is served once they were
// asked for after the first time.
func TestASlowUpstreamLetsGroupsBeMadeAfterAll(t *testing.T) {
	r := newRig(t)
	for range 3 {
		at := r.now
		r.topicsAsOf = max(r.topicsAsOf, at-1)
		r.freshProof()
		c, a := r.send(join("g", "a"))
		if len(r.foreign) > 0 {
			r.foreign = nil
			r.foreignFree("g")
		}
		for range readPatienceMs/readPollMs + 1 {
			r.tick(readPollMs)
		}
		r.commitAll()
		if a.done && c.Err == nil {
			return
		}
		r.topicsAsOf = at + 1 // the question took that long
		r.tick(100)
	}
	t.Fatal("never made")
}

// TestWhoseUpdateLacksASourceIsToldWhateverOthersDo: members whose answers are held, heartbeats that are decided meanwhile and
// another update that lacks another topic do not have it wait for longer than the topics take to be read.
func TestWhoseUpdateLacksASourceIsToldWhateverOthersDo(t *testing.T) {
	for _, readable := range []bool{true, false} {
		r := hanging(t)
		r.stable("g", "a", "b")
		var members []string
		epochs := map[string]int32{}
		for m := range r.committed.Group("g").Members() {
			members = append(members, m.ID)
			epochs[m.ID] = m.Current.MemberEpoch
		}
		seen := r.now
		r.topicsAsOf = seen - 1
		lacks := func(member, source string) (*Call, *answer) {
			j := join("g", member)
			j.Topology.Epoch = 1
			j.Topology.Subtopologies[0].SourceTopics = []string{source}
			return r.send(j)
		}
		first, a1 := lacks("n", "nowhere")
		second, a2 := lacks("o", "neither")
		r.refreshed = 0
		for i := range readPatienceMs/readPollMs + 1 {
			if readable && i >= 3 {
				r.topicsAsOf = seen + 40
			}
			r.freshProof()
			r.tick(readPollMs)
			m := members[i%len(members)]
			r.send(beat("g", m, epochs[m]))
			r.commitAll()
			if readable && i == 6 && (!a1.done || !a2.done) {
				t.Fatalf("not told %d ms after the topics were read: %v %v", 3*readPollMs, a1.done, a2.done)
			}
		}
		if r.refreshed > 2 {
			t.Errorf("readable %v: the topics were asked for %d times more", readable, r.refreshed)
		}
		switch {
		case !a1.done || !a2.done:
			t.Errorf("readable %v: they wait for ever: %v %v", readable, a1.done, a2.done)
		case !readable:
			if first.Err == nil || second.Err == nil || first.Err.Code != coordinator.CoordinatorLoadInProgress {
				t.Errorf("told %v, %v", first.Err, second.Err)
			}
		case first.Err != nil || len(first.Heartbeat.Status) == 0 || first.Heartbeat.Status[0].Code != streams.StatusMissingSourceTopics:
			t.Errorf("told %v, %+v", first.Err, first.Heartbeat)
		}
	}
}
