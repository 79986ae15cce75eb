package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxTasks is how many tasks a topology may have in all. A few bytes of a topology make a task for each partition of a topic:
// without a bound one request could have millions assigned.
const MaxTasks = 100_000

// Configure sets a valid topology against the topics that exist: it decides the partition counts of internal topics
// and the number of tasks, and finds out what is missing (Kafka's InternalTopicManager.configureTopics). The result
// does not depend on the order of anything in t. The error is an *InvalidTopology: no topics could make t run.
func Configure(t *Topology, m Metadata) (*Configured, error) {
	c := &Configured{Epoch: t.Epoch, Hash: MetadataHash(t, m)}
	var err error
	c.Subtopologies, c.Create, err = configure(t, m)
	switch e := err.(type) {
	case nil:
	case *Problem:
		c.Problem = e
		return c, nil
	default:
		return nil, err
	}
	if len(c.Create) > 0 {
		names := make([]string, len(c.Create))
		for i := range c.Create {
			names[i] = c.Create[i].Name
		}
		c.Problem = &Problem{MissingInternalTopics, "Internal topics are missing: " + list(names, ", ")}
	}
	return c, nil
}

// configure returns a *Problem or an *InvalidTopology as error.
func configure(t *Topology, m Metadata) ([]ConfiguredSubtopology, []InternalTopic, error) {
	c := newCounts(t, m)
	for _, step := range [...]func() error{c.checkSources, c.decideRepartition, c.enforceCopartitioning} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	subtopologies := make([]ConfiguredSubtopology, 0, len(c.subtopologies))
	tasks := int64(0)
	for _, s := range c.subtopologies {
		configured, err := c.subtopology(s)
		if err != nil {
			return nil, nil, err
		}
		subtopologies = append(subtopologies, configured)
		tasks += int64(configured.NumTasks)
	}
	if tasks > MaxTasks {
		return nil, nil, &Problem{IncorrectlyPartitionedTopics, fmt.Sprintf("The topology has %d tasks, one for each partition that "+
			"a subtopology reads; at most %d are supported", tasks, MaxTasks)}
	}
	create, err := c.internalTopics(subtopologies)
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(subtopologies, func(a, b ConfiguredSubtopology) int { return strings.Compare(a.ID, b.ID) })
	return subtopologies, create, nil
}

// counts is what is known of partition counts while a topology is being configured.
type counts struct {
	// subtopologies are in the order in which decisions are taken: ascending by id, as numbers where they are numbers.
	subtopologies []*Subtopology
	metadata      Metadata
	// existing caches what metadata says; decided holds repartition topics, fixed the counts that t declares for them.
	existing map[string]int32
	decided  map[string]int32
	fixed    map[string]int32
	// repartition holds every repartition source topic.
	repartition map[string]struct{}
}

func newCounts(t *Topology, m Metadata) *counts {
	c := &counts{
		metadata: m,
		existing: make(map[string]int32),
		decided:  make(map[string]int32), fixed: make(map[string]int32), repartition: make(map[string]struct{}),
	}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		c.subtopologies = append(c.subtopologies, s)
		for _, r := range s.RepartitionSourceTopics {
			c.repartition[r.Name] = struct{}{}
			if r.Partitions != 0 {
				c.fixed[r.Name], c.decided[r.Name] = r.Partitions, r.Partitions
			}
		}
	}
	slices.SortStableFunc(c.subtopologies, func(a, b *Subtopology) int { return compareIDs(a.ID, b.ID) })
	return c
}

// compareIDs orders ids that are decimal numbers by value, before all others, which are ordered as strings.
func compareIDs(a, b string) int {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	switch {
	case errX == nil && errY == nil && x != y:
		if x < y {
			return -1
		}
		return 1
	case errX == nil && errY != nil:
		return -1
	case errX != nil && errY == nil:
		return 1
	}
	return strings.Compare(a, b)
}

// exists returns the partition count of an existing topic.
func (c *counts) exists(topic string) (int32, bool) {
	n, ok := c.existing[topic]
	if !ok {
		n = -1
		if info, found := c.metadata.Topic(topic); found {
			n = info.Partitions
		}
		c.existing[topic] = n
	}
	return n, n >= 0
}

// count is the partition count of an existing topic, else the one decided so far.
func (c *counts) count(topic string) (int32, bool) {
	if n, ok := c.exists(topic); ok {
		return n, true
	}
	n, ok := c.decided[topic]
	return n, ok
}

