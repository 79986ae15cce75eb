package convergence

import (
	"testing"

	"github.com/coordd/coordd/assignor"
)

// TestAFormerBudgetStandsUntilTheNextTarget: when fewer warm-ups are allowed than are under way, the target of before stands until
// a heartbeat has the next one made, which has no more.
func TestAFormerBudgetStandsUntilTheNextTarget(t *testing.T) {
	s, err := settings(0)
	if err != nil {
		t.Fatal(err)
	}
	s.NumWarmupReplicas = 2
	w := newWorld(s, assignor.HighlyAvailable(), 0, 8)
	w.group.settings.AssignorName = assignor.HighlyAvailableName
	if err := w.prepare(1); err != nil {
		t.Fatal(err)
	}
	warmups := func() (n int) {
		for m := range w.group.hard().Members() {
			if m.Target != nil {
				n += m.Target.Assignment.Warmup.Len()
			}
		}
		return n
	}
	w.start(newProcess(processName(len(w.processes)), 1), false)
	for range 600 {
		if warmups() == 2 {
			break
		}
		if err := w.tick(); err != nil {
			t.Fatal(err)
		}
	}
	w.group.settings.NumWarmupReplicas = 1
	before := warmups()
	if err := w.tick(); err != nil {
		t.Fatal(err)
	}
	if after := warmups(); before != 2 || after != 2 {
		t.Fatalf("%d warm-ups, and %d before any heartbeat, want 2 and 2", before, after)
	}
	for range 600 {
		if err := w.tick(); err != nil {
			t.Fatal(err)
		}
		if warmups() == 1 {
			return
		}
	}
	t.Fatalf("%d warm-ups a minute after only one is allowed", warmups())
}
