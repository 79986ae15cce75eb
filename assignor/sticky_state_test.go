package assignor

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/topology"
)

// network is a flow network for the simplest algorithm there is.
type network struct {
	room map[string]map[string]int
}

func (n *network) add(from, to string, capacity int) {
	for _, node := range []string{from, to} {
		if n.room[node] == nil {
			n.room[node] = map[string]int{}
		}
	}
	n.room[from][to] += capacity
	n.room[to][from] += 0
}

func (n *network) max(from, to string) (flow int) {
	for n.path(from, to, map[string]bool{}) {
		flow++
	}
	return flow
}

func (n *network) path(from, to string, seen map[string]bool) bool {
	if from == to {
		return true
	}
	seen[from] = true
	for next, room := range n.room[from] {
		if room > 0 && !seen[next] && n.path(next, to, seen) {
			n.room[from][next]--
			n.room[next][from]++
			return true
		}
	}
	return false
}

// possibleToState is how many of the tasks that get a new active member can get one where their state is, with members that have
// equal shares and processes that have theirs, rounded up, of what some members have more.
func possibleToState(spec Spec) int {
	tasks, members := 0, len(spec.Members)
	size := map[string]int{}
	for _, s := range spec.Subtopologies {
		tasks += int(s.Tasks)
	}
	for _, m := range spec.Members {
		size[m.ProcessID]++
	}
	least, more := tasks/members, tasks%members
	over := 0
	overIn := map[string]int{}
	for _, m := range spec.Members {
		if m.Current.Active.Len() > least {
			over++
			overIn[m.ProcessID]++
		}
	}
	n := &network{room: map[string]map[string]int{}}
	n.add("source", "some owner", max(0, over-more))
	n.add("any member", "sink", max(0, more-over))
	for process, size := range size {
		n.add("process "+process, "any member", max(0, (more*size+members-1)/members-overIn[process]))
	}
	for _, m := range spec.Members {
		has := m.Current.Active.Len()
		n.add("process "+m.ProcessID, "sink", max(0, least-has))
		if has > least {
			n.add("source", "owner "+m.ID, has-least-1)
			n.add("some owner", "owner "+m.ID, 1)
		}
	}
	for task := range allTasks(spec) {
		from := "source"
		held := stateOf(spec, task)
		for _, m := range spec.Members {
			if m.Current.Active.Contains(task) {
				from = "owner " + m.ID
			}
		}
		n.add(from, fmt.Sprint(task), 1)
		for process := range held {
			n.add(fmt.Sprint(task), "process "+process, 1)
		}
	}
	return n.max("source", "sink")
}

// allTasks are the stateful ones.
func allTasks(spec Spec) map[topology.Task]bool {
	all := map[topology.Task]bool{}
	for _, s := range spec.Subtopologies {
		for p := range s.Tasks {
			if s.Stateful {
				all[topology.Task{Subtopology: s.ID, Partition: p}] = true
			}
		}
	}
	return all
}

// stateOf are the processes that have state of a task.
func stateOf(spec Spec, task topology.Task) map[string]bool {
	held := map[string]bool{}
	for _, m := range spec.Members {
		_, reported := m.Offsets.Of(task)
		if reported || m.Current.Active.Contains(task) || m.Current.Standby.Contains(task) || m.Current.Warmup.Contains(task) {
			held[m.ProcessID] = true
		}
	}
	return held
}

// toState counts the tasks that got a new active member in a process that has their state.
func toState(spec Spec, out Assignment) (n int) {
	for task := range allTasks(spec) {
		held := stateOf(spec, task)
		for _, m := range spec.Members {
			if out[m.ID].Active.Contains(task) && !m.Current.Active.Contains(task) && held[m.ProcessID] {
				n++
			}
		}
	}
	return n
}

// TestTasksGoToTheirState compares what goes where its state is with the most that can: of tasks that nobody owns, and of those
// that owners with too many may choose to give up.
func TestTasksGoToTheirState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawPast(t, drawGroup(t))
		for i := range spec.Members { // of one kind
			spec.Members[i].Offsets, spec.Members[i].Current.Warmup = nil, nil
		}
		out := assign(t, spec)
		if got, want := toState(spec, out), possibleToState(spec); got < want {
			t.Fatalf("%d tasks go where their state is, %d could", got, want)
		}
	})
}

// TestWarmupsAreClaims: who has a warm-up of a task gets it before others get what they have state of, as long as its owner has
// too many tasks; computed again from what members hold meanwhile, it is the same.
func TestWarmupsAreClaims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawGroup(t)
		for i := range spec.Subtopologies {
			spec.Subtopologies[i].Stateful = true
		}
		first := assign(t, spec)
		spec = adopt(spec, first)
		for i := range rapid.IntRange(1, 3).Draw(t, "new") {
			spec.Members = append(spec.Members, Member{ID: fmt.Sprint("new", i), ProcessID: fmt.Sprint("new", i%2)})
		}
		want := assign(t, spec)
		// The tasks that move stay with their owners, the new members warm some of them up.
		for i := range spec.Members {
			m := &spec.Members[i]
			if moves := want[m.ID].Active.Minus(m.Current.Active); !moves.IsEmpty() {
				m.Current.Warmup = moves.Filter(func(topology.Task) bool { return rapid.Bool().Draw(t, "warm-up") })
			}
			m.Current.Standby = want[m.ID].Standby.Minus(m.Current.Active).Minus(m.Current.Warmup)
		}
		again := assign(t, spec)
		checkActives(t, spec, again)
		for _, m := range spec.Members {
			if claimed := m.Current.Warmup; !claimed.SubsetOf(again[m.ID].Active) {
				for task := range claimed.Minus(again[m.ID].Active).All() {
					if !inProcess(spec, again, m.ProcessID, task) {
						t.Fatalf("%s has a warm-up of %v and lost it", m.ID, task)
					}
				}
			}
		}
	})
}

func inProcess(spec Spec, out Assignment, process string, task topology.Task) bool {
	for _, m := range spec.Members {
		if m.ProcessID == process && out[m.ID].Active.Contains(task) {
			return true
		}
	}
	return false
}
