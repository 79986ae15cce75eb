package streams

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/topology"
)

// TestCheckFindsEveryBadAssignment compares the check with the rules as they are said: every task of the group active on
// exactly one member, and no task twice in a process or outside of the group.
func TestCheckFindsEveryBadAssignment(t *testing.T) {
	good, bad := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		spec := assignor.Spec{}
		for i := range rapid.IntRange(0, 2).Draw(t, "subtopologies") {
			spec.Subtopologies = append(spec.Subtopologies, assignor.Subtopology{ID: fmt.Sprint(i), Tasks: rapid.Int32Range(0, 2).Draw(t, "tasks")})
		}
		goals := assignor.Assignment{}
		for i := range rapid.IntRange(1, 4).Draw(t, "members") {
			spec.Members = append(spec.Members, assignor.Member{ID: fmt.Sprint("m", i), ProcessID: rapid.SampledFrom([]string{"P", "Q", "R"}).Draw(t, "process")})
			goals[spec.Members[i].ID] = topology.Assignment{}
		}
		give := func(member int, role int, task topology.Task) {
			a := goals[spec.Members[member].ID]
			set := []*topology.Tasks{&a.Active, &a.Standby, &a.Warmup}[role]
			*set = set.Union(topology.NewTasks(task))
			goals[spec.Members[member].ID] = a
		}
		member := rapid.IntRange(0, len(spec.Members)-1)
		for _, s := range spec.Subtopologies {
			for p := range s.Tasks {
				give(member.Draw(t, "active"), 0, topology.Task{Subtopology: s.ID, Partition: p})
			}
		}
		for range rapid.IntRange(0, 2).Draw(t, "more") {
			give(member.Draw(t, "member"), rapid.IntRange(0, 2).Draw(t, "role"), topology.Task{
				Subtopology: rapid.SampledFrom([]string{"0", "1", "2"}).Draw(t, "id"), Partition: rapid.Int32Range(-1, 2).Draw(t, "partition")})
		}
		err := checkAssignment(&spec, goals)
		if why := broken(spec, goals); (err != nil) != (why != "") {
			t.Fatalf("%v; the rules say %q of %v", err, why, goals)
		}
		if err == nil {
			good++
		} else {
			bad++
		}
	})
	if good == 0 || bad == 0 {
		t.Errorf("%d good and %d bad assignments", good, bad)
	}
}

// broken says which rule an assignment breaks, if it does.
func broken(spec assignor.Spec, goals assignor.Assignment) string {
	actives, copies := map[topology.Task]int{}, map[processTask]int{}
	for _, m := range spec.Members {
		a := goals[m.ID]
		for task := range a.Active.All() {
			actives[task]++
		}
		for _, role := range []topology.Tasks{a.Active, a.Standby, a.Warmup} {
			for task := range role.All() {
				if copies[processTask{m.ProcessID, task}]++; copies[processTask{m.ProcessID, task}] > 1 {
					return fmt.Sprint("twice in a process: ", task)
				}
				exists := false
				for _, s := range spec.Subtopologies {
					exists = exists || s.ID == task.Subtopology && task.Partition >= 0 && task.Partition < s.Tasks
				}
				if !exists {
					return fmt.Sprint("does not exist: ", task)
				}
			}
		}
	}
	for _, s := range spec.Subtopologies {
		for p := range s.Tasks {
			if n := actives[topology.Task{Subtopology: s.ID, Partition: p}]; n != 1 {
				return fmt.Sprintf("%s_%d active %d times", s.ID, p, n)
			}
		}
	}
	return ""
}
