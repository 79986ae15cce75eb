package topology

import (
	"slices"
	"strings"
)

// Change is what a group's change from one topology to another means for its tasks and topics. Ids of subtopologies are
// ordered by number where they are numbers, topics by name; no list is nil.
type Change struct {
	// Kept are the subtopologies with equal id and content: their tasks go on where they run. Changed have the same id and
	// other content: to those who run tasks they are as good as lost and new.
	Kept, Changed, New, Lost []string
	// Orphaned are the internal topics of the old topology that the new one has no use for.
	Orphaned []string
	// Counts are the internal topics of both that need other partition counts now.
	Counts []CountChange
}

// CountChange is the partition count of an internal topic as each of two topologies needs it.
type CountChange struct {
	Topic    string
	Old, New int32
}

// Diff compares two topologies of a group with the topics that exist now. m may be nil: then, and where sources are missing,
// only the partition counts that a topology declares are compared.
func Diff(from, to *Topology, m Metadata) *Change {
	c := DiffSubtopologies(from, to)
	c.topics(from, to, m)
	return c
}

// DiffSubtopologies compares the subtopologies alone: what that means for topics is left out.
func DiffSubtopologies(from, to *Topology) *Change {
	c := &Change{Kept: []string{}, Changed: []string{}, New: []string{}, Lost: []string{}, Orphaned: []string{}, Counts: []CountChange{}}
	before := byID(from)
	after := byID(to)
	for id, s := range after {
		switch old := before[id]; {
		case old == nil:
			c.New = append(c.New, id)
		case old.Equal(s):
			c.Kept = append(c.Kept, id)
		default:
			c.Changed = append(c.Changed, id)
		}
	}
	for id := range before {
		if after[id] == nil {
			c.Lost = append(c.Lost, id)
		}
	}
	for _, ids := range [...][]string{c.Kept, c.Changed, c.New, c.Lost} {
		slices.SortFunc(ids, compareIDs)
	}
	return c
}

// Same says that all subtopologies are kept and none is new.
func (c *Change) Same() bool { return len(c.Changed) == 0 && len(c.New) == 0 && len(c.Lost) == 0 }

func byID(t *Topology) map[string]*Subtopology {
	m := make(map[string]*Subtopology, len(t.Subtopologies))
	for i := range t.Subtopologies {
		m[t.Subtopologies[i].ID] = &t.Subtopologies[i]
	}
	return m
}

func (c *Change) topics(from, to *Topology, m Metadata) {
	used := map[string]bool{}
	for i := range to.Subtopologies {
		s := &to.Subtopologies[i]
		for _, names := range [...][]string{s.SourceTopics, s.RepartitionSinkTopics} {
			for _, name := range names {
				used[name] = true
			}
		}
		for k := range s.RepartitionSourceTopics {
			used[s.RepartitionSourceTopics[k].Name] = true
		}
	}
	before, after := neededCounts(from, m), neededCounts(to, m)
	for name, old := range before {
		now, internal := after[name]
		switch {
		case !internal && !used[name]:
			c.Orphaned = append(c.Orphaned, name)
		case internal && old > 0 && now > 0 && old != now:
			c.Counts = append(c.Counts, CountChange{name, old, now})
		}
	}
	slices.Sort(c.Orphaned)
	for name := range to.matchedOf(c.Orphaned) {
		used[name] = true
	}
	c.Orphaned = slices.DeleteFunc(c.Orphaned, func(name string) bool { return used[name] })
	slices.SortFunc(c.Counts, func(a, b CountChange) int { return strings.Compare(a.Topic, b.Topic) })
}

// neededCounts are the internal topics of t with the partition counts that t would have them created with; 0 where that is
// not known. The changelog of an optimised table is the user's own source topic and is none.
func neededCounts(t *Topology, m Metadata) map[string]int32 {
	counts := map[string]int32{}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		for _, topic := range s.RepartitionSourceTopics {
			counts[topic.Name] = topic.Partitions
		}
		sources := sortedSet(s.SourceTopics)
		for _, topic := range s.StateChangelogTopics {
			if !contains(sources, topic.Name) {
				counts[topic.Name] = max(counts[topic.Name], topic.Partitions)
			}
		}
	}
	if m == nil {
		return counts
	}
	configured, err := Configure(t, withoutTopics[int32]{m, counts})
	if err != nil {
		return counts
	}
	for i := range configured.Subtopologies {
		s := &configured.Subtopologies[i]
		for _, topics := range [...][]InternalTopic{s.RepartitionSources, s.Changelogs} {
			for _, topic := range topics {
				if _, ok := counts[topic.Name]; ok {
					counts[topic.Name] = topic.Partitions
				}
			}
		}
	}
	return counts
}

// withoutTopics is Metadata as if some topics did not exist.
type withoutTopics[V any] struct {
	Metadata
	hidden map[string]V
}

func (w withoutTopics[V]) Topic(name string) (Topic, bool) {
	if _, hidden := w.hidden[name]; hidden {
		return Topic{}, false
	}
	return w.Metadata.Topic(name)
}

// CompareIDs orders ids of subtopologies as people read them: decimal numbers by value, before all others, which are ordered as
// strings.
func CompareIDs(a, b string) int { return compareIDs(a, b) }
