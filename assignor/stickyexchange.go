package assignor

import "slices"

// exchanges lets orphans go to processes that have their state but no room: such a process gives a task of its own to another
// that has the state of that one and room, or gives one on in its turn. A task without state goes anywhere. In the network these
// tasks lead from the process of their owner on, so that the shortest ways, and so the fewest moves, come first.
type exchanges struct {
	*matching
	// giver is the node through which a member gives up tasks, 0 for that of its process; free is the edge for those without state,
	// 0 for none.
	giver, free []int32
	// in is the edge by task through which its owner may give it up, 0 for none: to a node of the task, or to the only process that
	// it can go to.
	in []int32
	to []int32
	// ends are the largest ends of changelogs that anybody reported by task, nil where nobody did.
	ends []int64
}

// handOver is a task that goes from process to process.
type handOver struct {
	task, from, to int32
	circular       bool
}

const (
	// longestWay is the most edges from the source to the sink of a way on which three tasks of owners move: two to a process, two
	// more for each move, two to the sink.
	longestWay = 10
	// unmatched and anywhere are targets of tasks: those of the latter have been given up by their owners, and need no state.
	unmatched = -1
	anywhere  = -2
)

// exchange does so if there are orphans left of which somebody has a replica. The matches of others are final.
func (m *matching) exchange() {
	left := slices.ContainsFunc(m.orphans, func(t movable) bool { return !m.matched(&t) && m.hasReplica(t.task) })
	if !left && len(m.stranded) == 0 {
		return
	}
	m.decide(m.offered)
	for e := m.net.nodes[source].first; e >= 0; e = m.net.edges[e].next {
		m.net.shut(e)
	}
	m.anyProcess = true
	x := &exchanges{matching: m, giver: m.ints(len(m.members)), free: m.ints(len(m.members))}
	x.open()
	x.admitLeft()
	x.net.augmentWithin(longestWay)
	x.decide()
}

// admitLeft gives the orphans that are left their ways to replicas, and the others those to processes without room.
func (x *exchanges) admitLeft() {
	x.orphans = append(x.orphans, x.stranded...)
	for i := range x.orphans {
		t := &x.orphans[i]
		if !x.matched(t) {
			t.node = 0 // without its ways to reported state
			x.connect(t, byReplica)
			continue
		}
		of := ofKind(x.candidatesOf(t.task), byReplica)
		for k := range of {
			if p := x.process[of[k].member]; x.capacity(p) == 0 {
				x.lead(t, p)
			}
		}
	}
}

// hasReplica says whether somebody has a standby or warm-up of the task.
func (m *matching) hasReplica(t int32) bool {
	return len(ofKind(m.candidatesOf(t), byReplica)) > 0
}

// open adds what owners may give up: not what is on its way to them.
func (x *exchanges) open() {
	x.readEnds()
	stateless := x.ints(len(x.members))
	x.in = x.ints(x.numTasks())
	x.net.grow(x.contested+x.numProcesses()+len(x.over)+len(x.orphans)+len(x.stranded),
		x.contested+len(x.candidates)+2*x.numProcesses()+len(x.members)+len(x.stranded))
	for _, t := range x.byPartition {
		owner := x.prevActive[t]
		switch {
		case owner < 0 || x.numCopies[t] > 0 || x.target[t] != unmatched || x.isOnWay(t):
		case x.stateful(t):
			x.offer(t, owner)
		default:
			stateless[owner]++
		}
	}
	for owner, n := range stateless {
		if n > 0 {
			x.free[owner] = x.net.edge(x.giverNode(int32(owner)), sink, n)
		}
	}
}

// offer adds the edges of a task to the processes that have its state, the best last.
func (x *exchanges) offer(t, owner int32) {
	to := x.takers(ofKind(x.candidatesOf(t), byReplica), x.process[owner])
	switch len(to) {
	case 0:
	case 1:
		x.in[t] = x.net.connect(x.giverNode(owner), x.processNode(to[0]), 1, maxLength)
	default:
		node := x.net.node(-1)
		x.in[t] = x.net.edge(x.giverNode(owner), node, 1)
		for i := len(to) - 1; i >= 0; i-- {
			x.net.edge(node, x.processNode(to[i]), 1)
		}
	}
}

// takers are the processes other than its own that may take a task from its owner.
func (x *exchanges) takers(candidates []candidate, own int32) []int32 {
	x.to = x.to[:0]
	for i := range candidates {
		c := &candidates[i]
		if p := x.process[c.member]; p != own && c.held != reported && !x.isBehind(c) {
			x.to = append(x.to, p)
		}
	}
	return x.to
}

