package assignor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var rackNames = []string{"", "ra", "rb", "rc"}

// drawRacks puts processes and leaders into racks.
func drawRacks(t *rapid.T, spec *Spec) {
	for i := range spec.Members {
		if rack := rapid.SampledFrom(rackNames).Draw(t, "rack"); rack != "" || rapid.Bool().Draw(t, "empty rack") {
			spec.Members[i].RackID = &rack
		}
	}
	drawLeaders(t, spec)
}

// drawLeaders puts leaders into racks.
func drawLeaders(t *rapid.T, spec *Spec) {
	for i := range spec.Subtopologies {
		s := &spec.Subtopologies[i]
		if rapid.IntRange(0, 4).Draw(t, "led") > 0 {
			s.LeaderRacks = rapid.SliceOfN(rapid.SampledFrom(rackNames), int(s.Tasks), int(s.Tasks)).Draw(t, "leaders")
		}
	}
}

// rackOf is the rack of each process: that of its first member.
func rackOf(spec Spec) map[string]string {
	racks := map[string]string{}
	for _, m := range spec.Members { // sorted
		if _, ok := racks[m.ProcessID]; !ok {
			racks[m.ProcessID] = ""
			if m.RackID != nil {
				racks[m.ProcessID] = *m.RackID
			}
		}
	}
	return racks
}

// numNear is how many tasks are active in the rack of their leader.
func numNear(spec Spec, out Assignment) (n int) {
	racks := rackOf(spec)
	leader := map[string][]string{}
	for _, s := range spec.Subtopologies {
		leader[s.ID] = s.LeaderRacks
	}
	for _, m := range spec.Members {
		for task := range out[m.ID].Active.All() {
			if list := leader[task.Subtopology]; list != nil && list[task.Partition] != "" && list[task.Partition] == racks[m.ProcessID] {
				n++
			}
		}
	}
	return n
}

// mostNear is how many tasks can be near their leaders at best when each process has between the counts that it may have, found
// by trying all.
func mostNear(leaders, processes []string, total, least, most int) int {
	counts := make([]int, len(processes))
	best := 0
	var try func(p, left int)
	try = func(p, left int) {
		if p == len(processes) {
			if left != 0 {
				return
			}
			room, near := map[string]int{}, 0
			for i, rack := range processes {
				room[rack] += counts[i]
			}
			for _, rack := range leaders {
				if rack != "" && room[rack] > 0 {
					room[rack]--
					near++
				}
			}
			best = max(best, near)
			return
		}
		for n := least; n <= most && n <= left; n++ {
			counts[p] = n
			try(p+1, left-n)
		}
	}
	try(0, total)
	return best
}

// A first assignment has the fewest tasks away from their leaders that processes of one size with equally many tasks allow; members
// have equally many, too.
func TestFreshTasksAreNearTheirLeaders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := group(rapid.IntRange(1, 6).Draw(t, "processes"), rapid.IntRange(1, 3).Draw(t, "threads"), drawSubtopologies(t)...)
		drawRacks(t, &spec)
		out := assign(t, spec)
		var leaders, processes []string
		total := 0
		for _, s := range spec.Subtopologies {
			total += int(s.Tasks)
			leaders = append(leaders, s.LeaderRacks...)
		}
		for _, rack := range rackOf(spec) {
			processes = append(processes, rack)
		}
		n := len(processes)
		if got, want := numNear(spec, out), mostNear(leaders, processes, total, total/n, (total+n-1)/n); got != want {
			t.Fatalf("%d tasks near their leaders, %d can be", got, want)
		}
		if spread(spec, out) > 1 {
			t.Fatalf("spread %d", spread(spec, out))
		}
	})
}

// withoutLeaders is the same group without regard to leaders.
func withoutLeaders(spec Spec) Spec {
	spec.Subtopologies = slices.Clone(spec.Subtopologies)
	for i := range spec.Subtopologies {
		spec.Subtopologies[i].LeaderRacks = nil
	}
	return spec
}

