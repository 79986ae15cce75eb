package assignor

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/coordd/coordd/topology"
)

// Faults of other assignors, each as a kind, on all of ours (docs/testing.md, "Faults that others met").

var all = []Assignor{Sticky(), HighlyAvailable(), Auto()}

// forAll runs a test for each assignor.
func forAll(t *testing.T, test func(*testing.T, func(Spec) Assignment)) {
	for _, a := range all {
		t.Run(a.Name(), func(t *testing.T) {
			test(t, func(spec Spec) Assignment {
				out, err := a.Assign(spec)
				if err != nil {
					t.Fatal(err)
				}
				return out
			})
		})
	}
}

// withWarmups are the usual settings of warm-ups.
func withWarmups(spec Spec) Spec {
	spec.NumWarmupReplicas, spec.AcceptableRecoveryLag = 2, 10_000
	return spec
}

// processOf is the process that runs a task.
func processOf(spec Spec, out Assignment, task topology.Task) string {
	for _, m := range spec.Members {
		if out[m.ID].Active.Contains(task) {
			return m.ProcessID
		}
	}
	return ""
}

// eachTask calls f for each task of the topology.
func eachTask(spec Spec, f func(topology.Task)) {
	for _, s := range spec.Subtopologies {
		for p := range s.Tasks {
			f(topology.Task{Subtopology: s.ID, Partition: p})
		}
	}
}

// All instances stop and start again with their state: new members, no former assignment, and offsets of what is on disk
// without any end offset, as clients join. Each task goes where its state is, to the one with the most if one has only that.
func TestAColdStartFollowsTheDisks(t *testing.T) {
	forAll(t, func(t *testing.T, assign func(Spec) Assignment) {
		rapid.Check(t, func(t *rapid.T) {
			standbys := rapid.IntRange(0, 2).Draw(t, "standbys")
			subtopologies := drawSubtopologies(t)
			for i := range subtopologies {
				subtopologies[i].Stateful = true
			}
			spec := withWarmups(group(rapid.IntRange(2, 6).Draw(t, "processes"), rapid.IntRange(1, 3).Draw(t, "threads"), subtopologies...))
			spec.NumStandbyReplicas = standbys
			before := assign(spec)
			after, disks := coldStart(t, spec, before)
			out := assign(after)
			eachTask(spec, func(task topology.Task) {
				p := processOf(after, out, task)
				if !disks[p][task] {
					t.Fatalf("%v was on %s and is on %s, which has none of its state", task, processOf(spec, before, task), p)
				}
				if was := processOf(spec, before, task); standbys == 0 && p != was {
					t.Fatalf("%v was on %s, which has its state, and is on %s", task, was, p)
				}
			})
		})
	})
}

