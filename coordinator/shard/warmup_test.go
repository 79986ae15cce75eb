package shard

import (
	"testing"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/topology"
)

// warming is a rig with a group g of a and b in which a runs four tasks with state and b has a warm-up of two of them, told and
// acknowledged. Every target is computed beside the shard.
func warming(t *testing.T) *rig {
	r := newRig(t)
	r.topics["cl"] = 4
	r.settings.AssignorName, r.settings.AssignorOffload = assignor.HighlyAvailableName, true
	r.settings.NumWarmupReplicas, r.settings.AcceptableRecoveryLag, r.settings.TaskOffsetIntervalMs = 2, 100, 15_000
	r.options.OffloadFrom = 1
	for _, id := range []string{"a", "b"} {
		r.joinStateful("g", id)
		r.target()
		r.acknowledge("g", "a", "b")
	}
	if g := r.committed.Group("g"); g.Member("a").Current.Assigned.Active.Len() != 4 || g.Member("b").Current.Assigned.Warmup.Len() != 2 {
		t.Fatalf("%v, %v", g.Member("a").Current, g.Member("b").Current)
	}
	return r
}

func (r *rig) joinStateful(group, member string) {
	asked := len(r.foreign)
	j := join(group, member)
	j.Topology = &topology.Topology{Subtopologies: []topology.Subtopology{
		{ID: "0", SourceTopics: []string{"in"}, StateChangelogTopics: []topology.InternalTopic{{Name: "cl"}}},
	}}
	r.send(j)
	if len(r.foreign) > asked {
		r.ForeignChecked(r.now, group, noForeign, nil)
		r.Flush()
	}
	r.commitAll()
}

// target has the next target computed and written.
func (r *rig) target() {
	r.t.Helper()
	r.timer()
	if len(r.jobs) != 1 {
		r.t.Fatalf("%d jobs", len(r.jobs))
	}
	r.compute()
	r.commitAll()
}

// acknowledge has members send heartbeats with what they have until nothing changes.
func (r *rig) acknowledge(group string, members ...string) {
	for range 4 {
		for _, id := range members {
			if m := r.committed.Group(group).Member(id); m != nil {
				b := report(group, id, m.Current.MemberEpoch, m.Current.Assigned.Active)
				b.Standby, b.Warmup = m.Current.Assigned.Standby.NonNil(), m.Current.Assigned.Warmup.NonNil()
				r.send(b)
				r.commitAll()
			}
		}
	}
}

func taskOffsets(offset int64, partitions ...int32) (list []streams.TaskOffset) {
	for _, p := range partitions {
		list = append(list, streams.TaskOffset{Task: topology.Task{Subtopology: "0", Partition: p}, Offset: offset})
	}
	return list
}

// TestSilentWarmupsMoveBesideTheShard: warm-ups of which nothing is reported count as caught up, which is told once, and that
// is in the snapshot of which the target is computed; meanwhile heartbeats of the group and of others go on.
func TestSilentWarmupsMoveBesideTheShard(t *testing.T) {
	r := warming(t)
	r.joinStateful("other", "x")
	r.target()
	r.now += 29_999
	r.timer()
	epoch := r.committed.Group("g").Epoch()
	r.now++
	r.timer()
	r.commitAll()
	r.timer()
	g := r.committed.Group("g")
	if g.Epoch() != epoch+1 || g.AssignmentEpoch() != epoch || len(r.jobs) != 1 {
		t.Fatalf("epochs %d and %d after %d, %d jobs", g.Epoch(), g.AssignmentEpoch(), epoch, len(r.jobs))
	}
	for _, m := range [][2]string{{"g", "a"}, {"g", "b"}, {"other", "x"}} {
		c, a := r.send(beat(m[0], m[1], r.committed.Group(m[0]).Member(m[1]).Current.MemberEpoch))
		r.commitAll()
		if !a.done || c.Heartbeat.Err != nil {
			t.Fatalf("%s of %s had to wait: %v", m[1], m[0], c.Heartbeat.Err)
		}
	}
	r.compute()
	r.commitAll()
	if n := r.committed.Group("g").Member("b").Target.Assignment.Active.Len(); n != 2 {
		t.Fatalf("b is to run %d tasks", n)
	}
	r.acknowledge("g", "b", "a", "b")
	r.now += 30_000
	r.timer()
	told := 0
	for _, e := range r.events {
		if e.Unreported != nil {
			if told++; e.Group != "g" || e.Unreported.Member != "b" || e.Unreported.Tasks.Len() != 2 || e.Unreported.AfterMs != 30_000 {
				t.Errorf("%+v", e.Unreported)
			}
		}
	}
	if told != 1 {
		t.Fatalf("told %d times", told)
	}
}

