package assignor

import (
	"math"
	"slices"
)

// refiner turns a desired assignment, in place, into the nearest one that lets no stateful task become active where its
// state is not caught up while it is elsewhere.
type refiner struct {
	*solution
	claims *claims
	// runs is the member that runs a task because its desired owner is not caught up, and warmup the one that gets a warm-up of
	// it; -1 for none.
	runs, warmup []int32
	budget       int
	// had are the copies of a task as desired, while its refined ones replace them.
	had  []int32
	tags *apartness
	// laggards says that a standby is behind a desired one by more than the acceptable lag.
	laggards bool
	// load is the number of tasks of all roles by member.
	load []int32
}

func newRefiner(s *solution, c *claims) *refiner {
	r := &refiner{
		solution: s, claims: c, tags: newApartness(s.problem), load: make([]int32, len(s.members)), budget: max(s.spec.NumWarmupReplicas, 0),
		runs: make([]int32, s.numTasks()), warmup: make([]int32, s.numTasks()),
	}
	for t := range r.warmup {
		r.runs[t], r.warmup[t] = -1, -1
	}
	return r
}

// refine works through the tasks that cannot go at once to whom they are desired: those that have a warm-up there already
// first and those last whose desired owner is away, then those with the fewest processes that are caught up, then in the order of tasks.
// Whose copies there make no progress come after all: they would hold the budget for ever.
//
// As long as a task waits, the standbys of all stay where they are: so the next step finds them where this one left them, and
// a task that moves keeps the standby that it has. When none waits they move only for a better placement.
func (r *refiner) refine() {
	if r.budget == 0 || r.spec.AcceptableRecoveryLag == math.MaxInt64 {
		return // all is where it shall be at once, or counts as caught up
	}
	var waiting []uint64
	for t := range int32(r.numTasks()) {
		if !r.waits(t) {
			continue
		}
		key, wanted := fewestFirst(r.claims.numCaughtUp(t), t), r.process[r.copiesOf(t)[0]]
		if r.claims.in(t, wanted).role != warmup {
			key |= 1 << 62
			if r.claims.isAway(r.copiesOf(t)[0]) {
				key |= 1 << 61
			}
		}
		if r.claims.stalled != nil && r.claims.stalled[kept{t, wanted}] {
			key |= 1 << 63
		}
		waiting = append(waiting, key)
	}
	slices.Sort(waiting)
	for _, key := range waiting {
		r.wait(int32(uint32(key)))
	}
	if r.maxCopies == 1 {
		for _, key := range waiting {
			t := int32(uint32(key))
			r.copies[t] = r.runs[t]
		}
		return
	}
	if len(waiting) > 0 {
		r.leaveStandbys(true)
		return
	}
	r.rest()
}

// rest places the standbys when no task waits: as they are, or as desired where that is better, or, where it is no worse, with
// those that are missed out for others that are further.
func (r *refiner) rest() {
	copies, numCopies := slices.Clone(r.copies), slices.Clone(r.numCopies)
	reset := func() { copy(r.copies, copies); copy(r.numCopies, numCopies) }
	desired := r.measure()
	r.leaveStandbys(false)
	left := r.measure()
	switch {
	case desired.better(left):
		reset()
	case r.laggards:
		reset()
		if r.leaveStandbys(true); left.better(r.measure()) {
			reset()
			r.leaveStandbys(false)
		}
	}
}

// measure is how good a placement is.
func (r *refiner) measure() (q quality) {
	clear(r.load)
	var used []int32
	for t := range int32(r.numTasks()) {
		used = used[:0]
		for _, m := range r.copiesOf(t) {
			r.load[m]++
			if r.tags != nil {
				class := r.tags.classOf[r.process[m]]
				q.apart += r.tags.gain(used, class)
				used = append(used, class)
			}
		}
	}
	for _, n := range r.load {
		q.unevenness += int64(n) * int64(n)
	}
	return q
}

// quality is how good a placement of standbys is.
type quality struct {
	// apart is how far the copies of tasks are apart by tags.
	apart int
	// unevenness is the sum of the squares of the members' numbers of tasks.
	unevenness int64
}

func (q quality) better(o quality) bool {
	if q.apart != o.apart {
		return q.apart > o.apart
	}
	return q.unevenness < o.unevenness
}

// waits says whether the task cannot go to its desired owner at once. To one that is away no task goes that runs elsewhere, not even
// in its own process.
func (r *refiner) waits(t int32) bool {
	of := r.copiesOf(t)
	runner := r.claims.runner[t]
	if len(of) == 0 || !r.stateful(t) || runner < 0 {
		return false
	}
	wanted := of[0]
	if r.claims.isAway(wanted) {
		return wanted != runner && !r.isStale(wanted)
	}
	return r.process[wanted] != r.process[runner] && !r.isStale(wanted) && !r.noWarmups(wanted) &&
		!r.claims.in(t, r.process[wanted]).caughtUp
}

// wait leaves the task with its owner, and gives its desired one a warm-up while the budget lasts.
func (r *refiner) wait(t int32) {
	wanted := r.copiesOf(t)[0]
	r.runs[t] = r.claims.runner[t]
	if r.budget == 0 || r.process[wanted] == r.process[r.runs[t]] {
		return
	}
	r.budget--
	r.warmup[t] = wanted
}

// leaveStandbys leaves the standbys of all tasks where they are, those apart that it is to pass for a desired one which is further,
// and places those that are missing as desired. A waiting task has a place fewer to fill while its warm-up fills it.
func (r *refiner) leaveStandbys(pass bool) {
	for t := range int32(r.numTasks()) {
		if r.stateful(t) && r.numCopies[t] > 0 {
			r.placeCopies(t, pass)
		}
	}
}

func (r *refiner) placeCopies(t int32, pass bool) {
	r.had = append(r.had[:0], r.copiesOf(t)...)
	standbys, wanted := len(r.had)-1, r.had[0]
	r.numCopies[t] = 0
	if runs := r.runs[t]; runs >= 0 {
		r.place(t, runs)
	} else {
		r.place(t, wanted)
	}
	for _, m := range r.had[1:] {
		if r.isStale(m) {
			r.placeStandby(t, m, standbys)
		}
	}
	of := r.claims.replicasOf(t)
	furthest := r.furthest(t, of)
	held := func(as role, caughtUp bool) {
		for i := range of {
			c := &of[i]
			if c.role != as || c.caughtUp != caughtUp {
				continue
			}
			if !caughtUp && c.offset >= 0 && furthest-c.offset > r.spec.AcceptableRecoveryLag {
				r.laggards = true
				if pass {
					continue
				}
			}
			r.placeStandby(t, c.holder, standbys)
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

// furthest is how far the replicas are of which standbys are desired, and can be, that are none yet; -1 where nothing is known.
func (r *refiner) furthest(t int32, of []replica) (offset int64) {
	offset = -1
	for _, m := range r.had[1:] {
		if r.holds(t, r.process[m]) {
			continue
		}
		for i := range of {
			if of[i].process == r.process[m] && of[i].role != standby {
				offset = max(offset, of[i].offset)
			}
		}
	}
	return offset
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
