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
	// left is how many standbys are to be placed yet.
	left int
	// surplus marks candidates that are not to keep their standbys as long as others want the room.
	surplus []bool
	// filled are the tasks of which standbys went to processes without their state.
	filled []int32
	// searches is how many copies may yet be looked at to exchange them.
	searches int
}

// The searches for standbys to exchange are bounded: where very many are needed, as with processes of very different sizes, they
// gain little.
const (
	searchesPerTask = 8
	minSearches     = 20_000
)

// assignStandbys leaves standbys where the state is, as far as the balance allows, and gives the rest to who has least to do.
func (s *stickyRun) assignStandbys() {
	s.keepStandbys()
	b := &standbys{stickyRun: s, searches: searchesPerTask*s.numTasks() + minSearches}
	for _, n := range s.fresh {
		b.processes += min(n, 1)
	}
	b.shareRoom()
	if len(s.candidates) > 0 || slices.ContainsFunc(s.prevActive, func(m int32) bool { return m >= 0 }) {
		if s.hasWarmups {
			b.keep(byClaim)
		}
		b.chooseSurplus()
		b.keep(byReplica)
		if b.surplus != nil {
			b.surplus = nil
			b.keep(byReplica) // where other holders of the task were kept, or former owners
		}
		b.keep(byReport)
	}
	if b.left > 0 {
		b.fill(newPool(s.solution))
	}
	b.settle()
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
		return slices.Clone(b.processCount)
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
	own := b.own()
	copies, lacking := int64(0), int32(0)
	for t := range int32(b.numTasks()) {
		if n := b.missing(t); n > 0 {
			b.left += int(n)
			lacking++
		}
	}
	var sharing []int32
	for p, n := range own {
		copies += int64(n)
		if b.fresh[p] > 0 {
			sharing = append(sharing, int32(p))
		}
	}
	b.room = make([]int32, b.numProcesses())
	b.share(sharing, own, copies+int64(b.left), lacking)
	for p := range b.room {
		b.room[p] = max(0, b.room[p]-own[p])
	}
}

// share sets how many copies each of the processes is to have.
func (b *standbys) share(sharing, own []int32, copies int64, lacking int32) {
	members := int64(len(b.members) - b.numStale)
	// Who can take fewer than its share, because a process has one copy of a task, leaves more to the others.
	if int64(lacking)*members < copies*int64(slices.Max(b.fresh)) {
		most := b.possible(own, lacking)
		for n := -1; n != len(sharing); {
			n = len(sharing)
			sharing = slices.DeleteFunc(sharing, func(p int32) bool {
				full := int64(most[p])*members < copies*int64(b.fresh[p])
				if full {
					b.room[p] = most[p]
					copies -= int64(most[p])
					members -= int64(b.fresh[p])
				}
				return full
			})
		}
	}
	left := copies
	for _, p := range sharing {
		b.room[p] = int32(copies * int64(b.fresh[p]) / members)
		left -= int64(b.room[p])
	}
	b.sortByNeed(sharing, own)
	for _, p := range sharing[:min(left, int64(len(sharing)))] {
		b.room[p]++
	}
}

// possible is how many tasks each process could have, if a number of tasks lack standbys: one copy of each of these, and its
// other tasks.
func (b *standbys) possible(own []int32, lacking int32) []int32 {
	most := slices.Clone(own)
	for t := range int32(b.numTasks()) {
		if b.missing(t) > 0 {
			for _, m := range b.copiesOf(t) {
				most[b.process[m]]--
			}
		}
	}
	for p := range most {
		most[p] += lacking
	}
	return most
}

// sortByNeed sorts processes by who is to have one task more than its share rounded down: who has less by the latter; among
// these the smaller one; then who has more active tasks, so that standbys are spread well too; then who has more standbys than
// that already.
func (b *standbys) sortByNeed(order, own []int32) {
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
}

// keep leaves standbys with who has state of a kind, in descending order of (partition, subtopology).
func (b *standbys) keep(kind stateKind) {
	if b.left == 0 {
		return
	}
	for _, t := range slices.Backward(b.byPartition) {
		missing := b.missing(t)
		if missing == 0 {
			continue
		}
		for i, c := range ofKind(b.candidatesOf(t), kind) {
			if missing == 0 {
				break
			}
			if kind == byClaim && c.holding != asWarmup || kind == byReplica && b.surplus != nil && b.surplus[int(b.candidateStart[t])+i] {
				continue
			}
			if b.place(t, c.member) {
				missing--
			}
		}
		if m := b.prevActive[t]; kind == byReplica && missing > 0 && m >= 0 {
			b.place(t, m)
		}
	}
}

