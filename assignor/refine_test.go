package assignor

import (
	"math"
	"testing"

	"github.com/coordd/coordd/topology"
)

// owns is a member that runs tasks and reports that they end at 1000.
func owns(id string, partitions ...int32) Member {
	at := allAt(1000, partitions)
	return Member{ID: id, Current: topology.Assignment{Active: tasksOf(partitions...).WithEpoch(1)}, Offsets: at, EndOffsets: at}
}

// keeps is a member that has standbys at an offset.
func keeps(id string, offset int64, partitions ...int32) Member {
	return Member{ID: id, Current: topology.Assignment{Standby: tasksOf(partitions...)}, Offsets: allAt(offset, partitions)}
}

func allAt(offset int64, partitions []int32) Offsets {
	offsets := map[int32]int64{}
	for _, p := range partitions {
		offsets[p] = offset
	}
	return offsetsOf(offsets)
}

// warms is a member that has warm-ups at an offset.
func warms(id string, offset int64, partitions ...int32) Member {
	m := keeps(id, offset, partitions...)
	m.Current.Warmup, m.Current.Standby = m.Current.Standby, nil
	return m
}

func activeOf(partitions ...int32) topology.Assignment {
	return topology.Assignment{Active: tasksOf(partitions...)}
}

// A recomputation in the middle of a move does not send the task to a third member: the restored state would be lost.
func TestWarmupKeepsItsClaimWhenAnotherMemberJoins(t *testing.T) {
	for _, newcomer := range []string{"0", "aa", "c"} {
		spec := stateful(2, 0, owns("a", 0, 1), warms("b", 800, 1), Member{ID: newcomer})
		switch newcomer {
		case "0":
			spec.Members = []Member{spec.Members[2], spec.Members[0], spec.Members[1]}
		case "aa":
			spec.Members = []Member{spec.Members[0], spec.Members[2], spec.Members[1]}
		}
		expect(t, spec, Assignment{"a": activeOf(0, 1), "b": {Warmup: tasksOf(1)}})
	}
}

// An owner that has lost its state gives the task to a standby that is caught up and becomes the standby.
func TestTaskWhoseStateIsLostGoesToTheStandby(t *testing.T) {
	a, b := owns("a", 0), keeps("b", 990, 0)
	expect(t, stateful(1, 1, a, b), Assignment{"a": activeOf(0), "b": {Standby: tasksOf(0)}})
	a.Restoring, a.Offsets = tasksOf(0), offsetsOf(map[int32]int64{0: 0})
	expect(t, stateful(1, 1, a, b), Assignment{"a": {Standby: tasksOf(0)}, "b": activeOf(0)})
	// Nobody else has the state either: who runs it goes on.
	expect(t, stateful(1, 1, a, keeps("b", 500, 0)), Assignment{"a": activeOf(0), "b": {Standby: tasksOf(0)}})
	// A new leader knows no offsets and nothing of the loss.
	a.Restoring, a.Offsets, a.EndOffsets, b.Offsets = nil, nil, nil, nil
	expect(t, stateful(1, 1, a, b), Assignment{"a": activeOf(0), "b": {Standby: tasksOf(0)}})
}

func TestUnknownLagIsNeverCaughtUp(t *testing.T) {
	for name, change := range map[string]func(owner, warm *Member){
		"no offset":    func(_, warm *Member) { warm.Offsets = nil },
		"no end":       func(owner, _ *Member) { owner.EndOffsets = nil },
		"overflow":     func(_, warm *Member) { warm.Offsets = offsetsOf(map[int32]int64{1: math.MaxInt64}) },
		"negative":     func(_, warm *Member) { warm.Offsets = offsetsOf(map[int32]int64{1: -1}) },
		"negative end": func(owner, _ *Member) { owner.EndOffsets = offsetsOf(map[int32]int64{1: -1}) },
		"overflow end": func(owner, _ *Member) { owner.EndOffsets = offsetsOf(map[int32]int64{1: math.MaxInt64}) },
		"larger end":   func(_, warm *Member) { warm.EndOffsets = offsetsOf(map[int32]int64{1: 1_000_000}) },
	} {
		owner, warm := owns("a", 0, 1), warms("b", 1000, 1)
		expect(t, stateful(2, 0, owner, warm), Assignment{"a": activeOf(0), "b": activeOf(1)})
		change(&owner, &warm)
		t.Log(name)
		expect(t, stateful(2, 0, owner, warm), Assignment{"a": activeOf(0, 1), "b": {Warmup: tasksOf(1)}})
		warm.Ready = tasksOf(1)
		expect(t, stateful(2, 0, owner, warm), Assignment{"a": activeOf(0), "b": activeOf(1)})
	}
}

