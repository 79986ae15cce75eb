package topology

import (
	"iter"
	"slices"
	"strings"
)

// Subtopology returns the subtopology with the given id, or nil.
func (t *Topology) Subtopology(id string) *Subtopology {
	for i := range t.Subtopologies {
		if t.Subtopologies[i].ID == id {
			return &t.Subtopologies[i]
		}
	}
	return nil
}

// Readers yields every subtopology that reads topic as a source, by name or by a pattern, or as a repartition source. Kafka
// Streams never builds a topology in which that is more than one; the protocol allows it. Whether the topic exists does not
// matter. Where topics are named it allocates nothing.
func (t *Topology) Readers(topic string) iter.Seq[*Subtopology] {
	return func(yield func(*Subtopology) bool) {
		for i := range t.Subtopologies {
			s := &t.Subtopologies[i]
			if (s.Reads(topic) || s.matches(topic) && t.mayMatch(topic)) && !yield(s) {
				return
			}
		}
	}
}

// Reads reports whether topic is a source or a repartition source of any subtopology.
func (t *Topology) Reads(topic string) bool {
	for range t.Readers(topic) {
		return true
	}
	return false
}

// Reads reports whether topic is a source that s names or a repartition source of s. Patterns are the matter of
// [Topology.Reads], since what they match depends on the whole topology.
func (s *Subtopology) Reads(topic string) bool {
	return slices.Contains(s.SourceTopics, topic) || indexByName(s.RepartitionSourceTopics, topic) >= 0
}

// Stateful reports whether s keeps state, that is, has at least one changelog topic.
func (s *Subtopology) Stateful() bool { return len(s.StateChangelogTopics) > 0 }

// RequiredTopics are the topics named in t that must exist before t can run, sorted, each once: sources, repartition sources
// and changelogs. What patterns match is in those of [Resolution.Resolved].
func (t *Topology) RequiredTopics() []string {
	n := 0
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		n += len(s.SourceTopics) + len(s.RepartitionSourceTopics) + len(s.StateChangelogTopics)
	}
	names := make([]string, 0, n)
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		names = append(names, s.SourceTopics...)
		for _, lists := range [...][]InternalTopic{s.RepartitionSourceTopics, s.StateChangelogTopics} {
			for k := range lists {
				names = append(names, lists[k].Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func indexByName(topics []InternalTopic, name string) int {
	return slices.IndexFunc(topics, func(t InternalTopic) bool { return t.Name == name })
}

// Equal reports whether both are the same topology in the sense of a join: same epoch, and the same subtopologies in any
// order, whose lists are compared in order (Kafka's StreamsTopology and StreamsGroupTopologyValue). A null list
// equals an empty one.
func (t *Topology) Equal(o *Topology) bool {
	if t == o {
		return true
	}
	if t == nil || o == nil || t.Epoch != o.Epoch || len(t.Subtopologies) != len(o.Subtopologies) {
		return false
	}
	for i := range t.Subtopologies {
		a, b := &t.Subtopologies[i], &o.Subtopologies[i]
		if a.ID != b.ID {
			return t.sorted().equalInOrder(o.sorted())
		}
		if !a.Equal(b) {
			return false
		}
	}
	return true
}

func (t *Topology) equalInOrder(o *Topology) bool {
	return slices.EqualFunc(t.Subtopologies, o.Subtopologies, func(a, b Subtopology) bool { return a.Equal(&b) })
}

// sorted returns a shallow copy with the subtopologies ordered by id as strings.
func (t *Topology) sorted() *Topology {
	s := slices.Clone(t.Subtopologies)
	slices.SortStableFunc(s, func(a, b Subtopology) int { return strings.Compare(a.ID, b.ID) })
	return &Topology{Epoch: t.Epoch, Subtopologies: s}
}

// Equal reports whether every field is equal, lists in order.
func (s *Subtopology) Equal(o *Subtopology) bool {
	return s.ID == o.ID &&
		slices.Equal(s.SourceTopics, o.SourceTopics) &&
		slices.Equal(s.SourceTopicRegex, o.SourceTopicRegex) &&
		slices.EqualFunc(s.StateChangelogTopics, o.StateChangelogTopics, InternalTopic.equal) &&
		slices.Equal(s.RepartitionSinkTopics, o.RepartitionSinkTopics) &&
		slices.EqualFunc(s.RepartitionSourceTopics, o.RepartitionSourceTopics, InternalTopic.equal) &&
		slices.EqualFunc(s.CopartitionGroups, o.CopartitionGroups, CopartitionGroup.equal)
}

func (t InternalTopic) equal(o InternalTopic) bool {
	return t.Name == o.Name && t.Partitions == o.Partitions && t.ReplicationFactor == o.ReplicationFactor &&
		slices.Equal(t.Configs, o.Configs)
}

func (g CopartitionGroup) equal(o CopartitionGroup) bool {
	return slices.Equal(g.SourceTopics, o.SourceTopics) && slices.Equal(g.SourceTopicRegex, o.SourceTopicRegex) &&
		slices.Equal(g.RepartitionSourceTopics, o.RepartitionSourceTopics)
}

// Clone returns a deep copy that shares nothing with t, strings included: t may alias a request buffer.
func (t *Topology) Clone() *Topology {
	if t == nil {
		return nil
	}
	c := &Topology{Epoch: t.Epoch, Subtopologies: make([]Subtopology, len(t.Subtopologies))}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		c.Subtopologies[i] = Subtopology{
			ID:                      strings.Clone(s.ID),
			SourceTopics:            mapSlice(s.SourceTopics, strings.Clone),
			SourceTopicRegex:        mapSlice(s.SourceTopicRegex, strings.Clone),
			StateChangelogTopics:    mapSlice(s.StateChangelogTopics, InternalTopic.clone),
			RepartitionSinkTopics:   mapSlice(s.RepartitionSinkTopics, strings.Clone),
			RepartitionSourceTopics: mapSlice(s.RepartitionSourceTopics, InternalTopic.clone),
			CopartitionGroups:       mapSlice(s.CopartitionGroups, CopartitionGroup.clone),
		}
	}
	return c
}

func (t InternalTopic) clone() InternalTopic {
	t.Name = strings.Clone(t.Name)
	t.Configs = mapSlice(t.Configs, func(c Config) Config { return Config{strings.Clone(c.Key), strings.Clone(c.Value)} })
	return t
}

func (g CopartitionGroup) clone() CopartitionGroup {
	return CopartitionGroup{slices.Clone(g.SourceTopics), slices.Clone(g.SourceTopicRegex), slices.Clone(g.RepartitionSourceTopics)}
}

// mapSlice keeps nil nil and empty empty.
func mapSlice[T any](s []T, f func(T) T) []T {
	if s == nil {
		return nil
	}
	out := make([]T, len(s))
	for i := range s {
		out[i] = f(s[i])
	}
	return out
}
