package topology

// Topology is what the members of a group run (KIP-1071 "Topology initialization"; StreamsGroupTopologyValue.json).
// A Topology is immutable once it is shared.
type Topology struct {
	// Epoch is the version that the client declared.
	Epoch int32
	// Subtopologies stand in the order in which the client sent them.
	Subtopologies []Subtopology
}

// Subtopology is a connected part of a topology; each of its tasks reads one partition of every source.
type Subtopology struct {
	ID                      string
	SourceTopics            []string
	SourceTopicRegex        []string
	StateChangelogTopics    []InternalTopic
	RepartitionSinkTopics   []string
	RepartitionSourceTopics []InternalTopic
	CopartitionGroups       []CopartitionGroup
}

// InternalTopic is a repartition or changelog topic as the client describes it.
type InternalTopic struct {
	Name string
	// Partitions is the fixed partition count; 0 means that the coordinator decides.
	Partitions int32
	// ReplicationFactor is the wanted factor; 0 or less means the broker's default.
	ReplicationFactor int16
	Configs           []Config
}

// Config is one topic configuration in the client's order.
type Config struct{ Key, Value string }

// CopartitionGroup names topics that must have equal partition counts, as indexes into the lists of its subtopology.
type CopartitionGroup struct {
	SourceTopics            []int16
	SourceTopicRegex        []int16
	RepartitionSourceTopics []int16
}

// Topic is what the upstream cluster says about an existing topic.
type Topic struct {
	Name       string
	ID         [16]byte
	Partitions int32
	// Racks holds for each partition the racks of its replicas (replicas without a rack left out); it may be nil.
	Racks [][]string
}

// Metadata is a view of the upstream's topics at one moment.
type Metadata interface {
	// Topic reports the named topic, or false when it does not exist.
	Topic(name string) (Topic, bool)
	// Names are the names of all topics in ascending order. The slice is shared: nobody may change it.
	Names() []string
}

// Leaders tells where the leaders of partitions are. Unlike Metadata it is no picture of one moment.
type Leaders interface {
	// LeaderRacks returns the rack of the leader of each partition of the topic, as far as it is known: "" where it is not,
	// nil where nothing is. The slice may be shorter than the topic has partitions.
	LeaderRacks(topic string) []string
}
