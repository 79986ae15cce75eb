package cases

import "github.com/coordd/coordd/assignor"

// Bounds say what an assignment of a case could reach whose active tasks differ by at most one over the members.
type Bounds struct {
	// Moves is how many active tasks must leave a member that is still there.
	Moves int
	// HaveStandby is how many tasks without an owner have a standby in a process that is still there, and ToStandby how many of
	// those can become active in such a process while no task moves without need.
	HaveStandby, ToStandby int
	// ByExchange is how many can if members exchange, for such a task, one of their own that somebody else has a standby of, and
	// processes have no more than their share, rounded up, of what some members have more than others. All tasks have state.
	ByExchange int
}

// BoundsOf computes them exactly: ToStandby is a maximum flow from tasks over processes to what their members may still get, ByExchange
// one in which tasks of owners lead on from their owners' processes.
func BoundsOf(spec assignor.Spec) Bounds {
	g := newGroup(spec)
	before := make([]int, len(spec.Members))
	for _, owner := range g.owner {
		if owner >= 0 {
			before[owner]++
		}
	}
	least, larger := g.tasks/len(before), g.tasks%len(before)
	var b Bounds
	// A member that has more than least keeps least+1 as long as so many members may have that; only the others may get any.
	room, above := make([]int, len(g.threads)), make([]int, len(g.threads))
	full := 0
	for m, n := range before {
		switch p := g.process[m]; {
		case n > least:
			b.Moves += n - least
			full++
		default:
			room[p] += least - n
			above[p]++
		}
	}
	b.Moves -= min(larger, full)
	larger -= min(larger, full)

	f, _ := g.network(room, above, larger)
	for t, owner := range g.owner {
		if owner < 0 && len(g.standbyOn[t]) > 0 {
			b.HaveStandby++
		}
	}
	b.ToStandby = f.max(source, sink)
	b.ByExchange = b.ToStandby
	if full > g.tasks%len(before) {
		return b // owners must give up tasks: which they may exchange is not so simple
	}
	for p, threads := range g.threads {
		share := (g.tasks%len(before)*threads + len(before) - 1) / len(before)
		above[p] = min(above[p], max(0, share-(threads-above[p])))
	}
	f, node := g.network(room, above, larger)
	for t, owner := range g.owner {
		if owner >= 0 && before[owner] <= least+1 {
			f.add(processes+g.process[owner], node, 1)
			g.leadToStandbys(f, node, t)
			node++
		}
	}
	b.ByExchange = f.max(source, sink)
	return b
}

// Nodes: source, sink, the members that may have one more than the others, processes, tasks.
const source, sink, extra, processes = 0, 1, 2, 3

// network leads from tasks without an owner to processes that have their standbys, and what these may get: room, and one for each
// of the members above that may have one more. It returns the first node that is free.
func (g *group) network(room, above []int, larger int) (f *flow, node int) {
	node = processes + len(g.threads)
	f = newFlow(node + g.tasks)
	f.add(extra, sink, larger)
	for p := range g.threads {
		f.add(processes+p, sink, room[p])
		f.add(processes+p, extra, above[p])
	}
	for t, owner := range g.owner {
		if owner < 0 {
			f.add(source, node, 1)
			g.leadToStandbys(f, node, t)
			node++
		}
	}
	return f, node
}

func (g *group) leadToStandbys(f *flow, node, task int) {
	for _, p := range g.standbyOn[task] {
		f.add(node, processes+p, 1)
	}
}

// flow is a network for Dinic's algorithm; edge i^1 is the reverse of edge i.
type flow struct {
	edges        [][]int // of a node
	to, capacity []int
	level, next  []int
}

func newFlow(nodes int) *flow {
	return &flow{edges: make([][]int, nodes), level: make([]int, nodes), next: make([]int, nodes)}
}

func (f *flow) add(from, to, capacity int) {
	f.edges[from] = append(f.edges[from], len(f.to))
	f.edges[to] = append(f.edges[to], len(f.to)+1)
	f.to, f.capacity = append(f.to, to, from), append(f.capacity, capacity, 0)
}

func (f *flow) max(source, sink int) (total int) {
	for f.levels(source, sink) {
		clear(f.next)
		for {
			pushed := f.push(source, sink, 1<<30)
			if pushed == 0 {
				break
			}
			total += pushed
		}
	}
	return total
}

// levels numbers nodes by their distance from the source; it returns whether the sink is within reach.
func (f *flow) levels(source, sink int) bool {
	clear(f.level)
	f.level[source] = 1
	queue := []int{source}
	for i := 0; i < len(queue); i++ {
		for _, e := range f.edges[queue[i]] {
			if to := f.to[e]; f.capacity[e] > 0 && f.level[to] == 0 {
				f.level[to] = f.level[queue[i]] + 1
				queue = append(queue, to)
			}
		}
	}
	return f.level[sink] > 0
}

func (f *flow) push(from, sink, limit int) int {
	if from == sink {
		return limit
	}
	for ; f.next[from] < len(f.edges[from]); f.next[from]++ {
		e := f.edges[from][f.next[from]]
		to := f.to[e]
		if f.capacity[e] == 0 || f.level[to] != f.level[from]+1 {
			continue
		}
		if pushed := f.push(to, sink, min(limit, f.capacity[e])); pushed > 0 {
			f.capacity[e] -= pushed
			f.capacity[e^1] += pushed
			return pushed
		}
	}
	return 0
}
