package assignor

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/coordd/coordd/topology"
)

// drawCluster draws any group of up to 60 members in up to 20 processes with offsets and tasks that need not make sense.
func drawCluster(t *rapid.T) Spec {
	spec := Spec{
		Subtopologies: drawSubtopologies(t), NumStandbyReplicas: rapid.IntRange(-1, 3).Draw(t, "standbys"),
		NumWarmupReplicas:     rapid.SampledFrom([]int{0, 1, 2, 5, 1000}).Draw(t, "warmups"),
		AcceptableRecoveryLag: rapid.SampledFrom([]int64{0, 1, 10}).Draw(t, "lag"),
	}
	for i := range spec.Subtopologies {
		spec.Subtopologies[i].Stateful = rapid.IntRange(0, 3).Draw(t, "state") > 0
	}
	task := rapid.Custom(func(t *rapid.T) topology.Task {
		return topology.Task{Subtopology: rapid.SampledFrom([]string{"0", "7", "2", "9", "gone"}).Draw(t, "sub"), Partition: rapid.Int32Range(-1, 9).Draw(t, "partition")}
	})
	set := func(label string) topology.Tasks {
		return topology.NewTasks(rapid.SliceOfN(task, 0, 5).Draw(t, label)...)
	}
	offset := rapid.OneOf(rapid.Int64Range(-1, 30), rapid.Just[int64](math.MaxInt64))
	processes := rapid.IntRange(1, 20).Draw(t, "processes")
	away := rapid.SampledFrom([]int{0, 1, 5, 9}).Draw(t, "of ten are away")
	for i := range rapid.IntRange(1, 60).Draw(t, "members") {
		m := Member{ID: fmt.Sprintf("m%02d", i*7%60), ProcessID: fmt.Sprintf("p%d", rapid.IntRange(1, processes).Draw(t, "process"))}
		if rapid.Bool().Draw(t, "has tasks") {
			m.Current = topology.Assignment{Active: set("active").WithEpoch(1), Standby: set("standby"), Warmup: set("warmup")}
			m.Ready, m.Restoring, m.Stalled = set("ready"), set("restoring"), set("stalled")
		}
		if rapid.Bool().Draw(t, "reports") {
			m.Offsets = OffsetsOf(rapid.MapOfN(task, offset, 0, 6).Draw(t, "offsets"))
			m.EndOffsets = OffsetsOf(rapid.MapOfN(task, offset, 0, 6).Draw(t, "ends"))
		}
		m.NoWarmups = rapid.IntRange(0, 9).Draw(t, "no warm-ups") == 0
		m.Stale = rapid.IntRange(0, 19).Draw(t, "stale") == 0
		m.Away = rapid.IntRange(0, 9).Draw(t, "away") < away
		spec.Members = append(spec.Members, m)
	}
	slices.SortFunc(spec.Members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	if tags := rapid.IntRange(0, 3).Draw(t, "tags"); tags > 0 {
		drawTags(t, &spec, tags)
	}
	if rapid.Bool().Draw(t, "racks count") {
		drawRacks(t, &spec)
	}
	return spec
}

func assignHA(t *rapid.T, spec Spec) Assignment {
	t.Helper()
	out, err := HighlyAvailable().Assign(spec)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// knowledge is what a Spec tells about the state of a task, found the slow way.
type knowledge struct {
	caughtUp map[string]bool // by process
}

func know(spec *Spec, task topology.Task) knowledge {
	k := knowledge{caughtUp: map[string]bool{}}
	var owner *Member // of several the last by process and member
	for i := range spec.Members {
		m := &spec.Members[i]
		if m.Current.Active.Contains(task) && !m.Stale && (owner == nil || m.ProcessID >= owner.ProcessID) {
			owner = m
		}
	}
	end := endOf(spec, owner, task)
	holders := map[string]*Member{} // by process, the first one with the highest role
	for i := range spec.Members {
		m := &spec.Members[i]
		if m.Stale {
			continue // their state serves nobody else
		}
		if h := holders[m.ProcessID]; roleIn(m, owner, task) > 0 && (h == nil || roleIn(m, owner, task) > roleIn(h, owner, task)) {
			holders[m.ProcessID] = m
		}
		if o, ok := m.Offsets.Of(task); ok && !m.Away && o >= 0 && o != math.MaxInt64 && end >= 0 && end-o <= spec.AcceptableRecoveryLag {
			k.caughtUp[m.ProcessID] = true
		}
	}
	for process, m := range holders {
		if m.Away {
			delete(k.caughtUp, process)
		}
		if r := roleIn(m, owner, task); r == 3 && !m.Restoring.Contains(task) || r == 1 && m.Ready.Contains(task) && !m.Away {
			k.caughtUp[process] = true
		}
	}
	return k
}

// endOf is the largest reported end, not below where a copy is that a member runs; -1 where none is known.
func endOf(spec *Spec, owner *Member, task topology.Task) int64 {
	end, held := int64(-1), int64(-1)
	for i := range spec.Members {
		m := &spec.Members[i]
		if e, ok := m.EndOffsets.Of(task); ok && e != math.MaxInt64 {
			end = max(end, e)
		}
		if o, ok := m.Offsets.Of(task); ok && o != math.MaxInt64 && roleIn(m, owner, task) > 0 && !m.Stale {
			held = max(held, o)
		}
	}
	if end < 0 {
		return -1
	}
	return max(end, held)
}

// roleIn is 3 for a task that the member runs, 2 for one that it has as standby, 1 as warm-up, 0 for others.
func roleIn(m, owner *Member, task topology.Task) int {
	switch {
	case m == owner:
		return 3
	case m.Current.Standby.Contains(task):
		return 2
	case m.Current.Warmup.Contains(task):
		return 1
	}
	return 0
}

// placement is where the copies of a task are in an assignment.
type placement struct {
	active            []string // members
	standbys, warmups []string
	processes         map[string]bool
}

func placementOf(spec *Spec, out Assignment, task topology.Task) placement {
	p := placement{processes: map[string]bool{}}
	for _, m := range spec.Members {
		a := out[m.ID]
		for _, r := range []struct {
			set  topology.Tasks
			list *[]string
		}{{a.Active, &p.active}, {a.Standby, &p.standbys}, {a.Warmup, &p.warmups}} {
			if r.set.Contains(task) {
				*r.list = append(*r.list, m.ID)
				p.processes[m.ProcessID] = true
			}
		}
	}
	return p
}

func memberOf(spec *Spec, id string) *Member {
	i := slices.IndexFunc(spec.Members, func(m Member) bool { return m.ID == id })
	return &spec.Members[i]
}

// checkRefined checks what must hold of any result for any input.
func checkRefined(t *rapid.T, spec Spec, out Assignment) {
	t.Helper()
	if len(out) != len(spec.Members) {
		t.Fatalf("%d entries for %d members", len(out), len(spec.Members))
	}
	total, fresh := 0, map[string]bool{}
	for _, m := range spec.Members {
		a := out[m.ID]
		if !a.Active.IsNormal() || !a.Standby.IsNormal() || !a.Warmup.IsNormal() {
			t.Fatalf("member %s: %v", m.ID, a)
		}
		total += a.Len()
		if m.Stale && (!a.Active.SubsetOf(m.Current.Active) || !a.Standby.SubsetOf(m.Current.Standby) || !a.Warmup.SubsetOf(m.Current.Warmup)) {
			t.Fatalf("stale member %s got new tasks: %v", m.ID, a)
		}
		if !m.Stale {
			fresh[m.ProcessID] = true
		}
	}
	if len(fresh) == 0 {
		return
	}
	warmups := 0
	for _, s := range spec.Subtopologies {
		for partition := range s.Tasks {
			task := topology.Task{Subtopology: s.ID, Partition: partition}
			p := placementOf(&spec, out, task)
			copies := len(p.active) + len(p.standbys) + len(p.warmups)
			total -= copies
			warmups += len(p.warmups)
			if len(p.active) != 1 || copies != len(p.processes) || !s.Stateful && copies != 1 {
				t.Fatalf("%v: %+v", task, p)
			}
			if !s.Stateful {
				continue
			}
			want := max(0, min(spec.NumStandbyReplicas, len(fresh)-1))
			if len(p.standbys) > max(0, spec.NumStandbyReplicas) || len(p.standbys)+len(p.warmups) < want {
				t.Fatalf("%v: %d standbys and %d warm-ups, wanted %d", task, len(p.standbys), len(p.warmups), want)
			}
			checkState(t, &spec, task, &p)
		}
	}
	if total != 0 || warmups > max(0, spec.NumWarmupReplicas) {
		t.Fatalf("%d tasks that do not exist; %d warm-ups", total, warmups)
	}
}

// checkState checks that the task is active where its state is.
func checkState(t *rapid.T, spec *Spec, task topology.Task, p *placement) {
	t.Helper()
	k := know(spec, task)
	runs := memberOf(spec, p.active[0])
	for _, w := range p.warmups {
		if m := memberOf(spec, w); !m.Away && k.caughtUp[m.ProcessID] {
			t.Fatalf("%v: the warm-up of %s is caught up and still one", task, w)
		}
	}
	if runs.Away && !runs.Stale && !runs.Current.Active.Contains(task) && spec.NumWarmupReplicas > 0 &&
		slices.ContainsFunc(spec.Members, func(m Member) bool { return !m.Away && !m.Stale }) {
		t.Fatalf("%v is to run on %s, who is away", task, runs.ID)
	}
	if spec.NumWarmupReplicas == 0 || runs.NoWarmups || runs.Stale || k.caughtUp[runs.ProcessID] {
		return
	}
	for _, m := range spec.Members {
		if k.caughtUp[m.ProcessID] && !m.Stale && !processHasStale(spec, m.ProcessID) {
			t.Fatalf("%v runs on %s where it is not caught up, and is so in %v", task, runs.ID, k.caughtUp)
		}
	}
}

func processHasStale(spec *Spec, process string) bool {
	return slices.ContainsFunc(spec.Members, func(m Member) bool { return m.Stale && m.ProcessID == process })
}

// checkProgress checks that what differs from the desired has a warm-up that leads on, but for standbys that are placed as
// evenly as desired.
func checkProgress(t *rapid.T, spec Spec, out Assignment) {
	t.Helper()
	warmups := 0
	for _, a := range out {
		warmups += a.Warmup.Len()
	}
	p := newProblem(&spec)
	if p.numStale == len(p.members) {
		return
	}
	if warmups > 0 || spec.NumWarmupReplicas == 0 {
		return
	}
	desired := desire(p).result()
	uneven := [2]int{}
	for id, a := range out {
		for task := range desired[id].Active.All() {
			runs := memberOf(&spec, placementOf(&spec, out, task).active[0])
			// No warm-up goes to the process that runs the task.
			if m := memberOf(&spec, id); runs.ID != id && (!m.Away || m.ProcessID != runs.ProcessID) {
				t.Fatalf("stuck: %v is on %s and is to be on %s", task, runs.ID, id)
			} else if runs.ID != id {
				return
			}
		}
		for i, n := range []int{a.Len(), desired[id].Len()} {
			uneven[i] += n * n
		}
	}
	if uneven[0] > uneven[1] {
		t.Fatalf("stuck with standbys less even than desired:\n%v\n%v", out, desired)
	}
}

func TestHighlyAvailableIsSoundForAnyInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawCluster(t)
		before := fmt.Sprintf("%#v", spec)
		out := assignHA(t, spec)
		if after := fmt.Sprintf("%#v", spec); after != before {
			t.Fatalf("before:\n%s\nafter:\n%s", before, after)
		}
		checkRefined(t, spec, out)
		if !slices.ContainsFunc(spec.Members, func(m Member) bool { return !m.Stale }) {
			return // all keep what they have, each task the first who has it
		}
		again := spec
		again.Members = rapid.Permutation(spec.Members).Draw(t, "order")
		if d := cmp.Diff(out, assignHA(t, again)); d != "" {
			t.Fatalf("the order of members matters:\n%s", d)
		}
	})
}

func TestHighlyAvailableIsNeverStuck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawCluster(t)
		checkProgress(t, spec, assignHA(t, spec))
	})
}
