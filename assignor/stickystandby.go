package assignor

import (
	"cmp"
	"slices"
)

// standbys is the placement of standbys. Each process gets so many that its tasks of all roles are in proportion to its
// size.
type standbys struct {
	*stickyRun
	// room is how many standbys a process shall get yet.
	room []int32
	// processes is how many processes can get standbys.
	processes int32
	// crowded are the copies that the members chosen for them have no room for, but others of their processes.
	crowded []int
	// most is how many tasks a member of a process may keep.
	most []int32
	// filled are the tasks of which standbys went to processes without their state.
	filled []int32
	// searches is how many copies may yet be looked at to exchange them.
	searches int
}

// assignStandbys leaves standbys where the state is, as far as the balance allows, and gives the rest to who has least to do.
func (s *stickyRun) assignStandbys() {
	s.keepStandbys()
	b := &standbys{stickyRun: s, most: make([]int32, s.numProcesses()), searches: 4*s.numTasks() + 1000}
	for _, n := range s.fresh {
		b.processes += min(n, 1)
	}
	b.shareRoom()
	if s.hasWarmups {
		b.keep(byClaim)
	}
	b.keep(byReplica)
	b.keep(byReport)
	q := b.settle()
	b.fill(q)
}

// missing is how many standbys of a task are to be placed.
func (b *standbys) missing(t int32) int32 {
	if !b.stateful(t) {
		return 0
	}
	n := int32(b.maxCopies) - b.numCopies[t]
	if b.processes < int32(b.numProcesses()) {
		apart := b.processes
		for _, m := range b.copiesOf(t) {
			if b.fresh[b.process[m]] > 0 {
				apart--
			}
		}
		n = min(n, apart)
	}
	return n
}

// own counts the tasks of members that are not stale by process.
func (b *standbys) own() []int32 {
	if b.numStale == 0 {
		return b.processCount
	}
	own := make([]int32, b.numProcesses())
	for m, n := range b.count {
		if !b.isStale(int32(m)) {
			own[b.process[m]] += n
		}
	}
	return own
}

// shareRoom divides all copies among the processes.
func (b *standbys) shareRoom() {
	copies, members := int64(0), int64(len(b.members)-b.numStale)
	for t := range int32(b.numTasks()) {
		copies += int64(b.missing(t))
	}
	own := b.own()
	for _, n := range own {
		copies += int64(n)
	}
	b.room = make([]int32, b.numProcesses())
	left := copies
	for p := range b.room {
		b.room[p] = int32(copies * int64(b.fresh[p]) / members)
		left -= int64(b.room[p])
	}
	for _, p := range b.byNeed(own)[:left] {
		b.room[p]++
	}
	for p := range b.room {
		if b.fresh[p] > 0 {
			b.most[p] = (b.room[p] + b.fresh[p] - 1) / b.fresh[p]
		}
		b.room[p] = max(0, b.room[p]-own[p])
	}
}

// byNeed sorts the processes by who is to have one task more than its share rounded down: who has less by the latter; among
// these the smaller one; then who has more active tasks, so that standbys are spread well too; then who has more standbys than
// that already.
func (b *standbys) byNeed(own []int32) []int32 {
	order := make([]int32, 0, b.numProcesses())
	for p := range b.fresh {
		if b.fresh[p] > 0 {
			order = append(order, int32(p))
		}
	}
	former := make([]int32, b.numProcesses())
	for _, c := range b.candidates {
		if c.holding != reported {
			former[b.process[c.member]]++
		}
	}
	more := func(p int32) int {
		if own[p]+former[p] > b.room[p] {
			return 0
		}
		return 1
	}
	per := func(x, y int32, of []int32) int {
		return cmp.Compare(int64(of[x])*int64(b.fresh[y]), int64(of[y])*int64(b.fresh[x]))
	}
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(per(x, y, b.room), cmp.Compare(b.fresh[x], b.fresh[y]), -per(x, y, own),
			cmp.Compare(more(x), more(y)), cmp.Compare(x, y))
	})
	return order
}

// keep leaves standbys with who has state of a kind, in descending order of (partition, subtopology).
func (b *standbys) keep(kind stateKind) {
	for _, t := range slices.Backward(b.byPartition) {
		missing := b.missing(t)
		if missing == 0 {
			continue
		}
		for _, c := range ofKind(b.candidatesOf(t), kind) {
			if missing > 0 && (kind != byClaim || c.holding == asWarmup) && b.place(t, c.member) {
				missing--
			}
		}
		if m := b.prevActive[t]; kind == byReplica && missing > 0 && m >= 0 {
			b.place(t, m)
		}
	}
}

// place gives a standby to the process of a member, for now to that member itself.
func (b *standbys) place(t, m int32) bool {
	p := b.process[m]
	if b.room[p] == 0 || b.holds(t, p) {
		return false
	}
	b.room[p]--
	if b.count[m] >= b.most[p] {
		b.crowded = append(b.crowded, int(t)*b.maxCopies+int(b.numCopies[t]))
		b.copy(t, m)
		b.processCount[p]++
	} else {
		b.give(t, m)
	}
	return true
}

// settle gives the crowded copies to other members of their processes.
func (b *standbys) settle() *pool {
	q := newPool(b.solution)
	for _, c := range b.crowded {
		b.copies[c] = q.next(b.process[b.copies[c]])
		b.count[b.copies[c]]++
	}
	return q
}

// fill gives what is left to members of the lightest processes.
func (b *standbys) fill(q *pool) {
	q.open(b.room)
	var left []int32
	for t := int32(b.numTasks()) - 1; t >= 0; t-- {
		for range b.missing(t) {
			if q.takeApart(t) {
				b.filled = append(b.filled, t)
			} else {
				left = append(left, t)
			}
		}
	}
	left = slices.DeleteFunc(left, func(t int32) bool { return b.exchange(q, t) })
	if len(left) == 0 {
		return
	}
	for p := range b.room {
		b.room[p] = int32(len(left))
	}
	q.open(b.room)
	for _, t := range left {
		q.takeApart(t)
	}
}

// exchange makes room for a standby of a task all whose copies are in the processes that have room: another process gives a
// standby to one of those and takes this one. It returns false when it finds none.
func (b *standbys) exchange(q *pool, t int32) bool {
	for p := range int32(len(b.room)) {
		if b.room[p] == 0 || b.fresh[p] == 0 {
			continue
		}
		for _, other := range b.filled {
			if b.exchangeWith(q, t, p, other) {
				return true
			}
		}
		for other := range int32(b.numTasks()) {
			if b.exchangeWith(q, t, p, other) {
				return true
			}
		}
	}
	return false
}

// exchangeWith does so with a standby of another task.
func (b *standbys) exchangeWith(q *pool, t, to, other int32) bool {
	if b.searches--; b.searches < 0 || b.holds(other, to) {
		return false
	}
	copies := b.copiesOf(other)
	for i := 1; i < len(copies); i++ {
		m := copies[i]
		if b.isStale(m) || b.holds(t, b.process[m]) {
			continue
		}
		copies[i] = q.next(to)
		b.room[to]--
		b.count[copies[i]]++
		b.processCount[to]++
		b.copy(t, m)
		return true
	}
	return false
}
