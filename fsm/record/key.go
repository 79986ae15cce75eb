package record

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"
)

// Compare orders keys by group, type, member, topic and id: the order of snapshots, in which the records of a group are
// neighbours.
func (k Key) Compare(o Key) int {
	return cmp.Or(
		strings.Compare(k.Group, o.Group),
		cmp.Compare(k.Type, o.Type),
		strings.Compare(k.Member, o.Member),
		strings.Compare(k.Topic, o.Topic),
		cmp.Compare(k.ID, o.ID),
	)
}

// String prints a key for people.
func (k Key) String() string {
	switch k.Type {
	case TypeNode, TypeBrokerSlot, TypeCluster:
		return fmt.Sprintf("%d(%d)", k.Type, k.ID)
	case TypeJournalEntry, TypeTopologyVersion:
		return fmt.Sprintf("%d(%q,%d)", k.Type, k.Group, k.ID)
	case TypeOffsetCommit:
		return fmt.Sprintf("%d(%q,%q,%d)", k.Type, k.Group, k.Topic, k.ID)
	}
	return fmt.Sprintf("%d(%q,%q)", k.Type, k.Group, k.Member)
}

// TypeOf is the record type that a value belongs to; 0 for nil.
func TypeOf(v Value) Type {
	if v == nil {
		return 0
	}
	return v.recordType()
}

// hasMember says whether keys of a type name a member.
func (t Type) hasMember() bool {
	return t == TypeMemberMetadata || t == TypeTargetMember || t == TypeCurrentAssignment
}

// hasGroupID says whether keys of a type have an ID within their group.
func (t Type) hasGroupID() bool {
	return t == TypeOffsetCommit || t == TypeJournalEntry || t == TypeTopologyVersion
}

// AppendKey appends the key: the record type and version 0 of the key's fields in the non-flexible encoding
// (CoordinatorRecordSerde.java, StreamsGroup*Key.json, OffsetCommitKey.json).
func AppendKey(dst []byte, k Key) ([]byte, error) {
	w := writer{b: dst}
	w.key(k)
	if w.err != nil {
		return dst, fmt.Errorf("key %s: %w", k, w.err)
	}
	return w.b, nil
}

func (w *writer) key(k Key) {
	w.int16(int16(k.Type))
	switch k.Type {
	case TypeGroupMetadata, TypeTargetMetadata, TypeTopology, TypeOffsetsClaim, TypeGroupConfig, TypeGroupMarks, TypeGroupTopics,
		TypeOffsetsStore:
		w.keyString(k.Group)
	case TypeOffsetCommit:
		w.keyString(k.Group)
		w.keyString(k.Topic)
		w.int32(k.ID)
	case TypeJournalEntry, TypeTopologyVersion:
		w.keyString(k.Group)
		w.int32(k.ID)
	case TypeMemberMetadata, TypeTargetMember, TypeCurrentAssignment:
		w.keyString(k.Group)
		w.keyString(k.Member)
	case TypeNode, TypeBrokerSlot:
		w.int32(k.ID)
	case TypeCluster:
	default:
		if w.err == nil {
			w.err = ErrUnknownType
		}
	}
}

// DecodeKey decodes what AppendKey made. It fails with ErrUnknownType for record types that are not kept, such as
// type 18 of early drafts of KIP-1071, and with ErrMalformed.
func DecodeKey(b []byte) (Key, error) {
	var d keyDecoder
	return d.decode(b)
}

// legacyOffsetCommit is the type of offset keys in Kafka's oldest versions (CoordinatorRecordType.LEGACY_OFFSET_COMMIT).
const legacyOffsetCommit Type = 0

// keyDecoder decodes keys and uses the strings of the last key again where they are equal, because neighbours in an
// entry or a snapshot mostly concern one group and one member or topic.
type keyDecoder struct{ group, member, topic string }

func (d *keyDecoder) decode(b []byte) (Key, error) {
	if len(b) < 2 {
		return Key{}, fmt.Errorf("%w: key of %d bytes", ErrMalformed, len(b))
	}
	k := Key{Type: Type(binary.BigEndian.Uint16(b))}
	if k.Type == legacyOffsetCommit {
		k.Type = TypeOffsetCommit
	}
	r := newReader(b)
	r.off = 2
	switch k.Type {
	case TypeGroupMetadata, TypeTargetMetadata, TypeTopology, TypeOffsetsClaim, TypeGroupConfig, TypeGroupMarks, TypeGroupTopics, TypeJournalEntry,
		TypeTopologyVersion, TypeMemberMetadata, TypeTargetMember, TypeCurrentAssignment, TypeOffsetsStore, TypeOffsetCommit:
		k.Group = same(&d.group, r.keyString())
		if k.Type.hasMember() {
			k.Member = same(&d.member, r.keyString())
		}
		if k.Type == TypeOffsetCommit {
			k.Topic = same(&d.topic, r.keyString())
		}
		if k.Type.hasGroupID() {
			k.ID = r.int32()
		}
	case TypeNode, TypeBrokerSlot:
		k.ID = r.int32()
	case TypeCluster:
	default:
		return Key{}, fmt.Errorf("%w %d", ErrUnknownType, k.Type)
	}
	if err := r.end(); err != nil {
		return Key{}, fmt.Errorf("key of type %d: %w", k.Type, err)
	}
	return k, nil
}

// same returns b as a string: the last one if it is equal, else a new one, which it remembers.
func same(last *string, b []byte) string {
	if *last != string(b) {
		*last = string(b)
	}
	return *last
}