// giverNode is the node of the owner's process; for a member with too many tasks, some of which it gives up in any case, one that
// counts what it may exchange of those that it keeps.
func (x *exchanges) giverNode(owner int32) int32 {
	n := x.prev[owner]
	if n <= x.least || n == x.least+1 && x.giveUp == 0 {
		return x.processNode(x.process[owner])
	}
	if x.giver[owner] == 0 {
		keeps := x.least
		if x.giveUp == 0 {
			keeps++
		}
		if x.receiving != nil {
			keeps -= x.receiving[owner]
		}
		x.giver[owner] = x.net.node(-1)
		x.net.edge(x.processNode(x.process[owner]), x.giver[owner], max(0, keeps))
	}
	return x.giver[owner]
}

func (x *exchanges) readEnds() {
	for i := range x.spec.Members {
		x.eachOffset(x.spec.Members[i].EndOffsets, func(t int32, o *TaskOffset) {
			if x.ends == nil {
				x.ends = make([]int64, x.numTasks())
			}
			x.ends[t] = max(x.ends[t], knownOffset(o.Offset))
		})
	}
}

// isBehind says that a replica is known to have more to restore than the acceptable lag: its task is better off where it runs.
func (x *exchanges) isBehind(c *candidate) bool {
	return x.ends != nil && c.offset >= 0 && x.ends[c.task]-c.offset > x.spec.AcceptableRecoveryLag
}

// decide makes what owners give up final.
func (x *exchanges) decide() {
	x.exchanged = x.ints(len(x.members))
	for _, g := range x.withoutCircles(x.handOvers()) {
		x.exchanged[x.prevActive[g.task]]++
		x.target[g.task] = g.to
		x.matches = append(x.matches, g.task)
	}
	x.giveStateless()
}

// giveStateless has owners give up as many tasks without state as the flow says.
func (x *exchanges) giveStateless() {
	left, some := x.ints(len(x.members)), false
	for owner, e := range x.free {
		if e > 0 {
			left[owner] = x.net.used(e)
			some = some || left[owner] > 0
		}
	}
	if !some {
		return
	}
	for _, t := range slices.Backward(x.byPartition) {
		owner := x.prevActive[t]
		if owner >= 0 && left[owner] > 0 && !x.stateful(t) && x.numCopies[t] == 0 && x.target[t] == unmatched {
			left[owner]--
			x.exchanged[owner]++
			x.target[t] = anywhere
		}
	}
}

// handOvers are the tasks that owners give up in the flow.
func (x *exchanges) handOvers() (moves []handOver) {
	for _, t := range x.byPartition {
		if e := x.in[t]; e > 0 && x.net.used(e) > 0 {
			moves = append(moves, handOver{task: t, from: x.process[x.prevActive[t]], to: x.taker(e)})
		}
	}
	return moves
}

// taker is the process to which the flow through an edge goes at once or through the node of a task.
func (x *exchanges) taker(e int32) int32 {
	to := &x.net.nodes[x.net.edges[e].to]
	if to.label >= 0 {
		return to.label
	}
	for e = to.first; e&1 != 0 || x.net.used(e) == 0; e = x.net.edges[e].next {
	}
	return x.net.nodes[x.net.edges[e].to].label
}

// withoutCircles leaves out moves from process to process that end where they began: different ways may have used them, and
// together they are good for nothing.
func (x *exchanges) withoutCircles(moves []handOver) []handOver {
	lengths := x.ints(x.numProcesses())
	for i := range moves {
		lengths[moves[i].from]++
	}
	of, next := x.newLists(lengths), x.ints(x.numProcesses())
	for i := range moves {
		of.add(moves[i].from, int32(i))
	}
	// Walk along moves, each once. depth is one more than how many moves of the way led to a process, 0 for one that is not on it.
	depth := x.ints(x.numProcesses())
	var way []int32
	for start := range next {
		at := int32(start)
		for depth[at] = 1; ; {
			if list := of.of(at); next[at] < int32(len(list)) {
				way = append(way, list[next[at]])
				next[at]++
				at = moves[way[len(way)-1]].to
				if depth[at] == 0 {
					depth[at] = int32(len(way)) + 1
					continue
				}
				for first := int(depth[at]) - 1; len(way) > first; way = way[:len(way)-1] {
					g := &moves[way[len(way)-1]]
					if g.to != at {
						depth[g.to] = 0
					}
					g.circular = true
				}
				continue
			}
			depth[at] = 0
			if len(way) == 0 {
				break
			}
			at = moves[way[len(way)-1]].from
			way = way[:len(way)-1]
		}
	}
	return slices.DeleteFunc(moves, func(g handOver) bool { return g.circular })
}

// makeRoom takes the places of tasks that were exchanged from their owners, for those that come in their stead.
func (a *actives) makeRoom() {
	for m, n := range a.exchanged {
		for p := a.process[m]; n > 0; n-- {
			if a.limit[m] > a.least {
				a.extra[p]++
			} else {
				a.base[p]++
			}
			a.limit[m]--
		}
	}
}
