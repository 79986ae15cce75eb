package differential

import (
	"fmt"
	"strings"
)

// Topics that both servers have before any script runs, by name, with their partitions. Names end with how many.
var topics = map[string]int{}

func init() {
	for _, n := range []int{1, 2, 4, 12} {
		for _, kind := range []string{"in", "also", "log", "also-log", "hop"} {
			topics[fmt.Sprintf("df-%s-%d", kind, n)] = n
		}
	}
}

const missingTopic = "df-none"

// topologies makes those of a script: t is the group's, the others are for members that come with another one.
func (g *generator) topologies() {
	g.ready = true
	t := g.plain()
	switch {
	case g.kind == aboutTopologies && g.chance(70):
		g.ready, t = false, g.random()
	case g.chance(5):
		g.ready = false
		t = pick(g,
			[]any{subtopology("0", "df-in-2", missingTopic)},
			[]any{with(subtopology("0", "df-in-2", "df-in-4"), "copartition_groups", []any{obj{"source_topics": []any{0, 1}}})},
			[]any{with(subtopology("0", "df-in-2"), "changelogs", []any{"df-log-4"})},
		)
	}
	g.s.Topologies["t"] = obj{"epoch": pick(g, 0, 0, 0, 3), "subtopologies": t}
	g.s.Topologies["old"] = obj{"like": "t", "epoch": 0}
	g.s.Topologies["new"] = obj{"like": "t", "epoch": 1}
	g.s.Topologies["newer"] = obj{"like": "t", "epoch": 7}
	g.s.Topologies["other"] = obj{"epoch": g.s.Topologies["t"].(obj)["epoch"], "subtopologies": g.plain()}
	g.s.Topologies["random"] = obj{"epoch": 0, "subtopologies": g.random()}
	for i, bad := range g.bad() {
		g.s.Topologies[fmt.Sprint(badPrefix, i)] = bad
	}
}

func subtopology(id string, sources ...string) obj {
	return obj{"id": id, "source_topics": list(sources)}
}

func with(o obj, field string, value any) obj {
	o[field] = value
	return o
}

// plain is a topology that can run at once.
func (g *generator) plain() []any {
	n := pick(g, 1, 2, 4, 4, 4, 12, 12)
	in, also, changelog, hop := fmt.Sprint("df-in-", n), fmt.Sprint("df-also-", n), fmt.Sprint("df-log-", n), fmt.Sprint("df-hop-", n)
	switch g.IntN(6) {
	case 0:
		return []any{subtopology("0", in)}
	case 1, 2:
		return []any{with(subtopology("0", in), "changelogs", []any{changelog})}
	case 3:
		return []any{subtopology("0", in), with(subtopology("1", also), "changelogs", []any{changelog})}
	case 4:
		return []any{with(subtopology("0", in), "repartition_sinks", []any{hop}),
			obj{"id": "1", "repartition_sources": []any{hop}, "changelogs": []any{changelog}}}
	}
	return []any{with(with(subtopology("0", in, also), "copartition_groups", []any{obj{"source_topics": []any{0, 1}}}), "changelogs", []any{changelog})}
}

// random is any topology: sources that exist or not, repartition topics with and without counts, changelogs that fit or not.
func (g *generator) random() []any {
	topic := func(kind string) string { return fmt.Sprintf("df-%s-%d", kind, pick(g, 1, 2, 4, 4)) }
	subs := 1 + g.IntN(3)
	sinks := make([][]any, subs)
	var out []any
	for i := range subs {
		s := obj{"id": fmt.Sprint(i)}
		sources := []any{}
		for range pick(g, 0, 1, 1, 2) {
			if name := topic(pick(g, "in", "also")); !contains(sources, name) {
				sources = append(sources, name)
			}
		}
		if g.chance(4) {
			sources = append(sources, missingTopic)
		}
		hops := []any{}
		for range pick(g, 0, 0, 1, 1, 2) {
			name := topic("hop")
			if contains(hops, name) || containsTopic(hops, name) {
				continue
			}
			hops = append(hops, pick[any](g, name, name, name, obj{"name": name, "partitions": pick(g, 1, 2, 4)}))
			if g.chance(90) {
				from := g.IntN(subs)
				if !contains(sinks[from], name) {
					sinks[from] = append(sinks[from], name)
				}
			}
		}
		if len(sources)+len(hops) == 0 && g.chance(95) {
			sources = append(sources, topic("in"))
		}
		s["source_topics"], s["repartition_sources"] = sources, hops
		if g.chance(40) {
			s["changelogs"] = []any{topic(pick(g, "log", "also-log"))}
			if g.chance(5) && len(sources) > 0 {
				s["changelogs"] = []any{sources[0]}
			}
		}
		if g.chance(40) {
			group := obj{}
			if l := indexes(g, len(sources)); len(l) > 0 {
				group["source_topics"] = l
			}
			if l := indexes(g, len(hops)); len(l) > 0 {
				group["repartition_sources"] = l
			}
			s["copartition_groups"] = []any{group}
		}
		out = append(out, s)
	}
	for i, l := range sinks {
		if len(l) > 0 {
			out[i].(obj)["repartition_sinks"] = l
		}
	}
	return out
}

func contains(l []any, name string) bool {
	for _, e := range l {
		if e == any(name) {
			return true
		}
	}
	return false
}

func containsTopic(l []any, name string) bool {
	for _, e := range l {
		if o, ok := e.(obj); ok && o["name"] == name {
			return true
		}
	}
	return false
}

func indexes(g *generator, n int) (out []any) {
	for i := range n {
		if g.chance(80) {
			out = append(out, i)
		}
	}
	return out
}

// bad are topologies of which the differences say that they get STREAMS_INVALID_TOPOLOGY.
func (g *generator) bad() []obj {
	one := func(sub obj) obj { return obj{"epoch": 0, "subtopologies": []any{sub}} }
	return []obj{
		{"epoch": -1, "subtopologies": []any{subtopology("0", "df-in-4")}},
		{"epoch": 0, "subtopologies": []any{subtopology("0", "df-in-4"), subtopology("0", "df-in-2")}},
		one(with(subtopology("0", "df-in-4"), "copartition_groups", []any{obj{"source_topics": []any{pick(g, 1, -1, 7)}}})),
		one(with(subtopology("0", "df-in-4"), "copartition_groups", []any{obj{"repartition_sources": []any{0}}})),
		one(with(subtopology("0", "df-in-4"), "changelogs", []any{"df-log-4", "df-log-4"})),
		one(obj{"id": "0", "source_topics": []any{"df-in-4"}, "repartition_sinks": []any{"df-hop-4"}, "repartition_sources": []any{"df-hop-4", "df-hop-4"}}),
		one(with(subtopology("0", "df-in-4"), "changelogs", []any{obj{"name": "df-log-4", "partitions": 4}})),
		one(subtopology("0", pick(g, "", ".", "..", "a/b", strings.Repeat("x", 250)))),
		one(subtopology("0", "__consumer_offsets")),
		one(with(subtopology("0", "df-in-4"), "repartition_sinks", []any{"a b"})),
	}
}

// joinWithTopology is a join with another topology than the group's, or with none that can be.
func (g *generator) joinWithTopology() {
	name := pick(g, g.names...)
	t := pick(g, "old", "new", "newer", "other", "random", "random")
	if g.chance(30) {
		t = fmt.Sprint(badPrefix, g.IntN(10))
	}
	g.add("join", obj{"member": name, "topology": t})
	if !strings.HasPrefix(t, badPrefix) {
		g.joined[name] = true
	}
}
