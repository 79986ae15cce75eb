package topology

import (
	"slices"
	"strings"
)

// Sizes are the numbers of a configured topology: together with the topology they give the configuration again, also
// when the topics have changed since. They are sorted by subtopology id.
type Sizes []SubtopologySizes

// SubtopologySizes are the numbers of one subtopology. Lists are nil when they are empty.
type SubtopologySizes struct {
	ID    string
	Tasks int32
	// Repartition and Changelogs are the partition counts of its repartition sources and of its changelogs, in the order
	// of the topics' names.
	Repartition, Changelogs []int32
	// Matched are the source topics that the topology does not name itself, sorted: those that its patterns matched.
	Matched []string
}

// SizesOf are the numbers of c, which is a configuration of t; nil where it has no subtopologies.
func SizesOf(t *Topology, c *Configured) Sizes {
	if c == nil || len(c.Subtopologies) == 0 {
		return nil
	}
	out := make(Sizes, len(c.Subtopologies))
	for i := range c.Subtopologies {
		s := &c.Subtopologies[i]
		out[i] = SubtopologySizes{
			ID: s.ID, Tasks: s.NumTasks, Repartition: partitionsOf(s.RepartitionSources), Changelogs: partitionsOf(s.Changelogs),
		}
		if named := t.Subtopology(s.ID); named != nil && len(s.SourceTopics) > 0 {
			sources := sortedSet(named.SourceTopics)
			for _, topic := range s.SourceTopics {
				if !contains(sources, topic) {
					out[i].Matched = append(out[i].Matched, topic)
				}
			}
		}
	}
	return out
}

// Equal reports whether both are the same numbers.
func (z Sizes) Equal(o Sizes) bool {
	return slices.EqualFunc(z, o, func(a, b SubtopologySizes) bool {
		return a.ID == b.ID && a.Tasks == b.Tasks && slices.Equal(a.Repartition, b.Repartition) &&
			slices.Equal(a.Changelogs, b.Changelogs) && slices.Equal(a.Matched, b.Matched)
	})
}

// Configured is the configuration of t that has these numbers and no problem, with the given metadata hash; nil when they
// are not numbers of t.
func (z Sizes) Configured(t *Topology, hash int64) *Configured {
	if len(z) == 0 || len(z) != len(t.Subtopologies) {
		return nil
	}
	c := &Configured{Epoch: t.Epoch, Hash: hash, Subtopologies: make([]ConfiguredSubtopology, len(z))}
	for i := range z {
		n := &z[i]
		s := t.Subtopology(n.ID)
		if s == nil || n.Tasks < 0 || i > 0 && n.ID <= z[i-1].ID {
			return nil
		}
		out := &c.Subtopologies[i]
		*out = ConfiguredSubtopology{
			ID: s.ID, NumTasks: n.Tasks, Stateful: s.Stateful(),
			SourceTopics: sortedSet(slices.Concat(s.SourceTopics, n.Matched)), SinkTopics: sortedSet(s.RepartitionSinkTopics),
		}
		var ok, too bool
		out.RepartitionSources, ok = withPartitions(s.RepartitionSourceTopics, n.Repartition)
		out.Changelogs, too = withPartitions(s.StateChangelogTopics, n.Changelogs)
		if !ok || !too {
			return nil
		}
	}
	return c
}

func partitionsOf(topics []InternalTopic) (counts []int32) {
	for i := range topics {
		counts = append(counts, topics[i].Partitions)
	}
	return counts
}

// withPartitions returns the topics sorted by name, with the counts given.
func withPartitions(topics []InternalTopic, counts []int32) ([]InternalTopic, bool) {
	if len(topics) != len(counts) {
		return nil, false
	}
	if len(topics) == 0 {
		return nil, true
	}
	out := slices.SortedStableFunc(slices.Values(topics), func(a, b InternalTopic) int { return strings.Compare(a.Name, b.Name) })
	for i := range out {
		out[i].Partitions = counts[i]
	}
	return out, true
}
