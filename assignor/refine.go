package assignor

import (
	"math"
	"slices"
)

// refiner turns a desired assignment, in place, into the nearest one that lets no stateful task become active where its
// state is not caught up while it is elsewhere.
type refiner struct {
	*solution
	state *state
	// owner is the member that runs a task as long as its desired owner is not caught up, runs the one that does so for this
	// reason, and warmup the one that gets a warm-up of it; -1 for none.
	owner, runs, warmup []int32
	budget              int
	// had are the copies of a task as desired, while its refined ones replace them.
	had []int32
}

func newRefiner(s *solution, c *claims) *refiner {
	r := &refiner{
		solution: s, state: c.state, owner: c.owner, budget: max(s.spec.NumWarmupReplicas, 0),
		runs: make([]int32, s.numTasks()), warmup: make([]int32, s.numTasks()),
	}
	for t := range r.warmup {
		r.runs[t], r.warmup[t] = -1, -1
	}
	return r
}

// refine works through the tasks that cannot go at once to whom they are desired: those that have a warm-up there already
// first, then those with the fewest processes that are caught up, then in the order of tasks.
func (r *refiner) refine() {
	if r.budget == 0 || r.spec.AcceptableRecoveryLag == math.MaxInt64 {
		return // all is where it shall be at once, or counts as caught up
	}
	var waiting []uint64
	for t := range int32(r.numTasks()) {
		if !r.waits(t) {
			continue
		}
		key := fewestFirst(r.state.numCaughtUp(t), t)
		if c := r.state.in(t, r.process[r.copiesOf(t)[0]]); c == nil || c.role != warmup {
			key |= 1 << 62
		}
		waiting = append(waiting, key)
	}
	if len(waiting) == 0 {
		return
	}
	slices.Sort(waiting)
	for _, key := range waiting {
		r.wait(int32(uint32(key)))
	}
	r.leaveStandbys()
}

// waits says whether the task cannot go to its desired owner at once.
func (r *refiner) waits(t int32) bool {
	of := r.copiesOf(t)
	if len(of) == 0 || !r.stateful(t) || r.owner[t] < 0 {
		return false
	}
	wanted := of[0]
	return r.process[wanted] != r.process[r.owner[t]] && !r.isStale(wanted) && !r.noWarmups(wanted) &&
		!r.state.caughtUp(t, r.process[wanted])
}

// wait leaves the task with its owner, and gives its desired one a warm-up while the budget lasts.
func (r *refiner) wait(t int32) {
	wanted := r.copiesOf(t)[0]
	r.runs[t] = r.owner[t]
	if r.budget == 0 {
		return
	}
	r.budget--
	r.warmup[t] = wanted
	if c := r.state.in(t, r.process[wanted]); c != nil && c.role == warmup && !r.isStale(c.holder) {
		r.warmup[t] = c.holder
	}
}

// leaveStandbys leaves the standbys of all tasks where they are as long as a task waits: so the next step finds them where
// this one left them, and a task that moves keeps the standby that it has. Those that are missing are placed as desired. A
// waiting task has a place fewer to fill while its warm-up fills it.
func (r *refiner) leaveStandbys() {
	for t := range int32(r.numTasks()) {
		if r.stateful(t) && r.numCopies[t] > 0 {
			r.placeCopies(t)
		}
	}
}

func (r *refiner) placeCopies(t int32) {
	r.had = append(r.had[:0], r.copiesOf(t)...)
	standbys, wanted := len(r.had)-1, r.had[0]
	r.numCopies[t] = 0
	if runs := r.runs[t]; runs >= 0 {
		r.place(t, runs)
	} else {
		r.place(t, wanted)
	}
	if standbys == 0 {
		return
	}
	for _, m := range r.had[1:] {
		if r.isStale(m) {
			r.placeStandby(t, m, standbys)
		}
	}
	of := r.state.replicasOf(t)
	held := func(as role, caughtUp bool) {
		for i := range of {
			if c := &of[i]; c.role == as && c.caughtUp == caughtUp && !r.isStale(c.holder) && !r.passed(t, c) {
				r.placeStandby(t, c.holder, standbys)
			}
		}
	}
	held(standby, true)
	held(standby, false)
	held(active, true)
	if r.warmup[t] >= 0 {
		standbys-- // it fills a place
	}
	for _, m := range r.had[1:] {
		r.placeStandby(t, m, standbys)
	}
	r.placeStandby(t, wanted, standbys)
}

// passed says that the replica is further behind one of those desired in its place than the acceptable lag.
func (r *refiner) passed(t int32, c *replica) bool {
	if c.caughtUp || c.offset < 0 {
		return false
	}
	for _, m := range r.had[1:] {
		if d := r.state.in(t, r.process[m]); d != nil && d.offset-c.offset > r.spec.AcceptableRecoveryLag {
			return true
		}
	}
	return false
}

func (r *refiner) placeStandby(t, member int32, standbys int) {
	w := r.warmup[t]
	if int(r.numCopies[t]) > standbys || r.holds(t, r.process[member]) || w >= 0 && r.process[w] == r.process[member] {
		return
	}
	r.place(t, member)
}

// place adds a copy without counting the load.
func (r *refiner) place(t, member int32) {
	r.copies[int(t)*r.maxCopies+int(r.numCopies[t])] = member
	r.numCopies[t]++
}
