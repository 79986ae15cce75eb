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

const simEnd = 1000

// sim is a group whose members take over what is assigned to them at once, and restore state when told.
type sim struct {
	spec  Spec
	state map[string]map[topology.Task]int64 // by process
	next  int
	// moves counts how often a task left a living process since the last change of the group.
	moves map[topology.Task]int
}

func (s *sim) join(threads int) {
	s.next++
	process := fmt.Sprintf("p%d", s.next*7919%1009)
	s.state[process] = map[topology.Task]int64{}
	for i := range threads {
		s.spec.Members = append(s.spec.Members, Member{ID: fmt.Sprintf("m%d-%d", s.next*104729%1009, i), ProcessID: process})
	}
	slices.SortFunc(s.spec.Members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	clear(s.moves)
}

func (s *sim) leave(process string) {
	delete(s.state, process)
	s.spec.Members = slices.DeleteFunc(s.spec.Members, func(m Member) bool { return m.ProcessID == process })
	clear(s.moves)
}

func (s *sim) processes() []string {
	var all []string
	for _, m := range s.spec.Members {
		if !slices.Contains(all, m.ProcessID) {
			all = append(all, m.ProcessID)
		}
	}
	slices.Sort(all)
	return all
}

// adopt has all members do what is assigned: active tasks have their state whole.
func (s *sim) adopt(out Assignment) {
	owners := map[topology.Task]string{}
	for _, m := range s.spec.Members {
		for task := range m.Current.Active.All() {
			owners[task] = m.ProcessID
		}
	}
	for _, m := range s.spec.Members {
		for task := range out[m.ID].Active.All() {
			if was, ok := owners[task]; ok && was != m.ProcessID {
				s.moves[task]++
			}
		}
	}
	s.spec = adopt(s.spec, out)
	for _, m := range s.spec.Members {
		for task := range m.Current.Active.All() {
			s.state[m.ProcessID][task] = simEnd
		}
		for _, set := range []topology.Tasks{m.Current.Standby, m.Current.Warmup} {
			for task := range set.All() {
				if _, ok := s.state[m.ProcessID][task]; !ok {
					s.state[m.ProcessID][task] = 0
				}
			}
		}
	}
	s.report()
}

// report has all members report what they know.
func (s *sim) report() {
	for i := range s.spec.Members {
		m := &s.spec.Members[i]
		offsets, ends := map[topology.Task]int64{}, map[topology.Task]int64{}
		stateful := func(t topology.Task) bool {
			return slices.ContainsFunc(s.spec.Subtopologies, func(s Subtopology) bool { return s.ID == t.Subtopology && s.Stateful })
		}
		for task, offset := range s.state[m.ProcessID] {
			if stateful(task) {
				offsets[task] = offset
			}
		}
		for task := range m.Current.Active.All() {
			if stateful(task) {
				ends[task] = simEnd
			}
		}
		m.Offsets, m.EndOffsets = OffsetsOf(offsets), OffsetsOf(ends)
	}
}

// warmups are the warm-ups of the group, by process.
func (s *sim) warmupsOf(a Assignment) (all []processTask) {
	for _, m := range s.spec.Members {
		for task := range a[m.ID].Warmup.All() {
			all = append(all, processTask{m.ProcessID, task})
		}
	}
	return all
}

type processTask struct {
	process string
	task    topology.Task
}

// step computes the assignment, checks it, and has it adopted.
func (s *sim) step(t *rapid.T) Assignment {
	t.Helper()
	out := assignHA(t, s.spec)
	checkRefined(t, s.spec, out)
	checkProgress(t, s.spec, out)
	s.checkStable(t, s.spec, out)
	s.adopt(out)
	s.checkStable(t, s.spec, out)
	return out
}

// checkStable computes the assignment again from itself, until it is given again. Active tasks and warm-ups stay, but for active
// tasks that are spread more evenly; standbys may go to where more of their state is.
func (s *sim) checkStable(t *rapid.T, spec Spec, out Assignment) {
	t.Helper()
	d := ""
	for range 10 {
		spec = adopt(spec, out)
		again := assignHA(t, spec)
		if d = cmp.Diff(out, again); d == "" {
			return
		}
		if unevenness(again) >= unevenness(out) {
			for id, a := range out {
				if b := again[id]; !a.Active.SameTasks(b.Active) || !a.Warmup.SameTasks(b.Warmup) {
					t.Fatalf("not stable (-first +second):\n%s", d)
				}
			}
		}
		out = again
	}
	t.Fatalf("not stable after ten times (-tenth +eleventh):\n%s", d)
}

// unevenness is the sum of the squares of the members' numbers of active tasks.
func unevenness(a Assignment) (sum int) {
	for _, of := range a {
		sum += of.Active.Len() * of.Active.Len()
	}
	return sum
}

// settle goes on until nothing is under way, and returns the steps that took.
func (s *sim) settle(t *rapid.T) (steps int) {
	t.Helper()
	limit := 4
	for _, sub := range s.spec.Subtopologies {
		limit += 2 * int(sub.Tasks)
	}
	for {
		out := s.step(t)
		under := s.warmupsOf(out)
		if len(under) == 0 {
			if n := spread(s.spec, out); n > 1 {
				t.Fatalf("at rest, and some have %d active tasks more than others: %v", n, out)
			}
			return steps
		}
		if steps++; steps > limit {
			t.Fatalf("%d steps and still under way: %v", steps, under)
		}
		w := rapid.SampledFrom(under).Draw(t, "caught up")
		s.state[w.process][w.task] = simEnd
		s.report()
	}
}

func drawSim(t *rapid.T) *sim {
	s := &sim{state: map[string]map[topology.Task]int64{}, moves: map[topology.Task]int{}}
	s.spec = Spec{Subtopologies: drawSubtopologies(t), NumStandbyReplicas: rapid.IntRange(0, 2).Draw(t, "standbys"),
		NumWarmupReplicas: rapid.IntRange(1, 4).Draw(t, "warmups"), AcceptableRecoveryLag: 10}
	for i := range s.spec.Subtopologies {
		s.spec.Subtopologies[i].Stateful = rapid.IntRange(0, 3).Draw(t, "state") > 0
	}
	return s
}

func TestHighlyAvailableConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSim(t)
		for range rapid.IntRange(1, 4).Draw(t, "processes") {
			s.join(rapid.IntRange(1, 3).Draw(t, "threads"))
		}
		s.settle(t)
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			all := s.processes()
			if len(all) > 1 && rapid.Bool().Draw(t, "leave") {
				s.leave(rapid.SampledFrom(all).Draw(t, "leaves"))
			} else {
				s.join(rapid.IntRange(1, 3).Draw(t, "threads"))
			}
			for range rapid.IntRange(0, 2).Draw(t, "steps between") {
				if under := s.warmupsOf(s.step(t)); len(under) > 0 {
					w := rapid.SampledFrom(under).Draw(t, "caught up")
					s.state[w.process][w.task] = simEnd
					s.report()
				}
			}
		}
		s.settle(t)
		for task, n := range s.moves {
			if n > 2 { // once where it was on its way to before the change, and on

				t.Fatalf("%v moved %d times", task, n)
			}
		}
	})
}
