package assignor

import "slices"

// spreading places standbys, and so the state that warm-ups become, apart by tags. What comes first decides:
//
//  1. The copies of a task are as far apart as they can be (apartness), with the active one where it is. Loads do not count here:
//     in a small rack processes get more standbys than in a large one.
//  2. Who has the state of a task keeps a standby of it.
//  3. Processes are balanced: no standby can go to another process without bringing its task's copies nearer to each other, and
//     leave that one less loaded (tasks of all roles for each member) than the first is now. Within a process, no member has two
//     tasks more than another and a standby to give.
//
// Nothing moves when nothing changed: copies that are as far apart as they can be are all kept, and balanced ones are.
type spreading struct {
	*stickyRun
	*apartness
	// fixed is how many copies of a task were there before: the active one and those of stale members.
	fixed []int32
	// heaps are the processes of each class that can get standbys, the lightest on top; place is where a process is there.
	heaps [][]int32
	place []int32
	// top is the heap of the classes with such processes, by their lightest; placeOf is where a class is there.
	top, placeOf []int32
	// used and others hold classes of copies for a moment.
	used, others []int32
	formers      []int32
}

// spreadStandbys places standbys by tags; it returns false where there are none that tell processes apart.
func (s *stickyRun) spreadStandbys() bool {
	r := newApartness(s.problem)
	if r == nil {
		return false
	}
	b := &spreading{stickyRun: s, apartness: r}
	s.keepStandbys()
	b.fixed = slices.Clone(s.numCopies)
	for t := range int32(s.numTasks()) {
		if s.stateful(t) {
			b.keepFormer(t)
		}
	}
	b.fillHeaps()
	for _, t := range b.byRunner() {
		b.fill(t)
	}
	b.balance()
	b.balanceMembers()
	return true
}

// classesOf are the classes of a task's copies.
func (b *spreading) classesOf(t int32) []int32 {
	b.used = b.used[:0]
	for _, m := range b.copiesOf(t) {
		b.used = append(b.used, b.classOf[b.process[m]])
	}
	return b.used
}

// missing is how many copies of a task there can be beside those that there are.
func (b *spreading) missing(t int32) int {
	room := b.numFree
	for _, m := range b.copiesOf(t) {
		if b.free[b.classOf[b.process[m]]] > 0 {
			room--
		}
	}
	return min(room, b.maxCopies-int(b.numCopies[t]))
}

// keepFormer leaves standbys with members that have the state, all of them if these are as far apart as can be, else as many as
// leave the others room to be.
func (b *spreading) keepFormer(t int32) {
	left := b.missing(t)
	if left <= 0 {
		return
	}
	used := b.classesOf(t)
	need := b.reach(used, left)
	former, replicas := b.former(t)
	if len(replicas) >= left {
		all, gain := used, 0
		for _, m := range replicas[:left] {
			c := b.classOf[b.process[m]]
			gain += b.gain(all, c)
			all = append(all, c)
		}
		if gain >= need {
			for _, m := range replicas[:left] {
				b.give(t, m)
			}
			return
		}
	}
	need = b.need(used, left)
	for _, m := range former {
		c := b.classOf[b.process[m]]
		if left == 0 || b.holds(t, b.process[m]) || !b.serves(used, c, left, need) {
			continue
		}
		need -= b.gain(used, c)
		left--
		b.give(t, m)
		if used = b.classesOf(t); b.greedy() {
			need = b.need(used, left)
		}
	}
}

// former are the members that may have the state of a task, the best first, of each process one. The first of them, replicas,
// do: they have a copy now.
func (b *spreading) former(t int32) (former, replicas []int32) {
	former = b.formers[:0]
	add := func(m int32) {
		p := b.process[m]
		if !b.holds(t, p) && !slices.ContainsFunc(former, func(f int32) bool { return b.process[f] == p }) {
			former = append(former, m)
		}
	}
	if m := b.prevActive[t]; m >= 0 {
		add(m)
	}
	n := -1
	for _, c := range b.candidatesOf(t) {
		if c.holding == reported && n < 0 {
			n = len(former)
		}
		add(c.member)
	}
	if n < 0 {
		n = len(former)
	}
	b.formers = former
	return former, former[:n]
}

// byRunner lists the tasks with standbys by the process that runs them: those of one process, one after the other, come to many
// others, which can share them when it is gone.
func (b *spreading) byRunner() []int32 {
	of := make([][]int32, b.numProcesses())
	n := 0
	for t := range int32(b.numTasks()) {
		if b.stateful(t) && b.numCopies[t] > 0 {
			p := b.process[b.copiesOf(t)[0]]
			of[p] = append(of[p], t)
			n++
		}
	}
	all := make([]int32, 0, n)
	for _, tasks := range of {
		all = append(all, tasks...)
	}
	return all
}

// fill gives the standbys of a task that are missing yet to the lightest processes of those with which its copies are as far
// apart as can be.
func (b *spreading) fill(t int32) {
	for left := b.missing(t); left > 0; left-- {
		used := b.classesOf(t)
		need := b.need(used, left)
		best := b.lightestOf(t, func(c int32) bool { return b.serves(used, c, left, need) })
		if best < 0 {
			return
		}
		b.give(t, b.lightestMember(best))
		b.fix(best)
	}
}

// lightestMember is the member of a process with the fewest tasks, of those that are not stale.
func (b *spreading) lightestMember(process int32) int32 {
	best := int32(-1)
	for m := b.first[process]; m < b.first[process+1]; m++ {
		if !b.isStale(m) && (best < 0 || b.count[m] < b.count[best]) {
			best = m
		}
	}
	return best
}
