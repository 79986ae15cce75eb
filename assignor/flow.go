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
	queue []int32
}

// flowNode has a list of edges that begins with first; -1 ends it. level is the distance from the source, -1 for none, at is the edge
// that is tried next.
type flowNode struct{ first, level, at int32 }

// flowEdge leads to a node; next is the one after it in the list of the node that it comes from. room is what still fits through
// it; of a reverse one what flows through the edge itself, as a negative number if that is not to be taken back.
type flowEdge struct{ to, next, room int32 }

// The first two nodes of a network.
const (
	source = iota
	sink
)

// maxPhases bounds the work of one augmentation to so many passes over all edges. After k phases no way to the sink is shorter
// than 2k edges, so that at most one part in k of a largest matching is missing.
const maxPhases = 60

// grow makes room for so many more nodes and edges.
func (f *flow) grow(nodes, edges int) {
	f.nodes, f.edges = slices.Grow(f.nodes, nodes), slices.Grow(f.edges, 2*edges)
}

func (f *flow) node() int32 {
	f.nodes = append(f.nodes, flowNode{-1, -1, -1})
	return int32(len(f.nodes) - 1)
}

// edge adds an edge, which comes before all others of its nodes.
func (f *flow) edge(from, to, capacity int32) int32 {
	e := int32(len(f.edges))
	f.edges = append(f.edges, flowEdge{to, f.nodes[from].first, capacity}, flowEdge{from, f.nodes[to].first, 0})
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
	f.queue = append(slices.Grow(f.queue[:0], len(f.nodes)), source)
	f.nodes[source].level, f.nodes[source].at = 0, f.nodes[source].first
	for i := 0; i < len(f.queue); i++ {
		node := f.queue[i]
		level := f.nodes[node].level + 1
		if level > longest {
			return false
		}
		for e := f.nodes[node].first; e >= 0; e = f.edges[e].next {
			edge := &f.edges[e]
			if edge.room <= 0 || f.nodes[edge.to].level >= 0 {
				continue
			}
			to := &f.nodes[edge.to]
			if to.level, to.at = level, to.first; edge.to == sink {
				return true
			}
			f.queue = append(f.queue, edge.to)
		}
	}
	return false
}

// advance sends one unit from the node to the sink on a shortest way. Edges that lead nowhere are not tried again in a phase.
func (f *flow) advance(node int32) bool {
	if node == sink {
		return true
	}
	n := &f.nodes[node]
	for ; n.at >= 0; n.at = f.edges[n.at].next {
		e := &f.edges[n.at]
		if e.room > 0 && f.nodes[e.to].level == n.level+1 && f.advance(e.to) {
			f.push(n.at)
			return true
		}
	}
	return false
}
