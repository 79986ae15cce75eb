package topicctl

import (
	"context"
	"errors"

	"github.com/coordd/coordd/topology"
)

// Source is the cluster whose topics are watched and created.
type Source interface {
	// Metadata reports every topic and broker of the cluster.
	Metadata(ctx context.Context) (*Snapshot, error)
	// CreateTopics asks the cluster's controller to create the topics and reports one entry, nil for success, for
	// each of them. An error that wraps [ErrTopicExists] says that the topic is there already. The second result
	// is set when the call as a whole failed; then the map is ignored.
	CreateTopics(ctx context.Context, topics []topology.InternalTopic) (map[string]error, error)
}

// NamedSource is a Source that can be asked for some topics alone.
type NamedSource interface {
	Source
	// NamedMetadata reports the named topics and every broker; a topic that does not exist is left out.
	NamedMetadata(ctx context.Context, names []string) (*Snapshot, error)
}

// LookupSource is a Source that tells a topic that does not exist from one that it does not show.
type LookupSource interface {
	Source
	// Lookup asks for topics by name. Those that the cluster says neither of are left out.
	Lookup(ctx context.Context, names []string) (map[string]topology.Lookup, error)
}

// ErrTopicExists is wrapped by a Source's error for a topic that exists (TOPIC_ALREADY_EXISTS).
var ErrTopicExists = errors.New("topic exists")

// Snapshot is one answer of the cluster. Neither side changes it after it was handed over, so that a Source may repeat its
// last list of topics as it is when nothing changed.
type Snapshot struct {
	// From tells the connection to a broker over which the answer came from others: over one, answers do not go back in time.
	From      string
	ClusterID string
	// ControllerID is -1 while the cluster has no controller.
	ControllerID int32
	Brokers      []Broker
	// Topics are best sorted by name.
	Topics []topology.Topic
	// Unclear names topics that may exist, but that the broker could not tell the state of.
	Unclear []string
}

// Broker is one live broker of the cluster.
type Broker struct {
	ID   int32
	Host string
	Port int32
	// Rack is empty when the broker names none.
	Rack string
}
