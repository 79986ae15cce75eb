package upstream

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/zeebo/xxh3"

	"github.com/coordd/coordd/topicctl"
	"github.com/coordd/coordd/topology"
)

// maxMetadata is the highest version of Metadata that metadataReader knows.
const maxMetadata = 13

// metadataReader reads answers to Metadata for all topics, mindful of the last one: where the part with the topics is the
// same byte for byte it is not read again, and what is the same of a topic is shared with what was read before. A cluster
// of 50,000 topics is asked more than once a second.
type metadataReader struct {
	version int16
	hash    uint64 // of the part with the topics
	topics  []topology.Topic
	unclear []string
	order   []int32 // where in topics each topic of the answer is, in the order of the answer; unusable ones left out
	racks   *racks  // shared by readers
	placed  uint64  // racks.generation with which topics were read
	led     leaderLists

	scratch struct {
		refs     []int32
		fresh    []topology.Topic
		freshLed []string // as fresh
		lists    []*rackList
		leaders  []byte // of the partitions of lists
		changed  []ledTopic
		stayed   []bool
	}
}

// read returns what an answer says. The lists of brokers and topics are sorted.
func (m *metadataReader) read(version int16, raw []byte) (*topicctl.Snapshot, error) {
	r := wireReader{Reader: kbin.Reader{Src: raw}, version: version, flexible: version >= 9}
	s := m.readHead(&r)
	hash := xxh3.Hash(r.Src)
	if r.Ok() && m.placed == m.racks.generation && m.topics != nil && hash == m.hash && version == m.version {
		s.Topics, s.Unclear = m.topics, m.unclear
		m.racks.leaders.took(&m.led, m.topics, m.led.of, nil)
		return s, nil
	}
	m.version, m.hash = -1, hash // not valid unless all is read
	if err := m.readTopics(&r); err != nil {
		return nil, err
	}
	if version >= 8 && version <= 10 {
		r.Int32() // authorized operations
	}
	if version >= 13 {
		if err := kerr.ErrorForCode(r.Int16()); err != nil {
			return nil, err
		}
	}
	r.tags()
	if !r.Ok() {
		return nil, kbin.ErrNotEnoughData
	}
	m.version, m.placed = version, m.racks.generation
	s.Topics, s.Unclear = m.topics, m.unclear
	return s, nil
}

// readHead reads what stands before the topics.
func (m *metadataReader) readHead(r *wireReader) *topicctl.Snapshot {
	s := &topicctl.Snapshot{ControllerID: -1}
	if r.version >= 3 {
		r.Int32() // throttle time
	}
	for range r.arrayLen() {
		b := topicctl.Broker{ID: r.Int32(), Host: r.string(), Port: r.Int32()}
		if r.version >= 1 {
			b.Rack = r.string()
		}
		r.tags()
		if !r.Ok() {
			return s
		}
		s.Brokers = append(s.Brokers, b)
		m.racks.set(b.ID, b.Rack)
	}
	slices.SortFunc(s.Brokers, func(a, b topicctl.Broker) int { return int(a.ID) - int(b.ID) })
	if r.version >= 2 {
		s.ClusterID = r.string()
	}
	if r.version >= 1 {
		s.ControllerID = r.Int32()
	}
	return s
}

