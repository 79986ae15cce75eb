package assignor

import (
	"cmp"
	"slices"
)

// missing is how many standbys of a task are to be placed.
func (b *standbys) missing(t int32) int32 {
	if !b.stateful(t) {
		return 0
	}
	n := int32(b.maxCopies) - b.numCopies[t]
	if b.processes < int32(b.numProcesses()) {
		apart := b.processes
		for _, m := range b.copiesOf(t) {
			if b.fresh[b.process[m]] > 0 {
				apart--
			}
		}
		n = min(n, apart)
	}
	return n
}

// own counts the tasks of members that are not stale by process.
func (b *standbys) own() []int32 {
	if b.numStale == 0 {
		return slices.Clone(b.processCount)
	}
	own := b.ints(b.numProcesses())
	for m, n := range b.count {
		if !b.isStale(int32(m)) {
			own[b.process[m]] += n
		}
	}
	return own
}

// shareRoom divides all copies among the processes.
func (b *standbys) shareRoom() {
	own := b.own()
	copies, lacking := int64(0), int32(0)
	b.lack = b.ints(b.numTasks())
	for t := range b.lack {
		if n := b.missing(int32(t)); n > 0 {
			b.lack[t] = n
			b.left += int(n)
			lacking++
		}
	}
	var sharing []int32
	for p, n := range own {
		copies += int64(n)
		if b.fresh[p] > 0 {
			sharing = append(sharing, int32(p))
		}
	}
	b.room = b.ints(b.numProcesses())
	b.share(sharing, own, copies+int64(b.left), lacking)
	for p := range b.room {
		b.room[p] = max(0, b.room[p]-own[p])
	}
}

// share sets how many copies each of the processes is to have.
func (b *standbys) share(sharing, own []int32, copies int64, lacking int32) {
	members := int64(len(b.members) - b.numStale)
	// Who can take fewer than its share, because a process has one copy of a task, leaves more to the others.
	if int64(lacking)*members < copies*int64(slices.Max(b.fresh)) {
		most := b.possible(own, lacking)
		for n := -1; n != len(sharing); {
			n = len(sharing)
			sharing = slices.DeleteFunc(sharing, func(p int32) bool {
				full := int64(most[p])*members < copies*int64(b.fresh[p])
				if full {
					b.room[p] = most[p]
					copies -= int64(most[p])
					members -= int64(b.fresh[p])
				}
				return full
			})
		}
	}
	left := copies
	for _, p := range sharing {
		b.room[p] = int32(copies * int64(b.fresh[p]) / members)
		left -= int64(b.room[p])
	}
	b.sortByNeed(sharing, own)
	for _, p := range sharing[:min(left, int64(len(sharing)))] {
		b.room[p]++
	}
}

// possible is how many tasks each process could have, if a number of tasks lack standbys: one copy of each of these, and its
// other tasks.
func (b *standbys) possible(own []int32, lacking int32) []int32 {
	most := slices.Clone(own)
	for t, n := range b.lack {
		if n > 0 {
			for _, m := range b.copiesOf(int32(t)) {
				most[b.process[m]]--
			}
		}
	}
	for p := range most {
		most[p] += lacking
	}
	return most
}

// sortByNeed sorts processes by who is to have one task more than its share rounded down: who has less by the latter; among
// these the smaller one; then who has more active tasks, so that standbys are spread well too; then who has more standbys than
// that already.
func (b *standbys) sortByNeed(order, own []int32) {
	former := b.ints(b.numProcesses())
	for _, c := range b.candidates {
		if c.holding != reported {
			former[b.process[c.member]]++
		}
	}
	more := func(p int32) int {
		if own[p]+former[p] > b.room[p] {
			return 0
		}
		return 1
	}
	per := func(x, y int32, of []int32) int {
		return cmp.Compare(int64(of[x])*int64(b.fresh[y]), int64(of[y])*int64(b.fresh[x]))
	}
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(per(x, y, b.room), cmp.Compare(b.fresh[x], b.fresh[y]), -per(x, y, own),
			cmp.Compare(more(x), more(y)), cmp.Compare(x, y))
	})
}
