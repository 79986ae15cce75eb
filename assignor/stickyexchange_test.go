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

// replicasOf are the processes that have a standby or warm-up of a task.
func replicasOf(spec Spec, task topology.Task) map[string]bool {
	held := map[string]bool{}
	for _, m := range spec.Members {
		if m.Current.Standby.Contains(task) || m.Current.Warmup.Contains(task) {
			held[m.ProcessID] = true
		}
	}
	return held
}

// moves are the tasks that became active elsewhere: orphans where a replica of theirs is, those of living owners that have state and
// went where no replica is, and all of living owners.
type moves struct{ saved, toNothing, all int }

func movesOf(spec Spec, out Assignment) (n moves) {
	owner, stateful := map[topology.Task]string{}, allTasks(spec)
	for _, m := range spec.Members {
		for task := range m.Current.Active.All() {
			owner[task] = m.ID
		}
	}
	for _, m := range spec.Members {
		for task := range out[m.ID].Active.All() {
			from, owned := owner[task]
			switch held := replicasOf(spec, task)[m.ProcessID]; {
			case !owned && held && stateful[task]:
				n.saved++
			case owned && from != m.ID && !held && stateful[task]:
				n.toNothing++
			}
			if owned && from != m.ID {
				n.all++
			}
		}
	}
	return n
}

// checkExchanges checks the moves beyond those that must be: three at most for an orphan whose state is found, and all of them to
// replicas or of tasks without state.
func checkExchanges(t *rapid.T, spec Spec, out Assignment, must int) {
	t.Helper()
	n := movesOf(spec, out)
	if n.all < must || n.all-must > 3*n.saved || n.toNothing > must {
		t.Fatalf("%d active tasks moved, %d must; %d orphans found their state, and %d tasks moved away from theirs", n.all, must, n.saved, n.toNothing)
	}
}

// drawStranded draws a group in which no member has too many tasks, with any orphans and standbys.
func drawStranded(t *rapid.T, processes int) Spec {
	members, tasks := rapid.IntRange(2, 3*processes).Draw(t, "members"), rapid.IntRange(1, 24).Draw(t, "tasks")
	stateless := rapid.IntRange(0, tasks/2).Draw(t, "stateless")
	spec := Spec{NumStandbyReplicas: rapid.IntRange(0, 2).Draw(t, "standbys"), Subtopologies: []Subtopology{
		{ID: "0", Tasks: int32(tasks - stateless), Stateful: true}, {ID: "1", Tasks: int32(stateless)}}}
	for i := range members {
		spec.Members = append(spec.Members, Member{ID: fmt.Sprintf("m%02d", i), ProcessID: fmt.Sprint("p", rapid.IntRange(0, processes-1).Draw(t, "process"))})
	}
	active, standby := make([][]topology.Task, members), make([][]topology.Task, members)
	least, larger := tasks/members, tasks%members
	for i := range tasks {
		task := topology.Task{Subtopology: "0", Partition: int32(i)}
		if i >= tasks-stateless {
			task = topology.Task{Subtopology: "1", Partition: int32(i - tasks + stateless)}
		}
		owner := rapid.IntRange(-members/2, members-1).Draw(t, "owner")
		if owner >= 0 && len(active[owner]) >= least {
			if larger == 0 || len(active[owner]) > least {
				owner = -1
			} else {
				larger--
			}
		}
		if owner >= 0 {
			active[owner] = append(active[owner], task)
		}
		for range rapid.IntRange(0, 2).Draw(t, "held") {
			if m := rapid.IntRange(0, members-1).Draw(t, "holder"); m != owner && task.Subtopology == "0" {
				standby[m] = append(standby[m], task)
			}
		}
	}
	for i := range spec.Members {
		spec.Members[i].Current = topology.Assignment{Active: topology.NewTasks(active[i]...).WithEpoch(1), Standby: topology.NewTasks(standby[i]...)}
	}
	return spec
}

// savable is how many orphans can become active where their standbys are, in a group in which no member has too many tasks; with
// exchanges also by way of tasks that owners give to standbys of these, or anywhere if they have no state.
func savable(spec Spec, exchanges bool) int {
	tasks, members, over := 0, len(spec.Members), 0
	size, overIn := map[string]int{}, map[string]int{}
	for _, s := range spec.Subtopologies {
		tasks += int(s.Tasks)
	}
	n := &network{room: map[string]map[string]int{}}
	for _, node := range []string{"source", "sink"} {
		n.add(node, node, 0)
	}
	owner := map[topology.Task]string{}
	for _, m := range spec.Members {
		size[m.ProcessID]++
		if has := m.Current.Active.Len(); has > tasks/members {
			over++
			overIn[m.ProcessID]++
		} else {
			n.add("process "+m.ProcessID, "sink", tasks/members-has)
		}
		for task := range m.Current.Active.All() {
			owner[task] = m.ProcessID
			if exchanges && task.Subtopology == "1" {
				n.add("process "+m.ProcessID, "sink", 1)
			}
		}
	}
	n.add("any member", "sink", tasks%members-over)
	for process, size := range size {
		n.add("process "+process, "any member", max(0, (tasks%members*size+members-1)/members-overIn[process]))
	}
	for task := range allTasks(spec) {
		from, owned := owner[task]
		if owned && !exchanges {
			continue
		}
		if owned {
			n.add("process "+from, fmt.Sprint(task), 1)
		} else {
			n.add("source", fmt.Sprint(task), 1)
		}
		for process := range replicasOf(spec, task) {
			n.add(fmt.Sprint(task), "process "+process, 1)
		}
	}
	return n.max("source", "sink")
}

