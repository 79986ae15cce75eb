package convergence

import (
	"fmt"

	"github.com/coordd/coordd/topology"
)

// measures are what happened since a moment, and what must hold at every moment.
type measures struct {
	moves       int   // active tasks that got another owner, those without state included
	fresh       int   // copies of tasks begun with no local state
	restored    int64 // records read by copies until they had caught up
	firstEpoch  int32
	startedAt   int64
	owners      map[topology.Task]string // who was the active owner last, by the group
	outage      map[topology.Task]int64  // for how long nobody has processed the task (ms)
	longest     int64
	longestTask topology.Task
	longestAt   int64
	total       int64
	metadata    any // identifies the group that was looked at last
}

// begin counts from now.
func (s *measures) begin(w *world) {
	owners := s.owners
	*s = measures{owners: map[topology.Task]string{}, outage: map[topology.Task]int64{}, startedAt: w.now}
	if owners != nil {
		s.owners = owners
	}
	s.firstEpoch = w.group.hard().Epoch()
}

// look takes the moment in, and fails when something is not as it must be.
func (s *measures) look(w *world) error {
	if g := w.group.hard(); g != nil && s.metadata != any(g) {
		s.metadata = g
		if err := s.lookAtGroup(w); err != nil {
			return err
		}
	}
	if w.changed {
		w.changed = false
		if err := checkRunning(w); err != nil {
			return err
		}
	}
	for _, t := range w.tasks {
		if w.processors[t] != nil {
			s.outage[t] = 0
			continue
		}
		s.outage[t] += tickMs
		s.total += tickMs
		if s.outage[t] > s.longest {
			s.longest, s.longestTask, s.longestAt = s.outage[t], t, w.now
		}
	}
	return nil
}

// lookAtGroup counts moves, and checks what the coordinator says: a task is active once, a process has no two copies, and there
// are no more warm-ups than the group was allowed to have when its target was made.
func (s *measures) lookAtGroup(w *world) error {
	active, copies, warmups := map[topology.Task]string{}, map[string]string{}, 0
	for m := range w.group.hard().Members() {
		if m.Current == nil || m.Meta == nil {
			continue
		}
		held := [...]topology.Tasks{
			m.Current.Assigned.Active.Union(m.Current.Revoking.Active), m.Current.Assigned.Standby.Union(m.Current.Revoking.Standby),
			m.Current.Assigned.Warmup.Union(m.Current.Revoking.Warmup),
		}
		for t := range held[0].All() {
			if other := active[t]; other != "" {
				return fmt.Errorf("%v is active at %s and %s", t, other, m.ID)
			}
			active[t] = m.ID
		}
		for t := range m.Current.Assigned.Active.All() {
			if was := s.owners[t]; was != m.ID {
				if was != "" {
					s.moves++
				}
				s.owners[t] = m.ID
			}
		}
		for _, role := range held {
			for t := range role.All() {
				at := fmt.Sprintf("%s %v", m.Meta.ProcessID, t)
				if other := copies[at]; other != "" && other != m.ID {
					return fmt.Errorf("the process %s has %v at %s and %s", m.Meta.ProcessID, t, other, m.ID)
				}
				copies[at] = m.ID
			}
		}
		if m.Target != nil {
			warmups += m.Target.Assignment.Warmup.Len()
		}
	}
	if warmups > w.group.budget {
		return fmt.Errorf("%d warm-ups, of %d that the group may have", warmups, w.group.budget)
	}
	return nil
}

// checkRunning looks at what the threads run: a task is active at one, and a process runs one copy of it.
func checkRunning(w *world) error {
	active := map[topology.Task]string{}
	for _, p := range w.processes {
		copies := map[topology.Task]string{}
		for _, m := range p.members {
			for t := range m.running.Active.All() {
				if other := active[t]; other != "" {
					return fmt.Errorf("%s and %s run %v", other, m.id, t)
				}
				active[t] = m.id
			}
			for t := range m.stateful() {
				if other := copies[t]; other != "" && other != m.id {
					return fmt.Errorf("%s and %s run copies of %v", other, m.id, t)
				}
				copies[t] = m.id
			}
		}
	}
	return nil
}
