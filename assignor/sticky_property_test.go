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

func drawSubtopologies(t *rapid.T) []Subtopology {
	var all []Subtopology
	for i := range rapid.IntRange(0, 4).Draw(t, "subtopologies") {
		all = append(all, Subtopology{ID: fmt.Sprint(i * 7 % 12), Tasks: rapid.Int32Range(0, 9).Draw(t, "tasks"), Stateful: rapid.Bool().Draw(t, "stateful")})
	}
	slices.SortFunc(all, func(a, b Subtopology) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// drawSpec draws any group, with current tasks and offsets that need not make sense.
func drawSpec(t *rapid.T) Spec {
	spec := Spec{Subtopologies: drawSubtopologies(t), NumStandbyReplicas: rapid.IntRange(-1, 4).Draw(t, "standbys")}
	task := rapid.Custom(func(t *rapid.T) topology.Task {
		return topology.Task{Subtopology: rapid.SampledFrom([]string{"0", "7", "2", "9", "gone"}).Draw(t, "sub"), Partition: rapid.Int32Range(-1, 9).Draw(t, "partition")}
	})
	set := func(label string) topology.Tasks {
		return topology.NewTasks(rapid.SliceOfN(task, 0, 6).Draw(t, label)...)
	}
	for i := range rapid.IntRange(1, 9).Draw(t, "members") {
		spec.Members = append(spec.Members, Member{
			ID: fmt.Sprintf("m%d", i*5%9), ProcessID: fmt.Sprintf("p%d", rapid.IntRange(0, 4).Draw(t, "process")),
			Current: topology.Assignment{Active: set("active").WithEpoch(1), Standby: set("standby"), Warmup: set("warmup")},
			Offsets: OffsetsOf(rapid.MapOfN(task, rapid.Int64Range(-1, 5), 0, 6).Draw(t, "offsets")),
		})
	}
	slices.SortFunc(spec.Members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return spec
}

func assign(t *rapid.T, spec Spec) Assignment {
	out, err := Sticky().Assign(spec)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkSound checks what must hold for any input.
func checkSound(t *rapid.T, spec Spec, out Assignment) {
	t.Helper()
	if len(out) != len(spec.Members) {
		t.Fatalf("%d entries for %d members", len(out), len(spec.Members))
	}
	processes := map[string]bool{}
	active, copies := map[topology.Task]int{}, map[topology.Task]int{}
	holders := map[string]bool{}
	for _, m := range spec.Members {
		a, ok := out[m.ID]
		if !ok || !a.Active.IsNormal() || !a.Standby.IsNormal() || a.Warmup != nil {
			t.Fatalf("member %s: %v, %v", m.ID, a, ok)
		}
		processes[m.ProcessID] = true
		for task := range a.Active.All() {
			active[task]++
		}
		for _, role := range []topology.Tasks{a.Active, a.Standby} {
			for task := range role.All() {
				copies[task]++
				key := fmt.Sprint(m.ProcessID, task)
				if holders[key] {
					t.Fatalf("process %s has two copies of %v", m.ProcessID, task)
				}
				holders[key] = true
			}
		}
	}
	tasks := 0
	for _, s := range spec.Subtopologies {
		for partition := range s.Tasks {
			tasks++
			task, want := topology.Task{Subtopology: s.ID, Partition: partition}, 1
			if s.Stateful {
				want = 1 + max(0, min(spec.NumStandbyReplicas, len(processes)-1))
			}
			if active[task] != 1 || copies[task] != want {
				t.Fatalf("%v: %d actives, %d copies instead of %d", task, active[task], copies[task], want)
			}
		}
	}
	if len(active) != tasks || len(copies) != tasks {
		t.Fatalf("%d tasks assigned of %d", len(active), tasks)
	}
}

func TestStickyIsSoundForAnyInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		out := assign(t, spec)
		checkSound(t, spec, out)
		again := spec
		again.Members = rapid.Permutation(spec.Members).Draw(t, "order")
		if d := cmp.Diff(out, assign(t, again)); d != "" {
			t.Fatalf("the order of members matters:\n%s", d)
		}
	})
}

// spread is the difference between the most and the least active tasks of a member.
func spread(spec Spec, out Assignment) int {
	least, most := 1<<30, 0
	for _, m := range spec.Members {
		n := out[m.ID].Active.Len()
		least, most = min(least, n), max(most, n)
	}
	return most - least
}

// moved counts active tasks that leave a member which is still there.
func moved(spec Spec, out Assignment) (n int) {
	for _, m := range spec.Members {
		n += m.Current.Active.Minus(out[m.ID].Active).Len()
	}
	return n
}

// A group of equal processes without standbys stays balanced while members come and go, and nobody moves more than needed.
func TestStickyBalanceAndStickiness(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		processes, threads := rapid.IntRange(2, 6).Draw(t, "processes"), rapid.IntRange(1, 3).Draw(t, "threads")
		spec := group(processes, threads, drawSubtopologies(t)...)
		total := 0
		for _, s := range spec.Subtopologies {
			total += int(s.Tasks)
		}
		out := assign(t, spec)
		if n := spread(spec, out); n > 1 {
			t.Fatalf("fresh: spread %d", n)
		}
		same := adopt(spec, out)
		if d := cmp.Diff(out, assign(t, same)); d != "" {
			t.Fatalf("moved without a reason:\n%s", d)
		}
		gone := same.Members[rapid.IntRange(0, len(same.Members)-1).Draw(t, "gone")].ProcessID
		fewer := same
		fewer.Members = slices.DeleteFunc(slices.Clone(same.Members), func(m Member) bool { return m.ProcessID == gone })
		out = assign(t, fewer)
		if n, k := spread(fewer, out), moved(fewer, out); n > 1 || k > 0 {
			t.Fatalf("after a process left: spread %d, %d tasks moved between the others", n, k)
		}
		more := adopt(fewer, out)
		for m := range threads {
			more.Members = append(more.Members, Member{ID: fmt.Sprint("new", m), ProcessID: "new"})
		}
		slices.SortFunc(more.Members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
		out = assign(t, more)
		share := (total + len(more.Members) - 1) / len(more.Members) * threads
		if n, k := spread(more, out), moved(more, out); n > 1 || k > share {
			t.Fatalf("after a process joined: spread %d, %d tasks moved though its share is %d", n, k, share)
		}
	})
}