// The end offset may be known to a member that has nothing else to do with the task.
func TestEndOffsetOfAnyMemberCounts(t *testing.T) {
	owner, warm := owns("a", 0, 1), warms("b", 950, 1)
	owner.EndOffsets, warm.EndOffsets = nil, offsetsOf(map[int32]int64{1: 1000})
	expect(t, stateful(2, 0, owner, warm), Assignment{"a": activeOf(0), "b": activeOf(1)})
}

// Members of one process may report the same task that none of them runs: the best report counts.
func TestBestReportOfAProcessCounts(t *testing.T) {
	b, c := Member{ID: "b", ProcessID: "p"}, Member{ID: "c", ProcessID: "p"}
	for _, behind := range []*Member{&b, &c} {
		b.Offsets, c.Offsets = offsetsOf(map[int32]int64{1: 990, 2: 990}), offsetsOf(map[int32]int64{1: 990, 2: 990})
		behind.Offsets = offsetsOf(map[int32]int64{1: 10, 2: 10})
		out, err := HighlyAvailable().Assign(stateful(3, 0, owns("a", 0, 1, 2), b, c))
		if err != nil {
			t.Fatal(err)
		}
		if out["a"].Len() != 1 || out["b"].Active.Len() != 1 || out["c"].Active.Len() != 1 {
			t.Error(out)
		}
	}
}

func TestBudgetOfWarmups(t *testing.T) {
	owner, fresh := owns("a", 0, 1, 2, 3, 4, 5), Member{ID: "b"}
	for budget, want := range map[int]int{1: 1, 2: 2, 3: 3, 4: 3, 1000: 3} {
		spec := stateful(6, 0, owner, fresh)
		spec.NumWarmupReplicas = budget
		out, err := HighlyAvailable().Assign(spec)
		if err != nil {
			t.Fatal(err)
		}
		if out["a"].Active.Len() != 6 || out["b"].Warmup.Len() != want || out["b"].Len() != want {
			t.Errorf("budget %d: %v", budget, out)
		}
	}
}

// Warm-ups that are under way come before others.
func TestWarmupsUnderWayComeFirst(t *testing.T) {
	for p := range int32(4) {
		spec := stateful(4, 0, owns("a", 0, 1, 2, 3), warms("b", 10, p))
		spec.NumWarmupReplicas = 1
		expect(t, spec, Assignment{"a": activeOf(0, 1, 2, 3), "b": {Warmup: tasksOf(p)}})
	}
}

// A copy that is not caught up becomes a warm-up in its place, so that its catching up is noticed, and a standby again when
// there are too many.
func TestStandbyBecomesAWarmupInItsPlace(t *testing.T) {
	spec := stateful(2, 1, owns("a", 0, 1), keeps("b", 10, 0, 1))
	spec.NumWarmupReplicas = 1
	out, err := HighlyAvailable().Assign(spec)
	if err != nil {
		t.Fatal(err)
	}
	if out["a"].Active.Len() != 2 || out["b"].Warmup.Len() != 1 || out["b"].Standby.Len() != 1 || out["a"].Len() != 2 {
		t.Fatal(out)
	}
}

// While a task waits for its new owner it keeps the standby that it has.
func TestWaitingTaskKeepsItsStandby(t *testing.T) {
	a, b := owns("a", 0, 1, 2), owns("b", 3, 4, 5)
	a.Current.Standby, b.Current.Standby = tasksOf(3, 4, 5), tasksOf(0, 1, 2)
	spec := stateful(6, 1, a, b, Member{ID: "c"})
	out, err := HighlyAvailable().Assign(spec)
	if err != nil {
		t.Fatal(err)
	}
	if !out["a"].Active.SameTasks(a.Current.Active) || !out["b"].Active.SameTasks(b.Current.Active) ||
		!out["a"].Standby.SameTasks(a.Current.Standby) || !out["b"].Standby.SameTasks(b.Current.Standby) ||
		out["c"].Warmup.Len() != 2 || out["c"].Len() != 2 {
		t.Fatal(out)
	}
}

