package assignor

import (
	"testing"

	"github.com/coordd/coordd/topology"
)

// TestStandbysGoBackToAReturnedProcess: while a was away c was given its standby; a comes back with the state. A standby that
// has hardly begun is not completed, one that is nearly as far, or of which nothing is known, stays.
func TestStandbysGoBackToAReturnedProcess(t *testing.T) {
	for _, c := range []struct {
		name   string
		offset map[int32]int64
		want   string
	}{
		{"hardly begun", map[int32]int64{0: 10}, "a"},
		{"as far", map[int32]int64{0: 900}, "c"},
		{"further", map[int32]int64{0: 1001}, "c"},
		{"nothing known", nil, "c"},
	} {
		for _, assignor := range []Assignor{Sticky(), HighlyAvailable()} {
			spec := stateful(1, 1,
				Member{ID: "a", Offsets: offsetsOf(map[int32]int64{0: 1000})},
				Member{ID: "b", Current: topology.Assignment{Active: tasksOf(0).WithEpoch(1)}},
				Member{ID: "c", Current: topology.Assignment{Standby: tasksOf(0)}, Offsets: offsetsOf(c.offset)},
			)
			out, err := assignor.Assign(spec)
			if err != nil {
				t.Fatal(err)
			}
			if !out["b"].Active.SameTasks(tasksOf(0)) || !out[c.want].Standby.SameTasks(tasksOf(0)) {
				t.Errorf("%s, %s: %v", assignor.Name(), c.name, out)
			}
			if again, err := assignor.Assign(adopt(spec, out)); err != nil || !again[c.want].Standby.SameTasks(tasksOf(0)) {
				t.Errorf("%s, %s, once more: %v, %v", assignor.Name(), c.name, again, err)
			}
		}
	}
}

// TestStandbysGoBackWhileATaskWaits: the same while the group waits for a warm-up, as long as which standbys that may be needed stay
// where they are.
func TestStandbysGoBackWhileATaskWaits(t *testing.T) {
	done := map[int32]int64{2: 1000, 3: 1000}
	spec := stateful(4, 1,
		Member{ID: "a", Offsets: offsetsOf(map[int32]int64{0: 1000, 1: 1000})},
		Member{ID: "b", Current: topology.Assignment{Active: tasksOf(0, 1).WithEpoch(1), Standby: tasksOf(2, 3)}, Offsets: offsetsOf(done), EndOffsets: offsetsOf(done)},
		Member{ID: "c", Current: topology.Assignment{Active: tasksOf(2, 3).WithEpoch(1), Standby: tasksOf(0, 1)}, Offsets: offsetsOf(map[int32]int64{0: 10, 1: 10})},
	)
	out, err := HighlyAvailable().Assign(spec)
	if err != nil {
		t.Fatal(err)
	}
	if out["a"].Warmup.Len() != 1 || out["a"].Standby.Len() != 1 {
		t.Errorf("%v", out)
	}
}

// TestWhoRunsATaskKnowsItsState: another thread of the process reported the task's folder before the owner found that it was
// gone. The owner's word counts.
func TestWhoRunsATaskKnowsItsState(t *testing.T) {
	spec := stateful(1, 1,
		Member{ID: "a", ProcessID: "p1", Current: topology.Assignment{Active: tasksOf(0).WithEpoch(1)}, Restoring: tasksOf(0), Offsets: offsetsOf(map[int32]int64{0: 10})},
		Member{ID: "b", ProcessID: "p1", Offsets: offsetsOf(map[int32]int64{0: 1000})},
		Member{ID: "c", ProcessID: "p2", Current: topology.Assignment{Standby: tasksOf(0)}, Offsets: offsetsOf(map[int32]int64{0: 1000}), EndOffsets: offsetsOf(map[int32]int64{0: 1000})},
	)
	expect(t, spec, Assignment{"a": {Standby: tasksOf(0)}, "c": {Active: tasksOf(0)}})
	// So it is with a warm-up, and with who has it.
	spec = stateful(2, 0,
		Member{ID: "a", ProcessID: "p1", Current: topology.Assignment{Active: tasksOf(0, 1).WithEpoch(1)}},
		Member{ID: "b", ProcessID: "p2", Current: topology.Assignment{Warmup: tasksOf(1)}, Offsets: offsetsOf(map[int32]int64{1: 10}), EndOffsets: offsetsOf(map[int32]int64{1: 1000})},
		Member{ID: "c", ProcessID: "p2", Offsets: offsetsOf(map[int32]int64{1: 1000})},
	)
	out, err := HighlyAvailable().Assign(spec)
	if err != nil || !out["a"].Active.SameTasks(tasksOf(0, 1)) || !out["b"].Warmup.SameTasks(tasksOf(1)) {
		t.Errorf("%v, %v", out, err)
	}
}
