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

// drawTags gives members tags: all of a process the same, mostly. Some lack one.
func drawTags(t *rapid.T, spec *Spec, tags int) {
	names := []string{"zone", "cluster", "host"}[:tags]
	spec.RackAwareTags = names
	values := rapid.SampledFrom([]string{"", "a", "b", "c", "d"}[:rapid.IntRange(2, 5).Draw(t, "values")])
	of := map[string]map[string]string{}
	for i := range spec.Members {
		m := &spec.Members[i]
		if of[m.ProcessID] == nil || rapid.IntRange(0, 9).Draw(t, "other tags") == 0 {
			of[m.ProcessID] = map[string]string{"other": m.ID}
			for _, name := range names {
				if v := values.Draw(t, name); v != "" {
					of[m.ProcessID][name] = v
				}
			}
		}
		m.Tags = of[m.ProcessID]
	}
}

// tagsOf are the tags of each process: those of its first member.
func tagsOf(spec Spec) map[string]map[string]string {
	of := map[string]map[string]string{}
	members := slices.Clone(spec.Members)
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	for _, m := range members {
		if of[m.ProcessID] == nil {
			of[m.ProcessID] = map[string]string{}
			for k, v := range m.Tags {
				of[m.ProcessID][k] = v
			}
		}
	}
	return of
}

// apart is how many values of the tags processes have, counted together; a missing one is a value of its own.
func apart(spec Spec, tags map[string]map[string]string, processes []string) (n int) {
	for _, name := range spec.RackAwareTags {
		seen := map[string]bool{}
		for _, p := range processes {
			if v, ok := tags[p][name]; ok {
				seen["="+v] = true
			} else {
				seen["missing at "+p] = true
			}
		}
		n += len(seen)
	}
	return n
}

// copiesIn are the processes that have a copy of each task, the active one first, and of standbys alone.
func copiesIn(spec Spec, out Assignment) map[topology.Task][]string {
	in := map[topology.Task][]string{}
	for _, m := range spec.Members {
		for task := range out[m.ID].Active.All() {
			in[task] = append([]string{m.ProcessID}, in[task]...)
		}
	}
	for _, m := range spec.Members {
		for task := range out[m.ID].Standby.All() {
			in[task] = append(in[task], m.ProcessID)
		}
	}
	return in
}

// farthest is how far apart n copies with the first one where it is can be, found by trying all.
func farthest(spec Spec, tags map[string]map[string]string, all, chosen []string, n int) int {
	if len(chosen) == n {
		return apart(spec, tags, chosen)
	}
	best := 0
	for i, p := range all {
		if p != chosen[0] {
			best = max(best, farthest(spec, tags, all[i+1:], append(slices.Clip(chosen), p), n))
		}
	}
	return best
}

func processesOf(spec Spec) (all []string) {
	for p := range tagsOf(spec) {
		all = append(all, p)
	}
	slices.Sort(all)
	return all
}

// With one tag, copies are in as many racks as there are, or as there are copies; with several, one or two standbys are as far
// apart as any could be. That holds in any group, whatever it had before.
func TestCopiesAreAsFarApartAsCanBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		tags := rapid.IntRange(1, 3).Draw(t, "tags")
		if tags > 1 {
			spec.NumStandbyReplicas = min(spec.NumStandbyReplicas, 2)
		}
		drawTags(t, &spec, tags)
		out := assign(t, spec)
		checkSound(t, spec, out)
		of, all := tagsOf(spec), processesOf(spec)
		for task, processes := range copiesIn(spec, out) {
			if len(processes) < 2 {
				continue
			}
			got := apart(spec, of, processes)
			if tags == 1 {
				if want := min(len(processes), apart(spec, of, all)); got != want {
					t.Fatalf("%v has copies in %d racks instead of %d: %v", task, got, want, processes)
				}
			}
			if want := farthest(spec, of, all, processes[:1], len(processes)); got != want {
				t.Fatalf("%v is spread by %d, could be by %d: %v", task, got, want, processes)
			}
		}
	})
}

// Nothing moves when nothing changed, the order of members does not matter, and the input stays as it is.
func TestSpreadStandbysStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		drawTags(t, &spec, rapid.IntRange(1, 3).Draw(t, "tags"))
		before := fmt.Sprintf("%#v", spec)
		out := assign(t, spec)
		if after := fmt.Sprintf("%#v", spec); after != before {
			t.Fatalf("before:\n%s\nafter:\n%s", before, after)
		}
		again := spec
		again.Members = rapid.Permutation(spec.Members).Draw(t, "order")
		if d := cmp.Diff(out, assign(t, again)); d != "" {
			t.Fatalf("the order of members matters:\n%s", d)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		spec := group(rapid.IntRange(2, 6).Draw(t, "processes"), rapid.IntRange(1, 3).Draw(t, "threads"), drawSubtopologies(t)...)
		spec.NumStandbyReplicas = rapid.IntRange(1, 4).Draw(t, "standbys")
		drawTags(t, &spec, rapid.IntRange(1, 3).Draw(t, "tags"))
		out := assign(t, spec)
		if d := cmp.Diff(out, assign(t, adopt(spec, out))); d != "" {
			t.Fatalf("moved without a reason:\n%s", d)
		}
	})
}

