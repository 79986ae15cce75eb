package differential

import (
	"fmt"
	"math/rand/v2"
)

// Limits of a script.
const (
	minSteps, maxSteps = 6, 30
	maxMembers         = 4
)

// badPrefix begins the names of topologies that can never run.
const badPrefix = "bad"

// generator makes one script. It knows roughly who is in the group, so that most requests make sense.
type generator struct {
	*rand.Rand
	s      *Script
	joined map[string]bool
	away   map[string]bool // static members that left for a while
	names  []string
	static map[string]bool
	kind   kind
	ready  bool // the topology can run
}

// kind is what a script is mostly about.
type kind int

const (
	aboutMembers kind = iota
	aboutTopologies
	aboutFields
	aboutTypes
	aboutOffsets
	kinds
)

// Generate makes the script of a seed.
func Generate(seed uint64) *Script {
	g := &generator{
		Rand:   rand.New(rand.NewPCG(seed, 0x5eed)),
		s:      &Script{Seed: seed, Members: obj{}, Topologies: obj{}},
		joined: map[string]bool{}, away: map[string]bool{}, static: map[string]bool{},
	}
	g.kind = g.pickKind()
	g.topologies()
	g.members()
	n := minSteps + g.IntN(maxSteps-minSteps+1)
	if g.kind != aboutTypes || g.chance(50) {
		g.join(g.names[0])
	}
	if g.chance(15) {
		g.add("set_group_config", g.settings())
	}
	for len(g.s.Steps) < n {
		g.step()
	}
	if g.chance(60) {
		g.add("settle", list(g.in()))
		g.add("describe", "$s")
	}
	return g.s
}

func (g *generator) pickKind() kind {
	switch n := g.IntN(100); {
	case n < 45:
		return aboutMembers
	case n < 65:
		return aboutTopologies
	case n < 75:
		return aboutFields
	case n < 88:
		return aboutTypes
	}
	return aboutOffsets
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

func (g *generator) add(op string, arg any) {
	if l, ok := arg.([]any); ok && len(l) == 0 && op == "settle" {
		return
	}
	g.s.Steps = append(g.s.Steps, obj{op: arg})
}

func list(names []string) []any {
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = n
	}
	return out
}

// in are the members that are likely in the group.
func (g *generator) in() (names []string) {
	for _, n := range g.names {
		if g.joined[n] {
			names = append(names, n)
		}
	}
	return names
}

func (g *generator) members() {
	n := 2 + g.IntN(maxMembers-1)
	processes := pick(g, 1, n, n, n, 2)
	for i := range n {
		name := string(rune('A' + i))
		m := obj{"process": fmt.Sprintf("p%d", i%processes)}
		if g.chance(25) {
			m["instance"] = fmt.Sprintf("i%d", pick(g, i, i, i, 0))
			g.static[name] = true
		}
		if g.chance(20) {
			m["rack"] = pick(g, "r1", "r2")
		}
		if g.chance(20) {
			m["tags"] = obj{"zone": pick(g, "a", "b")}
		}
		if g.chance(25) && (g.ready || g.chance(10)) {
			m["user_endpoint"] = fmt.Sprintf("h%d:%d", i, 9000+i)
		}
		g.names = append(g.names, name)
		g.s.Members[name] = m
	}
}

func (g *generator) step() {
	switch n := g.IntN(100); {
	case g.kind == aboutFields && n < 50:
		g.wrongFields()
	case g.kind == aboutTypes && n < 50:
		g.otherTypes()
	case g.kind == aboutOffsets && n < 50:
		g.offsets()
	case g.kind == aboutTopologies && n < 25:
		g.joinWithTopology()
	default:
		g.life()
	}
}

// life is what happens to the members of a group.
func (g *generator) life() {
	in := g.in()
	name := pick(g, g.names...)
	if len(in) > 0 && g.chance(90) {
		name = pick(g, in...)
	}
	switch n := g.IntN(100); {
	case n < 14:
		g.join(pick(g, g.names...))
	case n < 56:
		g.beat(name)
	case n < 62:
		g.wrongEpoch(name)
	case n < 66:
		g.change(name)
	case n < 68:
		g.wrongInstance(name)
	case n < 74:
		g.leave(name)
	case n < 79:
		if g.static[name] || g.chance(20) {
			g.staticLeave(name)
		} else {
			g.leave(name)
		}
	case n < 81:
		g.add("heartbeat", obj{"member": name, "shutdown": true})
	case n < 89:
		g.add("describe", pick[any](g, "$s", "$s", obj{"version": 0}))
	case n < 91:
		g.add("list_groups", g.filters())
	case n < 92:
		g.add("delete_group", "$s")
	case n < 93:
		g.add("set_group_config", g.settings())
	case n < 94:
		g.joinWithTopology()
	case n < 95:
		g.wrongFields()
	case n < 96:
		g.offsets()
	default:
		g.add("settle", list(in))
	}
}

func (g *generator) join(name string) {
	o := obj{"member": name}
	if g.chance(10) {
		o["version"] = 0
	}
	if g.chance(5) {
		o["remember"] = false
	}
	if g.chance(10) {
		o["endpoint_epoch"] = -1
	}
	if g.chance(3) {
		o["shutdown"] = true
	}
	g.add("join", o)
	g.joined[name] = true
	delete(g.away, name)
}