// TestExchangesSaveTheMost compares the orphans that go where their standbys are with the most that can by any exchanges. Chains of
// more than three moves are not made; in up to four processes there is no need of them.
func TestExchangesSaveTheMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		processes := rapid.IntRange(1, 8).Draw(t, "processes")
		spec := drawStranded(t, processes)
		out := assign(t, spec)
		checkActives(t, spec, out)
		n, plain, most := movesOf(spec, out), savable(spec, false), savable(spec, true)
		if n.saved > most || n.saved < plain || processes <= 4 && n.saved != most {
			t.Fatalf("%d orphans go to a standby; %d can, %d without exchanges", n.saved, most, plain)
		}
		if n.all > 3*(n.saved-plain) || n.toNothing > 0 {
			t.Fatalf("%d tasks of owners moved, %d of them away from their state, for %d orphans", n.all, n.toNothing, n.saved-plain)
		}
		if d := cmp.Diff(out, assign(t, adopt(spec, out))); d != "" {
			t.Fatalf("moved without a reason:\n%s", d)
		}
		spec.Members = rapid.Permutation(spec.Members).Draw(t, "order")
		if d := cmp.Diff(out, assign(t, spec)); d != "" {
			t.Fatalf("the order of members matters:\n%s", d)
		}
	})
}

// full is a group in which the owner of tasks 4 and 5 is gone. Task 4 has its standby at a, which has no room; c has room for both, and a
// standby of task 1, which a runs, at an offset of 1000 if it is not negative.
func full(offset int64) Spec {
	task := func(partitions ...int32) topology.Tasks {
		var of []topology.Task
		for _, p := range partitions {
			of = append(of, topology.Task{Subtopology: "0", Partition: p})
		}
		return topology.NewTasks(of...)
	}
	spec := Spec{NumStandbyReplicas: 1, AcceptableRecoveryLag: 10, Subtopologies: []Subtopology{{ID: "0", Tasks: 6, Stateful: true}}, Members: []Member{
		{ID: "a", ProcessID: "a", Current: topology.Assignment{Active: task(0, 1).WithEpoch(1), Standby: task(4)}},
		{ID: "b", ProcessID: "b", Current: topology.Assignment{Active: task(2, 3).WithEpoch(1)}},
		{ID: "c", ProcessID: "c", Current: topology.Assignment{Standby: task(1)}},
	}}
	if offset >= 0 {
		of := topology.Task{Subtopology: "0", Partition: 1}
		spec.Members[2].Offsets = Offsets{{of, offset}}
		spec.Members[0].EndOffsets = Offsets{{of, 1000}}
	}
	return spec
}

// TestAnExchange: the owner of the standby gives the task that is caught up elsewhere, not one that would have to be restored.
func TestAnExchange(t *testing.T) {
	for _, c := range []struct {
		offset int64
		want   string
	}{{-1, "0:0,4"}, {990, "0:0,4"}, {989, "0:0,1"}} {
		out, err := Sticky().Assign(full(c.offset))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for task := range out["a"].Active.All() {
			got = append(got, fmt.Sprint(task.Partition))
		}
		if got := "0:" + strings.Join(got, ","); got != c.want {
			t.Errorf("with the standby at %d a runs %s instead of %s", c.offset, got, c.want)
		}
	}
}

// TestCirclesAreLeftOut: moves that only exchange tasks between processes are none; what else leads through these stays.
func TestCirclesAreLeftOut(t *testing.T) {
	x := &exchanges{matching: &matching{actives: &actives{stickyRun: &stickyRun{&solution{problem: &problem{first: make([]int32, 6)}}}}}}
	for _, c := range []struct{ moves, want [][2]int32 }{
		{[][2]int32{{0, 1}, {1, 0}}, nil},
		{[][2]int32{{0, 1}, {1, 2}, {2, 1}, {1, 3}}, [][2]int32{{0, 1}, {1, 3}}},
		{[][2]int32{{3, 4}, {0, 1}, {1, 2}, {2, 0}, {0, 3}}, [][2]int32{{3, 4}, {0, 3}}},
	} {
		var in []handOver
		for i, m := range c.moves {
			in = append(in, handOver{task: int32(i), from: m[0], to: m[1]})
		}
		var got [][2]int32
		for _, g := range x.withoutCircles(in) {
			got = append(got, [2]int32{g.from, g.to})
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: left %v instead of %v", c.moves, got, c.want)
		}
	}
}

// TestExchangesAreBounded: thousands of orphans with standbys in a few full processes, whose tasks have theirs in each other. What
// counts is that this ends soon.
func TestExchangesAreBounded(t *testing.T) {
	const members, each = 5000, 10
	spec := Spec{NumStandbyReplicas: 1, Subtopologies: []Subtopology{{ID: "0", Tasks: members * each, Stateful: true}}}
	task := func(i int) topology.Task {
		return topology.Task{Subtopology: "0", Partition: int32(i % (members * each))}
	}
	for i := range members {
		m := Member{ID: fmt.Sprintf("m%04d", i), ProcessID: fmt.Sprintf("p%04d", i)}
		var active, standby []topology.Task
		for k := range each {
			if i < members-50 {
				active = append(active, task(i*each+k))
			}
			standby = append(standby, task(i*each+each+k))
		}
		if i < 50 { // of all orphans
			for k := range 50 * each {
				standby = append(standby, task((members-50)*each+k))
			}
		}
		m.Current = topology.Assignment{Active: topology.NewTasks(active...).WithEpoch(1), Standby: topology.NewTasks(standby...)}
		spec.Members = append(spec.Members, m)
	}
	out, err := Sticky().Assign(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range spec.Members {
		if n := out[m.ID].Active.Len(); n != each {
			t.Fatalf("%s has %d active tasks", m.ID, n)
		}
	}
}
