package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// model is the plain meaning of a set: task -> epoch.
type model map[Task]int32

func drawTasks(t *rapid.T, label string, epochs bool) (Tasks, model) {
	m := model{}
	var b TasksBuilder
	n := rapid.IntRange(0, 14).Draw(t, label+".n")
	for range n {
		task := Task{rapid.SampledFrom([]string{"0", "1", "10", "2"}).Draw(t, label+".sub"), rapid.Int32Range(0, 5).Draw(t, label+".p")}
		var e int32
		if epochs {
			e = rapid.Int32Range(1, 3).Draw(t, label+".epoch")
			b.AddWithEpoch(task, e)
		} else {
			b.Add(task)
		}
		if _, ok := m[task]; !ok {
			m[task] = e
		}
	}
	set, dups := b.Build()
	if len(dups) > n-len(m) || (len(dups) > 0) != (n != len(m)) {
		t.Fatalf("%d distinct of %d tasks but duplicates %v", len(m), n, dups)
	}
	return set, m
}

func (m model) check(t *rapid.T, what string, got Tasks) {
	t.Helper()
	if !got.IsNormal() || got.Len() != len(m) || got.IsEmpty() != (len(m) == 0) || got != nil && len(got) == 0 {
		t.Fatalf("%s: %#v is no normal form of %v", what, got, m)
	}
	seen := model{}
	for task, e := range got.All() {
		seen[task] = e
	}
	if d := cmp.Diff(m, seen); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func TestTasksOperationsAgreeWithMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, ma := drawTasks(t, "a", rapid.Bool().Draw(t, "epochs.a"))
		b, mb := drawTasks(t, "b", rapid.Bool().Draw(t, "epochs.b"))
		aWas, bWas := a.Clone(), b.Clone()
		union, both, minus, even := model{}, model{}, model{}, model{}
		for task, e := range mb {
			union[task] = e
		}
		for task, e := range ma {
			union[task] = e
			if task.Partition%2 == 0 {
				even[task] = e
			}
			if _, ok := mb[task]; ok {
				both[task] = e
			} else {
				minus[task] = e
			}
		}
		union.check(t, "union", a.Union(b))
		both.check(t, "intersect", a.Intersect(b))
		minus.check(t, "minus", a.Minus(b))
		even.check(t, "filter", a.Filter(func(x Task) bool { return x.Partition%2 == 0 }))
		if a.SubsetOf(b) != (len(minus) == 0) || a.Intersects(b) != (len(both) > 0) {
			t.Fatal("SubsetOf or Intersects disagree with Minus and Intersect")
		}
		if same := len(minus) == 0 && len(ma) == len(mb); a.SameTasks(b) != same ||
			a.WithEpoch(7).Equal(b.WithEpoch(7)) != same || a.WithoutEpochs().Equal(b.WithoutEpochs()) != same {
			t.Fatal("SameTasks is wrong")
		}
		for task := range mb {
			e, ok := a.Epoch(task)
			if want, in := ma[task]; ok != in || e != want || a.Contains(task) != in {
				t.Fatalf("Epoch(%v) = %d, %v", task, e, ok)
			}
		}
		if !a.Equal(aWas) || !b.Equal(bWas) {
			t.Fatal("an operand was changed")
		}
	})
}

func TestTasksUnionKeepsEpochsOfTheLeft(t *testing.T) {
	a := NewTasks(Task{"0", 1}).WithEpoch(3)
	b := NewTasks(Task{"0", 1}, Task{"0", 2}, Task{"1", 0})
	want := Tasks{{"0", []int32{1, 2}, []int32{3, 9}}, {"1", []int32{0}, []int32{9}}}
	if d := cmp.Diff(want, a.Union(b.WithEpoch(9))); d != "" {
		t.Error(d)
	}
	want = Tasks{{"0", []int32{1, 2}, []int32{3, 0}}, {Subtopology: "1", Partitions: []int32{0}}}
	if d := cmp.Diff(want, a.Union(b)); d != "" {
		t.Error(d)
	}
	if got := a.Union(b); got.Equal(b) || !got.SameTasks(b) {
		t.Error("Equal ignores epochs or SameTasks does not")
	}
}

// The reconciler runs these on every heartbeat of a group in motion: the common cases must not cost memory.
func TestTasksShareMemoryWhereTheResultEqualsAnInput(t *testing.T) {
	a := NewTasks(Task{"0", 1}, Task{"0", 4}, Task{"1", 0}).WithEpoch(2)
	sub := NewTasks(Task{"0", 4})
	other := NewTasks(Task{"0", 2}, Task{"3", 1})
	for name, f := range map[string]func() Tasks{
		"minus empty":        func() Tasks { return a.Minus(nil) },
		"minus disjoint":     func() Tasks { return a.Minus(other) },
		"intersect itself":   func() Tasks { return a.Intersect(a) },
		"union empty":        func() Tasks { return a.Union(nil) },
		"empty union":        func() Tasks { return Tasks(nil).Union(a) },
		"union subset":       func() Tasks { return a.Union(sub) },
		"filter all":         func() Tasks { return a.Filter(func(Task) bool { return true }) },
		"intersect equal":    func() Tasks { return a.Intersect(sameTasks) },
		"intersect superset": func() Tasks { return sub.Intersect(a) },
	} {
		want := a
		if name == "intersect superset" {
			want = sub
		}
		if got := f(); !got.identical(want) {
			t.Errorf("%s: got a copy %v", name, got)
		}
		if n := testing.AllocsPerRun(10, func() { f() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	for name, got := range map[string]Tasks{
		"minus itself": a.Minus(a), "minus equal": a.Minus(sameTasks), "disjoint": a.Intersect(other), "none": Tasks{}.Union(Tasks{}),
		"without": Tasks{}.WithoutEpochs(), "with": Tasks{}.WithEpoch(1), "new": NewTasks(),
	} {
		if got != nil {
			t.Errorf("%s: %#v instead of nil", name, got)
		}
	}
}

// sameTasks has the tasks of the test above in other memory.
var sameTasks = NewTasks(Task{"1", 0}, Task{"0", 4}, Task{"0", 1})

func TestTasksBuilderReports(t *testing.T) {
	var b TasksBuilder
	for _, x := range []Task{{"1", 2}, {"0", 0}, {"1", 2}, {"1", 2}, {"0", 0}} {
		b.Add(x)
	}
	set, dups := b.Build()
	if d := cmp.Diff([]Task{{"0", 0}, {"1", 2}}, dups); d != "" || set.Len() != 2 {
		t.Errorf("set %v, duplicates %v", set, dups)
	}
	b.Reset()
	b.Add(Task{"5", 5})
	if set, dups = b.Build(); set.Len() != 1 || dups != nil {
		t.Errorf("after Reset: %v, %v", set, dups)
	}
}

func TestAssignment(t *testing.T) {
	x := Task{"0", 1}
	a := Assignment{Active: NewTasks(x).WithEpoch(1), Standby: NewTasks(Task{"1", 1})}
	b := Assignment{Active: NewTasks(x).WithEpoch(2), Standby: NewTasks(Task{"1", 1})}
	if a.Equal(b) || !a.SameTasks(b) || !a.Equal(a.Clone()) || a.Len() != 2 || a.IsEmpty() {
		t.Error("comparison of assignments is wrong")
	}
	if !(Assignment{Active: Tasks{}}).IsEmpty() || a.Equal(Assignment{Active: a.Active, Warmup: a.Standby}) {
		t.Error("roles are mixed up")
	}
}
