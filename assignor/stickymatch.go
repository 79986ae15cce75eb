package assignor

import "slices"

// matching finds for as many tasks as possible that need a new active member a process that has their state and room: a
// largest flow from tasks without owner, and from members that have too many tasks through these tasks, to processes. Kinds of
// state come one after the other, and no later one undoes what an earlier one found.
type matching struct {
	*actives
	net *flow
	// nodeOf and out are the node of a process, 0 as long as it has none, and its edges. The label of a node is its process, or -1.
	nodeOf []int32
	out    []processEdges
	// extras stands for the members that may have one task more than others, toExtras is the edge that counts them.
	extras, toExtras int32
	// owners are the edges by member through which it gives up tasks; optional is the node of what some of them must give up,
	// whichever these are.
	owners           []ownerEdges
	optional         int32
	orphans, offered []movable
	// stranded are the orphans whose replicas are all in processes without room; anyProcess says that such get nodes, too.
	stranded   []movable
	anyProcess bool
}

// processEdges lead from a process to the sink: for the tasks that every member may have, and for those beyond.
type processEdges struct{ base, extra int32 }

// ownerEdges are the node of a member with too many tasks, 0 where it has none, and the edge for a task that it may give up
// but need not, or -1.
type ownerEdges struct{ node, optional int32 }

// movable is a task with its node and the edge to that; node is 0 as long as it has none.
type movable struct{ task, node, in int32 }

// stateKind is the state that a round of the matching takes into account.
type stateKind uint8

const (
	// byClaim are warm-ups: their members were given them to take over the task.
	byClaim stateKind = iota
	// byReplica are standbys, warm-ups, and the state of the owner's own process.
	byReplica
	// byReport are offsets that members reported of tasks that they were not assigned.
	byReport
)

// match decides which free tasks go to which process, and which tasks their owners give up for that.
func (a *actives) match() {
	m := &matching{actives: a}
	if !m.collect() {
		return
	}
	m.build()
	m.admit(m.offered, byClaim)
	m.decide(m.offered)
	m.admit(m.orphans, byReplica)
	m.admit(m.offered, byReplica)
	m.hold(m.offered)
	m.admit(m.orphans, byReport)
	m.admit(m.offered, byReport)
	m.exchange()
	m.decide(m.orphans)
	m.decide(m.offered)
	for _, owner := range a.over {
		if len(m.owners) > 0 && m.owners[owner].node > 0 && m.owners[owner].optional >= 0 && m.net.used(m.owners[owner].optional) > 0 {
			a.limit[owner]--
			a.giveUp--
		}
	}
}

// collect finds the tasks that may move to where their state is; it reports whether there are any.
func (m *matching) collect() bool {
	if m.none() {
		return false
	}
	m.orphans = make([]movable, 0, m.numOrphans)
	for _, t := range m.byPartition {
		if m.numCopies[t] > 0 || !m.stateful(t) {
			continue
		}
		owner := m.prevActive[t]
		switch {
		case owner < 0:
			if m.wanted(t) {
				m.orphans = append(m.orphans, movable{task: t})
			} else if m.hasReplica(t) {
				m.stranded = append(m.stranded, movable{task: t})
			}
		case !m.isOnWay(t) && m.mayGiveUp(owner) && (m.capacity(m.process[owner]) > 0 || m.wanted(t)):
			m.offered = append(m.offered, movable{task: t})
		}
	}
	return len(m.orphans)+len(m.offered)+len(m.stranded) > 0
}

// none says that no process can get tasks.
func (m *matching) none() bool {
	for p := range m.base {
		if m.capacity(int32(p)) > 0 {
			return false
		}
	}
	return true
}

// wanted says that a process that can get tasks has state of this one.
func (m *matching) wanted(t int32) bool {
	for _, c := range m.candidatesOf(t) {
		if m.capacity(m.process[c.member]) > 0 {
			return true
		}
	}
	return false
}

func (m *matching) build() {
	tasks := len(m.orphans) + len(m.offered)
	m.matches = make([]int32, 0, tasks)
	m.net = &flow{}
	m.net.grow(tasks+m.numProcesses()+len(m.over)+4, 2*(tasks+m.numProcesses()+len(m.over))+4)
	m.net.node(-1) // source
	m.net.node(-1) // sink
	m.nodeOf, m.out = m.ints(m.numProcesses()), make([]processEdges, m.numProcesses())
	m.extras = m.net.node(-1)
	m.toExtras = m.net.edge(m.extras, sink, m.spare)
	if len(m.offered) > 0 {
		m.owners = make([]ownerEdges, len(m.members))
		m.optional = m.net.node(-1)
		m.net.edge(source, m.optional, m.giveUp)
	}
}

// processNode is the node of a process that can get tasks, or 0.
func (m *matching) processNode(p int32) int32 {
	if m.nodeOf[p] == 0 && (m.anyProcess || m.capacity(p) > 0) {
		n := m.net.node(p)
		m.nodeOf[p] = n
		m.out[p].extra = m.net.edge(n, m.extras, m.extra[p])
		m.out[p].base = m.net.edge(n, sink, m.base[p])
	}
	return m.nodeOf[p]
}

