package topologies

import (
	"maps"
	"slices"
	"strings"

	"github.com/coordd/coordd/topology"
)

// Counts are partitions by topic, or tasks by subtopology.
type Counts map[string]int32

// Case is a topology, the topics that exist when the first member joins, and what follows.
type Case struct {
	Name     string
	Topics   Counts
	Topology topology.Topology
	Want     Outcome
	// Says are parts of the detail or of the refusal.
	Says []string
	// Kafka is what Kafka 4.4 makes of it, where that is something else; Why says why coordd differs, in the words of
	// docs/differences.md.
	Kafka *Outcome
	Why   string
}

// Outcome is what becomes of a topology.
type Outcome struct {
	// Error is the code that a join gets, 0 for none.
	Error int16
	// Problem is what keeps it from running, apart from internal topics that are missing; Create are those.
	Problem topology.ProblemKind
	Create  Counts
	// Tasks has each subtopology once it runs; After is what keeps it from running when Create are there.
	Tasks Counts
	After topology.ProblemKind
}

// InvalidTopology is STREAMS_INVALID_TOPOLOGY, and UnknownServerError what Kafka answers to some topologies.
const (
	InvalidTopology    int16 = 130
	UnknownServerError int16 = -1
)

// Renamed is c with a prefix before the name of every topic, so that cases can share a Kafka.
func (c Case) Renamed(prefix string) Case {
	name := func(s string) string { return prefix + s }
	counts := func(m Counts) Counts {
		out := Counts{}
		for k, n := range m {
			out[name(k)] = n
		}
		return out
	}
	c.Topics = counts(c.Topics)
	c.Want.Create = counts(c.Want.Create)
	if c.Kafka != nil {
		kafka := *c.Kafka
		kafka.Create = counts(kafka.Create)
		c.Kafka = &kafka
	}
	t := c.Topology.Clone()
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		for _, l := range [...][]string{s.SourceTopics, s.RepartitionSinkTopics} {
			for k := range l {
				l[k] = renamed(l[k], prefix)
			}
		}
		for _, l := range [...][]topology.InternalTopic{s.RepartitionSourceTopics, s.StateChangelogTopics} {
			for k := range l {
				l[k].Name = renamed(l[k].Name, prefix)
			}
		}
	}
	c.Topology = *t
	return c
}

// renamed leaves alone what is no name that a topic could have, or the broker's.
func renamed(name, prefix string) string {
	if name == "" || strings.Trim(name, ".") == "" || strings.HasPrefix(name, "__") || len(name) > 200 {
		return name
	}
	return prefix + name
}

// Internal are the topics that are created, as the topology tells of them.
func (c Case) Internal() map[string]topology.InternalTopic {
	out := map[string]topology.InternalTopic{}
	for i := range c.Topology.Subtopologies {
		s := &c.Topology.Subtopologies[i]
		for _, t := range slices.Concat(s.RepartitionSourceTopics, s.StateChangelogTopics) {
			if n, ok := c.Want.Create[t.Name]; ok {
				t.Partitions = n
				out[t.Name] = t
			}
		}
	}
	return out
}

// Names are the topics that c speaks of, sorted.
func (c Case) Names() []string {
	names := maps.Clone(c.Topics)
	for _, o := range []*Outcome{&c.Want, c.Kafka} {
		if o != nil {
			maps.Copy(names, o.Create)
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// sub builds a subtopology.
type sub struct{ topology.Subtopology }

func subtopology(id string, sources ...string) *sub {
	return &sub{topology.Subtopology{ID: id, SourceTopics: sources}}
}

// to adds repartition sinks.
func (s *sub) to(topics ...string) *sub {
	s.RepartitionSinkTopics = append(s.RepartitionSinkTopics, topics...)
	return s
}

// from adds repartition sources without a count.
func (s *sub) from(topics ...string) *sub {
	for _, name := range topics {
		s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, topology.InternalTopic{Name: name})
	}
	return s
}

// fixed adds a repartition source with a count.
func (s *sub) fixed(topic string, partitions int32) *sub {
	s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, topology.InternalTopic{Name: topic, Partitions: partitions})
	return s
}

// keeps adds changelogs.
func (s *sub) keeps(topics ...string) *sub {
	for _, name := range topics {
		s.StateChangelogTopics = append(s.StateChangelogTopics, topology.InternalTopic{Name: name})
	}
	return s
}

// joins adds a copartition group of topics that were added before.
func (s *sub) joins(topics ...string) *sub {
	var g topology.CopartitionGroup
	for _, name := range topics {
		if i := slices.Index(s.SourceTopics, name); i >= 0 {
			g.SourceTopics = append(g.SourceTopics, int16(i))
			continue
		}
		i := slices.IndexFunc(s.RepartitionSourceTopics, func(t topology.InternalTopic) bool { return t.Name == name })
		g.RepartitionSourceTopics = append(g.RepartitionSourceTopics, int16(i))
	}
	s.CopartitionGroups = append(s.CopartitionGroups, g)
	return s
}

// with gives the topic that was added last a replication factor and configs, as key, value, ...; of a changelog when there is one.
func (s *sub) with(replication int16, configs ...string) *sub {
	list := s.RepartitionSourceTopics
	if len(s.StateChangelogTopics) > 0 {
		list = s.StateChangelogTopics
	}
	t := &list[len(list)-1]
	t.ReplicationFactor = replication
	for i := 0; i+1 < len(configs); i += 2 {
		t.Configs = append(t.Configs, topology.Config{Key: configs[i], Value: configs[i+1]})
	}
	return s
}

func of(subs ...*sub) topology.Topology {
	var t topology.Topology
	for _, s := range subs {
		t.Subtopologies = append(t.Subtopologies, s.Subtopology)
	}
	return t
}
