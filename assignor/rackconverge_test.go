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

// rest goes on until nothing is under way.
func (s *sim) rest(t *rapid.T) {
	t.Helper()
	limit := 10
	for _, sub := range s.spec.Subtopologies {
		limit += 3 * int(sub.Tasks)
	}
	for range limit {
		out := assignHA(t, s.spec)
		s.adopt(out)
		under := s.warmupsOf(out)
		if len(under) == 0 {
			return
		}
		w := rapid.SampledFrom(under).Draw(t, "caught up")
		s.state[w.process][w.task] = simEnd
		s.report()
	}
	t.Fatalf("still under way after %d steps", limit)
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
// later, and the group comes to rest.
func TestHighlyAvailableEndsSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSim(t)
		zones := rapid.IntRange(2, 4).Draw(t, "zones")
		for range rapid.IntRange(2, 5).Draw(t, "processes") {
			s.join(rapid.IntRange(1, 2).Draw(t, "threads"))
		}
		if rapid.Bool().Draw(t, "tags come later") {
			s.rest(t)
		}
		s.tag(zones)
		s.rest(t)
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
		s.rest(t)
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
