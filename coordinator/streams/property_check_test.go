package streams

import (
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// check holds the invariants of docs/architecture.md that concern decisions.
func (s *simulation) check() {
	g := s.group()
	if g == nil {
		return
	}
	if g.Epoch() < s.epoch || g.AssignmentEpoch() < s.assigned || g.AssignmentEpoch() > g.Epoch() {
		s.t.Fatalf("epochs went back or apart: %d/%d after %d/%d", g.Epoch(), g.AssignmentEpoch(), s.epoch, s.assigned)
	}
	s.checkTargets(g.AssignmentEpoch() == s.assigned)
	s.epoch, s.assigned = g.Epoch(), g.AssignmentEpoch()
	active := map[topology.Task]string{}
	copies := map[processTask]string{}
	members := map[string]int32{}
	for m := range g.Members() {
		c := m.Current
		members[m.ID] = c.MemberEpoch
		if c.MemberEpoch != StaticLeaveEpoch && c.MemberEpoch < s.members[m.ID] {
			s.t.Fatalf("epoch of %s went back from %d to %d", m.ID, s.members[m.ID], c.MemberEpoch)
		}
		s.checkCopies(m.ID, m.Meta.ProcessID, c, active, copies)
	}
	s.members = members
	for _, c := range s.clients {
		m := g.Member(c.id)
		if m == nil || !c.alive {
			continue
		}
		for task := range c.running.Active.All() {
			if !m.Current.Assigned.Active.Contains(task) && !m.Current.Revoking.Active.Contains(task) {
				s.t.Fatalf("%s runs %v, which the group has taken back: %s", c.id, task, showCurrent(m.Current))
			}
			topic := s.topologyOf(c).Subtopology(task.Subtopology).SourceTopics[0]
			code := offsets.CheckCommit(g, &offsets.CommitRequest{
				Version: 10, GroupID: testGroup, MemberID: c.id, MemberEpoch: c.epoch, Topics: []offsets.CommitTopic{{
					Name: topic, Partitions: []offsets.CommitPartition{{Partition: task.Partition}},
				}},
			})
			if code != coordinator.None {
				s.t.Fatalf("%s, told epoch %d, cannot commit for %v, which it runs (%d): %s", c.id, c.epoch, task, code, showCurrent(m.Current))
			}
		}
	}
}

// checkTargets: a target moves with the assignment epoch only, but for one that is written in parts, of which nobody gets
// anything before it is whole.
func (s *simulation) checkTargets(same bool) {
	targets, held := map[string]topology.Assignment{}, map[string]topology.Assignment{}
	for m := range s.group().Members() {
		targets[m.ID], held[m.ID] = targetOf(m).Assignment, currentOf(m).Assigned
		if old, known := s.targets[m.ID]; same && !s.soft.Torn && known && !old.SameTasks(targets[m.ID]) {
			s.t.Fatalf("the target of %s changed within assignment epoch %d", m.ID, s.assigned)
		}
		if had, known := s.held[m.ID]; same && s.soft.Torn && known && !minus(held[m.ID], had).IsEmpty() {
			s.t.Fatalf("%s was given %s by half a target", m.ID, showAssignment(minus(held[m.ID], had), false))
		}
	}
	s.targets, s.held = targets, held
}

func (s *simulation) checkCopies(id, process string, c *record.CurrentAssignment, active map[topology.Task]string, copies map[processTask]string) {
	own := map[topology.Task]bool{}
	for i, role := range []topology.Tasks{
		c.Assigned.Active, c.Revoking.Active, c.Assigned.Standby, c.Revoking.Standby, c.Assigned.Warmup, c.Revoking.Warmup,
	} {
		for task := range role.All() {
			if i < 2 {
				if other, ok := active[task]; ok {
					s.t.Fatalf("task %v is active on %s and %s", task, other, id)
				}
				active[task] = id
			}
			key := processTask{process, task}
			if other, ok := copies[key]; ok && (other != id || !own[task]) {
				s.t.Fatalf("process %s holds %v twice, on %s and %s", process, task, other, id)
			}
			if own[task] && (i < 2 || !c.Revoking.Active.Contains(task)) {
				s.t.Fatalf("%s holds %v twice: %s", id, task, showCurrent(c))
			}
			own[task] = true
			copies[key] = id
		}
	}
}
