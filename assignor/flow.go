package assignor

import (
	"math"
	"slices"
)

// flow is a network whose edges have small capacities, and the flow through it from source to sink. Edges may be added
// between augmentations; an augmentation leaves no edge out of the source emptier than it was.
type flow struct {
	// An edge and its reverse are numbers that differ in the lowest bit. from[node] is the first edge out of a node, next the
	// one after an edge; -1 ends the list. room is what still fits through an edge; capacity has one entry for both.
	from           []int32
	next, to, room []int32
	capacity       []int32
	// level is the distance from the source, at is the edge out of a node that is tried next.
	level, at, queue []int32
}

const (
	source = iota
	sink
	// firstNode is the first node that is free for use.
	firstNode
)

// maxPhases bounds the work of one augmentation to so many passes over all edges. After k phases no way to the sink is shorter
// than 2k edges, so that at most one part in k of a largest matching is missing.
const maxPhases = 60

func newFlow(nodes, edges int) *flow {
	f := &flow{from: make([]int32, 0, nodes), next: make([]int32, 0, 2*edges), to: make([]int32, 0, 2*edges), room: make([]int32, 0, 2*edges),
		capacity: make([]int32, 0, edges)}
	for range firstNode {
		f.node()
	}
	return f
}

// grow makes room for so many more nodes and edges.
func (f *flow) grow(nodes, edges int) {
	f.from, f.capacity = slices.Grow(f.from, nodes), slices.Grow(f.capacity, edges)
	f.next, f.to, f.room = slices.Grow(f.next, 2*edges), slices.Grow(f.to, 2*edges), slices.Grow(f.room, 2*edges)
}

func (f *flow) node() int32 {
	f.from = append(f.from, -1)
	return int32(len(f.from) - 1)
}

func (f *flow) edge(from, to, capacity int32) int32 {
	e := int32(len(f.to))
	f.to = append(f.to, to, from)
	f.room, f.capacity = append(f.room, capacity, 0), append(f.capacity, capacity)
	f.next = append(f.next, f.from[from], f.from[to])
	f.from[from], f.from[to] = e, e+1
	return e
}

// push sends one unit through an edge that has room.
func (f *flow) push(e int32) {
	f.room[e]--
	f.room[e^1]++
}

// used is the flow through an edge, not a reverse one.
func (f *flow) used(e int32) int32 { return f.capacity[e>>1] - f.room[e] }

// freeze forbids to take back what flows through an edge.
func (f *flow) freeze(e int32) { f.room[e^1] = 0 }

// shut lets nothing more through an edge, not a reverse one.
func (f *flow) shut(e int32) {
	f.capacity[e>>1] -= f.room[e]
	f.room[e] = 0
}

// augment enlarges the flow, as far as maxPhases allow, to the largest (Dinic).
func (f *flow) augment() { f.augmentWithin(math.MaxInt32) }

// augmentWithin does so as long as there are ways of at most so many edges.
func (f *flow) augmentWithin(longest int32) {
	n := len(f.from)
	f.level, f.at = append(f.level[:0], make([]int32, n)...), append(f.at[:0], make([]int32, n)...)
	for range maxPhases {
		if !f.measure(longest) {
			return
		}
		copy(f.at, f.from)
		for f.advance(source) {
		}
	}
}

// measure finds the distances from the source; it reports whether the sink is no further than the longest.
func (f *flow) measure(longest int32) bool {
	for i := range f.level {
		f.level[i] = -1
	}
	f.level[source] = 0
	f.queue = append(f.queue[:0], source)
	for i := 0; i < len(f.queue); i++ {
		node := f.queue[i]
		if f.level[node] >= longest {
			return false
		}
		for e := f.from[node]; e >= 0; e = f.next[e] {
			if to := f.to[e]; f.room[e] > 0 && f.level[to] < 0 {
				f.level[to] = f.level[node] + 1
				if to == sink {
					return true
				}
				f.queue = append(f.queue, to)
			}
		}
	}
	return false
}

// advance sends one unit from the node to the sink on a shortest way. Edges that lead nowhere are not tried again in a phase.
func (f *flow) advance(node int32) bool {
	if node == sink {
		return true
	}
	for ; f.at[node] >= 0; f.at[node] = f.next[f.at[node]] {
		e := f.at[node]
		if to := f.to[e]; f.room[e] > 0 && f.level[to] == f.level[node]+1 && f.advance(to) {
			f.push(e)
			return true
		}
	}
	return false
}
