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
	// owner is the member that runs a task now, warmup the one that gets a warm-up of it; -1 for none.
	owner, warmup []int32
	// memberActives and processActives are the active tasks as refined so far.
	memberActives, processActives []int32
	budget                        int
	// had are the copies of a task as desired, while its refined ones replace them.
	had []int32
}

func newRefiner(s *solution, st *state, owner []int32) *refiner {
	r := &refiner{
		solution: s, state: st, owner: owner, warmup: make([]int32, s.numTasks()),
		memberActives: make([]int32, len(s.members)), processActives: make([]int32, s.numProcesses()),
		budget: max(s.spec.NumWarmupReplicas, 0),
	}
	for t := range int32(s.numTasks()) {
		r.warmup[t] = -1
		if of := s.copiesOf(t); len(of) > 0 {
			r.countActive(of[0], 1)
		}
	}
	return r
}

func (r *refiner) countActive(member, n int32) {
	r.memberActives[member] += n
	r.processActives[r.process[member]] += n
}

// refine works through the tasks that cannot go at once to whom they are desired: those that have a warm-up there already
// first, then those with the fewest processes that are caught up, then in the order of tasks.
func (r *refiner) refine() {
	if r.budget == 0 || r.spec.AcceptableRecoveryLag == math.MaxInt64 {
		return // all is where it shall be at once, or counts as caught up
	}
	var waiting []uint64
	for t := range int32(r.numTasks()) {
		if !r.stateful(t) || r.moves(t) {
			continue
		}
		key := uint64(min(r.state.numCaughtUp(t), math.MaxInt16))<<32 | uint64(t)
		if c := r.state.in(t, r.process[r.copiesOf(t)[0]]); c == nil || c.role != warmup {
			key |= 1 << 62
		}
		waiting = append(waiting, key)
	}
	slices.Sort(waiting)
	for _, key := range waiting {
		r.wait(int32(uint32(key)))
	}
}

// moves says whether the task goes to its desired owner at once.
func (r *refiner) moves(t int32) bool {
	of := r.copiesOf(t)
	if len(of) == 0 {
		return true
	}
	wanted := of[0]
	return r.isStale(wanted) || r.spec.Members[r.members[wanted]].NoWarmups || r.state.caughtUp(t, r.process[wanted])
}

// wait leaves the task with who can run it meanwhile, and gives its desired owner a warm-up while the budget lasts.
func (r *refiner) wait(t int32) {
	wanted := r.copiesOf(t)[0]
	runs := r.meanwhile(t, wanted)
	if r.process[runs] == r.process[wanted] {
		return
	}
	r.countActive(wanted, -1)
	r.countActive(runs, 1)
	if r.budget > 0 {
		r.budget--
		r.warmup[t] = wanted
		if c := r.state.in(t, r.process[wanted]); c != nil && c.role == warmup && !r.isStale(c.holder) {
			r.warmup[t] = c.holder
		}
	}
	r.placeCopies(t, runs, wanted)
}

// meanwhile is the member that runs the task until its desired owner is caught up: its owner, as long as that has the state
// or nobody else is caught up, else one that is, else the one that is nearest to it.
func (r *refiner) meanwhile(t, wanted int32) int32 {
	owner := r.owner[t]
	if owner >= 0 && r.state.caughtUp(t, r.process[owner]) {
		return owner
	}
	best, bestRank := (*replica)(nil), meanwhileRank{}
	of := r.state.replicasOf(t)
	for i := range of {
		c := &of[i]
		if !r.mayRun(t, c.process) {
			continue
		}
		if rank := r.rank(t, c); best == nil || rank.before(bestRank) {
			best, bestRank = c, rank
		}
	}
	switch {
	case best != nil && best.caughtUp:
		return r.memberFor(t, best)
	case owner >= 0:
		return owner
	case best != nil && (best.offset >= 0 || best.role != dormant) && best.process != r.process[wanted]:
		if at := r.state.in(t, r.process[wanted]); at == nil || bestRank.state(r.rank(t, at)) {
			return r.memberFor(t, best)
		}
	}
	return wanted
}

// meanwhileRank orders the processes that may run a task until its desired owner is caught up.
type meanwhileRank struct {
	caughtUp, planned, held bool
	offset                  int64
	load                    float64
}

func (r *refiner) rank(t int32, c *replica) meanwhileRank {
	return meanwhileRank{
		caughtUp: c.caughtUp, planned: c.caughtUp && r.holds(t, c.process), held: c.role != dormant,
		offset: c.offset, load: float64(r.processActives[c.process]) / float64(r.size(c.process)),
	}
}

// before says whether a process runs the task rather than another: among those that are caught up one that gets a copy
// anyway, then the least loaded; among the others the one with the most state.
func (a meanwhileRank) before(b meanwhileRank) bool {
	switch {
	case a.caughtUp != b.caughtUp:
		return a.caughtUp
	case a.caughtUp && a.planned != b.planned:
		return a.planned
	case a.caughtUp:
		return a.load < b.load
	}
	return a.state(b) || !b.state(a) && a.load < b.load
}

// state says whether a has more of the state than b: a larger known offset, or a replica where none is known.
func (a meanwhileRank) state(b meanwhileRank) bool {
	if a.offset != b.offset {
		return a.offset > b.offset
	}
	return a.offset < 0 && a.held && !b.held
}

func (r *refiner) isStale(member int32) bool { return r.stale != nil && r.stale[member] }

// mayRun says whether a process can get the task as active: it has a member that may, and no stale member of it keeps a copy.
func (r *refiner) mayRun(t, process int32) bool {
	if r.stale == nil {
		return true
	}
	if r.getsNothing(process) {
		return false
	}
	for _, m := range r.copiesOf(t) {
		if r.process[m] == process && r.stale[m] {
			return false
		}
	}
	return true
}

// memberFor is the member of the replica's process that gets the task: who holds it, or is to hold it, else the one with
// the fewest active tasks.
func (r *refiner) memberFor(t int32, c *replica) int32 {
	if c.holder >= 0 && !r.isStale(c.holder) {
		return c.holder
	}
	for _, m := range r.copiesOf(t) {
		if r.process[m] == c.process {
			return m
		}
	}
	best := int32(-1)
	for m := r.first[c.process]; m < r.first[c.process+1]; m++ {
		if !r.isStale(m) && (best < 0 || r.memberActives[m] < r.memberActives[best]) {
			best = m
		}
	}
	return best
}

// placeCopies sets the copies of a waiting task: the standbys that are desired, without that of the process which runs the
// task; then, in the place of the desired owner, what the task has now, a replica that is caught up first, and without a
// warm-up a copy at the desired owner itself. So a task keeps a standby while its warm-up is not caught up.
func (r *refiner) placeCopies(t, runs, wanted int32) {
	r.had = append(r.had[:0], r.copiesOf(t)...)
	standbys := len(r.had) - 1
	r.numCopies[t] = 0
	r.place(t, runs)
	for _, m := range r.had[1:] {
		r.placeStandby(t, m, standbys)
	}
	of := r.state.replicasOf(t)
	for _, caughtUp := range []bool{true, false} {
		if at := r.state.in(t, r.process[wanted]); !caughtUp && at != nil && at.role != dormant {
			r.placeStandby(t, wanted, standbys)
		}
		for i := range of {
			if c := &of[i]; c.caughtUp == caughtUp && c.role >= standby && !r.isStale(c.holder) {
				r.placeStandby(t, c.holder, standbys)
			}
		}
	}
	r.placeStandby(t, wanted, standbys)
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
