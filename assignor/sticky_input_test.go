package assignor

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/topology"
)

// TestStickyLeavesItsInputAlone: tasks and offsets of members are values of the group, which the assignor must not change.
func TestStickyLeavesItsInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		before := fmt.Sprintf("%#v", spec) // maps are printed in order
		first := assign(t, spec)
		if after := fmt.Sprintf("%#v", spec); after != before {
			t.Fatalf("before:\n%s\nafter:\n%s", before, after)
		}
		told := fmt.Sprintf("%#v", first)
		assign(t, spec)
		if again := fmt.Sprintf("%#v", first); again != told {
			t.Fatalf("the first result changed with the second:\n%s\n%s", told, again)
		}
	})
}

// TestStandbyGoesToAnotherFormerHolder: the first former holder of a standby runs the task itself now; the second one has
// its state, too, and gets it rather than one without.
func TestStandbyGoesToAnotherFormerHolder(t *testing.T) {
	task := topology.NewTasks(topology.Task{Subtopology: "0"})
	spec := Spec{
		NumStandbyReplicas: 1,
		Subtopologies:      []Subtopology{{ID: "0", Tasks: 1, Stateful: true}},
		Members: []Member{
			{ID: "a", ProcessID: "p1", Current: topology.Assignment{Active: task.WithEpoch(3)}},
			{ID: "b", ProcessID: "p1", Current: topology.Assignment{Standby: task}},
			{ID: "c", ProcessID: "p2"},
			{ID: "d", ProcessID: "p3", Current: topology.Assignment{Standby: task}},
		},
	}
	out, err := Sticky().Assign(spec)
	if err != nil {
		t.Fatal(err)
	}
	if !out["a"].Active.SameTasks(task) || !out["d"].Standby.SameTasks(task) || out["b"].Standby.Len()+out["c"].Standby.Len() > 0 {
		t.Fatalf("%v", out)
	}
}