// A process that comes back with its state has nothing to warm up.
func TestStateOnDiskIsUsedAtOnce(t *testing.T) {
	b := Member{ID: "b", Offsets: offsetsOf(map[int32]int64{1: 950})}
	expect(t, stateful(2, 0, owns("a", 0, 1), b), Assignment{"a": activeOf(0), "b": activeOf(1)})
}

func TestStatelessTasksMoveAtOnce(t *testing.T) {
	spec := stateful(4, 1, owns("a", 0, 1, 2, 3), Member{ID: "b"})
	spec.Subtopologies[0].Stateful = false
	out, err := HighlyAvailable().Assign(spec)
	if err != nil {
		t.Fatal(err)
	}
	if out["a"].Active.Len() != 2 || out["b"].Active.Len() != 2 || out["a"].Len()+out["b"].Len() != 4 {
		t.Fatal(out)
	}
}

func TestStaleMemberKeepsItsTasksUnderHighlyAvailable(t *testing.T) {
	a := owns("a", 0, 1, 2)
	a.Stale = true
	expect(t, stateful(4, 0, a, owns("b", 3), Member{ID: "c"}), Assignment{"a": activeOf(0, 1, 2), "b": activeOf(3)})
	// A stale standby cannot take over, though it is caught up.
	s := keeps("s", 1000, 0)
	s.Stale = true
	expect(t, stateful(1, 1, s, Member{ID: "z"}), Assignment{"s": {Standby: tasksOf(0)}, "z": activeOf(0)})
}

// The least loaded of the processes that are caught up takes over.
func TestLeastLoadedStandbyTakesOver(t *testing.T) {
	a, b := owns("a", 1, 2), owns("b", 3)
	a.Current.Standby, b.Current.Standby = tasksOf(0), tasksOf(0)
	a.EndOffsets = allAt(1000, []int32{0, 1, 2})
	a.Offsets, b.Offsets = a.EndOffsets, offsetsOf(map[int32]int64{0: 990, 3: 1000})
	spec := stateful(4, 0, a, b)
	expect(t, spec, Assignment{"a": activeOf(1, 2), "b": activeOf(0, 3)})
}

// Hostile input is answered with something sound.
func TestHighlyAvailableWithHostileInput(t *testing.T) {
	bad := topology.Tasks{{Subtopology: "", Partitions: []int32{-1}}, {Subtopology: "0", Partitions: []int32{math.MinInt32, -1, 0, 0, 7, math.MaxInt32}}, {Subtopology: "x", Partitions: []int32{0}}}
	m := Member{Current: topology.Assignment{Active: bad, Standby: bad, Warmup: bad}, Ready: bad, Restoring: bad,
		Offsets:    OffsetsOf(map[topology.Task]int64{{}: 1, {Subtopology: "0", Partition: -1}: math.MinInt64, {Subtopology: "0", Partition: math.MaxInt32}: 5, {Subtopology: "0"}: math.MinInt64}),
		EndOffsets: OffsetsOf(map[topology.Task]int64{{}: 1, {Subtopology: "0", Partition: -5}: 4, {Subtopology: "0"}: math.MinInt64, {Subtopology: "1", Partition: 99}: 7})}
	var members []Member
	for i, id := range []string{"", "a", "b"} {
		n := m
		n.ID = id
		if i == 2 {
			n.ProcessID = "p"
		}
		members = append(members, n)
	}
	for _, tasks := range []int32{math.MinInt32, 0, 3} {
		spec := Spec{Members: members, Subtopologies: []Subtopology{{ID: "", Tasks: -1, Stateful: true}, {ID: "0", Tasks: tasks, Stateful: true}, {ID: "1", Tasks: 2}},
			NumStandbyReplicas: math.MaxInt, NumWarmupReplicas: math.MaxInt, AcceptableRecoveryLag: math.MinInt64}
		out, err := Auto().Assign(spec)
		if err != nil {
			t.Fatal(err)
		}
		actives := 0
		for _, a := range out {
			actives += a.Active.Len()
			if !a.Active.IsNormal() || !a.Standby.IsNormal() || !a.Warmup.IsNormal() || a.Len() > int(max(tasks, 0))+2 {
				t.Errorf("%v", a)
			}
		}
		if want := int(max(tasks, 0)) + 2; actives != want {
			t.Errorf("%d active tasks of %d: %v", actives, want, out)
		}
	}
}

