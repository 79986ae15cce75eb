package assignor

import "github.com/coordd/coordd/topology"

// Kept is the assignment in which all members keep what they have and nobody gets anything: each task once as active, and no
// two copies of a task in one process. The members of the Spec need not be stale.
func Kept(spec *Spec) Assignment {
	out := make(Assignment, len(spec.Members))
	type copyOf struct {
		process string
		task    topology.Task
	}
	active, copies := map[topology.Task]bool{}, map[copyOf]bool{}
	for i := range spec.Members {
		m := &spec.Members[i]
		once := func(t topology.Task) bool {
			c := copyOf{m.ProcessID, t}
			had := copies[c]
			copies[c] = true
			return !had
		}
		a := topology.Assignment{Active: m.Current.Active.WithoutEpochs().Filter(func(t topology.Task) bool {
			had := active[t]
			active[t] = true
			return !had && once(t)
		})}
		a.Standby, a.Warmup = m.Current.Standby.Filter(once), m.Current.Warmup.Filter(once)
		out[m.ID] = a
	}
	return out
}

// keepActives leaves stale members the active tasks that they have, and returns how many are left for the others.
func (s *stickyRun) keepActives() int32 {
	left := int32(s.numTasks())
	for _, k := range s.keptActive {
		if s.numCopies[k.task] == 0 {
			s.give(k.task, k.member)
			left--
		}
	}
	return left
}

// keepStandbys does the same with standbys, as far as there may be so many.
func (s *stickyRun) keepStandbys() {
	for _, k := range s.keptStandby {
		if s.stateful(k.task) && int(s.numCopies[k.task]) < s.maxCopies && !s.holds(k.task, s.process[k.member]) {
			s.give(k.task, k.member)
		}
	}
}