// No standby could go to another process without harm to its spread, and leave that one less loaded than its own is.
func TestSpreadStandbysAreBalanced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		drawTags(t, &spec, rapid.IntRange(1, 2).Draw(t, "tags"))
		out := assign(t, spec)
		of, all := tagsOf(spec), processesOf(spec)
		load, threads := map[string]int{}, map[string]int{}
		for _, m := range spec.Members {
			load[m.ProcessID] += out[m.ID].Active.Len() + out[m.ID].Standby.Len()
			threads[m.ProcessID]++
		}
		if sameTags(spec, of) {
			return // then tags do not count
		}
		for task, processes := range copiesIn(spec, out) {
			for i := 1; i < len(processes); i++ {
				p := processes[i]
				for _, q := range all {
					if slices.Contains(processes, q) || (load[q]+1)*threads[p] >= load[p]*threads[q] {
						continue
					}
					other := slices.Clone(processes)
					if other[i] = q; apart(spec, of, other) >= apart(spec, of, processes) {
						t.Fatalf("a standby of %v could go from %s (%d tasks, %d threads) to %s (%d, %d)", task, p, load[p], threads[p], q, load[q], threads[q])
					}
				}
			}
		}
	})
}

// sameTags reports whether all processes say the same, where a value of one process alone says nothing.
func sameTags(spec Spec, of map[string]map[string]string) bool {
	processes := map[string]int{} // by tag and value
	for _, p := range processesOf(spec) {
		for _, name := range spec.RackAwareTags {
			if v, ok := of[p][name]; ok {
				processes[name+"="+v]++
			}
		}
	}
	said := map[string]bool{}
	for _, p := range processesOf(spec) {
		says := ""
		for _, name := range spec.RackAwareTags {
			if v, ok := of[p][name]; ok && processes[name+"="+v] > 1 {
				says += name + "=" + v + ","
			}
		}
		said[says] = true
	}
	return len(said) == 1
}

// Tags that tell no processes apart change nothing.
func TestTagsWithoutDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		want := assign(t, spec)
		spec.RackAwareTags = []string{"zone", "missing"}
		for i := range spec.Members {
			spec.Members[i].Tags = map[string]string{"zone": "a", "other": spec.Members[i].ID}
		}
		if d := cmp.Diff(want, assign(t, spec)); d != "" {
			t.Fatal(d)
		}
	})
}

// When tags begin to count, copies that are apart stay where they are, and of the others one standby moves.
func TestSpreadingMovesFew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perZone := rapid.IntRange(1, 3).Draw(t, "processes a zone")
		zones := rapid.IntRange(2, 4).Draw(t, "zones")
		spec := group(perZone*zones, 1, drawSubtopologies(t)...)
		spec.NumStandbyReplicas = 1
		for i := range spec.Members {
			spec.Members[i].Tags = map[string]string{"zone": fmt.Sprint("z", i%zones)}
		}
		before := assign(t, spec)
		spec = adopt(spec, before)
		spec.RackAwareTags = []string{"zone"}
		after := assign(t, spec)
		of, near := tagsOf(spec), 0
		for _, processes := range copiesIn(spec, before) {
			if len(processes) > 1 && apart(spec, of, processes) < 2 {
				near++
			}
		}
		moves := 0
		for _, m := range spec.Members {
			moves += before[m.ID].Standby.Minus(after[m.ID].Standby).Len()
			if !before[m.ID].Active.SameTasks(after[m.ID].Active) {
				t.Fatal("an active task moves")
			}
		}
		// Those that must move leave some processes with fewer tasks than others: as many again may move for the balance.
		if moves < near || moves > 2*near {
			t.Fatalf("%d standbys move, %d must", moves, near)
		}
	})
}

// The standbys of what a process runs are spread over all processes of the other zone, which so can share it when it is gone.
func TestStandbysOfAProcessAreAtMany(t *testing.T) {
	for n := 2; n <= 6; n++ {
		spec := group(2*n, 1, Subtopology{ID: "0", Tasks: int32(2 * n * n), Stateful: true}, Subtopology{ID: "1", Tasks: int32(2 * n * n), Stateful: true})
		spec.NumStandbyReplicas, spec.RackAwareTags = 1, []string{"zone"}
		for i := range spec.Members {
			spec.Members[i].Tags = map[string]string{"zone": fmt.Sprint(i % 2)}
		}
		out, err := Sticky().Assign(spec)
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]map[string]int{}
		for _, processes := range copiesIn(spec, out) {
			if at[processes[0]] == nil {
				at[processes[0]] = map[string]int{}
			}
			at[processes[0]][processes[1]]++
		}
		for p, others := range at {
			for other, tasks := range others {
				if len(others) < n || tasks > 3 {
					t.Errorf("%d processes a zone: %s has %d of the tasks of %s, which are at %d processes", n, other, tasks, p, len(others))
				}
			}
		}
	}
}

