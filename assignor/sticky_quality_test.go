package assignor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/coordd/coordd/topology"
)

// drawGroup draws up to 60 members in up to 20 processes, with what a group may have gone through: an assignment that was made
// for other members, lost and added ones, offsets of some tasks, warm-ups.
func drawGroup(t *rapid.T) Spec {
	spec := Spec{NumStandbyReplicas: rapid.IntRange(0, 3).Draw(t, "standbys"), RackAwareTags: []string{"zone"}}
	for i := range rapid.IntRange(1, 6).Draw(t, "subtopologies") {
		spec.Subtopologies = append(spec.Subtopologies, Subtopology{
			ID: fmt.Sprint(i * 7 % 12), Tasks: rapid.Int32Range(0, 40).Draw(t, "tasks"), Stateful: rapid.IntRange(0, 3).Draw(t, "stateful") > 0})
	}
	slices.SortFunc(spec.Subtopologies, func(a, b Subtopology) int { return strings.Compare(a.ID, b.ID) })
	processes := rapid.IntRange(1, 20).Draw(t, "processes")
	for i := range rapid.IntRange(1, 60).Draw(t, "members") {
		p := rapid.IntRange(0, processes-1).Draw(t, "process")
		spec.Members = append(spec.Members, Member{ID: fmt.Sprint("m", i*37%101), ProcessID: fmt.Sprint("p", p), Tags: map[string]string{"zone": fmt.Sprint(p % 3)}})
	}
	slices.SortFunc(spec.Members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return spec
}

// drawPast gives the members an earlier assignment: one that was made for a part of them, or any at all.
func drawPast(t *rapid.T, spec Spec) Spec {
	if rapid.Bool().Draw(t, "made") {
		earlier := spec
		earlier.Members = slices.Clone(spec.Members)
		for i := range 5 {
			earlier.Members = append(earlier.Members, Member{ID: fmt.Sprint("x", i), ProcessID: fmt.Sprint("p", 3*i)})
		}
		earlier.Members = slices.DeleteFunc(earlier.Members, func(Member) bool { return rapid.IntRange(0, 3).Draw(t, "absent") == 0 })
		if len(earlier.Members) > 0 {
			spec = adopt(spec, assign(t, earlier))
		}
	}
	task := rapid.Custom(func(t *rapid.T) topology.Task {
		s := rapid.SampledFrom(spec.Subtopologies).Draw(t, "sub")
		return topology.Task{Subtopology: s.ID, Partition: rapid.Int32Range(0, max(0, s.Tasks-1)).Draw(t, "partition")}
	})
	if rapid.Bool().Draw(t, "any") {
		free := func(set topology.Tasks) topology.Tasks {
			return set.Filter(func(task topology.Task) bool {
				for _, m := range spec.Members {
					if m.Current.Active.Contains(task) {
						return false
					}
				}
				return contained(spec.Subtopologies, task)
			})
		}
		for i := range spec.Members {
			m := &spec.Members[i]
			m.Current.Active = m.Current.Active.Union(free(topology.NewTasks(rapid.SliceOfN(task, 0, 8).Draw(t, "active")...)).WithEpoch(2))
			m.Current.Standby = m.Current.Standby.Union(topology.NewTasks(rapid.SliceOfN(task, 0, 4).Draw(t, "standby")...)).Minus(m.Current.Active)
			m.Current.Warmup = topology.NewTasks(rapid.SliceOfN(task, 0, 2).Draw(t, "warmup")...).Minus(m.Current.Active).Minus(m.Current.Standby)
		}
	}
	for i := range spec.Members {
		spec.Members[i].Offsets = OffsetsOf(rapid.MapOfN(task, rapid.Int64Range(0, 5), 0, 4).Draw(t, "offsets"))
	}
	return spec
}

// checkActives checks that active tasks differ by at most one between members, and that no more of them moved than must.
func checkActives(t *rapid.T, spec Spec, out Assignment) {
	tasks, members := 0, len(spec.Members)
	for _, s := range spec.Subtopologies {
		tasks += int(s.Tasks)
	}
	least, larger, over, bound := tasks/members, tasks%members, 0, 0
	for _, m := range spec.Members {
		switch n := out[m.ID].Active.Len(); {
		case n == least+1:
			larger--
		case n != least:
			t.Fatalf("%s has %d active tasks of %d for %d members", m.ID, n, tasks, members)
		}
		if had := m.Current.Active.Len(); had > least {
			over++
			bound += had - least
		}
	}
	if larger != 0 {
		t.Fatalf("%d members too few have %d active tasks", larger, least+1)
	}
	if n, want := moved(spec, out), bound-min(tasks%members, over); n != want {
		t.Fatalf("%d active tasks moved, %d must", n, want)
	}
}

func TestStickyBalancesAnyCluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawPast(t, drawGroup(t))
		out := assign(t, spec)
		checkSound(t, spec, out)
		checkActives(t, spec, out)
		again := spec
		again.Members = rapid.Permutation(spec.Members).Draw(t, "order")
		if d := cmp.Diff(out, assign(t, again)); d != "" {
			t.Fatalf("the order of members matters:\n%s", d)
		}
		same := adopt(spec, out)
		for i := range same.Members {
			same.Members[i].Offsets = nil
		}
		if d := cmp.Diff(out, assign(t, same)); d != "" {
			t.Fatalf("moved without a reason:\n%s", d)
		}
	})
}
