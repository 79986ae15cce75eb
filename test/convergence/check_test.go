package convergence

import (
	"fmt"

	"github.com/coordd/coordd/topology"
)

// reconciliationMs is how long a hand-over may take: a heartbeat of anybody has the target computed, the owner closes the task and
// reports that, and the next owner hears of it with its next heartbeat and takes it.
func (w *world) reconciliationMs() int64 {
	s := &w.group.settings
	return int64(s.AssignmentIntervalMs) + 2*int64(s.HeartbeatIntervalMs) + revokeMs + applyMs + 2*tickMs
}

// check holds the outcome to what is promised.
func (w *world) check(r *row, o *outcome) error {
	if err := w.checkBalance(); err != nil {
		return err
	}
	if r.assignor != "highly_available" || r.standbys == 0 {
		return nil
	}
	limit := w.reconciliationMs()
	if r.scenario.silence {
		limit += int64(w.group.settings.SessionTimeoutMs)
	}
	if o.longest > limit {
		return fmt.Errorf("nobody processed %v for %d ms (until %d), more than %d ms", o.longestTask, o.longest, o.longestAt, limit)
	}
	return nil
}

// checkBalance: at the end every task is active, with as many standbys as there shall be, and members differ by one active task
// at most.
func (w *world) checkBalance() error {
	least, most := -1, 0
	actives, standbys := 0, map[topology.Task]int32{}
	for m := range w.group.hard().Members() {
		n := m.Current.Assigned.Active.Len()
		actives += n
		most = max(most, n)
		if least < 0 || n < least {
			least = n
		}
		for t := range m.Current.Assigned.Standby.All() {
			standbys[t]++
		}
	}
	if most-least > 1 {
		return fmt.Errorf("one member has %d active tasks, another %d", least, most)
	}
	if actives != w.actives {
		return fmt.Errorf("%d tasks are active of %d", actives, w.actives)
	}
	alive := 0
	for _, p := range w.processes {
		if p.alive {
			alive++
		}
	}
	for _, t := range w.tasks {
		if want := min(w.group.settings.NumStandbyReplicas, int32(alive)-1); standbys[t] != want {
			return fmt.Errorf("%v has %d standbys, not %d", t, standbys[t], want)
		}
	}
	return nil
}
