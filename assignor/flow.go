package assignor

import (
	"math"
	"slices"
)

// flow is a network whose edges have small capacities, and the flow through it from source to sink. Edges may be added
// between augmentations; an augmentation leaves no edge out of the source emptier than it was.
type flow struct {
	nodes []flowNode
	// An edge and its reverse are numbers that differ in the lowest bit.
	edges []flowEdge
	// ahead are the nodes at the distance that is looked at and the next two, by remainder.
	ahead [maxLength + 1][]int32
}

// flowNode has a list of edges that begins with first; -1 ends it. level is the distance from the source, -1 for none, at is the edge
// that is tried next. label is what its user wants to know of it.
type flowNode struct{ first, level, at, label int32 }

// flowEdge leads to a node; next is the one after it in the list of the node that it comes from. room is what still fits through
// it; of a reverse one what flows through the edge itself, as a negative number if that is not to be taken back. length is 1 or
// maxLength.
type flowEdge struct{ to, next, room, length int32 }

// The first two nodes of a network.
const (
	source = iota
	sink
)

// maxPhases bounds the work of one augmentation to so many passes over all edges. After k phases no way to the sink is shorter
// than 2k edges, so that at most one part in k of a largest matching is missing.
const maxPhases = 60

// maxLength is the length of an edge that stands for a way through a node of its own.
const maxLength = 2

// grow makes room for so many more nodes and edges.
func (f *flow) grow(nodes, edges int) {
	f.nodes, f.edges = slices.Grow(f.nodes, nodes), slices.Grow(f.edges, 2*edges)
}

func (f *flow) node(label int32) int32 {
	f.nodes = append(f.nodes, flowNode{-1, -1, -1, label})
	return int32(len(f.nodes) - 1)
}

// edge adds an edge, which comes before all others of its nodes.
func (f *flow) edge(from, to, capacity int32) int32 { return f.connect(from, to, capacity, 1) }

func (f *flow) connect(from, to, capacity, length int32) int32 {
	e := int32(len(f.edges))
	f.edges = append(f.edges, flowEdge{to, f.nodes[from].first, capacity, length}, flowEdge{from, f.nodes[to].first, 0, length})
	f.nodes[from].first, f.nodes[to].first = e, e+1
	return e
}

// push sends one unit through an edge that has room.
func (f *flow) push(e int32) {
	f.edges[e].room--
	f.edges[e^1].room++
}

// used is the flow through an edge, not a reverse one.
func (f *flow) used(e int32) int32 {
	n := f.edges[e^1].room
	return max(n, -n)
}

// freeze forbids to take back what flows through an edge that is full.
func (f *flow) freeze(e int32) { f.edges[e^1].room = -f.used(e) }

// shut lets nothing more through an edge, not a reverse one.
func (f *flow) shut(e int32) { f.edges[e].room = 0 }

// augment enlarges the flow, as far as maxPhases allow, to the largest (Dinic).
func (f *flow) augment() { f.augmentWithin(math.MaxInt32) }

// augmentWithin does so as long as there are ways of at most so many edges.
func (f *flow) augmentWithin(longest int32) {
	for range maxPhases {
		if !f.measure(longest) {
			return
		}
		for f.advance(source) {
		}
	}
}

// measure finds the distances from the source; it reports whether the sink is no further than the longest.
func (f *flow) measure(longest int32) bool {
	for i := range f.nodes {
		f.nodes[i].level = -1
	}
	f.clearAhead()
	f.reach(source, 0)
	for level, none := int32(0), 0; level < longest && none < len(f.ahead); level++ {
		nodes := f.ahead[level%int32(len(f.ahead))]
		if none++; len(nodes) > 0 {
			none = 0
		}
		for _, node := range nodes {
			if f.nodes[node].level == level && f.lookAround(node) {
				return true
			}
		}
		f.ahead[level%int32(len(f.ahead))] = nodes[:0]
	}
	return false
}

func (f *flow) clearAhead() {
	n := len(f.nodes)
	if cap(f.ahead[0]) < n {
		memory := make([]int32, len(f.ahead)*n)
		for i := range f.ahead {
			f.ahead[i] = memory[i*n : i*n : (i+1)*n]
		}
	}
	for i := range f.ahead {
		f.ahead[i] = f.ahead[i][:0]
	}
}

// lookAround reaches what the edges of a node lead to; it reports whether that is the sink.
func (f *flow) lookAround(node int32) bool {
	from := f.nodes[node].level
	for e := f.nodes[node].first; e >= 0; e = f.edges[e].next {
		edge := &f.edges[e]
		if edge.room <= 0 {
			continue
		}
		if level := f.nodes[edge.to].level; level < 0 || level > from+edge.length {
			if f.reach(edge.to, from+edge.length); edge.to == sink {
				return true
			}
		}
	}
	return false
}

func (f *flow) reach(node, level int32) {
	n := &f.nodes[node]
	n.level, n.at = level, n.first
	of := &f.ahead[level%int32(len(f.ahead))]
	*of = append(*of, node)
}

// advance sends one unit from the node to the sink on a shortest way. Edges that lead nowhere are not tried again in a phase.
func (f *flow) advance(node int32) bool {
	if node == sink {
		return true
	}
	n := &f.nodes[node]
	for ; n.at >= 0; n.at = f.edges[n.at].next {
		e := &f.edges[n.at]
		if e.room > 0 && f.nodes[e.to].level == n.level+e.length && f.advance(e.to) {
			f.push(n.at)
			return true
		}
	}
	return false
}