// readTopics brings topics, unclear and order up to date. Topics that are as before stay the same values, and topics is
// the same slice when all are.
func (m *metadataReader) readTopics(r *wireReader) error {
	n := r.arrayLen()
	refs, fresh, led := m.scratch.refs[:0], m.scratch.fresh[:0], m.scratch.changed[:0]
	var freshLed []string
	var unclear []string
	var changed map[int32]topology.Topic // old topics that became others
	stayed := append(m.scratch.stayed[:0], make([]bool, len(m.topics))...)
	next := 0 // where in order the old topic is expected
	for range n {
		code, name, id, whole := m.readTopic(r)
		switch {
		case !r.Ok():
			return kbin.ErrNotEnoughData
		case len(name) == 0 || absent(code):
			continue
		case !whole:
			unclear = append(unclear, string(name))
			continue
		}
		old := m.old(name, &next)
		if old >= 0 && stayed[old] {
			continue // twice in one answer
		}
		if old < 0 {
			refs = append(refs, ^int32(len(fresh)))
			fresh = append(fresh, m.topic(string(name), id))
			freshLed = append(freshLed, m.racks.leaders.share(m.scratch.leaders))
			continue
		}
		refs = append(refs, old)
		stayed[old] = true
		if now := m.scratch.leaders; m.led.of[old] != string(now) {
			if shared := m.racks.leaders.share(now); shared != m.led.of[old] {
				led = append(led, ledTopic{old, shared})
			}
		}
		if was := &m.topics[old]; was.ID != id || !m.sameRacks(was) {
			if changed == nil {
				changed = map[int32]topology.Topic{}
			}
			changed[old] = m.topic(was.Name, id)
		}
	}
	slices.Sort(unclear)
	m.unclear = unclear
	m.scratch.refs, m.scratch.stayed, m.scratch.fresh, m.scratch.freshLed, m.scratch.changed = refs, stayed, fresh, freshLed, led
	m.merge(changed)
	m.scratch.fresh, m.scratch.freshLed = nil, nil // rarely many, and then of names that another list holds
	return nil
}

// readTopic reads a topic of an answer, its partitions into scratch. Whether it could be read says r.
func (m *metadataReader) readTopic(r *wireReader) (code int16, name []byte, id [16]byte, whole bool) {
	code, name = r.Int16(), r.bytes()
	if r.version >= 10 {
		id = r.Uuid()
	}
	if r.version >= 1 {
		r.Bool() // internal
	}
	whole = m.readPartitions(r)
	if r.version >= 8 {
		r.Int32() // authorized operations
	}
	r.tags()
	return code, name, id, whole
}

// absent says that a topic of an answer does not exist. With other errors nobody knows.
func absent(code int16) bool {
	return code == kerr.UnknownTopicOrPartition.Code || code == kerr.UnknownTopicID.Code || code == kerr.InvalidTopicException.Code
}

// old finds the topic of a name in topics, -1 for none. Answers mostly come in the same order, with a topic more or less.
func (m *metadataReader) old(name []byte, next *int) int32 {
	for skip := range 2 {
		if at := *next + skip; at < len(m.order) && m.topics[m.order[at]].Name == string(name) {
			*next = at + 1
			return m.order[at]
		}
	}
	at, ok := slices.BinarySearchFunc(m.topics, name, func(t topology.Topic, name []byte) int {
		return strings.Compare(t.Name, string(name))
	})
	if !ok {
		return -1
	}
	return int32(at)
}

// readPartitions reads the partitions of one topic into the lists of their racks, and reports whether each from 0 on is
// there once.
func (m *metadataReader) readPartitions(r *wireReader) (whole bool) {
	n := r.arrayLen()
	lists, leaders := m.scratch.lists[:0], m.scratch.leaders[:0]
	whole = n > 0
	for range n {
		if !r.Ok() { // n is bounded by what is left of the answer, and so is lists
			return false
		}
		r.Int16() // error: of the leader or a replica
		p := r.Int32()
		leader := m.racks.numberOf[r.Int32()]
		if r.version >= 7 {
			r.Int32() // leader epoch
		}
		list := m.racks.list(r.int32s())
		r.int32s() // in sync
		if r.version >= 5 {
			r.int32s() // offline
		}
		r.tags()
		switch {
		case p == int32(len(lists)):
			lists = append(lists, list)
			leaders = binary.BigEndian.AppendUint16(leaders, leader)
		case p < 0 || int(p) >= n:
			whole = false
		default: // in another order
			for int(p) >= len(lists) {
				lists, leaders = append(lists, nil), append(leaders, 0, 0)
			}
			whole = whole && lists[p] == nil
			lists[p] = list
			binary.BigEndian.PutUint16(leaders[2*p:], leader)
		}
	}
	m.scratch.lists, m.scratch.leaders = lists, leaders
	return whole && len(lists) == n && !slices.Contains(lists, nil)
}

