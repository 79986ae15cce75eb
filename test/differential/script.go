package differential

import (
	"fmt"
	"strings"

	"github.com/coordd/coordd/test/conformance"
)

// obj is a map as YAML has it.
type obj = map[string]any

// Script is a scenario of test/conformance that was made from a seed.
type Script struct {
	Seed       uint64
	Members    obj
	Topologies obj
	Steps      []obj
}

// YAML is the script as a scenario file, with the topologies that it uses.
func (s *Script) YAML() ([]byte, error) {
	used := obj{"t": s.Topologies["t"]}
	for _, step := range s.Steps {
		if name := s.topologyOf(step); name != "" {
			used[name] = s.Topologies[name]
		}
	}
	if used["t"] == nil {
		used = obj{}
	}
	return conformance.Marshal(obj{"about": fmt.Sprintf("Seed %d.", s.Seed), "members": s.Members, "topologies": used, "steps": s.Steps})
}

// scenario is the script under an id of its own.
func (s *Script) scenario(id string) (*conformance.Scenario, error) {
	raw, err := s.YAML()
	if err != nil {
		return nil, err
	}
	return conformance.NewScenario(id, id, raw)
}

// with is the script with other steps.
func (s *Script) with(steps []obj) *Script {
	c := *s
	c.Steps = steps
	return &c
}

// operation is the name and the argument of a step.
func operation(step obj) (string, any) {
	for name, arg := range step {
		return name, arg
	}
	return "", nil
}

// topologyOf is the name of the topology that a step sends, "" for none. sends says whether it sends one at all.
func (s *Script) topologyOf(step obj) (name string) {
	op, arg := operation(step)
	o, _ := arg.(obj)
	alias, _ := arg.(string)
	if o != nil {
		alias, _ = o["member"].(string)
		if t, ok := o["topology"]; ok {
			name, _ = t.(string)
			return name
		}
	}
	if op != "join" {
		return ""
	}
	if m, ok := s.Members[alias].(obj); ok {
		if t, ok := m["topology"].(string); ok {
			return t
		}
	}
	return "t"
}

// malformed says whether the step sends a topology that is refused as malformed: as the generator's names tell, or one with two
// counts for a repartition topic.
func (s *Script) malformed(step obj) bool {
	name := s.topologyOf(step)
	if strings.HasPrefix(name, badPrefix) {
		return true
	}
	subs := s.subtopologies(name)
	counts := map[string]any{}
	for _, sub := range subs {
		hops, _ := sub.(obj)["repartition_sources"].([]any)
		for _, hop := range hops {
			topic, n := hop, any(0)
			if o, ok := hop.(obj); ok {
				topic, n = o["name"], o["partitions"]
			}
			if before, ok := counts[topic.(string)]; ok && before != n {
				return true
			}
			counts[topic.(string)] = n
		}
	}
	return false
}

func (s *Script) subtopologies(name string) []any {
	t, _ := s.Topologies[name].(obj)
	if like, ok := t["like"].(string); ok {
		t, _ = s.Topologies[like].(obj)
	}
	subs, _ := t["subtopologies"].([]any)
	return subs
}

// sharesChangelog says that the step sends a topology in which a changelog belongs to several subtopologies.
func (s *Script) sharesChangelog(step obj) bool {
	seen := map[string]bool{}
	for _, sub := range s.subtopologies(s.topologyOf(step)) {
		logs, _ := sub.(obj)["changelogs"].([]any)
		for _, l := range logs {
			name := fmt.Sprint(l)
			if seen[name] {
				return true
			}
			seen[name] = true
		}
	}
	return false
}

// ambiguous says that a subtopology writes a repartition topic and reads one, so that the order in which counts are decided may
// matter, or that several repartition topics have fixed counts, which Kafka takes together.
func (s *Script) ambiguous() bool {
	for _, name := range []string{"t", "random"} {
		t, _ := s.Topologies[name].(obj)
		subs, _ := t["subtopologies"].([]any)
		fixed := 0
		for _, sub := range subs {
			o := sub.(obj)
			hops, _ := o["repartition_sources"].([]any)
			for _, hop := range hops {
				if _, ok := hop.(obj); ok {
					fixed++
				}
			}
			if fixed > 1 {
				return true
			}
			if sinks, _ := o["repartition_sinks"].([]any); len(sinks) > 0 && len(hops) > 0 {
				return true
			}
		}
	}
	return false
}

// neverRuns says that a subtopology reads nothing, or that nothing gives a repartition topic a count, whatever topics exist.
func neverRuns(subs []any) bool {
	known := map[string]bool{}
	read := map[string]bool{}
	for _, sub := range subs {
		o := sub.(obj)
		sources, _ := o["source_topics"].([]any)
		hops, _ := o["repartition_sources"].([]any)
		if len(sources)+len(hops) == 0 {
			return true
		}
		for _, hop := range hops {
			if fixed, ok := hop.(obj); ok {
				known[fixed["name"].(string)] = true
			} else {
				read[hop.(string)] = true
			}
		}
	}
	for range subs {
		for _, sub := range subs {
			o := sub.(obj)
			sources, _ := o["source_topics"].([]any)
			hops, _ := o["repartition_sources"].([]any)
			counted := len(sources) > 0
			for _, hop := range hops {
				name, ok := hop.(string)
				counted = counted || !ok || known[name]
			}
			sinks, _ := o["repartition_sinks"].([]any)
			for _, sink := range sinks {
				known[sink.(string)] = known[sink.(string)] || counted
			}
		}
	}
	for name := range read {
		if !known[name] {
			return true
		}
	}
	return false
}
