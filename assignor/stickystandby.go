package assignor

import (
	"math"
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
	// lack is how many standbys of each task are to be placed yet, left of all.
	lack []int32
	left int
	// surplus marks candidates that are not to keep their standbys as long as others want the room.
	surplus []bool
	// filled are the tasks of which standbys went to processes without their state.
	filled []int32
	// tasks are the tasks with state by the process of their active one, once they are asked for.
	tasks *lists
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
		b.keepOfMoved()
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

// keep leaves standbys with who has state of a kind, in descending order of (partition, subtopology).
func (b *standbys) keep(kind stateKind) {
	if b.left == 0 {
		return
	}
	for k := len(b.byPartition) - 1; k >= 0; k-- {
		t := b.byPartition[k]
		if b.lack[t] == 0 {
			continue
		}
		of := ofKind(b.candidatesOf(t), kind)
		for i := range of {
			c := &of[i]
			if kind == byClaim && c.holding != asWarmup || kind == byReplica && b.surplus != nil && b.surplus[int(b.candidateStart[t])+i] {
				continue
			}
			if b.place(t, c.member); b.lack[t] == 0 {
				break
			}
		}
		if m := b.prevActive[t]; kind == byReplica && m >= 0 && b.lack[t] > 0 {
			b.place(t, m)
		}
	}
}

// chooseSurplus marks the replicas that processes with more of them than room lose: of those whose active tasks run in one process
// some of each, so that the standbys of what a process runs stay spread over many others.
func (b *standbys) chooseSurplus() {
	held := b.ints(b.numProcesses())
	over := false
	for i := range b.candidates {
		if p, ok := b.mayKeep(&b.candidates[i]); ok {
			held[p]++
			over = over || held[p] > b.room[p]
		}
	}
	if !over {
		return
	}
	for p, n := range held {
		if n <= b.room[p] {
			held[p] = 0
		}
	}
	of := b.newLists(held)
	for _, t := range slices.Backward(b.byPartition) {
		for i := b.candidateStart[t]; i < b.candidateStart[t+1]; i++ {
			if p, ok := b.mayKeep(&b.candidates[i]); ok && held[p] > 0 {
				of.add(p, i)
			}
		}
	}
	b.surplus = make([]bool, len(b.candidates))
	turns, lost := b.ints(b.numProcesses()), b.ints(b.numProcesses())
	var order []uint64
	for p := range int32(b.numProcesses()) {
		// By how many of the same runner come before, then those of which others lose most.
		order = order[:0]
		for _, i := range of.of(p) {
			runner := b.runner(b.candidates[i].task)
			turn, lost := min(turns[runner], math.MaxUint16), min(lost[runner], math.MaxUint16)
			order = append(order, uint64(turn)<<48|uint64(math.MaxUint16-lost)<<32|uint64(len(order)))
			turns[runner]++
		}
		slices.Sort(order)
		for n, key := range order {
			i := of.of(p)[uint32(key)]
			runner := b.runner(b.candidates[i].task)
			turns[runner] = 0
			if n >= int(b.room[p]) {
				b.surplus[i] = true
				lost[runner]++
			}
		}
	}
}

// mayKeep returns the process of a replica that may stay a standby.
func (b *standbys) mayKeep(c *candidate) (process int32, ok bool) {
	process = b.process[c.member]
	return process, c.holding != reported && b.lack[c.task] > 0 && !b.holds(c.task, process)
}

// runner is the process that runs a task.
func (b *standbys) runner(t int32) int32 { return b.process[b.copies[int(t)*b.maxCopies]] }

// place gives a standby to a member if its process has room and no copy of the task.
func (b *standbys) place(t, m int32) {
	p := b.process[m]
	if b.room[p] == 0 || b.holds(t, p) {
		return
	}
	b.room[p]--
	b.lack[t]--
	b.left--
	b.give(t, m)
}

// fill gives what is left to processes that have room, such that the standbys of the tasks of one process are spread over as
// many others as possible: then these can share its tasks when it is gone. What finds no place so goes beyond the shares, to who
// had it, or else to who has least to do.
func (b *standbys) fill(q *pool) {
	f := newPartners(b)
	b.filled = b.ints(b.left)[:0]
	left := b.ints(b.left)[:0]
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
	q = newPool(b.solution)
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
	most, crowded := b.ints(len(b.members)), false
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
