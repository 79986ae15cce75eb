package fsm

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
	"strings"

	"github.com/coordd/coordd/fsm/record"
)

// TopicPartition is a partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Store is where the group's committed offsets are kept.
func (g *Group) Store() record.Store {
	if g == nil || g.OffsetsStore == nil {
		return record.StoreUpstream
	}
	return g.OffsetsStore.Store
}

// LeftUpstream says that a move of the group's offsets may have left some upstream that do not count.
func (g *Group) LeftUpstream() bool {
	return g != nil && g.OffsetsStore != nil && g.OffsetsStore.LeftUpstream
}

// Offset returns the offset that the group committed for a partition in its own records. It does not allocate or keep
// the topic; the metadata is part of a text that stays alive with it.
func (g *Group) Offset(topic string, partition int32) (v record.OffsetCommit, ok bool) {
	if g == nil {
		return v, false
	}
	i, ok := findTopic(g.offsets.topics, topic)
	if !ok {
		return v, false
	}
	blocks := g.offsets.topics[i].blocks
	j, ok := findBlock(blocks, partition>>blockBits)
	if !ok {
		return v, false
	}
	return blocks[j].get(uint(partition) & blockMask)
}

// Offsets yields the committed offsets by topic, then partition.
func (g *Group) Offsets() iter.Seq2[TopicPartition, record.OffsetCommit] {
	return func(yield func(TopicPartition, record.OffsetCommit) bool) {
		if g == nil {
			return
		}
		for _, t := range g.offsets.topics {
			for partition, v := range t.all() {
				if !yield(TopicPartition{Topic: t.topic, Partition: partition}, v) {
					return
				}
			}
		}
	}
}

// TopicOffsets yields the committed offsets of a topic by partition.
func (g *Group) TopicOffsets(topic string) iter.Seq2[int32, record.OffsetCommit] {
	if g != nil {
		if i, ok := findTopic(g.offsets.topics, topic); ok {
			return g.offsets.topics[i].all()
		}
	}
	return func(func(int32, record.OffsetCommit) bool) {}
}

// OffsetTopics yields the topics with committed offsets in ascending order.
func (g *Group) OffsetTopics() iter.Seq[string] {
	return func(yield func(string) bool) {
		if g == nil {
			return
		}
		for _, t := range g.offsets.topics {
			if !yield(t.topic) {
				return
			}
		}
	}
}

// NumOffsets is the number of committed offsets.
func (g *Group) NumOffsets() int {
	if g == nil {
		return 0
	}
	return g.offsets.count
}

// offsets are the committed offsets of a group. They are immutable: a change makes other lists and the blocks that it
// touches, and shares the rest. See DESIGN.md.
type offsets struct {
	topics []*topicOffsets // by ascending topic
	count  int
}

type topicOffsets struct {
	topic  string
	blocks []*offsetBlock // by ascending base
}

const (
	blockBits = 5
	blockSize = 1 << blockBits
	blockMask = blockSize - 1
	// maxBlockText is the longest metadata in bytes that a block has among its texts.
	maxBlockText = 255
)

// offsetBlock holds the offsets of the partitions base*blockSize to base*blockSize+blockMask. Nearly all of its memory is
// 24 bytes and the metadata for each.
type offsetBlock struct {
	base int32
	// present has a bit for each partition with an offset, whole for those among them that are in others.
	present, whole uint32
	// topicID is that of all values.
	topicID [16]byte
	values  []offsetValue // of the present partitions in order
	texts   string        // metadata of the values, one after the other
	// others are the offsets that values cannot hold: those with a long metadata, an expiry, or another topic id.
	others []record.OffsetCommit
}

type offsetValue struct {
	offset      int64
	committedMs int64
	leaderEpoch int32
	textEnd     uint16 // where the value's metadata ends in texts
}

func findTopic(topics []*topicOffsets, topic string) (int, bool) {
	return slices.BinarySearchFunc(topics, topic, func(t *topicOffsets, topic string) int { return strings.Compare(t.topic, topic) })
}

