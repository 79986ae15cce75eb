package assignor

// before orders processes by the load, that is tasks for each member, that one more task gives them, then by number.
func (b *spreading) before(p, q int32) bool {
	x, y := (int64(b.processCount[p])+1)*int64(b.size(q)), (int64(b.processCount[q])+1)*int64(b.size(p))
	return x < y || x == y && p < q
}

// fillHeaps makes a heap of each class's processes that can get standbys, and one of the classes.
func (b *spreading) fillHeaps() {
	b.heaps, b.place = make([][]int32, b.numClasses()), make([]int32, b.numProcesses())
	b.placeOf = make([]int32, b.numClasses())
	for p := range b.place {
		c := b.classOf[p]
		b.place[p] = -1
		if b.free[c] > 0 {
			if len(b.heaps[c]) == 0 {
				b.placeOf[c] = int32(len(b.top))
				b.top = append(b.top, c)
			}
			b.place[p] = int32(len(b.heaps[c]))
			b.heaps[c] = append(b.heaps[c], int32(p))
			b.fix(int32(p))
		}
	}
}

// fix puts a process, whose load changed, where it belongs in its heap, and its class where it belongs among the others.
func (b *spreading) fix(p int32) {
	if b.place[p] < 0 {
		return
	}
	c := b.classOf[p]
	sift(b.heaps[c], b.place, p, b.before)
	sift(b.top, b.placeOf, c, b.classBefore)
}

// classBefore orders classes by their lightest processes.
func (b *spreading) classBefore(c, d int32) bool { return b.before(b.heaps[c][0], b.heaps[d][0]) }

// sift puts an item where it belongs in a heap.
func sift(h, place []int32, item int32, before func(a, b int32) bool) {
	put := func(i int, item int32) {
		h[i] = item
		place[item] = int32(i)
	}
	i := int(place[item])
	for i > 0 && before(item, h[(i-1)/2]) {
		put(i, h[(i-1)/2])
		i = (i - 1) / 2
	}
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && before(h[child+1], h[child]) {
			child++
		}
		if !before(h[child], item) {
			break
		}
		put(i, h[child])
		i = child
	}
	put(i, item)
}

// lightestOf is the lightest process that has no copy of the task, of the classes that will do; -1 where there is none. Of many
// classes it looks at little more than those that have a lighter one.
func (b *spreading) lightestOf(t int32, do func(class int32) bool) int32 {
	return b.lightestBelow(t, 0, -1, do)
}

func (b *spreading) lightestBelow(t int32, i int, best int32, do func(class int32) bool) int32 {
	if i >= len(b.top) || best >= 0 && !b.before(b.heaps[b.top[i]][0], best) {
		return best
	}
	if c := b.top[i]; do(c) {
		if p := b.lightestApart(t, c); p >= 0 && (best < 0 || b.before(p, best)) {
			best = p
		}
	}
	x, y := 2*i+1, 2*i+2
	if y < len(b.top) && b.classBefore(b.top[y], b.top[x]) {
		x, y = y, x
	}
	return b.lightestBelow(t, y, b.lightestBelow(t, x, best, do), do)
}

// lightestApart is the lightest process of a class that has no copy of the task, -1 where there is none. Below a process in the
// heap are heavier ones alone, so that only those that have a copy need a look below.
func (b *spreading) lightestApart(t, class int32) int32 {
	return b.apartBelow(t, b.heaps[class], 0)
}

func (b *spreading) apartBelow(t int32, h []int32, i int) int32 {
	if i >= len(h) {
		return -1
	}
	if !b.holds(t, h[i]) {
		return h[i]
	}
	x, y := b.apartBelow(t, h, 2*i+1), b.apartBelow(t, h, 2*i+2)
	if x < 0 || y >= 0 && b.before(y, x) {
		return y
	}
	return x
}
