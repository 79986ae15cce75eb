package assignor

import "slices"

// actives is the placement of active tasks. Every member gets least of them, or one more; extraMembers get one more. Who has
// more must give up tasks, nobody else does, so that no more tasks move than must.
type actives struct {
	*stickyRun
	leaders             *leaderRacks
	least, extraMembers int32
	// prev is how many tasks a member holds that are not given yet, limit how many of them it may keep.
	prev, limit []int32
	// numOrphans is how many tasks nobody holds.
	numOrphans int
	// over are the members that hold more than least.
	over []int32
	// giveUp is how many members of over must give up their task beyond least; which ones is open. spare is how many others may
	// have one: one of the two is 0.
	giveUp, spare int32
	// base is how many tasks a process lacks until each of its members has least, extra how many it may get beyond.
	base, extra []int32
	// target is the process that gets a task for the state that it has, or unmatched, or anywhere; matches are the tasks that have one.
	target, matches []int32
	// exchanged is how many tasks a member gives up for orphans whose state its process has; nil where there are none.
	exchanged []int32
}

// assignActives leaves tasks with their owners as far as the balance allows, gives others to who has their state, and the
// rest to who has least to do.
func (s *stickyRun) assignActives(tasks int32) {
	a := newActives(s, tasks)
	a.match()
	a.chooseLosers()
	a.makeRoom()
	a.keep()
	a.placeRest(a.placeMatches())
}

func newActives(s *stickyRun, tasks int32) *actives {
	members := int32(len(s.members) - s.numStale)
	a := &actives{
		stickyRun: s, leaders: newLeaderRacks(s.problem), least: tasks / members, extraMembers: tasks % members,
		prev: s.ints(len(s.members)), limit: s.ints(len(s.members)),
		base: s.ints(s.numProcesses()), extra: s.ints(s.numProcesses()), target: s.ints(s.numTasks()),
	}
	for t, m := range s.prevActive {
		a.target[t] = unmatched
		switch {
		case s.numCopies[t] > 0:
		case m >= 0:
			a.prev[m]++
		default:
			a.numOrphans++
		}
	}
	for m, n := range a.prev {
		switch {
		case s.isStale(int32(m)):
		case n > a.least:
			a.over = append(a.over, int32(m))
			a.limit[m] = a.least + 1
		default:
			a.base[s.process[m]] += a.least - n
			a.limit[m] = n
		}
	}
	a.giveUp, a.spare = max(0, int32(len(a.over))-a.extraMembers), max(0, a.extraMembers-int32(len(a.over)))
	a.shareExtras()
	return a
}

// shareExtras lets each process have its share of the tasks beyond least, rounded up.
func (a *actives) shareExtras() {
	members := int64(len(a.members) - a.numStale)
	for p := range a.extra {
		share := (int64(a.extraMembers)*int64(a.fresh[p]) + members - 1) / members
		a.extra[p] = min(a.fresh[p], int32(share))
	}
	for _, m := range a.over {
		a.extra[a.process[m]]--
	}
	for p := range a.extra {
		a.extra[p] = max(0, a.extra[p])
	}
}

// kept is how many tasks the process keeps at least.
func (a *actives) kept(process int32) int32 { return a.least*a.fresh[process] - a.base[process] }

// capacity is how many tasks a process can get.
func (a *actives) capacity(process int32) int32 {
	if a.spare == 0 {
		return a.base[process]
	}
	return a.base[process] + a.extra[process]
}

// mayGiveUp says whether the member has tasks that it must give up, or is one of those of which some must.
func (a *actives) mayGiveUp(member int32) bool {
	return a.prev[member] > a.least+1 || a.giveUp > 0 && a.prev[member] > a.least && !a.receives(member)
}