// TestAReportWhileATargetIsComputedCounts: the target is made without it, and the next one follows without another report.
func TestAReportWhileATargetIsComputedCounts(t *testing.T) {
	r := warming(t)
	r.joinStateful("g", "c")
	r.timer()
	warm := r.committed.Group("g").Member("b").Current
	b := beat("g", "b", warm.MemberEpoch)
	for task := range warm.Assigned.Warmup.All() {
		b.TaskOffsets = append(b.TaskOffsets, taskOffsets(900, task.Partition)...)
		b.TaskEndOffsets = append(b.TaskEndOffsets, taskOffsets(1000, task.Partition)...)
	}
	epoch := r.committed.Group("g").Epoch()
	r.send(b)
	r.commitAll()
	r.compute()
	r.commitAll()
	if g := r.committed.Group("g"); g.Epoch() != epoch || g.AssignmentEpoch() != epoch {
		t.Fatalf("epochs %d and %d after %d", g.Epoch(), g.AssignmentEpoch(), epoch)
	}
	r.timer()
	r.commitAll()
	if g := r.committed.Group("g"); g.Epoch() != epoch+1 {
		t.Fatalf("epoch %d after %d", g.Epoch(), epoch)
	}
	if last := r.events[len(r.events)-1]; last.Cause.Kinds != streams.CauseWarmup {
		t.Fatalf("%+v", last)
	}
	r.target()
	if n := r.committed.Group("g").Member("b").Target.Assignment.Active.Len(); n == 0 {
		t.Fatal("b runs nothing")
	}
}

// TestALostStateIsInTheSnapshot: the owner of a task that lost its state gives it to a standby by a target that is computed
// beside the shard.
func TestALostStateIsInTheSnapshot(t *testing.T) {
	r := warming(t)
	r.settings.NumStandbyReplicas = 1
	r.acknowledge("g", "a", "b")
	r.target()
	r.acknowledge("g", "a", "b")
	g := r.committed.Group("g")
	tell := func(id string, offset int64) {
		m := beat("g", id, r.committed.Group("g").Member(id).Current.MemberEpoch)
		m.TaskOffsets, m.TaskEndOffsets = taskOffsets(offset, 0), taskOffsets(1000, 0)
		r.send(m)
		r.commitAll()
	}
	if !g.Member("b").Current.Assigned.Standby.Contains(topology.Task{Subtopology: "0"}) {
		t.Fatalf("b has %v", g.Member("b").Current.Assigned)
	}
	tell("b", 950)
	tell("a", 5)
	if last := r.events[len(r.events)-1]; last.Cause.Kinds != streams.CauseStateLost {
		t.Fatalf("%+v", last)
	}
	r.target()
	if b := r.committed.Group("g").Member("b").Target.Assignment; !b.Active.Contains(topology.Task{Subtopology: "0"}) {
		t.Fatalf("a has to restore its state, and b is to have %v", b)
	}
}

// TestNoTaskGoesToWhoIsNotConnected: without a time-out for it a member whose connection ended stays until its session time-out, but gets
// nothing to run; when it is back it gets what it was to have, without another report. Also while the topics are not known.
func TestNoTaskGoesToWhoIsNotConnected(t *testing.T) {
	for _, without := range []bool{false, true} {
		r := warming(t)
		b := r.committed.Group("g").Member("b").Current
		caughtUp := beat("g", "b", b.MemberEpoch)
		for task := range b.Assigned.Warmup.All() {
			caughtUp.TaskOffsets = append(caughtUp.TaskOffsets, taskOffsets(1000, task.Partition)...)
			caughtUp.TaskEndOffsets = append(caughtUp.TaskEndOffsets, taskOffsets(1000, task.Partition)...)
		}
		l := r.line()
		l.send(caughtUp)
		r.commitAll()
		r.Gone(r.now, l.holder, true)
		r.target()
		if a := r.committed.Group("g").Member("b").Target.Assignment; a.Active.Len() != 0 || a.Warmup.Len() != 2 {
			t.Fatalf("b is to run tasks: %v", a)
		}
		r.pass(10_000)
		if len(r.jobs) != 0 {
			t.Fatal("its warm-ups count")
		}
		known, changes := r.topics, r.changes
		if without {
			r.topics, r.oldTopics = topics{}, true
			r.changes += 5
		}
		if c, _ := r.line().send(beat("g", "b", r.committed.Group("g").Member("b").Current.MemberEpoch)); without && c.Err == nil {
			t.Fatal("answered without topics")
		}
		r.commitAll()
		if without {
			r.topics, r.oldTopics, r.changes = known, false, changes+6
		}
		r.pass(2000)
		r.compute()
		r.commitAll()
		if a := r.committed.Group("g").Member("b").Target.Assignment; a.Active.Len() != 2 {
			t.Fatalf("topics unknown: %v; b is back and has %v", without, a)
		}
	}
}
