package assignor

import (
	"cmp"
	"slices"
)

// exchange makes room for a standby of a task all whose copies are in the processes that have room: another process gives a
// standby to one of those and takes this one. It returns false when it finds none.
func (b *standbys) exchange(q *pool, t int32) bool {
	for p := range int32(len(b.room)) {
		if b.searches--; b.searches < 0 {
			return false
		}
		if b.room[p] == 0 || b.fresh[p] == 0 {
			continue
		}
		if m := b.makeRoom(q, t, p); m >= 0 {
			b.room[p]--
			b.copy(t, m)
			return true
		}
	}
	return false
}

// makeRoom finds a member that may have a standby of the task and has one of another task which it can give to a process. It
// returns the member, which counts as having got the standby, or -1.
func (b *standbys) makeRoom(q *pool, t, to int32) int32 {
	for _, other := range b.filled {
		if m := b.giveOn(q, t, to, other); m >= 0 {
			return m
		}
	}
	for other := range int32(b.numTasks()) {
		if m := b.giveOn(q, t, to, other); m >= 0 {
			return m
		}
	}
	return -1
}

// giveOn does so with the other task.
func (b *standbys) giveOn(q *pool, t, to, other int32) int32 {
	if b.searches--; b.searches < 0 || t == other || b.holds(other, to) {
		return -1
	}
	copies := b.copiesOf(other)
	for i := 1; i < len(copies); i++ {
		if m := copies[i]; !b.isStale(m) && !b.holds(t, b.process[m]) {
			copies[i] = q.next(to)
			b.count[copies[i]]++
			b.processCount[to]++
			return m
		}
	}
	return -1
}

// leveling moves standbys from processes to such as have no more to do even with one more. It ends where none can go, so that
// an assignment stays as it is when nothing has changed.
type leveling struct {
	*standbys
	pool *pool
	// own are the tasks of each process, without those of stale members; order are the processes that can get any, the one with
	// least to do first.
	own, order []int32
}

func (b *standbys) level(q *pool) {
	l := &leveling{standbys: b, pool: q, own: b.own()}
	for p := range b.fresh {
		if b.fresh[p] > 0 {
			l.order = append(l.order, int32(p))
		}
	}
	slices.SortStableFunc(l.order, l.compare)
	for moved := true; moved && b.searches > 0; {
		moved = false
		for t := range int32(b.numTasks()) {
			for i := 1; i < int(b.numCopies[t]); i++ {
				moved = l.move(t, i) || moved
			}
		}
	}
}

func (l *leveling) compare(x, y int32) int {
	return cmp.Compare(int64(l.own[x])*int64(l.fresh[y]), int64(l.own[y])*int64(l.fresh[x]))
}

// changed puts a process in its place after n tasks came.
func (l *leveling) changed(p, n int32) {
	i := slices.Index(l.order, p)
	l.own[p] += n
	for ; i+1 < len(l.order) && l.compare(p, l.order[i+1]) > 0; i++ {
		l.order[i], l.order[i+1] = l.order[i+1], p
	}
	for ; i > 0 && l.compare(p, l.order[i-1]) < 0; i-- {
		l.order[i], l.order[i-1] = l.order[i-1], p
	}
}

// below reports whether a process, with one task more, has no more to do than another with one less.
func (l *leveling) below(x, y int32) bool {
	return int64(l.own[x]+1)*int64(l.fresh[y]) <= int64(l.own[y]-1)*int64(l.fresh[x])
}

// move moves one standby of the task to another process if that levels the load.
func (l *leveling) move(t int32, i int) bool {
	m := l.copiesOf(t)[i]
	from := l.process[m]
	if l.isStale(m) {
		return false
	}
	for _, to := range l.order {
		if l.searches--; l.searches < 0 || !l.below(to, from) {
			return false
		}
		if !l.holds(t, to) {
			l.copiesOf(t)[i] = l.pool.next(to)
			l.count[l.copiesOf(t)[i]]++
			l.processCount[to]++
		} else if via := l.makeRoom(l.pool, t, to); via >= 0 {
			l.copiesOf(t)[i] = via
		} else {
			continue
		}
		l.count[m]--
		l.processCount[from]--
		l.changed(from, -1)
		l.changed(to, 1)
		return true
	}
	return false
}
