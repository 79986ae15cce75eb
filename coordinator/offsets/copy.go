package offsets

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Copy are the committed offsets of a group as they are taken from one place to another, and compared.
type Copy map[TopicPartition]Copied

// Copied is one offset with what was committed with it; LeaderEpoch is -1 where it is not known.
type Copied struct {
	Offset      int64
	LeaderEpoch int32
	Metadata    string
}

// CopyFetched are the offsets that were fetched. The code is that of the first partition that has one, by topic and partition: then
// nothing is known.
func CopyFetched(r *FetchResponse) (c Copy, failed TopicPartition, code coordinator.Code) {
	c = Copy{}
	for _, t := range r.Topics {
		name := strings.Clone(t.Name)
		for _, p := range t.Partitions {
			key := TopicPartition{Topic: name, Partition: p.Partition}
			switch {
			case p.Code != coordinator.None:
				if code == coordinator.None || before(key, failed) {
					failed, code = key, p.Code
				}
			case p.Offset >= 0:
				o := Copied{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch}
				if p.Metadata != nil {
					o.Metadata = strings.Clone(*p.Metadata)
				}
				c[key] = o
			}
		}
	}
	return c, failed, code
}

// CopyLogged are the offsets in the log of the group, those of deleted topics too.
func CopyLogged(g *fsm.Group) Copy {
	c := make(Copy, g.NumOffsets())
	for key, o := range g.Offsets() {
		c[key] = Copied{Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata}
	}
	return c
}

// CopyCommitted are the offsets of a commit of which each partition was answered with success; left counts those that do not
// exist any more, by the answer and by topics, the picture of them. The code is that of the first partition with another one, or
// of which the answer alone says that it does not exist: one of the two lags.
func CopyCommitted(req *CommitRequest, resp *CommitResponse, topics topology.Metadata) (c Copy, left int, failed TopicPartition, code coordinator.Code) {
	c = Copy{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			o := Copied{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch}
			if p.Metadata != nil {
				o.Metadata = *p.Metadata
			}
			c[TopicPartition{Topic: t.Name, Partition: p.Partition}] = o
		}
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			key := TopicPartition{Topic: t.Name, Partition: p.Partition}
			unknown := p.Code == coordinator.UnknownTopicOrPartition || p.Code == coordinator.UnknownTopicID
			switch {
			case p.Code == coordinator.None:
			case unknown && absent(topics, t.Name, p.Partition):
				delete(c, key)
				left++
			default:
				if code == coordinator.None || before(key, failed) {
					failed, code = key, p.Code
				}
			}
		}
	}
	return c, left, failed, code
}

func before(a, b TopicPartition) bool { return compare(a, b) < 0 }

func compare(a, b TopicPartition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// Differs is the first partition, by topic and partition, of which two copies say different things.
func (c Copy) Differs(d Copy) (first TopicPartition, differs bool) {
	look := func(key TopicPartition) {
		in, ok := c[key]
		other, also := d[key]
		if (ok != also || in != other) && (!differs || before(key, first)) {
			first, differs = key, true
		}
	}
	for key := range c {
		look(key)
	}
	for key := range d {
		look(key)
	}
	return first, differs
}

// Topics asks for exactly these partitions, and those of more.
func (c Copy) Topics(more ...TopicPartition) []FetchTopic {
	topics := []FetchTopic{}
	keys := slices.Collect(maps.Keys(c))
	keys = append(keys, more...)
	slices.SortFunc(keys, compare)
	for _, key := range slices.Compact(keys) {
		if n := len(topics); n == 0 || topics[n-1].Name != key.Topic {
			topics = append(topics, FetchTopic{Name: key.Topic})
		}
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, key.Partition)
	}
	return topics
}

// Records bring the offsets of the group in the log to those of the copy: tombstones of what it does not have, and its
// offsets, committed now. Chunks have at most limit records, and about as many bytes as a commit may have.
func (c Copy) Records(g *fsm.Group, w *World, limit int) [][]record.Record {
	var records []record.Record
	for key := range g.Offsets() {
		if _, ok := c[key]; !ok {
			records = append(records, tombstone(g.ID, key.Topic, key.Partition))
		}
	}
	request := &CommitRequest{GroupID: g.ID}
	for _, t := range c.Topics() {
		topic := CommitTopic{Name: t.Name}
		for _, p := range t.Partitions {
			o := c[TopicPartition{Topic: t.Name, Partition: p}]
			topic.Partitions = append(topic.Partitions, CommitPartition{Partition: p, Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: &o.Metadata})
		}
		request.Topics = append(request.Topics, topic)
	}
	records = append(records, CommitRecords(request, w)...)
	var chunks [][]record.Record
	start, size := 0, 0
	for i := range records {
		more := record.Size(records[i])
		if i > start && (i-start == limit || size+more > MaxCommitBytes) {
			chunks = append(chunks, records[start:i])
			start, size = i, 0
		}
		size += more
	}
	if start < len(records) {
		chunks = append(chunks, records[start:])
	}
	return chunks
}