// chooseSurplus marks the replicas that processes with more of them than room lose: of those whose active tasks run in one process
// some of each, so that the standbys of what a process runs stay spread over many others.
func (b *standbys) chooseSurplus() {
	lengths, over := make([]int32, b.numProcesses()), false
	each := func(f func(process, candidate, runner int32)) {
		for _, t := range slices.Backward(b.byPartition) {
			if b.missing(t) == 0 {
				continue
			}
			for i, c := range ofKind(b.candidatesOf(t), byReplica) {
				if p := b.process[c.member]; !b.holds(t, p) {
					f(p, b.candidateStart[t]+int32(i), b.process[b.copiesOf(t)[0]])
				}
			}
		}
	}
	each(func(p, _, _ int32) {
		lengths[p]++
		over = over || lengths[p] > b.room[p]
	})
	if !over {
		return
	}
	b.surplus = make([]bool, len(b.candidates))
	of, runners := newLists(lengths), newLists(lengths)
	each(func(p, candidate, runner int32) {
		of.add(p, candidate)
		runners.add(p, runner)
	})
	turns := make([]int32, b.numProcesses())
	var order []uint64
	for p := range int32(b.numProcesses()) {
		if lengths[p] <= b.room[p] {
			continue
		}
		// By how many of the same runner come before.
		order = order[:0]
		for i, runner := range runners.of(p) {
			order = append(order, uint64(turns[runner])<<32|uint64(i))
			turns[runner]++
		}
		for _, runner := range runners.of(p) {
			turns[runner] = 0
		}
		slices.Sort(order)
		for _, key := range order[b.room[p]:] {
			b.surplus[of.of(p)[uint32(key)]] = true
		}
	}
}

// place gives a standby to a member if its process has room and no copy of the task.
func (b *standbys) place(t, m int32) bool {
	p := b.process[m]
	if b.room[p] == 0 || b.holds(t, p) {
		return false
	}
	b.room[p]--
	b.left--
	b.give(t, m)
	return true
}

// fill gives what is left to processes that have room, such that the standbys of the tasks of one process are spread over as
// many others as possible: then these can share its tasks when it is gone. What finds no place so goes beyond the shares, to who
// had it, or else to who has least to do.
func (b *standbys) fill(q *pool) {
	f := newPartners(b)
	var left []int32
	for p := range int32(b.numProcesses()) {
		left = f.fill(q, p, left)
	}
	if left = slices.DeleteFunc(left, func(t int32) bool { return b.exchange(q, t) }); len(left) == 0 {
		return
	}
	left = slices.DeleteFunc(left, b.giveBack)
	for p := range b.room {
		b.room[p] = int32(len(left))
	}
	*q = *newPool(b.solution)
	q.open(b.room)
	for _, t := range left {
		q.takeApart(t)
	}
	b.searches = searchesPerTask*b.numTasks() + minSearches
	b.level(q)
}

// giveBack gives a standby to a process that has it, though that has no room.
func (b *standbys) giveBack(t int32) bool {
	for _, c := range ofKind(b.candidatesOf(t), byReplica) {
		if !b.holds(t, b.process[c.member]) {
			b.give(t, c.member)
			return true
		}
	}
	return false
}

// settle takes standbys from members that have more than their part of the tasks of their process, for others of it.
func (b *standbys) settle() {
	if b.numProcesses() == len(b.members) {
		return
	}
	most, crowded := make([]int32, len(b.members)), false
	own := b.own()
	for m, n := range b.count {
		if p := b.process[m]; !b.isStale(int32(m)) {
			most[m] = (own[p] + b.fresh[p] - 1) / b.fresh[p]
			crowded = crowded || n > most[m]
		} else {
			most[m] = n
		}
	}
	if !crowded {
		return
	}
	q := newPool(b.solution)
	for t := range int32(b.numTasks()) {
		copies := b.copiesOf(t)
		for i := 1; i < len(copies); i++ {
			if m := copies[i]; b.count[m] > most[m] {
				b.count[m]--
				copies[i] = q.next(b.process[m])
				b.count[copies[i]]++
			}
		}
	}
}
