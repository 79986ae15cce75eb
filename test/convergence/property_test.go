package convergence

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/assignor"
)

// TestAnyHistoryComesToRest: whatever starts, stops, dies and comes back, with and without its disk, whichever settings change and
// leaders follow one another, a task is active once at every moment and the group comes to rest, balanced, with every copy in place.
func TestAnyHistoryComesToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := settings(rapid.Int32Range(0, 2).Draw(t, "standbys"))
		if err != nil {
			t.Fatal(err)
		}
		s.NumWarmupReplicas = rapid.Int32Range(0, 3).Draw(t, "warm-ups")
		s.AcceptableRecoveryLag = rapid.SampledFrom([]int64{0, 100, 10_000}).Draw(t, "lag")
		s.TaskOffsetIntervalMs = 15_000
		a := rapid.SampledFrom([]assignor.Assignor{assignor.HighlyAvailable(), assignor.HighlyAvailable(), assignor.Auto(), assignor.Sticky()}).Draw(t, "assignor")
		w := newWorld(s, a, rapid.Int32Range(0, 5).Draw(t, "stateless"), rapid.Int32Range(1, 9).Draw(t, "stateful"))
		w.group.settings.AssignorName = a.Name()
		if err := w.prepare(rapid.IntRange(1, 4).Draw(t, "processes")); err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "idle") {
			w.growth = 0
		}
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			if err := w.change(t); err != nil {
				t.Fatalf("%v\n%s", err, w.show())
			}
		}
		if len(w.living(true)) == 0 {
			w.start(w.processes[0], true)
		}
		if _, err := w.settle(); err != nil {
			t.Fatal(err)
		}
		if err := w.checkBalance(); err != nil {
			t.Fatalf("%v\n%s", err, w.show())
		}
	})
}

func (w *world) living(alive bool) (list []*process) {
	for _, p := range w.processes {
		if p.alive == alive {
			list = append(list, p)
		}
	}
	return list
}

func pick(t *rapid.T, list []*process) *process {
	if len(list) == 0 {
		return nil
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(t, "process")]
}

// change makes a random change and lets some time pass.
func (w *world) change(t *rapid.T) error {
	switch rapid.SampledFrom([]string{"start", "stop", "kill", "return", "return", "failover", "standbys", "warm-ups"}).Draw(t, "change") {
	case "start":
		w.start(newProcess(processName(len(w.processes)), rapid.IntRange(1, 3).Draw(t, "threads")), false)
	case "stop":
		if p := pick(t, w.living(true)); p != nil {
			if err := w.stop(p); err != nil {
				return err
			}
		}
	case "kill":
		if p := pick(t, w.living(true)); p != nil {
			w.kill(p)
		}
	case "return":
		if p := pick(t, w.living(false)); p != nil {
			w.start(p, rapid.Bool().Draw(t, "disk"))
		}
	case "failover":
		w.failover()
	case "standbys":
		w.group.settings.NumStandbyReplicas = rapid.Int32Range(0, 2).Draw(t, "standbys")
	case "warm-ups":
		w.group.settings.NumWarmupReplicas = rapid.Int32Range(0, 3).Draw(t, "warm-ups")
	}
	return w.run(rapid.Int64Range(0, 60).Draw(t, "seconds") * 1000)
}

// TestPatientChangesInterruptNobodyForLong: with highly_available and standbys, whatever is done to one process after the other, each
// time when all copies are shown as caught up, no task is without a caught-up owner for longer than one hand-over. It does not matter
// that another leader comes in the middle of it, which knows no reports.
func TestPatientChangesInterruptNobodyForLong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := settings(rapid.Int32Range(1, 2).Draw(t, "standbys"))
		if err != nil {
			t.Fatal(err)
		}
		s.NumWarmupReplicas = rapid.Int32Range(1, 3).Draw(t, "warm-ups")
		w := newWorld(s, assignor.HighlyAvailable(), rapid.Int32Range(0, 5).Draw(t, "stateless"), rapid.Int32Range(1, 9).Draw(t, "stateful"))
		w.group.settings.AssignorName = assignor.HighlyAvailableName
		w.growth = rapid.SampledFrom([]int64{10, 100, 1000}).Draw(t, "growth")
		if err := w.prepare(rapid.IntRange(3, 5).Draw(t, "processes")); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			if err := w.quiet(); err != nil {
				t.Fatal(err)
			}
			w.measured.begin(w)
			w.group.causes = nil
			limit := w.reconciliationMs()
			what := rapid.SampledFrom([]string{"stop", "kill", "return", "start", "failover"}).Draw(t, "what")
			switch dead := w.living(false); {
			case what == "return" && len(dead) > 0:
				w.start(pick(t, dead), rapid.Bool().Draw(t, "disk"))
			case what == "failover":
				w.failover()
			case what == "start" || what == "return" || len(w.living(true)) == 2:
				w.start(newProcess(processName(len(w.processes)), rapid.IntRange(1, 3).Draw(t, "threads")), false)
			case what == "stop":
				if err := w.stop(pick(t, w.living(true))); err != nil {
					t.Fatal(err)
				}
			default:
				w.kill(pick(t, w.living(true)))
				limit += int64(s.SessionTimeoutMs)
			}
			if what != "kill" && rapid.Bool().Draw(t, "failover") { // after which a session time-out begins anew
				if err := w.run(rapid.Int64Range(0, 60).Draw(t, "seconds") * 1000); err != nil {
					t.Fatal(err)
				}
				w.failover()
			}
			if _, err := w.settle(); err != nil {
				t.Fatal(err)
			}
			if m := &w.measured; m.longest > limit {
				t.Fatalf("%s: nobody processed %v for %d ms (until %d), more than %d ms\n%s", what, m.longestTask, m.longest, m.longestAt, limit, w.show())
			}
		}
	})
}
