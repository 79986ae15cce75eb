package record

import (
	"fmt"
	"strings"
)

// Versions of offset values (OffsetCommitValue.json). Version 0 has no expiry, 2 no expiry again, 3 adds the leader epoch; the
// first flexible one is offsetVersion, with the topic id as a tagged field.
const (
	offsetVersion       = 4
	offsetExpiryVersion = 1
	offsetEpochVersion  = 3
)

// isNormal says whether the value has only what its version can hold.
func (v *OffsetCommit) isNormal() bool {
	return v.ExpireTimestampMs == -1 || v.LeaderEpoch == -1 && v.TopicID == [16]byte{}
}

func (v *OffsetCommit) normal() *OffsetCommit {
	c := *v
	c.LeaderEpoch, c.TopicID = -1, [16]byte{}
	return &c
}

// offsetCommit writes the version, too: the newest, except where the value has an expiry
// (GroupCoordinatorRecordHelpers.newOffsetCommitRecord).
func (w *writer) offsetCommit(v *OffsetCommit) {
	if v.ExpireTimestampMs != -1 {
		w.int16(offsetExpiryVersion)
		w.int64(v.Offset)
		w.keyString(v.Metadata)
		w.int64(v.CommitTimestampMs)
		w.int64(v.ExpireTimestampMs)
		return
	}
	w.int16(offsetVersion)
	w.int64(v.Offset)
	w.int32(v.LeaderEpoch)
	w.string(v.Metadata)
	w.int64(v.CommitTimestampMs)
	if v.TopicID == [16]byte{} {
		w.noTags()
		return
	}
	w.uvarint(1)
	w.tag(0, len(v.TopicID))
	w.b = append(w.b, v.TopicID[:]...)
}

func (r *reader) offsetCommit(version int16) *OffsetCommit {
	v := r.room.offset()
	*v = OffsetCommit{Offset: r.int64(), LeaderEpoch: -1, ExpireTimestampMs: -1}
	if version >= offsetEpochVersion {
		v.LeaderEpoch = r.int32()
	}
	if version < offsetVersion {
		v.Metadata = r.room.string(r.keyString())
	} else {
		b, ok := r.stringBytes()
		if !ok {
			r.fail("null metadata at %d", r.off)
		}
		v.Metadata = r.room.string(b)
	}
	v.CommitTimestampMs = r.int64()
	if version == offsetExpiryVersion {
		v.ExpireTimestampMs = r.int64()
	}
	if version >= offsetVersion {
		r.tags(func(tag int) bool {
			if tag != 0 {
				return false
			}
			copy(v.TopicID[:], r.take(len(v.TopicID)))
			return true
		})
	}
	return v
}

// room is where the offsets of an entry or a snapshot go that are decoded one after the other, so that each does not cost
// two allocations. A value that is kept keeps its neighbours in memory. The nil room gives each value memory of its own.
type room struct {
	offsets []OffsetCommit // free places
	made    int            // how many there were, free or not
	text    strings.Builder
}

const (
	maxRoomOffsets = 64
	maxRoomText    = 4 << 10
)

func (m *room) offset() *OffsetCommit {
	if m == nil {
		return new(OffsetCommit)
	}
	if len(m.offsets) == 0 {
		m.made = min(max(2*m.made, 1), maxRoomOffsets)
		m.offsets = make([]OffsetCommit, m.made)
	}
	v := &m.offsets[0]
	m.offsets = m.offsets[1:]
	return v
}

// string returns a copy of b.
func (m *room) string(b []byte) string {
	if m == nil || m.made < maxRoomOffsets || len(b) > maxRoomText/16 {
		return string(b)
	}
	if m.text.Cap()-m.text.Len() < len(b) {
		m.text = strings.Builder{}
		m.text.Grow(maxRoomText)
	}
	at := m.text.Len()
	m.text.Write(b)
	return m.text.String()[at:]
}

func (w *writer) offsetsStore(v *OffsetsStore) {
	if v.Store != StoreUpstream && v.Store != StoreRaft && w.err == nil {
		w.err = fmt.Errorf("%w: %s", ErrValue, v.Store)
	}
	w.int8(int8(v.Store))
	if !v.LeftUpstream {
		w.noTags()
		return
	}
	w.uvarint(1)
	w.tag(0, 1)
	w.int8(1)
}

func (r *reader) offsetsStore() *OffsetsStore {
	v := &OffsetsStore{Store: Store(r.int8())}
	if v.Store != StoreUpstream && v.Store != StoreRaft {
		r.fail("%s", v.Store)
	}
	r.tags(func(tag int) bool {
		if tag == 0 {
			v.LeftUpstream = r.int8() != 0
		}
		return tag == 0
	})
	return v
}