func away(m Member) Member {
	m.Away = true
	return m
}

// A static member that has left for a while comes back to the task; until then it would run nowhere.
func TestWhoIsAwayTakesNothingOver(t *testing.T) {
	b, c := away(keeps("b", 1000, 0)), keeps("c", 1000, 0)
	b.EndOffsets = allAt(1000, []int32{0})
	expect(t, stateful(1, 2, b, c), Assignment{"b": {Standby: tasksOf(0)}, "c": activeOf(0)})
	// Whoever is there goes on, also with less of the state, or none.
	c.Offsets = allAt(10, []int32{0})
	expect(t, stateful(1, 2, b, c), Assignment{"b": {Standby: tasksOf(0)}, "c": activeOf(0)})
	expect(t, stateful(1, 1, b, Member{ID: "c"}), Assignment{"b": {Standby: tasksOf(0)}, "c": activeOf(0)})
	// Somebody has to get it.
	expect(t, stateful(1, 1, b), Assignment{"b": activeOf(0)})
}

func TestWarmupOfWhoIsAwayStays(t *testing.T) {
	a, b := owns("a", 0, 1), warms("b", 1000, 1)
	expect(t, stateful(2, 0, a, b), Assignment{"a": activeOf(0), "b": activeOf(1)})
	expect(t, stateful(2, 0, a, away(b)), Assignment{"a": activeOf(0, 1), "b": {Warmup: tasksOf(1)}})
	b.Ready = tasksOf(1)
	expect(t, stateful(2, 0, a, away(b)), Assignment{"a": activeOf(0, 1), "b": {Warmup: tasksOf(1)}})
	// With a standby it is to have the task, too, and gets the claim.
	expect(t, stateful(2, 1, a, keeps("b", 1000, 0, 1)), Assignment{
		"a": {Active: tasksOf(0), Standby: tasksOf(1)}, "b": {Active: tasksOf(1), Standby: tasksOf(0)}})
	expect(t, stateful(2, 1, a, away(keeps("b", 1000, 0, 1))), Assignment{
		"a": activeOf(0, 1), "b": {Standby: tasksOf(0), Warmup: tasksOf(1)}})
}

func TestOwnerThatIsAwayKeepsItsTask(t *testing.T) {
	expect(t, stateful(1, 1, away(owns("a", 0)), keeps("b", 1000, 0)), Assignment{"a": activeOf(0), "b": {Standby: tasksOf(0)}})
}

// A process that was killed comes back while its member of before is still in the group: what that one reported is of a disk that
// may be gone, and its standby is let go of only when it is removed.
func TestStateOfAGhostCountsForNothing(t *testing.T) {
	ghost, back := away(keeps("g", 1000, 1)), Member{ID: "n", ProcessID: "pg"}
	a := owns("a", 0, 1)
	for _, offset := range []int64{-1, 800, 1000} {
		if offset >= 0 {
			back.Offsets = allAt(offset, []int32{1})
		}
		out, err := HighlyAvailable().Assign(stateful(2, 1, a, ghost, back))
		if err != nil || !out["a"].Active.SameTasks(tasksOf(0, 1)) {
			t.Errorf("offset %d: %v, %v", offset, out, err)
		}
	}
	// What it did not hold is the new member's by what that one says.
	ghost = away(owns("g", 2))
	ghost.Offsets = allAt(1000, []int32{1})
	back.Offsets = allAt(800, []int32{1})
	expect(t, stateful(3, 0, a, ghost, back), Assignment{"a": activeOf(0, 1), "g": activeOf(2), "n": {Warmup: tasksOf(1)}})
	back.Offsets = allAt(1000, []int32{1})
	expect(t, stateful(3, 0, a, ghost, back), Assignment{"a": activeOf(0), "g": activeOf(2), "n": activeOf(1)})
}

// The budget is for those that can use it now.
func TestWarmupsOfWhoIsAwayComeLast(t *testing.T) {
	spec := stateful(3, 0, owns("a", 0, 1, 2), away(Member{ID: "b"}), Member{ID: "c"})
	spec.NumWarmupReplicas = 1
	out, err := HighlyAvailable().Assign(spec)
	if err != nil || out["c"].Warmup.Len() != 1 || out["b"].Len() != 0 || out["a"].Active.Len() != 3 {
		t.Error(out, err)
	}
}
