package assignor

// partners chooses the processes that get standbys without having the state, for the active tasks of one process after the
// other.
type partners struct {
	*standbys
	// lacks says which processes run tasks that lack standbys.
	lacks []bool
	// next leads from a process to the first from there on that has room, or past the last one.
	next []int32
	// shared is how many tasks of the process at hand have a standby in each other, counted those with any.
	shared, counted []int32
}

// maxPartners is among how many processes with room one is chosen.
const maxPartners = 32

func newPartners(b *standbys) *partners {
	n := int32(b.numProcesses())
	f := &partners{standbys: b, next: b.ints(int(n) + 1), shared: b.ints(int(n)), counted: b.ints(int(n))[:0]}
	for p := n; p >= 0; p-- {
		f.next[p] = p
		if p < n && b.room[p] == 0 {
			f.next[p] = f.next[p+1]
		}
	}
	f.lacks = make([]bool, n)
	for t, lack := range b.lack {
		if lack > 0 {
			f.lacks[b.runner(int32(t))] = true
		}
	}
	return f
}

// tasksOf are the tasks with state that a process runs.
func (b *standbys) tasksOf(process int32) []int32 {
	if b.tasks == nil {
		lengths := b.ints(b.numProcesses())
		for t := range int32(b.numTasks()) {
			if b.stateful(t) {
				lengths[b.runner(t)]++
			}
		}
		of := b.newLists(lengths)
		for t := range int32(b.numTasks()) {
			if b.stateful(t) {
				of.add(b.runner(t), t)
			}
		}
		b.tasks = &of
	}
	return b.tasks.of(process)
}

// fill places the missing standbys of the tasks that a process runs, and returns left with those for which it finds no place.
func (f *partners) fill(q *pool, p int32, left []int32) []int32 {
	if !f.lacks[p] {
		return left
	}
	all := f.tasksOf(p)
	copies := 0
	for _, t := range all {
		for _, m := range f.copiesOf(t)[1:] {
			f.share(f.process[m])
			copies++
		}
		copies += int(f.lack[t])
	}
	fair := int32(1 + (copies-1)/max(1, int(f.processes)-1))
	at := p + 1
	for _, t := range all {
		for range f.lack[t] {
			to := f.choose(t, at, fair)
			if to < 0 {
				left = append(left, t)
				continue
			}
			f.share(to)
			q.takeIn(t, to)
			f.filled = append(f.filled, t)
			if f.room[to]--; f.room[to] == 0 {
				f.next[to] = f.next[to+1]
			}
			at = to + 1
		}
	}
	for _, other := range f.counted {
		f.shared[other] = 0
	}
	f.counted = f.counted[:0]
	return left
}

func (f *partners) share(process int32) {
	if f.shared[process] == 0 {
		f.counted = append(f.counted, process)
	}
	f.shared[process]++
}

// choose returns one of the first processes from at on, going round, that have room and no copy of the task: the first that
// shares fewer tasks than is fair, or the one that shares fewest; -1 when there is none.
func (f *partners) choose(task, at, fair int32) int32 {
	best, n := int32(-1), int32(len(f.room))
	p, wrapped := f.open(min(at, n)), false
	for range maxPartners + f.maxCopies {
		if p >= n {
			if wrapped {
				break
			}
			p, wrapped = f.open(0), true
			continue
		}
		if wrapped && p >= at {
			break
		}
		if !f.holds(task, p) && (best < 0 || f.shared[p] < f.shared[best]) {
			if best = p; f.shared[p] < fair {
				break
			}
		}
		p = f.open(p + 1)
	}
	return best
}

// open is the first process from p on that has room.
func (f *partners) open(p int32) int32 {
	end := p
	for f.next[end] != end {
		end = f.next[end]
	}
	for f.next[p] != end {
		f.next[p], p = end, f.next[p]
	}
	return end
}
