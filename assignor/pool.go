package assignor

// pool finds the least loaded member of the least loaded process again and again while a solution grows. It is valid as
// long as every task is given through it.
type pool struct {
	*solution
	// heap holds the open processes, the lightest on top, ties by number.
	heap []processLoad
	// room is how many tasks each process may get until it is closed.
	room []int32
	// keys holds, in the range of each process, a heap of its members: count in the upper half, number in the lower.
	keys  []uint64
	aside []processLoad
}

// lastOfAll is the count that puts stale members behind all others of their process.
const lastOfAll = 1 << 30

type processLoad struct {
	// load is tasks for each member. Equal fractions round to equal numbers, so that comparisons are exact.
	load    float64
	process int32
}

func (a processLoad) less(b processLoad) bool {
	return a.load < b.load || a.load == b.load && a.process < b.process
}

// newPool returns a pool in which all processes are closed. It makes the last one of the solution invalid.
func newPool(s *solution) *pool {
	if s.pool == nil {
		s.pool = &pool{solution: s, heap: make([]processLoad, 0, s.numProcesses()), keys: make([]uint64, len(s.members))}
	}
	q := s.pool
	q.heap = q.heap[:0]
	for m, n := range s.count {
		if s.isStale(int32(m)) {
			n = lastOfAll
		}
		q.keys[m] = uint64(n)<<32 | uint64(m)
	}
	for p := range int32(s.numProcesses()) {
		keys := q.keysOf(p)
		for i := len(keys)/2 - 1; i >= 0; i-- {
			siftKey(keys, i)
		}
	}
	return q
}

// open opens the processes that have room, and closes the others. The pool changes room as it gives tasks.
func (q *pool) open(room []int32) {
	q.room, q.heap = room, q.heap[:0]
	for p := range int32(q.numProcesses()) {
		if room[p] > 0 && q.fresh[p] > 0 {
			q.heap = append(q.heap, processLoad{q.load(p), p})
		}
	}
	for i := len(q.heap)/2 - 1; i >= 0; i-- {
		q.sift(i)
	}
}

// full reports whether all processes are closed.
func (q *pool) full() bool { return len(q.heap) == 0 }

func (q *pool) load(process int32) float64 {
	return float64(q.processCount[process]) / float64(q.size(process))
}

func (q *pool) keysOf(process int32) []uint64 { return q.keys[q.first[process]:q.first[process+1]] }

// takeIn gives the task to the least loaded member of a process that has members that are not stale. No process is open.
func (q *pool) takeIn(task, process int32) {
	q.give(task, q.next(process))
}

// next is the least loaded member of a process; it counts as given a task.
func (q *pool) next(process int32) int32 {
	keys := q.keysOf(process)
	member := int32(uint32(keys[0]))
	keys[0] += 1 << 32
	siftKey(keys, 0)
	return member
}

// take gives the task to the least loaded member of the lightest open process.
func (q *pool) take(task int32) {
	p := q.heap[0].process
	q.give(task, q.next(p))
	if q.room[p]--; q.room[p] == 0 {
		q.pop()
		return
	}
	q.heap[0].load = q.load(p)
	q.sift(0)
}

// takeApart does the same among the processes that have no copy of the task; it returns false when there is none.
func (q *pool) takeApart(task int32) (ok bool) {
	q.aside = q.aside[:0]
	for len(q.heap) > 0 && q.holds(task, q.heap[0].process) {
		q.aside = append(q.aside, q.pop())
	}
	if len(q.heap) > 0 {
		q.take(task)
		ok = true
	}
	for _, l := range q.aside {
		q.push(l)
	}
	return ok
}
func (q *pool) pop() processLoad {
	top, last := q.heap[0], len(q.heap)-1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	q.sift(0)
	return top
}

func (q *pool) push(l processLoad) {
	q.heap = append(q.heap, l)
	i := len(q.heap) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !l.less(q.heap[parent]) {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = l
}

func (q *pool) sift(i int) {
	h := q.heap
	if i >= len(h) {
		return
	}
	l := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].less(h[child]) {
			child++
		}
		if !h[child].less(l) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = l
}

func siftKey(h []uint64, i int) {
	k := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[child] >= k {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = k
}
