package topology

import (
	"crypto/sha256"
	"encoding/binary"
)

// ContentHashSize is the size of a content hash in bytes.
const ContentHashSize = 16

// ContentHash identifies what t consists of, whatever its epoch: two topologies have the same hash when they have equal
// subtopologies in any order, as [Topology.Equal] compares them. It is stable, for it is kept in the log: the first 16
// bytes of the SHA-256 over the subtopologies in the order of their ids as strings, each with its fields in the order of
// Kafka's record. A string stands as its length and its bytes, a list as its length and its items, a number as 8 bytes;
// lengths are numbers, all big-endian. A null list is an empty one.
func (t *Topology) ContentHash() (sum [ContentHashSize]byte) {
	var w hashWriter
	w.number(len(t.Subtopologies))
	sorted := t.sorted()
	for i := range sorted.Subtopologies {
		w.subtopology(&sorted.Subtopologies[i])
	}
	full := sha256.Sum256(w)
	copy(sum[:], full[:])
	return sum
}

// hashWriter is what a content hash is computed over.
type hashWriter []byte

func (w *hashWriter) number(n int) { *w = binary.BigEndian.AppendUint64(*w, uint64(n)) }

func (w *hashWriter) text(s string) {
	w.number(len(s))
	*w = append(*w, s...)
}

func (w *hashWriter) texts(list []string) {
	w.number(len(list))
	for _, s := range list {
		w.text(s)
	}
}

func (w *hashWriter) indexes(list []int16) {
	w.number(len(list))
	for _, n := range list {
		w.number(int(n))
	}
}

func (w *hashWriter) topics(list []InternalTopic) {
	w.number(len(list))
	for i := range list {
		t := &list[i]
		w.text(t.Name)
		w.number(int(t.Partitions))
		w.number(int(t.ReplicationFactor))
		w.number(len(t.Configs))
		for _, c := range t.Configs {
			w.text(c.Key)
			w.text(c.Value)
		}
	}
}

func (w *hashWriter) subtopology(s *Subtopology) {
	w.text(s.ID)
	w.texts(s.SourceTopics)
	w.texts(s.SourceTopicRegex)
	w.topics(s.StateChangelogTopics)
	w.texts(s.RepartitionSinkTopics)
	w.topics(s.RepartitionSourceTopics)
	w.number(len(s.CopartitionGroups))
	for _, g := range s.CopartitionGroups {
		w.indexes(g.SourceTopics)
		w.indexes(g.SourceTopicRegex)
		w.indexes(g.RepartitionSourceTopics)
	}
}