// beat is a heartbeat with the epoch that the member was told last, mostly as a client would send it.
func (g *generator) beat(name string) {
	o := obj{"member": name}
	switch n := g.IntN(100); {
	case n < 30:
	case n < 70:
		o["tasks"] = "assigned"
	case n < 80:
		o["tasks"] = "previous"
	case n < 84:
		o["tasks"] = "fewer"
	case n < 86:
		o["tasks"] = "more"
	case n < 88:
		o["tasks"] = "swapped"
	case n < 94:
		o["active"], o["standby"], o["warmup"] = []any{}, []any{}, []any{}
	default:
		o["tasks"], o["endpoint_epoch"] = "assigned", pick(g, -1, 0, 1, 99)
	}
	if g.chance(10) {
		o["remember"] = false
	}
	if g.chance(10) {
		o["version"] = 0
	}
	if g.chance(10) {
		g.addOffsets(o)
	}
	g.add("heartbeat", o)
}

func (g *generator) addOffsets(o obj) {
	for _, field := range []string{"task_offsets", "task_end_offsets"} {
		if g.chance(60) {
			l := []any{}
			for p := range g.IntN(3) {
				l = append(l, fmt.Sprintf("0:%d=%d", p, g.IntN(1000)))
			}
			o[field] = l
		}
	}
}

func (g *generator) wrongEpoch(name string) {
	o := obj{"member": name, "epoch": pick[any](g, "last-1", "last-1", "last-1", "last-2", "last+1", "last+1", 1, 99, 2147483647)}
	switch g.IntN(5) {
	case 0, 1:
	case 2:
		o["active"], o["standby"], o["warmup"] = []any{}, []any{}, []any{}
	default:
		o["tasks"] = pick(g, "assigned", "previous", "fewer", "more", "swapped")
	}
	if g.chance(50) {
		o["remember"] = false
	}
	g.add("heartbeat", o)
}

// change is a heartbeat that tells something new of the member itself.
func (g *generator) change(name string) {
	o := obj{"member": name}
	switch g.IntN(6) {
	case 0:
		o["rack"] = pick(g, "r1", "r3")
	case 1:
		o["process"] = pick(g, "p0", "p1", "p9")
	case 2:
		if g.ready {
			o["user_endpoint"] = pick(g, "h7:1", "h8:2")
		}
	case 3:
		o["tags"] = pick(g, obj{"zone": "c"}, obj{}, obj{"zone": "a", "row": "1"})
	case 4:
		o["rebalance_timeout_ms"] = pick(g, 60000, 90000)
	default:
		g.addOffsets(o)
	}
	if g.chance(40) {
		o["tasks"] = "assigned"
	}
	g.add("heartbeat", o)
}

func (g *generator) wrongInstance(name string) {
	o := obj{"member": name, "instance": pick[any](g, "i0", "i1", "i9", nil)}
	op := pick(g, "heartbeat", "heartbeat", "leave", "static_leave", "join")
	g.add(op, o)
	if op == "join" {
		g.joined[name] = true
	}
}

func (g *generator) leave(name string) {
	o := obj{"member": name}
	if g.chance(5) {
		o["shutdown"] = true
	}
	g.add("leave", o)
	delete(g.joined, name)
	if g.chance(70) {
		g.add("forget", list([]string{name}))
	}
}

func (g *generator) staticLeave(name string) {
	g.add("static_leave", obj{"member": name})
	delete(g.joined, name)
	g.away[name] = true
	if !g.chance(60) {
		return
	}
	// It comes back, mostly as a new client.
	o := obj{"member": name}
	if g.chance(60) {
		g.add("forget", list([]string{name}))
		o["member_id"] = name
	}
	switch g.IntN(6) {
	case 0:
		o["process"] = "p8"
	case 1:
		o["rack"] = "r7"
	case 2:
		o["rebalance_timeout_ms"] = 7000
	}
	for range g.IntN(3) {
		if in := g.in(); len(in) > 0 {
			g.beat(pick(g, in...))
		}
	}
	g.add("join", o)
	g.joined[name] = true
}

func (g *generator) filters() obj {
	o := obj{}
	if g.chance(60) {
		l := []any{}
		for range 1 + g.IntN(2) {
			l = append(l, pick(g, "Stable", "stable", "Empty", "NotReady", "not_ready", "Assigning", "RECONCILING", "Dead", "nonsense"))
		}
		o["states"] = l
	}
	if g.chance(60) {
		o["types"] = []any{pick(g, "streams", "Streams", "consumer", "classic", "share", "nonsense")}
	}
	return o
}

// settings are those that Kafka and coordd take alike.
func (g *generator) settings() obj {
	return pick(g,
		obj{"streams.num.standby.replicas": 1},
		obj{"streams.num.standby.replicas": 1},
		obj{"streams.num.standby.replicas": 0},
		obj{"streams.num.standby.replicas": 2},
		obj{"streams.rack.aware.assignment.tags": "zone"},
		obj{"streams.heartbeat.interval.ms": 3000},
		obj{"streams.session.timeout.ms": 50000},
		obj{"streams.task.offset.interval.ms": 20000},
		obj{"streams.num.standby.replicas": 99},
		obj{"streams.heartbeat.interval.ms": "x"},
		obj{"streams.no.such.setting": 1},
		obj{"streams.session.timeout.ms": 1},
		obj{"set": obj{}, "delete": []any{"streams.num.standby.replicas"}},
	)
}