// activeLoads are the sorted numbers of active tasks of processes.
func activeLoads(spec Spec, out Assignment) (loads []int) {
	count := map[string]int{}
	for _, m := range spec.Members {
		count[m.ProcessID] += out[m.ID].Active.Len()
	}
	for _, n := range count {
		loads = append(loads, n)
	}
	slices.Sort(loads)
	return loads
}

// Whatever the group, racks make no assignment unsound, nobody moves for their sake, and processes have as many tasks as without.
func TestLeadersMoveNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		drawRacks(t, &spec)
		out := assign(t, spec)
		checkSound(t, spec, out)
		again := spec
		again.Members = rapid.Permutation(spec.Members).Draw(t, "order")
		if d := cmp.Diff(out, assign(t, again)); d != "" {
			t.Fatalf("the order of members matters:\n%s", d)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		threads := rapid.IntRange(1, 3).Draw(t, "threads")
		spec := group(rapid.IntRange(1, 5).Draw(t, "processes"), threads, drawSubtopologies(t)...)
		drawRacks(t, &spec)
		spec.NumStandbyReplicas = rapid.IntRange(0, 1).Draw(t, "standbys")
		spec = adopt(spec, assign(t, spec))
		drawRacks(t, &spec)
		if d := cmp.Diff(assign(t, withoutLeaders(spec)), assign(t, spec)); d != "" {
			t.Fatalf("other leaders move tasks:\n%s", d)
		}
		gone := spec.Members[rapid.IntRange(0, len(spec.Members)-1).Draw(t, "gone")].ProcessID
		fewer := spec
		fewer.Members = slices.DeleteFunc(slices.Clone(spec.Members), func(m Member) bool { return m.ProcessID == gone })
		for range rapid.IntRange(0, 3).Draw(t, "new") {
			process := fmt.Sprint("new", len(fewer.Members))
			for i := range threads {
				fewer.Members = append(fewer.Members, Member{ID: fmt.Sprint(process, i), ProcessID: process, RackID: &rackNames[len(fewer.Members)%4]})
			}
		}
		slices.SortFunc(fewer.Members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
		if len(fewer.Members) == 0 {
			return
		}
		with, without := assign(t, fewer), assign(t, withoutLeaders(fewer))
		if a, b := moved(fewer, with), moved(fewer, without); a != b {
			t.Fatalf("%d tasks of living owners move, %d without racks", a, b)
		}
		if a, b := activeLoads(fewer, with), activeLoads(fewer, without); !slices.Equal(a, b) {
			t.Fatalf("processes have %v active tasks, %v without racks", a, b)
		}
		if a, b := numNear(fewer, with), numNear(fewer, without); a < b {
			t.Fatalf("%d tasks near their leaders, %d without regard to them", a, b)
		}
	})
}

// An orphan goes to a member in the rack of its leader, and who has too many gives up those that are away from theirs.
func TestOrphansGoNearTheirLeaders(t *testing.T) {
	spec := group(3, 1, Subtopology{ID: "0", Tasks: 6, LeaderRacks: []string{"ra", "rb", "ra", "rb", "rb", "ra"}})
	for i := range spec.Members {
		spec.Members[i].RackID = &[]string{"ra", "rb", "rb"}[i]
	}
	spec.Members[0].Current.Active = tasksOf(1, 0, 2, 3).WithEpoch(1)
	spec.Members[1].Current.Active = tasksOf(5).WithEpoch(1)
	out, err := Sticky().Assign(spec)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(out[spec.Members[0].ID].Active); got != fmt.Sprint(tasksOf(0, 2)) {
		t.Errorf("the first keeps %s", got)
	}
	if n := numNear(spec, out); n != 5 {
		t.Errorf("%d tasks are near their leaders: %v", n, out)
	}
}