func (m *matching) ownerNode(member int32) int32 {
	o := &m.owners[member]
	if o.node == 0 {
		o.node, o.optional = m.net.node(-1), -1
		if m.giveUp > 0 {
			o.optional = m.net.edge(m.optional, o.node, 1)
		}
		m.net.edge(source, o.node, m.prev[member]-m.least-1)
	}
	return o.node
}

// admit lets tasks that have no new owner yet go to processes with state of a kind, and enlarges the matching.
func (m *matching) admit(tasks []movable, kind stateKind) {
	admitted := false
	for i := range tasks {
		if t := &tasks[i]; !m.matched(t) && m.connect(t, kind) {
			admitted = true
		}
	}
	if admitted {
		m.net.augment()
	}
}

func (m *matching) matched(t *movable) bool { return t.node > 0 && m.net.used(t.in) > 0 }

// connect adds the edges of a task, the best last: they are tried in the reverse order.
func (m *matching) connect(t *movable, kind stateKind) (connected bool) {
	owner := m.prevActive[t.task]
	candidates := ofKind(m.candidatesOf(t.task), kind)
	for _, c := range slices.Backward(candidates) {
		if kind != byClaim || c.holding == asWarmup {
			connected = m.lead(t, m.process[c.member]) || connected
		}
	}
	if owner < 0 {
		if connected {
			m.pushToBest(t, candidates)
		}
		return connected
	}
	// Another member of the owner's process finds the state in its place.
	return kind == byReplica && m.lead(t, m.process[owner]) || connected
}

// lead adds an edge from the task to a process that can get tasks.
func (m *matching) lead(t *movable, process int32) bool {
	n := m.processNode(process)
	if n == 0 {
		return false
	}
	if t.node == 0 {
		t.node = m.net.node(-1)
		if owner := m.prevActive[t.task]; owner >= 0 {
			t.in = m.net.edge(m.ownerNode(owner), t.node, 1)
		} else {
			t.in = m.net.edge(source, t.node, 1)
		}
	}
	m.net.edge(t.node, n, 1)
	return true
}

// ofKind is the part of ranked candidates that has state of a kind; among replicas are the claims.
func ofKind(candidates []candidate, kind stateKind) []candidate {
	n := 0
	for n < len(candidates) && candidates[n].holding != reported {
		n++
	}
	if kind == byReport {
		return candidates[n:]
	}
	return candidates[:n]
}

// pushToBest gives the task to the best of the candidates that have room; among equals to the lightest process.
func (m *matching) pushToBest(t *movable, candidates []candidate) {
	best, offset := int32(-1), int64(0)
	for _, c := range candidates {
		if best >= 0 && c.offset < offset {
			break
		}
		if p := m.process[c.member]; m.hasRoom(p) && (best < 0 || m.betterForActive(t.task, p, best)) {
			best, offset = p, c.offset
		}
	}
	if best < 0 {
		return
	}
	e := m.net.nodes[t.node].first
	for m.net.edges[e].to != m.nodeOf[best] {
		e = m.net.edges[e].next
	}
	m.net.push(t.in)
	m.net.push(e)
	if out := m.out[best]; m.net.edges[out.base].room > 0 {
		m.net.push(out.base)
	} else {
		m.net.push(out.extra)
		m.net.push(m.toExtras)
	}
}

func (m *matching) hasRoom(process int32) bool {
	out := m.out[process]
	return m.nodeOf[process] > 0 && (m.net.edges[out.base].room > 0 || m.net.edges[out.extra].room > 0 && m.net.edges[m.toExtras].room > 0)
}

// betterForActive reports whether, of two processes that have the same state of a task, a is to run it rather than b.
func (m *matching) betterForActive(_, a, b int32) bool {
	return int64(m.load(a))*int64(m.fresh[b]) < int64(m.load(b))*int64(m.fresh[a])
}

// load is the number of tasks that the process keeps or has got.
func (m *matching) load(process int32) int32 {
	out := m.out[process]
	return m.kept(process) + m.net.used(out.base) + m.net.used(out.extra)
}

// decide makes the matches of the tasks final.
func (m *matching) decide(tasks []movable) {
	for i := range tasks {
		t := &tasks[i]
		if !m.matched(t) || m.target[t.task] != unmatched {
			continue
		}
		for e := m.net.nodes[t.node].first; e >= 0; e = m.net.edges[e].next {
			if p := m.net.nodes[m.net.edges[e].to].label; p >= 0 && m.net.used(e) > 0 {
				m.target[t.task] = p
				m.matches = append(m.matches, t.task)
				m.net.freeze(e)
				break
			}
		}
		m.net.freeze(t.in)
	}
}

// hold keeps the tasks that their owners give up from being exchanged for others of the same owners.
func (m *matching) hold(tasks []movable) {
	for i := range tasks {
		if t := &tasks[i]; m.matched(t) {
			m.net.freeze(t.in)
		}
	}
}