func findBlock(blocks []*offsetBlock, base int32) (int, bool) {
	// Partitions are numbered from 0 without holes, so that a block mostly stands at its own number.
	if base >= 0 && int(base) < len(blocks) && blocks[base].base == base {
		return int(base), true
	}
	return slices.BinarySearchFunc(blocks, base, func(b *offsetBlock, base int32) int { return cmp.Compare(b.base, base) })
}

// all yields the offsets by partition.
func (t *topicOffsets) all() iter.Seq2[int32, record.OffsetCommit] {
	return func(yield func(int32, record.OffsetCommit) bool) {
		for _, b := range t.blocks {
			for rest := b.present; rest != 0; rest &= rest - 1 {
				slot := uint(bits.TrailingZeros32(rest))
				v, _ := b.get(slot)
				if !yield(b.base<<blockBits|int32(slot), v) {
					return
				}
			}
		}
	}
}

// get returns the offset in a slot, the partition's place in the block.
func (b *offsetBlock) get(slot uint) (record.OffsetCommit, bool) {
	bit := uint32(1) << slot
	switch {
	case b.present&bit == 0:
		return record.OffsetCommit{}, false
	case b.whole&bit != 0:
		return b.others[bits.OnesCount32(b.whole&(bit-1))], true
	}
	i := bits.OnesCount32(b.present & (bit - 1))
	v, start := &b.values[i], uint16(0)
	if i > 0 {
		start = b.values[i-1].textEnd
	}
	return record.OffsetCommit{
		Offset: v.offset, LeaderEpoch: v.leaderEpoch, Metadata: b.texts[start:v.textEnd], CommitTimestampMs: v.committedMs,
		ExpireTimestampMs: -1, TopicID: b.topicID,
	}, true
}

// newBlock makes a block of the offsets in the slots that are present; topicID is the one to expect.
func newBlock(base int32, present uint32, topicID [16]byte, all *[blockSize]record.OffsetCommit) *offsetBlock {
	b := &offsetBlock{base: base, present: present, topicID: topicID, values: make([]offsetValue, 0, bits.OnesCount32(present))}
	end := 0
	for rest := present; rest != 0; rest &= rest - 1 {
		slot := bits.TrailingZeros32(rest)
		v := &all[slot]
		var value offsetValue
		if len(v.Metadata) > maxBlockText || v.ExpireTimestampMs != -1 || v.TopicID != topicID {
			b.whole |= 1 << slot
			other := *v
			other.Metadata = strings.Clone(v.Metadata)
			b.others = append(b.others, other)
		} else {
			end += len(v.Metadata)
			value = offsetValue{offset: v.Offset, committedMs: v.CommitTimestampMs, leaderEpoch: v.LeaderEpoch}
		}
		value.textEnd = uint16(end)
		b.values = append(b.values, value)
	}
	var texts strings.Builder
	texts.Grow(end)
	for rest := present &^ b.whole; rest != 0; rest &= rest - 1 {
		texts.WriteString(all[bits.TrailingZeros32(rest)].Metadata)
	}
	b.texts, b.others = texts.String(), slices.Clip(b.others)
	return b
}

// offsetChange is the record of an offset, or its tombstone.
type offsetChange struct {
	*record.Record
	hash uint64 // of the record; 0 for a tombstone
}

func compareChanges(a, b offsetChange) int {
	return cmp.Or(strings.Compare(a.Key.Topic, b.Key.Topic), cmp.Compare(a.Key.ID, b.Key.ID))
}

// applyOffsets brings the changes that were collected into the group's offsets, so that a block is made once whatever the
// number of its changes.
func (g *openGroup) applyOffsets() error {
	changes := g.changes
	if len(changes) == 0 {
		return nil
	}
	if !slices.IsSortedFunc(changes, compareChanges) {
		slices.SortStableFunc(changes, compareChanges)
	}
	g.offsets.topics = slices.Clone(g.offsets.topics)
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].Key.Topic == changes[0].Key.Topic {
			n++
		}
		if err := g.applyTopic(changes[:n]); err != nil {
			return err
		}
		changes = changes[n:]
	}
	g.changes = nil
	return nil
}

