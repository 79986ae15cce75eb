package topology

import (
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
	return Resolve(t, m).Configure(m)
}

// Configure is [Configure] for the topology and the metadata that were resolved.
func (r *Resolution) Configure(m Metadata) (*Configured, error) {
	c := &Configured{Epoch: r.Topology.Epoch, Hash: r.MetadataHash(m)}
	var err error
	c.Subtopologies, c.Create, err = configure(r, m)
	switch e := err.(type) {
	case nil:
	case *Problem:
		c.Problem = e
		return c, nil
	default:
		return nil, err
	}
	if len(c.Create) > 0 {
		c.Problem = &Problem{MissingInternalTopics, missingInternal(c.Create, c.Subtopologies)}
	}
	return c, nil
}

// configure returns a *Problem or an *InvalidTopology as error.
func configure(r *Resolution, m Metadata) ([]ConfiguredSubtopology, []InternalTopic, error) {
	c := newCounts(r.Resolved, m)
	c.resolution = r
	for _, step := range [...]func() error{c.checkSources, c.decideRepartition, c.enforceCopartitioning, c.decideChangelogs} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	subtopologies := make([]ConfiguredSubtopology, 0, len(c.subtopologies))
	tasks := int64(0)
	for _, s := range c.subtopologies {
		configured := c.subtopology(s)
		subtopologies = append(subtopologies, configured)
		tasks += int64(configured.NumTasks)
	}
	if tasks > MaxTasks {
		return nil, nil, &Problem{IncorrectlyPartitionedTopics, tooManyTasks(subtopologies, tasks)}
	}
	slices.SortFunc(subtopologies, func(a, b ConfiguredSubtopology) int { return strings.Compare(a.ID, b.ID) })
	create, err := c.internalTopics(subtopologies)
	if err != nil {
		return nil, nil, err
	}
	return subtopologies, create, nil
}

// counts is what is known of partition counts while a topology is being configured.
type counts struct {
	// subtopologies are in the order in which decisions are taken: ascending by id, as numbers where they are numbers.
	subtopologies []*Subtopology
	metadata      Metadata
	// resolution says what the patterns match.
	resolution *Resolution
	// existing caches what metadata says; decided holds repartition topics, fixed the counts that t declares for them,
	// changelogs those changelogs whose counts follow from the subtopology.
	existing   map[string]int32
	decided    map[string]int32
	fixed      map[string]int32
	changelogs map[string]int32
	// repartition holds every repartition source topic. With unseen, count takes none of them for existing.
	repartition map[string]struct{}
	unseen      bool
}

func newCounts(t *Topology, m Metadata) *counts {
	c := &counts{
		metadata: m,
		existing: make(map[string]int32), decided: make(map[string]int32), fixed: make(map[string]int32),
		changelogs: make(map[string]int32), repartition: make(map[string]struct{}),
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
	_, internal := c.repartition[topic]
	if n, ok := c.exists(topic); ok && (!internal || !c.unseen) {
		return n, true
	}
	n, ok := c.decided[topic]
	return n, ok
}

func (c *counts) checkSources() error {
	var missing, unmatched []subtopologyTopics
	for _, s := range c.subtopologies {
		var here []string
		for _, topic := range s.SourceTopics {
			if _, ok := c.exists(topic); !ok {
				here = append(here, topic)
			}
		}
		if len(here) > 0 {
			missing = append(missing, subtopologyTopics{s.ID, here})
		}
		if patterns := c.resolution.unmatched(s); len(patterns) > 0 {
			unmatched = append(unmatched, subtopologyTopics{s.ID, patterns})
		}
	}
	var details []string
	if len(missing) > 0 {
		details = append(details, "Source topics "+list(allTopics(missing), ", ")+" are missing. "+which(missing, "reads")+".")
	}
	if len(unmatched) > 0 {
		details = append(details, "No topics match the source topic patterns "+list(allTopics(unmatched), ", ")+". "+
			which(unmatched, "reads")+".")
	}
	if details != nil {
		return &Problem{MissingSourceTopics, strings.Join(details, " ")}
	}
	return c.resolution.checkSize()
}

// maximum is the largest count of what a subtopology reads: its number of tasks.
func (c *counts) maximum(s *Subtopology) int32 {
	largest := int32(0)
	for _, topic := range s.SourceTopics {
		n, _ := c.exists(topic)
		largest = max(largest, n)
	}
	for i := range s.RepartitionSourceTopics {
		n, _ := c.count(s.RepartitionSourceTopics[i].Name)
		largest = max(largest, n)
	}
	return largest
}

// decideChangelogs gives every changelog the number of tasks of its subtopology (Kafka's ChangelogTopics). That is the count
// of a repartition topic, too, when it doubles as a changelog.
func (c *counts) decideChangelogs() error {
	owners := make(map[string]string)
	for _, s := range c.subtopologies {
		if err := s.validateSources(); err != nil {
			return err
		}
		n, sources := c.maximum(s), sortedSet(s.SourceTopics)
		for i := range s.StateChangelogTopics {
			name := s.StateChangelogTopics[i].Name
			if contains(sources, name) {
				continue // the source of an optimised table: the user's own topic, whose count is right as it is
			}
			if other, ok := c.changelogs[name]; ok && other != n {
				return invalidf("Changelog topic %s belongs to several subtopologies with different numbers of tasks "+
					"(subtopology %s has %d, subtopology %s has %d); a changelog topic belongs to one subtopology.",
					show(name), show(owners[name]), other, show(s.ID), n)
			}
			c.changelogs[name], owners[name] = n, s.ID
		}
	}
	for name, n := range c.changelogs {
		if _, ok := c.repartition[name]; ok {
			c.decided[name] = n
		}
	}
	return nil
}

// subtopology gives a subtopology its final counts.
func (c *counts) subtopology(s *Subtopology) ConfiguredSubtopology {
	out := ConfiguredSubtopology{
		ID: s.ID, NumTasks: c.maximum(s), Stateful: s.Stateful(),
		SourceTopics: sortedSet(s.SourceTopics), SinkTopics: sortedSet(s.RepartitionSinkTopics),
	}
	for _, r := range s.RepartitionSourceTopics {
		r.Partitions = c.decided[r.Name]
		out.RepartitionSources = append(out.RepartitionSources, r)
	}
	for _, l := range s.StateChangelogTopics {
		if contains(out.SourceTopics, l.Name) {
			l.Partitions, _ = c.exists(l.Name)
		} else {
			l.Partitions = c.changelogs[l.Name]
		}
		out.Changelogs = append(out.Changelogs, l)
	}
	sortByName(out.RepartitionSources)
	sortByName(out.Changelogs)
	return out
}

// internalTopics returns the internal topics that do not exist, as they are to be created. Where several subtopologies tell
// of the same topic, the last one counts, and a changelog more than a repartition topic, as in Kafka.
func (c *counts) internalTopics(subtopologies []ConfiguredSubtopology) ([]InternalTopic, error) {
	expected := make(map[string]InternalTopic)
	for i := range subtopologies {
		for _, topics := range [...][]InternalTopic{subtopologies[i].RepartitionSources, subtopologies[i].Changelogs} {
			for _, topic := range topics {
				expected[topic.Name] = topic
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
		return nil, c.wrongCounts(wrong, expected, subtopologies)
	}
	sortByName(create)
	return create, nil
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