// With standbys too, an assignment that was made once is made again.
func TestStickyRepeatsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := group(rapid.IntRange(1, 6).Draw(t, "processes"), rapid.IntRange(1, 3).Draw(t, "threads"), drawSubtopologies(t)...)
		spec.NumStandbyReplicas = rapid.IntRange(0, 3).Draw(t, "standbys")
		out := assign(t, spec)
		checkSound(t, spec, out)
		if d := cmp.Diff(out, assign(t, adopt(spec, out))); d != "" {
			t.Fatalf("moved without a reason:\n%s", d)
		}
	})
}

// A process that comes back under new member ids and reports the offsets of its old state gets its old tasks.
func TestStickyGivesARestartedProcessItsStateBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		subtopologies := drawSubtopologies(t)
		for i := range subtopologies {
			subtopologies[i].Stateful = true
		}
		spec := group(rapid.IntRange(2, 5).Draw(t, "processes"), rapid.IntRange(1, 3).Draw(t, "threads"), subtopologies...)
		after := adopt(spec, assign(t, spec))
		restarted := after.Members[rapid.IntRange(0, len(after.Members)-1).Draw(t, "restarted")].ProcessID
		var want topology.Tasks
		for i := range after.Members {
			m := &after.Members[i]
			if m.ProcessID != restarted {
				continue
			}
			m.Offsets = nil
			for task := range m.Current.Active.All() {
				m.Offsets = append(m.Offsets, TaskOffset{task, 100})
			}
			want = want.Union(m.Current.Active.WithoutEpochs())
			m.ID, m.Current = "restarted-"+m.ID, topology.Assignment{}
		}
		slices.SortFunc(after.Members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
		out, got := assign(t, after), topology.Tasks(nil)
		for _, m := range after.Members {
			if m.ProcessID == restarted {
				got = got.Union(out[m.ID].Active)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}
