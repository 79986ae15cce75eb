package seglog

import (
	"fmt"
	"slices"
)

// position is where a record is; the zero value is nowhere, since segments are numbered from 1.
type position struct {
	seg  uint32 // the segment's number
	off  uint32
	size uint32
}

// index knows where the entries of a group are. In use they are consecutive.
type index struct {
	first uint64 // index of pos[0]; meaningless when pos is empty
	pos   []position
}

func (x *index) empty() bool { return len(x.pos) == 0 }

func (x *index) last() uint64 { return x.first + uint64(len(x.pos)) - 1 }

func (x *index) at(i uint64) (position, bool) {
	if x.empty() || i < x.first || i > x.last() {
		return position{}, false
	}
	return x.pos[i-x.first], true
}

// bounds are the first and last index, 0 and 0 when there is no entry.
func (x *index) bounds() (first, last uint64) {
	if x.empty() {
		return 0, 0
	}
	return x.first, x.last()
}

// cut removes the entries from i on.
func (x *index) cut(i uint64) (gone []position) {
	if x.empty() || i > x.last() {
		return nil
	}
	keep := 0
	if i > x.first {
		keep = int(i - x.first)
	}
	gone = x.pos[keep:]
	x.pos = x.pos[:keep]
	return gone
}

// drop removes the entries up to i.
func (x *index) drop(i uint64) (gone []position) {
	if x.empty() || i < x.first {
		return nil
	}
	n := len(x.pos)
	if i < x.last() {
		n = int(i - x.first + 1)
	}
	gone = x.pos[:n]
	x.pos = x.pos[n:]
	x.first += uint64(n)
	return gone
}

// put adds the entry after the last, or the only one.
func (x *index) put(i uint64, p position) {
	if x.empty() {
		x.first = i
	}
	x.pos = append(x.pos, p)
}

// replay collects the entries of a group while a log is read. Entries may be missing on the way, since older segments
// are gone and their entries come again later.
type replay struct {
	pos  map[uint64]position
	last uint64 // no entry is above
}

func (y *replay) apply(r record, p position) {
	switch r.kind {
	case kindEntry:
		y.cut(r.index)
		y.pos[r.index] = p
		y.last = r.index
	case kindCopy:
		y.pos[r.index] = p
		y.last = max(y.last, r.index)
	case kindTruncate:
		y.cut(r.index)
	case kindDrop:
		for i := range y.pos {
			if i <= r.index {
				delete(y.pos, i)
			}
		}
	}
}

func (y *replay) cut(from uint64) {
	if from > y.last {
		return
	}
	if y.last-from < uint64(len(y.pos)) {
		for i := from; ; i++ {
			delete(y.pos, i)
			if i == y.last {
				break
			}
		}
	} else {
		for i := range y.pos {
			if i >= from {
				delete(y.pos, i)
			}
		}
	}
	y.last = max(from, 1) - 1
}

// index is what was collected; an error tells that entries are missing.
func (y *replay) index() (index, error) {
	if len(y.pos) == 0 {
		return index{}, nil
	}
	all := make([]uint64, 0, len(y.pos))
	for i := range y.pos {
		all = append(all, i)
	}
	slices.Sort(all)
	x := index{first: all[0], pos: make([]position, 0, len(all))}
	for n, i := range all {
		if i != x.first+uint64(n) {
			return index{}, fmt.Errorf("entry %d is missing between %d and %d", x.first+uint64(n), x.first, all[len(all)-1])
		}
		x.pos = append(x.pos, y.pos[i])
	}
	return x, nil
}
