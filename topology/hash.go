package topology

import (
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/zeebo/xxh3"
)

// topicHashVersion is the first byte of what is hashed for a topic (Kafka's TOPIC_HASH_MAGIC_BYTE).
const topicHashVersion = 0

// MetadataHash is the hash of the existing topics that t needs, bit-exact with Kafka's Utils.computeGroupHash over
// Utils.computeTopicHash (KIP-1101): a group whose hash differs from its topics' has to be configured anew. Topics
// that do not exist are left out; the hash of no topic is 0.
func MetadataHash(t *Topology, m Metadata) int64 { return Resolve(t, m).MetadataHash(m) }

// MetadataHash is [MetadataHash] for the topology and the metadata that were resolved: topics that patterns match count as
// if they were named.
func (r *Resolution) MetadataHash(m Metadata) int64 {
	var h hasher
	sum := make([]byte, 0, 512)
	for _, name := range r.Resolved.RequiredTopics() {
		if topic, ok := m.Topic(name); ok {
			sum = binary.LittleEndian.AppendUint64(sum, h.topic(&topic))
		}
	}
	if len(sum) == 0 {
		return 0
	}
	return int64(xxh3.Hash(sum))
}

// hasher holds the memory that hashing one topic after the other uses again.
type hasher struct {
	buf   []byte
	racks []string
}

func (h *hasher) topic(t *Topic) uint64 {
	b := append(h.buf[:0], topicHashVersion)
	b = binary.LittleEndian.AppendUint64(b, binary.BigEndian.Uint64(t.ID[:8]))
	b = binary.LittleEndian.AppendUint64(b, binary.BigEndian.Uint64(t.ID[8:]))
	b, _ = appendJavaString(b, t.Name)
	b = binary.LittleEndian.AppendUint32(b, uint32(t.Partitions))
	for p := range t.Partitions {
		b = binary.LittleEndian.AppendUint32(b, uint32(p))
		if int(p) >= len(t.Racks) {
			continue
		}
		h.racks = append(h.racks[:0], t.Racks[p]...)
		slices.SortFunc(h.racks, compareUTF16)
		for _, rack := range h.racks {
			at := len(b)
			var units int
			b, units = appendJavaString(append(b, 0, 0, 0, 0), rack)
			binary.LittleEndian.PutUint32(b[at:], uint32(units))
		}
	}
	h.buf = b
	return xxh3.Hash(b)
}

// appendJavaString appends the UTF-16 code units of s and their number, as hash4j's putString does, and returns the
// number too.
func appendJavaString(b []byte, s string) ([]byte, int) {
	units := 0
	for _, r := range s {
		if hi, lo := utf16.EncodeRune(r); hi != 0xFFFD || lo != 0xFFFD {
			b = binary.LittleEndian.AppendUint16(b, uint16(hi))
			b = binary.LittleEndian.AppendUint16(b, uint16(lo))
			units += 2
		} else {
			b = binary.LittleEndian.AppendUint16(b, uint16(r))
			units++
		}
	}
	return binary.LittleEndian.AppendUint32(b, uint32(units)), units
}

// compareUTF16 orders strings as Java does, by UTF-16 code units: unlike the order of bytes, characters beyond the basic
// plane (surrogates, D800–DFFF) come before those from E000 on.
func compareUTF16(a, b string) int {
	if a == b || !beyondSurrogates(a) && !beyondSurrogates(b) {
		return strings.Compare(a, b)
	}
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

// beyondSurrogates reports whether s has a character from E000 on; below, both orders agree.
func beyondSurrogates(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0xE000 }) >= 0
}