// coldStart restarts all members under other ids, and returns which process has which tasks on disk.
func coldStart(t *rapid.T, spec Spec, out Assignment) (Spec, map[string]map[topology.Task]bool) {
	after, disks := spec, map[string]map[topology.Task]bool{}
	after.Members = nil
	for _, m := range spec.Members {
		if disks[m.ProcessID] == nil {
			disks[m.ProcessID] = map[topology.Task]bool{}
		}
		for task := range out[m.ID].Active.Union(out[m.ID].Standby).All() {
			disks[m.ProcessID][task] = true
		}
	}
	offsets := map[string]map[topology.Task]int64{}
	for _, m := range spec.Members {
		if offsets[m.ProcessID] == nil {
			offsets[m.ProcessID] = map[topology.Task]int64{}
		}
		for task := range out[m.ID].Active.All() {
			offsets[m.ProcessID][task] = 1000
		}
		for task := range out[m.ID].Standby.All() {
			offsets[m.ProcessID][task] = rapid.Int64Range(0, 1000).Draw(t, "standby is at")
		}
	}
	for i, m := range spec.Members {
		// Each thread reports all that its process has on disk.
		after.Members = append(after.Members, Member{ID: "new-" + strconv.Itoa(i*7919%1009), ProcessID: m.ProcessID, Offsets: OffsetsOf(offsets[m.ProcessID])})
	}
	slices.SortFunc(after.Members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return after, disks
}

// Who runs a task keeps it, whatever others have on their disks, also where nothing is known of its own state.
func TestAFormerAssignmentOutranksReports(t *testing.T) {
	forAll(t, func(t *testing.T, assign func(Spec) Assignment) {
		a := Member{ID: "a", Current: topology.Assignment{Active: tasksOf(0)}, Offsets: offsetsOf(map[int32]int64{1: 1_000_000})}
		b := Member{ID: "b", Current: topology.Assignment{Active: tasksOf(1)}, Offsets: offsetsOf(map[int32]int64{0: 1_000_000}), EndOffsets: offsetsOf(map[int32]int64{0: 1_000_000})}
		want := Assignment{"a": {Active: tasksOf(0)}, "b": {Active: tasksOf(1)}}
		if d := cmp.Diff(want, assign(stateful(2, 0, a, b))); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

// One instance is back before the others and got all tasks. Those that come later get tasks whose state they have, as active ones or
// first as warm-ups, and not as many others.
func TestLateComersGetWhatTheyHave(t *testing.T) {
	forAll(t, func(t *testing.T, assign func(Spec) Assignment) {
		for _, standbys := range []int{0, 1} {
			a := Member{ID: "b", Current: topology.Assignment{Active: tasksOf(0, 1, 2, 3, 4, 5).WithEpoch(2)}}
			spec := stateful(6, standbys, Member{ID: "a", Offsets: offsetsOf(map[int32]int64{0: 700, 3: 800})}, a, Member{ID: "c", Offsets: offsetsOf(map[int32]int64{1: 900, 4: 600})})
			spec.NumWarmupReplicas = 10
			out := assign(spec)
			for id, has := range map[string]topology.Tasks{"a": tasksOf(0, 3), "c": tasksOf(1, 4)} {
				if got := out[id].Active.Union(out[id].Warmup); !got.SameTasks(has) {
					t.Errorf("%d standbys: %s has %v and got %v: %v", standbys, id, has, got, out)
				}
			}
		}
	})
}

// Members get the same partitions of all subtopologies where the numbers allow it.
func TestPartitionsOfSubtopologiesGoTogether(t *testing.T) {
	forAll(t, func(t *testing.T, assign func(Spec) Assignment) {
		for _, c := range []struct{ processes, threads, subtopologies, times int }{
			{2, 1, 2, 1}, {3, 1, 2, 1}, {2, 2, 2, 1}, {4, 1, 3, 2}, {3, 2, 4, 1}, {5, 1, 2, 3}, {10, 2, 5, 2},
		} {
			for _, state := range []bool{false, true} {
				var subtopologies []Subtopology
				for i := range c.subtopologies {
					subtopologies = append(subtopologies, Subtopology{ID: strconv.Itoa(i), Tasks: int32(c.times * c.processes * c.threads), Stateful: state})
				}
				spec := withWarmups(group(c.processes, c.threads, subtopologies...))
				out := assign(spec)
				for _, m := range spec.Members {
					sets := out[m.ID].Active
					if len(sets) != c.subtopologies {
						t.Fatalf("%+v, state %v: %s has %v", c, state, m.ID, sets)
					}
					for _, s := range sets {
						if !slices.Equal(s.Partitions, sets[0].Partitions) {
							t.Fatalf("%+v, state %v: %s has %v", c, state, m.ID, sets)
						}
					}
				}
			}
		}
	})
}

// One of a thousand members leaves, and joins: nobody else gives up more than a hundredth of all.
func TestOneOfAThousandMembersLeaves(t *testing.T) {
	if testing.Short() {
		t.Skip("large")
	}
	var subtopologies []Subtopology
	for i := range 100 {
		subtopologies = append(subtopologies, Subtopology{ID: strconv.Itoa(i), Tasks: 100, Stateful: true})
	}
	slices.SortFunc(subtopologies, func(a, b Subtopology) int { return strings.Compare(a.ID, b.ID) })
	for _, standbys := range []int{0, 1} {
		forAll(t, func(t *testing.T, assign func(Spec) Assignment) {
			spec := withWarmups(group(1000, 1, subtopologies...))
			spec.NumStandbyReplicas = standbys
			full := adopt(spec, assign(spec))
			left := full
			left.Members = slices.Delete(slices.Clone(full.Members), 500, 501)
			fewer := assign(left)
			if kept := keptShare(left, fewer); kept <= 0.99 {
				t.Errorf("%d standbys, one leaves: %.4f of what the others have is kept", standbys, kept)
			}
			joined := adopt(left, fewer)
			joined.Members = slices.Insert(joined.Members, 500, Member{ID: full.Members[500].ID, ProcessID: "another"})
			if kept := keptShare(joined, assign(joined)); kept <= 0.99 {
				t.Errorf("%d standbys, one joins: %.4f of what the others have is kept", standbys, kept)
			}
		})
	}
}

// keptShare is how much of what the members have they keep, each copy in the same process.
func keptShare(spec Spec, out Assignment) float64 {
	had, kept := 0, 0
	for _, m := range spec.Members {
		has := m.Current.Active.WithoutEpochs().Union(m.Current.Standby)
		had += has.Len()
		kept += has.Intersect(out[m.ID].Active.Union(out[m.ID].Standby).Union(out[m.ID].Warmup)).Len()
	}
	return float64(kept) / float64(had)
}

// A standby goes to a process that has kept one before, also when the first such process has the task already: as active,
// or as another standby.
func TestStandbysGoToFormerHoldersThatMayHaveThem(t *testing.T) {
	forAll(t, func(t *testing.T, assign func(Spec) Assignment) {
		for standbys := 1; standbys <= 3; standbys++ {
			spec := stateful(1, standbys,
				Member{ID: "a", ProcessID: "p1", Current: topology.Assignment{Active: tasksOf(0).WithEpoch(3)}, Offsets: offsetsOf(map[int32]int64{0: 900})},
				Member{ID: "b", ProcessID: "p1", Current: topology.Assignment{Standby: tasksOf(0)}, Offsets: offsetsOf(map[int32]int64{0: 900})},
				Member{ID: "c", ProcessID: "p2"}, Member{ID: "d", ProcessID: "p0"},
				Member{ID: "e", ProcessID: "p3", Current: topology.Assignment{Standby: tasksOf(0)}, Offsets: offsetsOf(map[int32]int64{0: 800})},
				Member{ID: "f", ProcessID: "p4", Current: topology.Assignment{Warmup: tasksOf(0)}, Offsets: offsetsOf(map[int32]int64{0: 700})},
			)
			if standbys == 1 {
				spec.Members[5].Current = topology.Assignment{} // state on disk, which nobody was assigned, is worth less
			}
			spec.NumWarmupReplicas = 0
			out := assign(spec)
			if !out["a"].Active.Contains(topology.Task{Subtopology: "0"}) || out["b"].Len() > 0 || out["e"].Standby.Len() != 1 {
				t.Errorf("%d standbys: %v", standbys, out)
			}
			if standbys >= 2 && out["f"].Standby.Len() != 1 {
				t.Errorf("%d standbys, none at the former warm-up: %v", standbys, out)
			}
			if n := out["c"].Standby.Len() + out["d"].Standby.Len(); n != max(0, standbys-2) {
				t.Errorf("%d standbys, %d of them at processes without state: %v", standbys, n, out)
			}
		}
	})
}

// While a task is on its way, its owner keeps it and its warm-up stays where it is, whatever else has the assignment computed:
// somebody joins, with or without state, reports come or are lost.
func TestAMigrationGoesOnWhereItWas(t *testing.T) {
	began := func() (a, b Member) {
		a = Member{ID: "b", Current: topology.Assignment{Active: tasksOf(0, 1).WithEpoch(1)}}
		b = Member{ID: "d", Current: topology.Assignment{Warmup: tasksOf(1)}}
		return a, b
	}
	reports := map[string]func(*Member){
		"at 80 %": func(b *Member) {
			b.Offsets, b.EndOffsets = offsetsOf(map[int32]int64{1: 800}), offsetsOf(map[int32]int64{1: 1000})
		},
		"at nothing": func(b *Member) {
			b.Offsets, b.EndOffsets = offsetsOf(map[int32]int64{1: 0}), offsetsOf(map[int32]int64{1: 1000})
		},
		"end unknown": func(b *Member) {
			b.Offsets, b.EndOffsets = offsetsOf(map[int32]int64{1: 0}), offsetsOf(map[int32]int64{1: math.MaxInt64})
		},
		"nothing known (a failover)": func(*Member) {},
	}
	for what, report := range reports {
		for _, id := range []string{"a", "c", "e"} {
			for _, has := range []map[int32]int64{nil, {1: 790}, {0: 5, 1: 850}, {1: math.MaxInt64}} {
				a, b := began()
				report(&b)
				members := []Member{a, b, {ID: id, Offsets: offsetsOf(has)}}
				slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
				spec := stateful(2, 0, members...)
				out, err := HighlyAvailable().Assign(spec)
				if err != nil {
					t.Fatal(err)
				}
				if !out["b"].Active.SameTasks(tasksOf(0, 1)) || !out["d"].Warmup.SameTasks(tasksOf(1)) {
					t.Errorf("warm-up %s, %s joins with %v: %v", what, id, has, out)
				}
			}
		}
	}
}

// The same of large groups: some tasks are on their way to members that joined, when others join.
func TestMigrationsOutliveJoins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks := rapid.Int32Range(12, 40).Draw(t, "tasks")
		spec := withWarmups(group(rapid.IntRange(1, 3).Draw(t, "processes"), 1, Subtopology{ID: "0", Tasks: tasks, Stateful: true}))
		spec.NumStandbyReplicas = rapid.IntRange(0, 1).Draw(t, "standbys")
		out := assignHA(t, spec)
		for round := range 2 {
			spec = adopt(spec, out)
			for i := range rapid.IntRange(1, 2).Draw(t, "join") {
				name := fmt.Sprintf("%c%d-%d", rapid.SampledFrom([]rune("az")).Draw(t, "id"), round, i)
				spec.Members = append(spec.Members, Member{ID: name, ProcessID: "p" + name})
			}
			slices.SortFunc(spec.Members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
			for i := range spec.Members {
				m := &spec.Members[i]
				m.Offsets, m.EndOffsets = nil, nil
				for task := range m.Current.Warmup.All() {
					m.Offsets = append(m.Offsets, TaskOffset{task, rapid.Int64Range(0, 80_000).Draw(t, "offset")})
					m.EndOffsets = append(m.EndOffsets, TaskOffset{task, 100_000})
				}
			}
			out = assignHA(t, spec)
			for _, m := range spec.Members {
				if lost := m.Current.Warmup.Minus(out[m.ID].Warmup); lost.Len() > 0 {
					t.Fatalf("%s gave up the warm-ups %v: %v", m.ID, lost, out)
				}
				if lost := m.Current.Active.Minus(out[m.ID].Active); lost.Len() > 0 {
					t.Fatalf("%s gave up %v, and nobody is caught up: %v", m.ID, lost, out)
				}
			}
		}
	})
}

// An owner that lost its state gives the task to a standby that has it; and nobody has lost anything of whom nothing is known.
func TestALostStateMovesTheTaskToItsStandby(t *testing.T) {
	a := Member{ID: "a", Current: topology.Assignment{Active: tasksOf(0).WithEpoch(4)}}
	b := Member{ID: "b", Current: topology.Assignment{Standby: tasksOf(0)}}
	stay := Assignment{"a": {Active: tasksOf(0)}, "b": {Standby: tasksOf(0)}}
	expect(t, stateful(1, 1, a, b), stay) // a failover: nothing is known
	b.Offsets, b.EndOffsets = offsetsOf(map[int32]int64{0: 999_990}), offsetsOf(map[int32]int64{0: 1_000_000})
	expect(t, stateful(1, 1, a, b), stay)
	a.Offsets, a.EndOffsets = offsetsOf(map[int32]int64{0: 0}), offsetsOf(map[int32]int64{0: 1_000_000})
	expect(t, stateful(1, 1, a, b), stay) // an old report of an active task proves nothing
	a.Restoring = tasksOf(0)
	out, err := HighlyAvailable().Assign(stateful(1, 1, a, b))
	if err != nil {
		t.Fatal(err)
	}
	if !out["b"].Active.SameTasks(tasksOf(0)) || out["a"].Standby.Len()+out["a"].Warmup.Len() != 1 {
		t.Errorf("%v", out)
	}
	b.Offsets = offsetsOf(map[int32]int64{0: 500_000}) // it is not caught up either: the owner goes on
	expect(t, stateful(1, 1, a, b), stay)
}

// What a Streams 4.4 client reports: a copy that is caught up has an end offset one below its offset; one that has restored no
// record has an unknown end; and one that was an active task may tell an end from long ago, below its own offset. Such an old end
// makes nobody else caught up.
func TestReportsOfARealClient(t *testing.T) {
	owner := Member{ID: "a", Current: topology.Assignment{Active: tasksOf(0, 1).WithEpoch(1)}}
	warms := Member{ID: "b", Current: topology.Assignment{Warmup: tasksOf(1)}, Offsets: offsetsOf(map[int32]int64{1: 1001}), EndOffsets: offsetsOf(map[int32]int64{1: 1000})}
	moved, waits := Assignment{"a": {Active: tasksOf(0)}, "b": {Active: tasksOf(1)}}, Assignment{"a": {Active: tasksOf(0, 1)}, "b": {Warmup: tasksOf(1)}}
	expect(t, stateful(2, 0, owner, warms), moved)
	warms.EndOffsets = offsetsOf(map[int32]int64{1: math.MaxInt64})
	expect(t, stateful(2, 0, owner, warms), waits)
	warms.Ready = tasksOf(1)
	expect(t, stateful(2, 0, owner, warms), moved)

	warms.Ready, warms.Offsets = nil, offsetsOf(map[int32]int64{1: 50})
	former := Member{ID: "c", Current: topology.Assignment{Standby: tasksOf(1)}, Offsets: offsetsOf(map[int32]int64{1: 1030}), EndOffsets: offsetsOf(map[int32]int64{1: 48})}
	spec := stateful(2, 1, owner, warms, former)
	out, err := HighlyAvailable().Assign(spec)
	if err != nil {
		t.Fatal(err)
	}
	if out["b"].Active.Len() > 0 {
		t.Errorf("%v moved to a copy at 50 of 1030", out)
	}
}