func (c *counts) checkSources() error {
	var missing []string
	for _, s := range c.subtopologies {
		for _, topic := range s.SourceTopics {
			if _, ok := c.exists(topic); !ok {
				missing = append(missing, topic)
			}
		}
	}
	if len(missing) > 0 {
		return &Problem{MissingSourceTopics, "Source topics " + list(missing, ", ") + " are missing."}
	}
	return nil
}

// subtopology gives a subtopology its final counts.
func (c *counts) subtopology(s *Subtopology) (ConfiguredSubtopology, error) {
	if err := s.validateSources(); err != nil {
		return ConfiguredSubtopology{}, err
	}
	out := ConfiguredSubtopology{
		ID: s.ID, Stateful: s.Stateful(),
		SourceTopics: sortedSet(s.SourceTopics), SinkTopics: sortedSet(s.RepartitionSinkTopics),
	}
	for _, topic := range s.SourceTopics {
		n, _ := c.exists(topic)
		out.NumTasks = max(out.NumTasks, n)
	}
	for _, r := range s.RepartitionSourceTopics {
		n, _ := c.count(r.Name)
		out.NumTasks = max(out.NumTasks, n)
		r.Partitions = c.decided[r.Name]
		out.RepartitionSources = append(out.RepartitionSources, r)
	}
	for _, l := range s.StateChangelogTopics {
		l.Partitions = out.NumTasks
		if _, shared := c.repartition[l.Name]; shared {
			l.Partitions = c.decided[l.Name]
		} else if contains(out.SourceTopics, l.Name) {
			// The source of an optimised table: the user's own topic, whose count is right as it is.
			l.Partitions, _ = c.exists(l.Name)
		}
		out.Changelogs = append(out.Changelogs, l)
	}
	sortByName(out.RepartitionSources)
	sortByName(out.Changelogs)
	return out, nil
}

// internalTopics returns the internal topics that do not exist, as they are to be created.
func (c *counts) internalTopics(subtopologies []ConfiguredSubtopology) ([]InternalTopic, error) {
	expected := make(map[string]InternalTopic)
	for i := range subtopologies {
		s := &subtopologies[i]
		for _, list := range [...][]InternalTopic{s.RepartitionSources, s.Changelogs} {
			for _, topic := range list {
				if other, ok := expected[topic.Name]; !ok {
					expected[topic.Name] = topic
				} else if other.Partitions != topic.Partitions {
					return nil, invalidf("Changelog topic %s belongs to several subtopologies with different numbers of tasks "+
						"(%d and %d); a changelog topic belongs to one subtopology.", show(topic.Name),
						min(other.Partitions, topic.Partitions), max(other.Partitions, topic.Partitions))
				}
			}
		}
	}
	var create []InternalTopic
	var wrong []string
	for name, topic := range expected {
		n, ok := c.exists(name)
		switch {
		case !ok:
			if topic.ReplicationFactor <= 0 {
				topic.ReplicationFactor = -1
			}
			create = append(create, topic)
		case n != topic.Partitions:
			wrong = append(wrong, name)
		}
	}
	if len(wrong) > 0 {
		return nil, c.wrongCounts(wrong, expected)
	}
	sortByName(create)
	return create, nil
}

func (c *counts) wrongCounts(names []string, expected map[string]InternalTopic) error {
	slices.Sort(names)
	var b strings.Builder
	for i, name := range names[:min(len(names), maxListed)] {
		n, _ := c.exists(name)
		if i > 0 {
			b.WriteString(". ")
		}
		fmt.Fprintf(&b, "Existing topic %s has different number of partitions: expected %d, found %d",
			name, expected[name].Partitions, n)
	}
	if more := len(names) - maxListed; more > 0 {
		fmt.Fprintf(&b, " and %d additional topics", more)
	}
	return &Problem{IncorrectlyPartitionedTopics, b.String()}
}

func sortedSet(names []string) []string {
	s := slices.Clone(names)
	slices.Sort(s)
	return slices.Compact(s)
}

func contains(sorted []string, name string) bool {
	_, ok := slices.BinarySearch(sorted, name)
	return ok
}

func sortByName(topics []InternalTopic) {
	slices.SortFunc(topics, func(a, b InternalTopic) int { return strings.Compare(a.Name, b.Name) })
}
