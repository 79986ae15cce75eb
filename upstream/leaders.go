package upstream

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/coordd/coordd/topology"
)

var _ topology.Leaders = (*Client)(nil)

// maxRackNumbers bounds the racks that leaders are told of: leaders in further ones are in no rack that is known.
const maxRackNumbers = 1<<16 - 1

// leaders are the racks of the leaders of partitions. They are no part of the image of the topics, and not of the metadata
// hash: leaders change with every restart of a broker, and the only one to look at them is who places active tasks, at that
// moment. A change of leaders so costs a few bytes of one topic here, and nothing of all topics, groups or epochs.
//
// A topic has a string of two bytes for each partition, the number of the rack, which topics with the same leaders share.
type leaders struct {
	numbers map[string]uint16 // by rack; 0 is not given
	shared  map[string]string

	mu    sync.RWMutex // of what follows, and of the readers' leaderLists
	racks []string     // by number - 1
	asOf  uint64       // counts answers
}

// leaderLists are the leaders of the topics of a reader's last answer.
type leaderLists struct {
	topics []topology.Topic
	of     []string // by topic
	asOf   uint64
}

// number is that of a rack, 0 for none.
func (l *leaders) number(rack string) uint16 {
	if rack == "" {
		return 0
	}
	if n, ok := l.numbers[rack]; ok || len(l.numbers) >= maxRackNumbers {
		return n
	}
	if l.numbers == nil {
		l.numbers = map[string]uint16{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.racks = append(l.racks, rack)
	l.numbers[rack] = uint16(len(l.racks))
	return uint16(len(l.racks))
}

// share returns the one string of the same racks, and "" where none is known.
func (l *leaders) share(numbers []byte) string {
	if s, ok := l.shared[string(numbers)]; ok {
		return s
	}
	if !slices.ContainsFunc(numbers, func(b byte) bool { return b != 0 }) {
		return ""
	}
	if l.shared == nil || len(l.shared) >= maxRackLists {
		l.shared = map[string]string{}
	}
	s := string(numbers)
	l.shared[s] = s
	return s
}

// took says that the lists are those of an answer that has just been read.
func (l *leaders) took(lists *leaderLists, topics []topology.Topic, of []string, changed []ledTopic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asOf++
	lists.asOf = l.asOf
	lists.topics, lists.of = topics, of
	for _, c := range changed {
		of[c.topic] = c.leaders
	}
}

// ledTopic is a topic, by its number, that has other leaders.
type ledTopic struct {
	topic   int32
	leaders string
}

// find returns the racks of the leaders of a topic as the latest of the answers has them that tell of it.
func (l *leaders) find(name string, answers ...*leaderLists) []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	newest, numbers := uint64(0), ""
	for _, a := range answers {
		at, ok := slices.BinarySearchFunc(a.topics, name, func(t topology.Topic, name string) int { return strings.Compare(t.Name, name) })
		if ok && a.asOf > newest {
			newest, numbers = a.asOf, a.of[at]
		}
	}
	if numbers == "" {
		return nil
	}
	racks := make([]string, len(numbers)/2)
	for p := range racks {
		if n := binary.BigEndian.Uint16([]byte(numbers[2*p:])); n > 0 {
			racks[p] = l.racks[n-1]
		}
	}
	return racks
}

// LeaderRacks implements topology.Leaders.
func (c *Client) LeaderRacks(topic string) []string {
	w := c.metadata
	return w.reader.racks.leaders.find(topic, &w.reader.led, &w.named.led)
}