// chooseLosers has as many members as must give up their task beyond least. Those keep it that have it first in the order of
// (partition, subtopology), from the processes that have fewest such members for their size; before them those to whom tasks are
// on their way.
func (a *actives) chooseLosers() {
	if a.giveUp == 0 {
		return
	}
	held := a.ints(len(a.members))
	copy(held, a.exchanged)
	var full []int32
	for _, t := range a.byPartition {
		m := a.prevActive[t]
		if m < 0 || a.numCopies[t] > 0 || a.target[t] != unmatched || a.limit[m] <= a.least {
			continue
		}
		if held[m]++; held[m] == a.least+1 {
			full = append(full, m)
		}
	}
	if a.numProcesses() < len(a.members) {
		a.alternate(full)
	}
	if a.receiving != nil {
		rank := func(m int32) int32 {
			switch {
			case a.receiving[m] >= a.prev[m]:
				return 0 // it has nothing else to give up
			case a.receives(m):
				return 1
			}
			return 2
		}
		slices.SortStableFunc(full, func(x, y int32) int { return int(rank(x) - rank(y)) })
	}
	for _, m := range full[len(full)-int(a.giveUp):] {
		a.limit[m]--
	}
}

// alternate sorts members so that the processes take turns in proportion to their sizes.
func (a *actives) alternate(members []int32) {
	turn, turns := a.ints(len(a.members)), a.ints(a.numProcesses())
	for _, m := range members {
		turn[m] = turns[a.process[m]]
		turns[a.process[m]]++
	}
	slices.SortStableFunc(members, func(x, y int32) int {
		return int(int64(turn[x])*int64(a.fresh[a.process[y]]) - int64(turn[y])*int64(a.fresh[a.process[x]]))
	})
}

// keep leaves members what they may keep, the lowest partitions first, before them what is on its way to them.
func (a *actives) keep() {
	if a.onWay != nil {
		a.keepOf(a.byPartition, true)
	}
	a.keepOf(a.keepOrder(), false)
}

func (a *actives) keepOf(tasks []int32, onlyOnWay bool) {
	for _, t := range tasks {
		if m := a.prevActive[t]; m >= 0 && a.limit[m] > 0 && a.target[t] == unmatched && a.numCopies[t] == 0 && (!onlyOnWay || a.isOnWay(t)) {
			a.limit[m]--
			a.give(t, m)
		}
	}
}

// placeMatches gives tasks to members of the processes found for them: to who has the state itself, if it has room. It returns
// the pool from which the rest is placed, or nil where there is none.
func (a *actives) placeMatches() *pool {
	left := a.matches[:0]
	for _, t := range a.matches {
		p := a.target[t]
		if a.base[p]--; a.base[p] < 0 {
			a.base[p]++
			a.extra[p]--
		}
		if m := a.holderIn(t, p); m >= 0 && a.count[m] < a.least {
			a.give(t, m)
		} else {
			left = append(left, t)
		}
	}
	if len(left) == 0 && a.leaders == nil && a.unplaced() == 0 {
		return nil
	}
	q := newPool(a.solution)
	for _, t := range left {
		q.takeIn(t, a.target[t])
	}
	return q
}

// unplaced is how many tasks nobody has got.
func (a *actives) unplaced() int {
	n := a.numTasks()
	for _, given := range a.count {
		n -= int(given)
	}
	return n
}

// holderIn is the member of a process that holds a replica of a task, or else reported an offset of it; or -1.
func (a *actives) holderIn(task, process int32) int32 {
	best := int32(-1)
	for _, c := range a.candidatesOf(task) {
		if a.process[c.member] == process {
			if c.held != reported {
				return c.member
			}
			if best < 0 {
				best = c.member
			}
		}
	}
	return best
}

// placeRest gives what is left to members of the lightest processes: first until each has least, then one more to processes in
// proportion to their sizes.
func (a *actives) placeRest(q *pool) {
	if a.leaders != nil {
		a.placeNear(q)
		return
	}
	n := a.unplaced()
	if n == 0 {
		return
	}
	free := a.ints(n)[:0]
	for t := range int32(a.numTasks()) {
		if a.numCopies[t] == 0 {
			free = append(free, t)
		}
	}
	for _, room := range []func() []int32{func() []int32 { return a.base }, func() []int32 { return a.extra }, a.unsharedExtras} {
		if len(free) == 0 {
			return
		}
		q.open(room())
		free = q.takeAll(free)
	}
}

// unsharedExtras is how many members of each process have least. It is needed where others keep more than the share of their
// process.
func (a *actives) unsharedExtras() []int32 {
	room := a.ints(a.numProcesses())
	for m, n := range a.count {
		if n == a.least && !a.isStale(int32(m)) {
			room[a.process[m]]++
		}
	}
	return room
}
