package topology

import (
	"slices"
	"strings"
)

// ProblemKind says why a topology cannot run with the topics that exist (KIP-1071, status of a heartbeat).
type ProblemKind int8

// Problem kinds, numbered like the status codes; the zero value is no problem.
const (
	MissingSourceTopics          ProblemKind = 1
	IncorrectlyPartitionedTopics ProblemKind = 2
	MissingInternalTopics        ProblemKind = 3
)

// String returns the name of the status code.
func (k ProblemKind) String() string {
	switch k {
	case MissingSourceTopics:
		return "MISSING_SOURCE_TOPICS"
	case IncorrectlyPartitionedTopics:
		return "INCORRECTLY_PARTITIONED_TOPICS"
	case MissingInternalTopics:
		return "MISSING_INTERNAL_TOPICS"
	}
	return "NONE"
}

// Problem is what keeps a topology from running. Detail is for people.
type Problem struct {
	Kind   ProblemKind
	Detail string
}

// Error implements error.
func (p *Problem) Error() string { return p.Kind.String() + ": " + p.Detail }

// Configured is a topology set against the topics that exist (Kafka's ConfiguredTopology). It is immutable once it is
// shared, and shares strings and topic configurations with its topology.
type Configured struct {
	// Epoch is the epoch of the topology and Hash the MetadataHash it was configured with.
	Epoch int32
	Hash  int64
	// Subtopologies are sorted by id as strings; nil when sources are missing or topics are wrongly partitioned.
	Subtopologies []ConfiguredSubtopology
	// Create are the internal topics that are missing, sorted by name, as they are to be created.
	Create []InternalTopic
	// Problem is nil when the topology is ready.
	Problem *Problem
}

// ConfiguredSubtopology is a subtopology with all partition counts known. Its lists are sorted by topic name.
type ConfiguredSubtopology struct {
	ID           string
	NumTasks     int32
	Stateful     bool
	SourceTopics []string
	// RepartitionSources and Changelogs have their final partition counts.
	RepartitionSources []InternalTopic
	Changelogs         []InternalTopic
	SinkTopics         []string
}

// Ready reports whether all topics exist with the right partition counts.
func (c *Configured) Ready() bool { return c != nil && c.Problem == nil }

// Subtopology returns the configured subtopology with the given id, or nil.
func (c *Configured) Subtopology(id string) *ConfiguredSubtopology {
	if c == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(c.Subtopologies, id, func(s ConfiguredSubtopology, id string) int {
		return strings.Compare(s.ID, id)
	})
	if !ok {
		return nil
	}
	return &c.Subtopologies[i]
}

// Tasks returns the number of tasks of a subtopology, or false when there is no such configured subtopology.
func (c *Configured) Tasks(subtopology string) (int32, bool) {
	s := c.Subtopology(subtopology)
	if s == nil {
		return 0, false
	}
	return s.NumTasks, true
}
