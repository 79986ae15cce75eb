package assignor

import "slices"

// slot is a copy of a task by its place in copies.
type slot int32

// maxRounds bounds how often all processes are looked at to be relieved. A few rounds do.
const maxRounds = 64

// balance moves standbys from processes to lighter ones, until no move of one leaves the other lighter than the first was; those
// without state go first. The loads in descending order get less with each move, so that it ends.
func (b *spreading) balance() {
	slots := b.slots()
	order := make([]int32, b.numProcesses())
	moved := true
	for round := 0; moved && round < maxRounds; round++ {
		moved = false
		for p := range order {
			order[p] = int32(p)
		}
		slices.SortFunc(order, func(p, q int32) int {
			if b.before(p, q) {
				return 1
			}
			return -1
		})
		for _, p := range order {
			moved = b.relieve(p, slots) || moved
		}
	}
}

// slots are the standbys of each process that may move.
func (b *spreading) slots() [][]slot {
	slots := make([][]slot, b.numProcesses())
	for t := range int32(b.numTasks()) {
		for i := b.fixed[t]; i < b.numCopies[t]; i++ {
			s := int(t)*b.maxCopies + int(i)
			p := b.process[b.copies[s]]
			slots[p] = append(slots[p], slot(s))
		}
	}
	return slots
}

// relieve moves standbys away from a process.
func (b *spreading) relieve(p int32, slots [][]slot) (moved bool) {
	for _, state := range []bool{false, true} {
		kept := slots[p][:0]
		for _, s := range slots[p] {
			to := int32(-1)
			if b.anyLighter(p) && b.hasState(s, p) == state {
				to = b.lighterFor(s, p)
			}
			if to < 0 {
				kept = append(kept, s)
				continue
			}
			b.move(s, b.lightestMember(to))
			slots[to] = append(slots[to], s)
			b.fix(p)
			b.fix(to)
			moved = true
		}
		slots[p] = kept
	}
	return moved
}

func (b *spreading) move(s slot, member int32) {
	from := b.copies[s]
	b.count[from]--
	b.processCount[b.process[from]]--
	b.copies[s] = member
	b.count[member]++
	b.processCount[b.process[member]]++
}

// relieves reports whether process p would be relieved by a task that goes to q.
func (b *spreading) relieves(p, q int32) bool {
	return (int64(b.processCount[q])+1)*int64(b.size(p)) < int64(b.processCount[p])*int64(b.size(q))
}

// anyLighter reports whether there is a process at all that would relieve p.
func (b *spreading) anyLighter(p int32) bool {
	return len(b.top) > 0 && b.relieves(p, b.heaps[b.top[0]][0])
}

// lighterFor is the lightest process to which a standby of p can go, -1 for none.
func (b *spreading) lighterFor(s slot, p int32) int32 {
	t := int32(s) / int32(b.maxCopies)
	b.others = b.others[:0]
	for _, m := range b.copiesOf(t) {
		if b.process[m] != p {
			b.others = append(b.others, b.classOf[b.process[m]])
		}
	}
	apart := b.gain(b.others, b.classOf[p])
	q := b.lightestOf(t, func(c int32) bool { return b.relieves(p, b.heaps[c][0]) && b.gain(b.others, c) >= apart })
	if q < 0 || !b.relieves(p, q) {
		return -1
	}
	return q
}

// hasState reports whether a member of the process had the task before.
func (b *spreading) hasState(s slot, process int32) bool {
	t := int32(s) / int32(b.maxCopies)
	if m := b.prevActive[t]; m >= 0 && b.process[m] == process {
		return true
	}
	return slices.ContainsFunc(b.candidatesOf(t), func(c candidate) bool { return b.process[c.member] == process })
}

// balanceMembers moves standbys between the members of a process, until none has two tasks more than another and a standby to
// give.
func (b *spreading) balanceMembers() {
	if b.numProcesses() == len(b.members) {
		return
	}
	own := make([][]slot, len(b.members))
	for _, of := range b.slots() {
		for _, s := range of {
			m := b.copies[s]
			own[m] = append(own[m], s)
		}
	}
	for p := range int32(b.numProcesses()) {
		for b.evenOut(p, own) {
		}
	}
}

// evenOut moves one standby within a process.
func (b *spreading) evenOut(p int32, own [][]slot) bool {
	from, to := int32(-1), b.lightestMember(p)
	for m := b.first[p]; m < b.first[p+1]; m++ {
		if len(own[m]) > 0 && (from < 0 || b.count[m] > b.count[from]) {
			from = m
		}
	}
	if from < 0 || to < 0 || b.count[from] < b.count[to]+2 {
		return false
	}
	at := slices.IndexFunc(own[from], func(s slot) bool {
		t := int32(s) / int32(b.maxCopies)
		return b.prevActive[t] != from && !slices.ContainsFunc(b.candidatesOf(t), func(c candidate) bool { return c.member == from })
	})
	if at < 0 {
		at = len(own[from]) - 1
	}
	s := own[from][at]
	own[from] = slices.Delete(own[from], at, at+1)
	own[to] = append(own[to], s)
	b.move(s, to)
	return true
}
