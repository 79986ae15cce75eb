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

// checkActives checks that active tasks differ by at most one between members, and that no more of them moved than must, but for exchanges.
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
	checkExchanges(t, spec, out, bound-min(tasks%members, over))
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

// change is a group before and after members joined or left.
type change struct {
	before, after Spec
}

// drawChange lets one member join or leave a group that has its assignment.
func drawChange(t *rapid.T, spec Spec) change {
	before := adopt(spec, assign(t, spec))
	after := before
	after.Members = slices.Clone(before.Members)
	if len(after.Members) > 1 && rapid.Bool().Draw(t, "leave") {
		i := rapid.IntRange(0, len(after.Members)-1).Draw(t, "gone")
		after.Members = slices.Delete(after.Members, i, i+1)
	} else {
		after.Members = append(after.Members, Member{ID: "new", ProcessID: fmt.Sprint("p", rapid.IntRange(0, 25).Draw(t, "process"))})
	}
	slices.SortFunc(after.Members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return change{before, after}
}

// TestStickyMovesNoMoreThanMustOnOneJoinOrLeave: the others move nothing to each other but to standbys, so that tasks of who left get to
// theirs; a new member gets its share.
func TestStickyMovesNoMoreThanMustOnOneJoinOrLeave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawChange(t, drawGroup(t))
		out := assign(t, c.after)
		checkSound(t, c.after, out)
		checkActives(t, c.after, out)
		want := 0
		if len(c.after.Members) > len(c.before.Members) {
			want = out["new"].Active.Len()
			if got := moved(c.after, out); got != want {
				t.Fatalf("%d active tasks moved instead of %d", got, want)
			}
		}
		checkExchanges(t, c.after, out, want)
	})
}

// TestFewestMoves compares the bound of checkActives with all assignments there are, for small groups.
func TestFewestMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, tasks := rapid.IntRange(1, 4).Draw(t, "members"), rapid.IntRange(0, 6).Draw(t, "tasks")
		owner := make([]int, tasks)
		spec := Spec{Subtopologies: []Subtopology{{ID: "0", Tasks: int32(tasks)}}, Members: make([]Member, members)}
		for m := range spec.Members {
			spec.Members[m] = Member{ID: fmt.Sprint("m", m), ProcessID: fmt.Sprint("p", m/2)}
		}
		for i := range owner {
			if owner[i] = rapid.IntRange(-1, members-1).Draw(t, "owner"); owner[i] >= 0 {
				m := &spec.Members[owner[i]]
				m.Current.Active = m.Current.Active.Union(topology.NewTasks(topology.Task{Subtopology: "0", Partition: int32(i)}))
			}
		}
		if got, want := moved(spec, assign(t, spec)), fewestMoves(owner, make([]int, members)); got != want {
			t.Fatalf("%d tasks moved, %d must", got, want)
		}
	})
}

// fewestMoves tries all assignments whose counts differ by at most one.
func fewestMoves(owner []int, counts []int) int {
	if len(owner) == 0 {
		if slices.Max(counts)-slices.Min(counts) > 1 {
			return 1 << 20
		}
		return 0
	}
	best := 1 << 20
	for m := range counts {
		counts[m]++
		n := fewestMoves(owner[1:], counts)
		if owner[0] >= 0 && owner[0] != m {
			n++
		}
		counts[m]--
		best = min(best, n)
	}
	return best
}

// TestStickyOfEqualProcessesIsEven: tasks, active ones, standbys and all, differ by at most one between processes of one thread.
func TestStickyOfEqualProcessesIsEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := group(rapid.IntRange(3, 20).Draw(t, "processes"), 1, drawSubtopologies(t)...)
		for i := range spec.Subtopologies {
			spec.Subtopologies[i].Stateful = true
		}
		spec.NumStandbyReplicas = rapid.IntRange(0, 2).Draw(t, "standbys")
		spec = adopt(spec, assign(t, spec))
		gone := rapid.IntRange(0, len(spec.Members)-3).Draw(t, "gone")
		spec.Members = spec.Members[gone:]
		for i := range rapid.IntRange(0, 3).Draw(t, "new") {
			spec.Members = append(spec.Members, Member{ID: fmt.Sprint("new", i), ProcessID: fmt.Sprint("new", i)})
		}
		out := assign(t, spec)
		var active, standby, all []int
		for _, m := range spec.Members {
			a, s := out[m.ID].Active.Len(), out[m.ID].Standby.Len()
			active, standby, all = append(active, a), append(standby, s), append(all, a+s)
		}
		for _, of := range [][]int{active, standby, all} {
			if slices.Max(of)-slices.Min(of) > 1 {
				t.Fatalf("active %v, standbys %v, all %v", active, standby, all)
			}
		}
	})
}

// TestAnyProcessMayGo: when a process of a group with standbys is gone, each of its tasks goes to one that has its state, since
// these are spread over all.
func TestAnyProcessMayGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		processes, threads := rapid.IntRange(3, 12).Draw(t, "processes"), rapid.IntRange(1, 3).Draw(t, "threads")
		tasks := int32(processes * (processes - 1) * threads * rapid.IntRange(1, 2).Draw(t, "times"))
		spec := group(processes, threads, Subtopology{ID: "0", Tasks: tasks, Stateful: true})
		spec.NumStandbyReplicas = 1
		spec = adopt(spec, assign(t, spec))
		gone := rapid.SampledFrom(spec.Members).Draw(t, "gone").ProcessID
		spec.Members = slices.DeleteFunc(spec.Members, func(m Member) bool { return m.ProcessID == gone })
		if orphans, got := orphansToState(spec, assign(t, spec)); got != orphans || orphans != int(tasks)/processes {
			t.Fatalf("%d of %d tasks went to a former standby", got, orphans)
		}
	})
}

// orphansToState counts the tasks without an owner that have a standby, and those of them that become active in the process of
// one.
func orphansToState(spec Spec, out Assignment) (orphans, toState int) {
	owned, held := map[topology.Task]bool{}, map[topology.Task]map[string]bool{}
	for _, m := range spec.Members {
		for task := range m.Current.Active.All() {
			owned[task] = true
		}
		for task := range m.Current.Standby.All() {
			if held[task] == nil {
				held[task] = map[string]bool{}
			}
			held[task][m.ProcessID] = true
		}
	}
	for task := range held {
		if !owned[task] {
			orphans++
		}
	}
	for _, m := range spec.Members {
		for task := range out[m.ID].Active.All() {
			if !owned[task] && held[task][m.ProcessID] {
				toState++
			}
		}
	}
	return orphans, toState
}
