package topicctl

import (
	"bytes"
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
	// Version grows by one whenever topics appear, vanish, or change their id, partition count or racks. It says nothing
	// about brokers. It is local to this process.
	Version      uint64
	ClusterID    string
	ControllerID int32
	// Brokers are sorted by id.
	Brokers []Broker

	topics []topology.Topic // sorted by name
	lists  *lists           // of topics
	log    []change         // the latest steps, of which the last led to Version
}

var (
	_ topology.Metadata  = (*Image)(nil)
	_ topology.ChangeLog = (*Image)(nil)
)

// emptyImage stands until the first answer.
var emptyImage = &Image{ControllerID: -1, lists: new(lists)}

// NewImage makes the image that follows previous (nil: none) when the whole snapshot is believed. It returns previous
// itself when nothing changed, and shares the topics with it when only brokers changed.
func NewImage(s *Snapshot, previous *Image) *Image {
	if previous == nil {
		previous = emptyImage
	}
	topics := sorted(s.Topics)
	var changed []string
	for was, now := range compare(previous.topics, topics) {
		changed = append(changed, either(was, now).Name)
	}
	return previous.follow(s, topics, changed)
}

// follow makes the image after i, with all but the topics from s. changed names the topics that are not as in i.
func (i *Image) follow(s *Snapshot, topics []topology.Topic, changed []string) *Image {
	brokers := s.Brokers
	if !slices.IsSortedFunc(brokers, byID) {
		brokers = slices.SortedFunc(slices.Values(brokers), byID)
	}
	sameTopics := i.Version > 0 && len(changed) == 0
	if sameTopics && s.ClusterID == i.ClusterID && s.ControllerID == i.ControllerID && slices.Equal(brokers, i.Brokers) {
		return i
	}
	next := *i
	next.ClusterID, next.ControllerID, next.Brokers = s.ClusterID, s.ControllerID, brokers
	if !sameTopics {
		next.Version++
		next.topics, next.lists = topics, new(lists)
		next.log = withChange(i.log, next.Version, changed)
	}
	return &next
}

func byID(a, b Broker) int { return cmp.Compare(a.ID, b.ID) }

// sorted returns the topics by name, each once. The argument stays as it is.
func sorted(topics []topology.Topic) []topology.Topic {
	before := func(a, b topology.Topic) int { return strings.Compare(a.Name, b.Name) }
	for n := range topics {
		if n > 0 && topics[n-1].Name >= topics[n].Name {
			topics = slices.SortedStableFunc(slices.Values(topics), before)
			return slices.CompactFunc(topics, func(a, b topology.Topic) bool { return a.Name == b.Name })
		}
	}
	return topics
}

func either(was, now *topology.Topic) *topology.Topic {
	if now != nil {
		return now
	}
	return was
}

// lists are made of topics when they are needed first: names mostly by groups that read topics by patterns, ids by clients
// that name topics by id.
type lists struct {
	byID, byName sync.Once
	order        []int32 // indexes of the topics that have an id, by ascending id
	names        []string
}

func (l *lists) ids(topics []topology.Topic) []int32 {
	l.byID.Do(func() {
		order := make([]int32, 0, len(topics))
		for n := range topics {
			if topics[n].ID != ([16]byte{}) {
				order = append(order, int32(n))
			}
		}
		slices.SortFunc(order, func(a, b int32) int { return bytes.Compare(topics[a].ID[:], topics[b].ID[:]) })
		l.order = order
	})
	return l.order
}

// find returns the topic with a name, or nil.
func find(topics []topology.Topic, name string) *topology.Topic {
	n, ok := slices.BinarySearchFunc(topics, name, func(t topology.Topic, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return nil
	}
	return &topics[n]
}

// Topic implements topology.Metadata.
func (i *Image) Topic(name string) (topology.Topic, bool) {
	t := find(i.topics, name)
	if t == nil {
		return topology.Topic{}, false
	}
	return *t, true
}

// TopicName reports the name of the topic with an id.
func (i *Image) TopicName(id [16]byte) (string, bool) {
	order := i.lists.ids(i.topics)
	n, ok := slices.BinarySearchFunc(order, id, func(n int32, id [16]byte) int { return bytes.Compare(i.topics[n].ID[:], id[:]) })
	if !ok {
		return "", false
	}
	return i.topics[order[n]].Name, true
}

// TopicID reports the id of a topic; false when the topic does not exist or the upstream has no topic ids.
func (i *Image) TopicID(name string) ([16]byte, bool) {
	t := find(i.topics, name)
	if t == nil || t.ID == ([16]byte{}) {
		return [16]byte{}, false
	}
	return t.ID, true
}

// Topics yields every topic by ascending name.
func (i *Image) Topics() iter.Seq[topology.Topic] { return slices.Values(i.topics) }

// Names implements topology.Metadata.
func (i *Image) Names() []string {
	l := i.lists
	l.byName.Do(func() {
		l.names = make([]string, len(i.topics))
		for n := range i.topics {
			l.names[n] = i.topics[n].Name
		}
	})
	return l.names
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