// sameRacks reports whether the partitions read last are those of a topic.
func (m *metadataReader) sameRacks(t *topology.Topic) bool {
	lists := m.scratch.lists
	if int(t.Partitions) != len(lists) {
		return false
	}
	if t.Racks == nil {
		return !slices.ContainsFunc(lists, func(l *rackList) bool { return len(l.racks) > 0 })
	}
	for p, l := range lists {
		was := t.Racks[p]
		if len(was) != len(l.racks) || len(was) > 0 && &was[0] != &l.racks[0] && !slices.Equal(was, l.racks) {
			return false
		}
	}
	return true
}

// topic makes a topic of the partitions read last.
func (m *metadataReader) topic(name string, id [16]byte) topology.Topic {
	return topology.Topic{Name: name, ID: id, Partitions: int32(len(m.scratch.lists)), Racks: m.racks.lists(m.scratch.lists)}
}

// merge makes topics and order of what was read: the old topics that stayed, some of them changed, and the fresh ones.
func (m *metadataReader) merge(changed map[int32]topology.Topic) {
	refs, fresh, stayed := m.scratch.refs, m.scratch.fresh, m.scratch.stayed
	if len(fresh) == 0 && len(changed) == 0 && len(refs) == len(m.topics) && m.topics != nil {
		m.order = append(m.order[:0], refs...)
		m.racks.leaders.took(&m.led, m.topics, m.led.of, m.scratch.changed)
		return
	}
	byName := make([]int32, len(fresh))
	for n := range byName {
		byName[n] = int32(n)
	}
	slices.SortFunc(byName, func(a, b int32) int { return cmp.Or(strings.Compare(fresh[a].Name, fresh[b].Name), cmp.Compare(a, b)) })
	topics, led := make([]topology.Topic, 0, len(refs)), make([]string, 0, len(refs))
	ofOld, ofFresh := make([]int32, len(m.topics)), make([]int32, len(fresh))
	take := func(n int32) {
		if at := len(topics) - 1; at < 0 || topics[at].Name != fresh[n].Name { // else twice in one answer
			topics, led = append(topics, fresh[n]), append(led, m.scratch.freshLed[n])
		}
		ofFresh[n] = int32(len(topics) - 1)
	}
	for old := range m.topics {
		if !stayed[old] {
			continue
		}
		for len(byName) > 0 && fresh[byName[0]].Name < m.topics[old].Name {
			take(byName[0])
			byName = byName[1:]
		}
		ofOld[old] = int32(len(topics))
		topic, other := changed[int32(old)]
		if !other {
			topic = m.topics[old]
		}
		topics, led = append(topics, topic), append(led, m.led.of[old])
	}
	for _, c := range m.scratch.changed {
		led[ofOld[c.topic]] = c.leaders
	}
	for _, n := range byName {
		take(n)
	}
	order := make([]int32, 0, len(refs))
	for _, ref := range refs {
		if ref >= 0 {
			order = append(order, ofOld[ref])
		} else {
			order = append(order, ofFresh[^ref])
		}
	}
	m.topics, m.order = topics, order
	m.racks.leaders.took(&m.led, topics, led, nil)
}

// wireReader reads the two encodings of the protocol.
type wireReader struct {
	kbin.Reader
	version  int16
	flexible bool
}

// arrayLen is not negative, and no more than the bytes that are left.
func (r *wireReader) arrayLen() int {
	if r.flexible {
		return max(0, int(r.CompactArrayLen()))
	}
	return max(0, int(r.ArrayLen()))
}

// bytes are those of a string that may be null.
func (r *wireReader) bytes() []byte {
	n := 0
	if r.flexible {
		n = int(r.Uvarint()) - 1
	} else {
		n = int(r.Int16())
	}
	if n <= 0 {
		return nil
	}
	return r.Span(n)
}

func (r *wireReader) string() string { return string(r.bytes()) }

// int32s are the bytes of an array of int32.
func (r *wireReader) int32s() []byte { return r.Span(4 * r.arrayLen()) }

func (r *wireReader) tags() {
	if !r.flexible {
		return
	}
	for n := r.Uvarint(); n > 0 && r.Ok(); n-- {
		r.Uvarint()
		r.Span(int(r.Uvarint()))
	}
}
