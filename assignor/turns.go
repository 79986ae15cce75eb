package assignor

import "slices"

// turns does what a pool does for many tasks that may go to any open process: it finds the least loaded of the least loaded
// processes. A process that got a task comes after all others of its size that were before it, so that a queue for each size is
// always in order.
type turns struct {
	*pool
	queues []turnQueue
	// queueOf is the queue of each process once it has got a task; the first queue holds those that have not.
	queueOf []int32
}

type turnQueue struct {
	loads []processLoad
	next  int
}

// maxTurnQueues is for how many sizes of processes this is done; with more a heap is faster.
const maxTurnQueues = 8

// takeAll gives tasks to the least loaded members of the lightest open processes, and returns those that are left when all are
// closed.
func (q *pool) takeAll(tasks []int32) []int32 {
	if len(tasks) > len(q.heap)/4 {
		if t := newTurns(q); t != nil {
			for i, task := range tasks {
				if !t.take(task) {
					return tasks[i:]
				}
			}
			return nil
		}
	}
	for i, task := range tasks {
		if q.full() {
			return tasks[i:]
		}
		q.take(task)
	}
	return nil
}

// newTurns takes over the open processes of a pool, which must be opened anew after that; it returns nil where there are too many
// sizes.
func newTurns(q *pool) *turns {
	t := &turns{pool: q, queues: make([]turnQueue, 1, maxTurnQueues), queueOf: q.ints(q.numProcesses())}
	sizes := make([]int32, 1, maxTurnQueues)
	for _, l := range q.heap {
		size := q.size(l.process)
		i := slices.Index(sizes, size)
		if i < 0 {
			if i = len(sizes); i == maxTurnQueues {
				return nil
			}
			sizes = append(sizes, size)
			t.queues = append(t.queues, turnQueue{})
		}
		t.queueOf[l.process] = int32(i)
	}
	order := slices.Clone(q.heap)
	slices.SortFunc(order, func(a, b processLoad) int {
		if a.less(b) {
			return -1
		}
		return 1
	})
	t.queues[0].loads = order
	return t
}

// take gives the task to the least loaded member of the lightest open process; it returns false when all are closed.
func (t *turns) take(task int32) bool {
	var from *turnQueue
	for i := range t.queues {
		q := &t.queues[i]
		if q.next < len(q.loads) && (from == nil || q.loads[q.next].less(from.loads[from.next])) {
			from = q
		}
	}
	if from == nil {
		return false
	}
	p := from.loads[from.next].process
	from.next++
	t.give(task, t.next(p))
	if t.room[p]--; t.room[p] > 0 {
		to := &t.queues[t.queueOf[p]]
		if to.next > 1024 && to.next > len(to.loads)/2 {
			to.loads = append(to.loads[:0], to.loads[to.next:]...)
			to.next = 0
		}
		to.loads = append(to.loads, processLoad{t.load(p), p})
	}
	return true
}
