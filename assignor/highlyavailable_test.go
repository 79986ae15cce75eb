package assignor

import (
	"fmt"
	"maps"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/topology"
)

// tasksOf makes a set of tasks of subtopology 0.
func tasksOf(partitions ...int32) topology.Tasks {
	var all []topology.Task
	for _, p := range partitions {
		all = append(all, topology.Task{Subtopology: "0", Partition: p})
	}
	return topology.NewTasks(all...)
}

func offsetsOf(offsets map[int32]int64) Offsets {
	out := map[topology.Task]int64{}
	for p, o := range offsets {
		out[topology.Task{Subtopology: "0", Partition: p}] = o
	}
	return OffsetsOf(out)
}

// stateful is a group with one stateful subtopology and the usual settings of warm-ups.
func stateful(tasks int32, standbys int, members ...Member) Spec {
	for i := range members {
		if members[i].ProcessID == "" {
			members[i].ProcessID = "p" + members[i].ID
		}
	}
	return Spec{
		Members: members, Subtopologies: []Subtopology{{ID: "0", Tasks: tasks, Stateful: true}},
		NumStandbyReplicas: standbys, NumWarmupReplicas: 2, AcceptableRecoveryLag: 100,
	}
}

// expect compares the assignment with what is wanted; members that are not named shall have nothing.
func expect(t *testing.T, spec Spec, want Assignment) {
	t.Helper()
	out, err := HighlyAvailable().Assign(spec)
	if err != nil {
		t.Fatal(err)
	}
	all := Assignment{}
	for _, m := range spec.Members {
		all[m.ID] = topology.Assignment{}
	}
	maps.Copy(all, want)
	if d := cmp.Diff(all, out); d != "" {
		t.Fatalf("(-want +got):\n%s", d)
	}
}

func TestOwnerKeepsATaskUntilTheWarmupIsCaughtUp(t *testing.T) {
	a := Member{ID: "a", Current: topology.Assignment{Active: tasksOf(0, 1).WithEpoch(1)}, Offsets: offsetsOf(map[int32]int64{0: 1000, 1: 1000}), EndOffsets: offsetsOf(map[int32]int64{0: 1000, 1: 1000})}
	b := Member{ID: "b"}
	expect(t, stateful(2, 0, a, b), Assignment{"a": {Active: tasksOf(0, 1)}, "b": {Warmup: tasksOf(1)}})
	b.Current.Warmup = tasksOf(1)
	expect(t, stateful(2, 0, a, b), Assignment{"a": {Active: tasksOf(0, 1)}, "b": {Warmup: tasksOf(1)}})
	b.Offsets = offsetsOf(map[int32]int64{1: 899})
	expect(t, stateful(2, 0, a, b), Assignment{"a": {Active: tasksOf(0, 1)}, "b": {Warmup: tasksOf(1)}})
	b.Offsets = offsetsOf(map[int32]int64{1: 900}) // the limit is inclusive
	expect(t, stateful(2, 0, a, b), Assignment{"a": {Active: tasksOf(0)}, "b": {Active: tasksOf(1)}})
}

func TestDepartedOwnersTaskGoesToWhereItIsCaughtUp(t *testing.T) {
	ends := offsetsOf(map[int32]int64{0: 1000, 1: 1000, 2: 1000, 3: 1000})
	b := Member{ID: "b", Current: topology.Assignment{Standby: tasksOf(0, 1, 2, 3)}, EndOffsets: ends,
		Offsets: offsetsOf(map[int32]int64{0: 1000, 1: 1000, 2: 1000, 3: 1000})}
	expect(t, stateful(4, 0, b, Member{ID: "c"}), Assignment{"b": {Active: tasksOf(0, 1, 2, 3)}, "c": {Warmup: tasksOf(2, 3)}})
	// Nobody is caught up: who has most of the state.
	b.Offsets = offsetsOf(map[int32]int64{0: 500, 1: 500, 2: 500, 3: 500})
	expect(t, stateful(4, 0, b, Member{ID: "c"}), Assignment{"b": {Active: tasksOf(0, 1, 2, 3)}, "c": {Warmup: tasksOf(2, 3)}})
}

func TestTasksMoveAtOnceWithoutWarmups(t *testing.T) {
	a, b := Member{ID: "a", Current: topology.Assignment{Active: tasksOf(0, 1).WithEpoch(1)}}, Member{ID: "b"}
	spec := stateful(2, 0, a, b)
	spec.NumWarmupReplicas = 0
	moved := Assignment{"a": {Active: tasksOf(0)}, "b": {Active: tasksOf(1)}}
	expect(t, spec, moved)
	b.NoWarmups = true
	expect(t, stateful(2, 0, a, b), moved)
}

func TestAutoChoosesByState(t *testing.T) {
	a, b := Member{ID: "a", Current: topology.Assignment{Active: tasksOf(0, 1).WithEpoch(1)}}, Member{ID: "b"}
	for _, stateful := range []bool{false, true} {
		spec := Spec{Members: []Member{a, b}, Subtopologies: []Subtopology{{ID: "0", Tasks: 2, Stateful: stateful}}, NumWarmupReplicas: 1}
		spec.Members[0].ProcessID, spec.Members[1].ProcessID = "p", "q"
		out, err := Auto().Assign(spec)
		if err != nil {
			t.Fatal(err)
		}
		if waits := out["b"].Warmup.Len() == 1; waits != stateful {
			t.Errorf("stateful %v: %v", stateful, out)
		}
	}
	if Auto().Name() != "auto" || HighlyAvailable().Name() != "highly_available" {
		t.Error("wrong names")
	}
}

// BenchmarkHighlyAvailable is beside Sticky on the same groups, in which all holders report offsets and all owners ends.
func BenchmarkHighlyAvailable(b *testing.B) {
	for _, c := range []struct{ members, tasks int }{{1000, 10_000}, {5000, 50_000}} {
		var subtopologies []Subtopology
		for i := range 10 {
			subtopologies = append(subtopologies, Subtopology{ID: strconv.Itoa(i), Tasks: int32(c.tasks / 10), Stateful: true})
		}
		spec := group(c.members, 1, subtopologies...)
		spec.NumStandbyReplicas, spec.NumWarmupReplicas, spec.AcceptableRecoveryLag = 1, 2, 10_000
		out, _ := Sticky().Assign(spec)
		same := adopt(spec, out)
		for i := range same.Members {
			m := &same.Members[i]
			offsets, ends := map[topology.Task]int64{}, map[topology.Task]int64{}
			for _, set := range []topology.Tasks{m.Current.Active, m.Current.Standby} {
				for task := range set.All() {
					offsets[task] = 1_000_000
				}
			}
			for task := range m.Current.Active.All() {
				ends[task] = 1_000_000
			}
			m.Offsets, m.EndOffsets = OffsetsOf(offsets), OffsetsOf(ends)
		}
		left, joined := same, same
		left.Members = same.Members[c.members/10:]
		joined.Members = append([]Member{{ID: "a", ProcessID: "a"}}, same.Members...)
		for _, g := range []struct {
			name string
			spec Spec
		}{{"fresh", spec}, {"same", same}, {"leave10pct", left}, {"join1", joined}} {
			for _, a := range []Assignor{Sticky(), HighlyAvailable()} {
				b.Run(fmt.Sprintf("%dx%d-s1-%s/%s", c.members, c.tasks, g.name, a.Name()), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						_, _ = a.Assign(g.spec)
					}
				})
			}
		}
	}
}