// zonesAndHosts is a group of two processes a host in three zones: nearly as many classes of processes as there are processes.
func zonesAndHosts(processes, tasks int) Spec {
	spec := group(processes, 1, Subtopology{ID: "0", Tasks: int32(tasks), Stateful: true})
	spec.NumStandbyReplicas, spec.NumWarmupReplicas, spec.AcceptableRecoveryLag = 2, 2, 10_000
	spec.RackAwareTags = []string{"zone", "host"}
	for i := range spec.Members {
		spec.Members[i].Tags = map[string]string{"zone": fmt.Sprint(i % 3), "host": fmt.Sprint(i / 2)}
	}
	return spec
}

// Where processes are of many classes, a standby is placed without a look at most of them, and goes to the same one.
func TestFewClassesAreLookedAt(t *testing.T) {
	spec := zonesAndHosts(300, 1200)
	p := newProblem(&spec)
	s := &stickyRun{newSolution(p, 2)}
	s.assignActives(s.keepActives())
	b := &spreading{stickyRun: s, apartness: newApartness(p)}
	b.keepStandbys()
	b.fillHeaps()
	placed, looks := 0, 0
	for _, task := range b.byRunner() {
		for left := b.missing(task); left > 0; left-- {
			used := b.classesOf(task)
			do := func(c int32) bool { return b.hasRoom(used, c) && b.gain(used, c) == 2 }
			want := int32(-1)
			for q := range int32(b.numProcesses()) {
				if do(b.classOf[q]) && !b.holds(task, q) && (want < 0 || b.before(q, want)) {
					want = q
				}
			}
			got := b.lightestOf(task, func(c int32) bool { looks++; return do(c) })
			if got != want || got < 0 {
				t.Fatalf("task %d goes to process %d instead of %d", task, got, want)
			}
			b.give(task, b.lightestMember(got))
			b.fix(got)
			placed++
		}
	}
	if placed != 2400 || looks > 30*placed {
		t.Errorf("%d standbys were placed, for which %d classes of %d were looked at each", placed, looks/placed, b.numClasses())
	}
}

// What one more copy can gain needs no look at all classes for each set of used ones.
func TestBoundOfGain(t *testing.T) {
	spec := zonesAndHosts(12, 1) // hosts 0 to 5
	p := newProblem(&spec)
	r := newApartness(p)
	class := func(member int) int32 { // by its place in the Spec
		return r.classOf[p.process[slices.Index(p.members, int32(member))]]
	}
	for _, c := range []struct {
		used []int32
		want int
	}{
		{nil, 2}, {[]int32{class(0)}, 2}, {[]int32{class(0), class(1)}, 2},
		{[]int32{class(0), class(1), class(2)}, 1}, // all zones
		{[]int32{class(0), class(3), class(6), class(9)}, 2},
		{[]int32{class(0), class(2), class(4), class(6), class(8), class(10)}, 0}, // all hosts
	} {
		if got := r.bound(c.used); got != c.want || got < r.reach(c.used, 1) {
			t.Errorf("beside %v: bound %d instead of %d, reach %d", c.used, got, c.want, r.reach(c.used, 1))
		}
	}
	spec.Members[0].Tags = nil
	if r := newApartness(newProblem(&spec)); r.bound(r.classOf) != 2 {
		t.Error("a process without tags does not differ from all")
	}
}

func BenchmarkSpread(b *testing.B) {
	type sized struct {
		name string
		spec Spec
	}
	groups := []sized{{"zones-and-hosts-1000x4000", zonesAndHosts(1000, 4000)}}
	groups = append(groups, sized{"no-tags-1000x4000", groups[0].spec})
	groups[1].spec.RackAwareTags = nil
	for _, size := range []int{100, 1000} {
		var subtopologies []Subtopology
		for i := range 10 {
			subtopologies = append(subtopologies, Subtopology{ID: fmt.Sprint(i), Tasks: int32(size), Stateful: true})
		}
		spec := group(size/2, 2, subtopologies...)
		spec.NumStandbyReplicas = 1
		spec.RackAwareTags = []string{"zone"}
		for i := range spec.Members {
			spec.Members[i].Tags = map[string]string{"zone": "z" + spec.Members[i].ProcessID[len(spec.Members[i].ProcessID)-1:]}
		}
		groups = append(groups, sized{fmt.Sprintf("%dx%d", size, 10*size), spec})
	}
	for _, g := range groups {
		spec := g.spec
		out, err := Sticky().Assign(spec)
		if err != nil {
			b.Fatal(err)
		}
		left := adopt(spec, out)
		left.Members = left.Members[len(spec.Members)/10:]
		for _, c := range []struct {
			name string
			spec Spec
		}{{"fresh", spec}, {"same", adopt(spec, out)}, {"leave10pct", left}} {
			b.Run(g.name+"-"+c.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					_, _ = Sticky().Assign(c.spec)
				}
			})
		}
	}
}
