package assignor

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/topology"
)

// TestStaleMembersKeepWhatTheyHave draws groups in which some members are stale and hold disjoint tasks: those keep their
// active tasks, get nothing, and all others are shared by the rest.
func TestStaleMembersKeepWhatTheyHave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		fresh := 0
		free := map[topology.Task]bool{}
		for _, s := range spec.Subtopologies {
			for p := range s.Tasks {
				free[topology.Task{Subtopology: s.ID, Partition: p}] = true
			}
		}
		copies := map[string]map[topology.Task]bool{}
		for i := range spec.Members {
			m := &spec.Members[i]
			if m.Stale = rapid.Bool().Draw(t, "stale"); !m.Stale {
				fresh++
				continue
			}
			if copies[m.ProcessID] == nil {
				copies[m.ProcessID] = map[topology.Task]bool{}
			}
			own := copies[m.ProcessID]
			once := func(active bool) func(topology.Task) bool {
				return func(task topology.Task) bool {
					ok := !own[task] && (free[task] || !active && contained(spec.Subtopologies, task))
					if ok {
						own[task] = true
					}
					if ok && active {
						free[task] = false
					}
					return ok
				}
			}
			m.Current.Active = m.Current.Active.Filter(once(true))
			m.Current.Standby = m.Current.Standby.Filter(once(false))
			m.Current.Warmup = nil
		}
		out := assign(t, spec)
		active := map[topology.Task]int{}
		for _, m := range spec.Members {
			got := out[m.ID]
			for task := range got.Active.All() {
				active[task]++
			}
			if !m.Stale {
				continue
			}
			if !got.Active.SameTasks(m.Current.Active) || !got.Standby.SubsetOf(m.Current.Standby) || !got.Warmup.IsEmpty() {
				t.Fatalf("stale %s had %v and got %v", m.ID, m.Current, got)
			}
		}
		for _, s := range spec.Subtopologies {
			for p := range s.Tasks {
				task := topology.Task{Subtopology: s.ID, Partition: p}
				if n := active[task]; n != 1 && (fresh > 0 || n > 1) {
					t.Fatalf("%v is active %d times", task, n)
				}
			}
		}
	})
}

func contained(subtopologies []Subtopology, task topology.Task) bool {
	for _, s := range subtopologies {
		if s.ID == task.Subtopology {
			return task.Partition >= 0 && task.Partition < s.Tasks
		}
	}
	return false
}

// TestStaleMembersShareNoWork: the first member of a new topology gets what is new, and its tasks are shared with the next one.
func TestStaleMembersShareNoWork(t *testing.T) {
	old := func(id string, tasks ...int32) Member {
		return Member{ID: id, ProcessID: id, Stale: true, Current: topology.Assignment{
			Active: topology.Tasks{{Subtopology: "0", Partitions: tasks}}}}
	}
	spec := Spec{
		Members:       []Member{old("a", 0, 1), old("b", 2), {ID: "c", ProcessID: "c"}},
		Subtopologies: []Subtopology{{ID: "0", Tasks: 4}, {ID: "1", Tasks: 4}},
	}
	for _, want := range []map[string]int{{"a": 2, "b": 1, "c": 5}, {"a": 2, "b": 1, "c": 3, "d": 2}} {
		out, err := Sticky().Assign(spec)
		if err != nil {
			t.Fatal(err)
		}
		for id, n := range want {
			if got := out[id].Active.Len(); got != n {
				t.Errorf("%d members: %s got %d tasks, want %d", len(spec.Members), id, got, n)
			}
		}
		for i := range spec.Members {
			spec.Members[i].Current = out[spec.Members[i].ID]
		}
		spec.Members = append(spec.Members, Member{ID: "d", ProcessID: "d"})
	}
}
