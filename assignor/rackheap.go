package assignor

// before orders processes by the load, that is tasks for each member, that one more task gives them, then by number.
func (b *spreading) before(p, q int32) bool {
	x, y := (int64(b.processCount[p])+1)*int64(b.size(q)), (int64(b.processCount[q])+1)*int64(b.size(p))
	return x < y || x == y && p < q
}

// fillHeaps makes a heap of each class's processes that can get standbys.
func (b *spreading) fillHeaps() {
	b.heaps, b.place = make([][]int32, b.numClasses()), make([]int32, b.numProcesses())
	for p := range b.place {
		c := b.classOf[p]
		b.place[p] = -1
		if b.free[c] > 0 {
			b.place[p] = int32(len(b.heaps[c]))
			b.heaps[c] = append(b.heaps[c], int32(p))
			b.fix(int32(p))
		}
	}
}

// fix puts a process, whose load changed, where it belongs in its heap.
func (b *spreading) fix(p int32) {
	i := int(b.place[p])
	if i < 0 {
		return
	}
	h := b.heaps[b.classOf[p]]
	for i > 0 && b.before(p, h[(i-1)/2]) {
		b.put(h, i, h[(i-1)/2])
		i = (i - 1) / 2
	}
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && b.before(h[child+1], h[child]) {
			child++
		}
		if !b.before(h[child], p) {
			break
		}
		b.put(h, i, h[child])
		i = child
	}
	b.put(h, i, p)
}

func (b *spreading) put(h []int32, i int, p int32) {
	h[i] = p
	b.place[p] = int32(i)
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
