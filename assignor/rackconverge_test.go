package assignor

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/topology"
)

// tag puts each process into the zone that its name says.
func (s *sim) tag(zones int) {
	s.spec.RackAwareTags = []string{"zone"}
	for i := range s.spec.Members {
		m := &s.spec.Members[i]
		sum := 0
		for _, c := range m.ProcessID {
			sum += int(c)
		}
		m.Tags = map[string]string{"zone": fmt.Sprint("z", sum%zones)}
	}
}

// checkApart checks that copies are in as many zones as can be.
func checkApart(t *rapid.T, spec Spec, now func(m *Member) topology.Assignment) {
	t.Helper()
	out := Assignment{}
	for i := range spec.Members {
		out[spec.Members[i].ID] = now(&spec.Members[i])
	}
	of := tagsOf(spec)
	zones := apart(spec, of, processesOf(spec))
	for task, processes := range copiesIn(spec, out) {
		if len(processes) > 1 && apart(spec, of, processes) != min(len(processes), zones) {
			t.Fatalf("%v is at %v, in too few of %d zones: %v", task, processes, zones, of)
		}
	}
}

// Warm-ups and standbys of the highly available assignor end where copies are in as many zones as can be, also when tags are set
// later; the group comes to rest, and what is under way stays so when nothing changed.
func TestHighlyAvailableEndsSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSim(t)
		zones := rapid.IntRange(2, 4).Draw(t, "zones")
		for range rapid.IntRange(2, 5).Draw(t, "processes") {
			s.join(rapid.IntRange(1, 2).Draw(t, "threads"))
		}
		if rapid.Bool().Draw(t, "tags come later") {
			s.settle(t)
		}
		s.tag(zones)
		s.settle(t)
		current := func(m *Member) topology.Assignment { return m.Current }
		checkApart(t, s.spec, current)
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			if all := s.processes(); len(all) > 2 && rapid.Bool().Draw(t, "leave") {
				s.leave(rapid.SampledFrom(all).Draw(t, "leaves"))
			} else {
				s.join(rapid.IntRange(1, 2).Draw(t, "threads"))
			}
			s.tag(zones)
		}
		s.settle(t)
		checkApart(t, s.spec, current)
	})
}

// In any group of up to 60 members in up to 20 processes, copies are in as many racks as there are.
func TestLargeGroupsAreSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawCluster(t)
		for i := range spec.Members {
			spec.Members[i].Stale = false
		}
		drawTags(t, &spec, 1)
		out := assign(t, spec)
		checkApart(t, spec, func(m *Member) topology.Assignment { return out[m.ID] })
	})
}

// Elections while tasks are under way stop no migration and start none: the group comes to rest all the same, and no task moves
// twice.
func TestElectionsLeaveMigrationsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSim(t)
		for range rapid.IntRange(1, 4).Draw(t, "processes") {
			s.join(rapid.IntRange(1, 2).Draw(t, "threads"))
		}
		drawRacks(t, &s.spec)
		s.settle(t)
		for range rapid.IntRange(1, 2).Draw(t, "changes") {
			s.join(rapid.IntRange(1, 2).Draw(t, "threads"))
		}
		drawRacks(t, &s.spec)
		limit := 4
		for _, sub := range s.spec.Subtopologies {
			limit += 2 * int(sub.Tasks)
		}
		for steps := 0; ; steps++ {
			drawLeaders(t, &s.spec)
			under := s.warmupsOf(s.step(t))
			if len(under) == 0 {
				break
			}
			if steps > limit {
				t.Fatalf("still under way after %d steps: %v", steps, under)
			}
			w := rapid.SampledFrom(under).Draw(t, "caught up")
			s.state[w.process][w.task] = simEnd
			s.report()
		}
		for task, n := range s.moves {
			if n > 1 {
				t.Fatalf("%v moved %d times", task, n)
			}
		}
	})
}