// applyTopic applies the changes of one topic.
func (g *openGroup) applyTopic(changes []offsetChange) error {
	at, found := findTopic(g.offsets.topics, changes[0].Key.Topic)
	t := &topicOffsets{}
	if found {
		*t = *g.offsets.topics[at]
		t.blocks = slices.Clone(t.blocks)
	} else {
		t.topic = strings.Clone(changes[0].Key.Topic)
	}
	for len(changes) > 0 {
		base, n := changes[0].Key.ID>>blockBits, 1
		for n < len(changes) && changes[n].Key.ID>>blockBits == base {
			n++
		}
		i, known := findBlock(t.blocks, base)
		old := &offsetBlock{base: base}
		if known {
			old = t.blocks[i]
		}
		b, err := g.applyBlock(t.topic, old, changes[:n])
		switch {
		case err != nil:
			return err
		case known && b == nil:
			t.blocks = slices.Delete(t.blocks, i, i+1)
		case known:
			t.blocks[i] = b
		case b != nil:
			t.blocks = slices.Insert(t.blocks, i, b)
		}
		changes = changes[n:]
	}
	t.blocks = slices.Clip(t.blocks)
	switch {
	case found && len(t.blocks) == 0:
		g.offsets.topics = slices.Delete(g.offsets.topics, at, at+1)
	case found:
		g.offsets.topics[at] = t
	case len(t.blocks) > 0:
		g.offsets.topics = slices.Insert(g.offsets.topics, at, t)
	}
	return nil
}

// applyBlock returns the block after its changes, or nil when it holds nothing then.
func (g *openGroup) applyBlock(topic string, old *offsetBlock, changes []offsetChange) (*offsetBlock, error) {
	var all [blockSize]record.OffsetCommit
	for rest := old.present; rest != 0; rest &= rest - 1 {
		slot := bits.TrailingZeros32(rest)
		all[slot], _ = old.get(uint(slot))
	}
	present, topicID := old.present, old.topicID
	for i := range changes {
		c := &changes[i]
		if i+1 < len(changes) && changes[i+1].Key.ID == c.Key.ID {
			continue // another follows
		}
		slot := uint(c.Key.ID) & blockMask
		bit := uint32(1) << slot
		var hash uint64
		if present&bit != 0 {
			var err error
			if hash, err = g.hashOffset(topic, c.Key.ID, all[slot]); err != nil {
				return nil, err
			}
		}
		g.e.rehash(&hash, c.hash)
		if c.hash == 0 {
			present &^= bit
			continue
		}
		present |= bit
		v := c.Value.(*record.OffsetCommit)
		all[slot] = *v
		if v.ExpireTimestampMs == -1 {
			topicID = v.TopicID // a topic that was made anew keeps its id from now on
		}
	}
	g.offsets.count += bits.OnesCount32(present) - bits.OnesCount32(old.present)
	if present == 0 {
		return nil, nil
	}
	return newBlock(old.base, present, topicID, &all), nil
}

// dropOffsets takes the records of all offsets out of the digest.
func (g *openGroup) dropOffsets() error {
	for p, v := range g.Offsets() {
		hash, err := g.hashOffset(p.Topic, p.Partition, v)
		if err != nil {
			return err
		}
		g.e.rehash(&hash, 0)
	}
	g.changes = nil
	return nil
}

// hashOffset is the hash of the record of an offset that the group has.
func (g *openGroup) hashOffset(topic string, partition int32, v record.OffsetCommit) (uint64, error) {
	if g.e.offset == nil {
		g.e.offset = new(record.OffsetCommit)
	}
	*g.e.offset = v
	return g.e.hash(record.Record{Key: offsetKey(g.ID, topic, partition), Value: g.e.offset})
}

func offsetKey(group, topic string, partition int32) record.Key {
	return record.Key{Type: record.TypeOffsetCommit, Group: group, Topic: topic, ID: partition}
}
