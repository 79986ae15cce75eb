package differential

// wrongFields is a request with a field that has no business there, or that is missing.
func (g *generator) wrongFields() {
	name := pick(g, g.names...)
	o := obj{"member": name}
	op := "join"
	switch g.IntN(4) {
	case 0:
		op = "heartbeat"
		g.wrongBeat(o)
	case 1:
		op = pick(g, "leave", "static_leave")
		g.wrongAnywhere(o)
	default:
		g.wrongJoin(o)
	}
	if g.chance(10) {
		g.wrongAnywhere(o) // two faults: the order of the checks
	}
	if g.chance(10) {
		o["version"] = 0
	}
	o["remember"] = false
	g.add(op, o)
}

func (g *generator) wrongAnywhere(o obj) {
	switch g.IntN(7) {
	case 0:
		o["member_id"] = pick(g, "", " ", "nobody")
	case 1:
		o["instance"] = pick(g, "", " ", "i9")
	case 2:
		o["rack"] = pick(g, "", " ")
	case 3:
		o["epoch"] = pick(g, -3, -2147483648)
	case 4:
		o["active"] = []any{}
	case 5:
		o["active"], o["warmup"] = []any{}, []any{}
	default:
		o["standby"] = []any{"0:0"}
	}
}

func (g *generator) wrongJoin(o obj) {
	switch g.IntN(8) {
	case 0:
		o["rebalance_timeout_ms"] = -1
	case 1:
		o[pick(g, "active", "standby", "warmup")] = nil
	case 2:
		o[pick(g, "active", "standby", "warmup")] = []any{"0:0"}
	case 3:
		o["topology"] = nil
	case 4:
		o["topology"] = obj{"epoch": 0, "subtopologies": []any{obj{"id": "0", "source_topics": []any{"df-in-4"}, "changelogs": []any{obj{"name": "df-log-4", "partitions": 4}}}}}
	case 5:
		o["process"] = nil
	case 6:
		o["active"], o["standby"], o["warmup"] = nil, nil, nil
	default:
		g.wrongAnywhere(o)
	}
}

func (g *generator) wrongBeat(o obj) {
	all := func(active, standby, warmup []any) { o["active"], o["standby"], o["warmup"] = active, standby, warmup }
	none := []any{}
	switch g.IntN(10) {
	case 0:
		all([]any{"0:0,0"}, none, none)
	case 1:
		all([]any{"0:0", "0:1"}, none, none)
	case 2:
		all([]any{"0:0"}, []any{"0:0"}, none)
	case 3:
		all([]any{"0:99"}, none, none)
	case 4:
		all([]any{"9:0"}, none, none)
	case 5:
		o["topology"] = "t"
	case 6:
		o[pick(g, "task_offsets", "task_end_offsets")] = []any{"0:0=1", "0:0=2"}
	case 7:
		o["task_offsets"] = []any{"0:-1=1"}
	case 8:
		all([]any{"0:-1"}, none, none)
	default:
		g.wrongAnywhere(o)
	}
}

// otherTypes is a request of another kind of group, for the same id.
func (g *generator) otherTypes() {
	switch g.IntN(12) {
	case 0, 1:
		g.add("classic_join", obj{"topics": []any{"df-in-4"}})
	case 2:
		g.add("classic_join", obj{"member_id": "nobody", "topics": []any{"df-in-4"}})
	case 3:
		g.add("classic_leave", pick[any](g, "K", obj{"member": "K", "member_id": "nobody"}))
	case 4:
		g.add("classic_heartbeat", pick[any](g, "K", obj{"member": "K", "generation": 3}))
	case 5, 6:
		g.add("consumer_heartbeat", obj{"member": "C", "epoch": pick(g, 0, 0, 1, -1), "topics": []any{"df-in-4"}})
	case 7:
		g.add("consumer_describe", "$s")
	case 8:
		g.add("classic_describe", "$s")
	case 9:
		g.add("list_groups", g.filters())
	case 10:
		g.add("delete_group", "$s")
	default:
		if in := g.in(); len(in) > 0 {
			for _, n := range in {
				g.leave(n)
			}
		}
	}
}

// offsets is a request for the group's offsets.
func (g *generator) offsets() {
	name := pick(g, g.names...)
	partition := pick(g, "0", "0", "1", "3")
	topic := pick(g, "df-in-4", "df-in-12", "df-also-4", "df-hop-4", "df-in-1", "df-none")
	if t := g.groupTopic(); t != "" && g.chance(80) {
		topic = t
	}
	switch g.IntN(6) {
	case 0, 1, 2:
		o := obj{"member": name, "offsets": obj{topic: obj{partition: g.IntN(100)}}}
		if g.chance(50) {
			o["epoch"] = pick[any](g, "last", "last-1", "last-1", "last+1", 0, -1, 1)
		}
		if g.chance(10) {
			o["member_id"] = pick(g, "", "nobody")
		}
		if g.chance(10) {
			o["version"] = 8
		}
		g.add("offset_commit", o)
	case 3:
		g.add("offset_commit", obj{"offsets": obj{topic: obj{partition: g.IntN(100)}}})
	case 4:
		o := obj{"topics": obj{topic: []any{0, 1}}}
		if g.chance(50) {
			o["member"] = name
			if g.chance(40) {
				o["epoch"] = pick[any](g, "last-1", "last+1", -1, 0)
			}
		}
		g.add("offset_fetch", o)
	default:
		g.add("offset_delete", obj{"topics": obj{topic: []any{0}}})
	}
}

// groupTopic is a source topic of the group's topology, "" when it has none.
func (g *generator) groupTopic() string {
	for _, e := range g.s.Topologies["t"].(obj)["subtopologies"].([]any) {
		if l, _ := e.(obj)["source_topics"].([]any); len(l) > 0 {
			return l[0].(string)
		}
	}
	return ""
}
