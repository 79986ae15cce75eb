package assignor

import "slices"

// keepOfMoved keeps standbys of tasks that another process runs from now on. Former owners have the state as former standbys have:
// of them that one keeps a standby which shares fewest tasks with the new owner yet.
func (b *standbys) keepOfMoved() {
	runners, some := make([]bool, b.numProcesses()), false
	for t, lack := range b.lack {
		if lack > 0 && b.moved(int32(t)) {
			runners[b.runner(int32(t))], some = true, true
		}
	}
	if !some {
		return
	}
	shared := b.ints(b.numProcesses())
	for p, runs := range runners {
		if !runs {
			continue
		}
		of := b.tasksOf(int32(p))
		for _, t := range of {
			if b.moved(t) {
				continue
			}
			for _, c := range ofKind(b.candidatesOf(t), byReplica) {
				shared[b.process[c.member]]++
			}
		}
		for _, t := range slices.Backward(of) {
			for b.lack[t] > 0 && b.moved(t) {
				m := b.bestPartner(t, shared)
				if m < 0 {
					break
				}
				b.place(t, m)
				shared[b.process[m]]++
			}
		}
		clear(shared)
	}
}

// moved says whether a task has been taken from a member of another process.
func (b *standbys) moved(t int32) bool {
	m := b.prevActive[t]
	return m >= 0 && b.process[m] != b.runner(t)
}

// bestPartner is the member with a replica of a task that may keep a standby and whose process shares fewest tasks, or the former
// owner, which takes the place of another: who has no standby to give up the place for competes with the others (keep). It is -1
// where there is none.
func (b *standbys) bestPartner(t int32, shared []int32) int32 {
	best := int32(-1)
	better := func(m int32) {
		p := b.process[m]
		if b.room[p] > 0 && !b.holds(t, p) && (best < 0 || shared[p] < shared[b.process[best]]) {
			best = m
		}
	}
	for _, c := range ofKind(b.candidatesOf(t), byReplica) {
		better(c.member)
	}
	if best >= 0 {
		better(b.prevActive[t])
	}
	return best
}
