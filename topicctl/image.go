package topicctl

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/coordd/coordd/topology"
)

// Image is what is known about the upstream at one moment. It is immutable, and nil-safe for reading nothing: the image
// before the first answer has Version 0 and no topics.
type Image struct {
	// Version grows whenever a topic appears, vanishes, or changes its id, partition count or racks. It says nothing
	// about brokers. It is local to this process.
	Version      uint64
	ClusterID    string
	ControllerID int32
	// Brokers are sorted by id.
	Brokers []Broker

	topics []topology.Topic // sorted by name
	byName map[string]int   // index into topics
	byID   map[[16]byte]int // index into topics; topics without an id left out

	// names are listed when they are first asked for: only groups that read topics by patterns do.
	listing sync.Once
	names   []string
}

var _ topology.Metadata = (*Image)(nil)

// emptyImage stands until the first answer.
var emptyImage = &Image{ControllerID: -1}

// NewImage makes the image that follows previous (nil: none). It returns previous itself when nothing changed, and
// shares the topics with it when only brokers changed. The snapshot must not be used afterwards.
func NewImage(s *Snapshot, previous *Image) *Image {
	if previous == nil {
		previous = emptyImage
	}
	slices.SortFunc(s.Brokers, func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Topics, func(a, b topology.Topic) int { return strings.Compare(a.Name, b.Name) })
	s.Topics = slices.CompactFunc(s.Topics, func(a, b topology.Topic) bool { return a.Name == b.Name })

	sameTopics := previous.Version > 0 && slices.EqualFunc(s.Topics, previous.topics, equalTopic)
	sameRest := s.ClusterID == previous.ClusterID && s.ControllerID == previous.ControllerID &&
		slices.Equal(s.Brokers, previous.Brokers)
	if sameTopics && sameRest {
		return previous
	}
	image := &Image{
		Version: previous.Version, ClusterID: s.ClusterID, ControllerID: s.ControllerID, Brokers: s.Brokers,
		topics: previous.topics, byName: previous.byName, byID: previous.byID,
	}
	if !sameTopics {
		image.Version++
		image.topics = s.Topics
		image.index()
	}
	return image
}

func (i *Image) index() {
	i.byName = make(map[string]int, len(i.topics))
	i.byID = make(map[[16]byte]int, len(i.topics))
	for n, t := range i.topics {
		i.byName[t.Name] = n
		if t.ID != ([16]byte{}) {
			i.byID[t.ID] = n
		}
	}
}

func equalTopic(a, b topology.Topic) bool {
	return a.Name == b.Name && a.ID == b.ID && a.Partitions == b.Partitions &&
		slices.EqualFunc(a.Racks, b.Racks, slices.Equal)
}

// Topic implements topology.Metadata.
func (i *Image) Topic(name string) (topology.Topic, bool) {
	n, ok := i.byName[name]
	if !ok {
		return topology.Topic{}, false
	}
	return i.topics[n], true
}

// TopicName reports the name of the topic with an id.
func (i *Image) TopicName(id [16]byte) (string, bool) {
	n, ok := i.byID[id]
	if !ok {
		return "", false
	}
	return i.topics[n].Name, true
}

// TopicID reports the id of a topic; false when the topic does not exist or the upstream has no topic ids.
func (i *Image) TopicID(name string) ([16]byte, bool) {
	n, ok := i.byName[name]
	if !ok || i.topics[n].ID == ([16]byte{}) {
		return [16]byte{}, false
	}
	return i.topics[n].ID, true
}

// Topics yields every topic by ascending name.
func (i *Image) Topics() iter.Seq[topology.Topic] { return slices.Values(i.topics) }

// Names implements topology.Metadata.
func (i *Image) Names() []string {
	i.listing.Do(func() {
		i.names = make([]string, len(i.topics))
		for n := range i.topics {
			i.names[n] = i.topics[n].Name
		}
	})
	return i.names
}

// NumTopics is the number of topics.
func (i *Image) NumTopics() int { return len(i.topics) }

// Broker reports the live broker with an id.
func (i *Image) Broker(id int32) (Broker, bool) {
	n, ok := slices.BinarySearchFunc(i.Brokers, id, func(b Broker, id int32) int { return cmp.Compare(b.ID, id) })
	if !ok {
		return Broker{}, false
	}
	return i.Brokers[n], true
}

// shrunk reports whether next lacks something that i has: a topic, or partitions of a topic of the same id. Such an
// answer may come from a broker that lags behind.
func (i *Image) shrunk(next *Image) bool {
	if i.Version == next.Version {
		return false
	}
	for _, was := range i.topics {
		now, ok := next.Topic(was.Name)
		if !ok || now.ID == was.ID && now.Partitions < was.Partitions {
			return true
		}
	}
	return false
}
