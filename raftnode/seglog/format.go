package seglog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
)

// The layout of the files; all numbers are little endian. DESIGN.md shows it as a whole.
const (
	segmentMagic   = "crdseglg"
	formatVersion  = 1
	headerSize     = 64
	frameMagic     = 0x46473153
	frameHeader    = 16
	recordHeader   = 44
	sealed         = 0xffffffff // as the number of records of a frame: nothing follows in this segment
	maxSegmentSize = 1 << 30
)

// What a record says.
const (
	kindEntry    = 1 // an entry; it replaces the one with its index and removes all after it
	kindCopy     = 2 // the same entry again, nearer to the end of the log
	kindTruncate = 3 // the entries from index on are gone
	kindDrop     = 4 // the entries up to index are gone
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var le = binary.LittleEndian

// header is the first bytes of a segment.
type header struct {
	seq  uint64 // place in the log; the segments of a log have consecutive numbers
	salt uint64 // in the checksum of each frame, so that what a file held before it was used again is never taken for new
	size int64  // of the file
}

func (h header) encode() []byte {
	b := make([]byte, headerSize)
	copy(b, segmentMagic)
	le.PutUint32(b[8:], formatVersion)
	le.PutUint64(b[16:], h.seq)
	le.PutUint64(b[24:], h.salt)
	le.PutUint64(b[32:], uint64(h.size))
	le.PutUint32(b[40:], crc32.Checksum(b[:40], castagnoli))
	return b
}

func decodeHeader(b []byte) (header, error) {
	switch {
	case len(b) < headerSize:
		return header{}, errors.New("the file is shorter than its header")
	case string(b[:8]) != segmentMagic:
		return header{}, errors.New("not a segment of a log")
	case crc32.Checksum(b[:40], castagnoli) != le.Uint32(b[40:]):
		return header{}, errors.New("the header's checksum is wrong")
	case le.Uint32(b[8:]) != formatVersion:
		return header{}, fmt.Errorf("format version %d; this build knows version %d", le.Uint32(b[8:]), formatVersion)
	}
	return header{le.Uint64(b[16:]), le.Uint64(b[24:]), int64(le.Uint64(b[32:]))}, nil
}

// sealFrame fills the header of a frame that begins at off: b holds it and the records.
func sealFrame(b []byte, salt uint64, off int64, records uint32) {
	le.PutUint32(b, frameMagic^uint32(salt))
	le.PutUint32(b[4:], uint32(len(b)-frameHeader))
	le.PutUint32(b[8:], records)
	le.PutUint32(b[12:], frameSum(b, salt, off))
}

// frameSum covers the salt and the place, so that a frame counts only where it was written.
func frameSum(b []byte, salt uint64, off int64) uint32 {
	var place [16]byte
	le.PutUint64(place[:], salt)
	le.PutUint64(place[8:], uint64(off))
	sum := crc32.Update(0, castagnoli, place[:])
	sum = crc32.Update(sum, castagnoli, b[:12])
	return crc32.Update(sum, castagnoli, b[frameHeader:])
}

// frameAt is the frame at off in the bytes of a segment, nil when there is none.
func frameAt(b []byte, salt uint64, off int64) (frame []byte, records uint32) {
	if off+frameHeader > int64(len(b)) || le.Uint32(b[off:]) != frameMagic^uint32(salt) {
		return nil, 0
	}
	end := off + frameHeader + int64(le.Uint32(b[off+4:]))
	if end > int64(len(b)) {
		return nil, 0
	}
	frame = b[off:end]
	if frameSum(frame, salt, off) != le.Uint32(frame[12:]) {
		return nil, 0
	}
	return frame, le.Uint32(frame[8:])
}

// align is where a frame may begin at or after off.
func align(off int64) int64 { return (off + 7) &^ 7 }

// record is a decoded record; data and extensions alias the bytes it was decoded from.
type record struct {
	kind    byte
	typ     raft.LogType
	group   uint32
	index   uint64
	term    uint64
	at      int64 // nanoseconds of Unix time, 0 for the zero time
	payload []byte
	extSize uint32
	size    uint32 // in the file
}

func recordSize(l *raft.Log) int { return recordHeader + len(l.Data) + len(l.Extensions) }

func appendEntry(b []byte, kind byte, group uint32, l *raft.Log) []byte {
	var at int64
	if !l.AppendedAt.IsZero() {
		at = l.AppendedAt.UnixNano()
	}
	start := len(b)
	b = appendRecordHeader(b, recordSize(l), kind, l.Type, group, l.Index, l.Term, at, len(l.Extensions))
	b = append(b, l.Data...)
	b = append(b, l.Extensions...)
	sumRecord(b[start:])
	return b
}

// appendMark appends a record that only names a group and an index.
func appendMark(b []byte, kind byte, group uint32, index uint64) []byte {
	start := len(b)
	b = appendRecordHeader(b, recordHeader, kind, 0, group, index, 0, 0, 0)
	sumRecord(b[start:])
	return b
}

func appendRecordHeader(b []byte, size int, kind byte, typ raft.LogType, group uint32, index, term uint64, at int64,
	ext int) []byte {
	b = le.AppendUint32(b, 0) // the checksum
	b = le.AppendUint32(b, uint32(size))
	b = append(b, kind, byte(typ), 0, 0)
	b = le.AppendUint32(b, group)
	b = le.AppendUint64(b, index)
	b = le.AppendUint64(b, term)
	b = le.AppendUint64(b, uint64(at))
	return le.AppendUint32(b, uint32(ext))
}

func sumRecord(b []byte) { le.PutUint32(b, crc32.Checksum(b[4:], castagnoli)) }

var errRecord = errors.New("a record is malformed")

// nextRecord decodes the first record of b, without its checksum: a frame has one over all of it.
func nextRecord(b []byte) (record, error) {
	if len(b) < recordHeader {
		return record{}, errRecord
	}
	r := record{
		size: le.Uint32(b[4:]), kind: b[8], typ: raft.LogType(b[9]), group: le.Uint32(b[12:]),
		index: le.Uint64(b[16:]), term: le.Uint64(b[24:]), at: int64(le.Uint64(b[32:])), extSize: le.Uint32(b[40:]),
	}
	if r.size < recordHeader || int64(r.size) > int64(len(b)) || r.extSize > r.size-recordHeader ||
		r.kind < kindEntry || r.kind > kindDrop {
		return record{}, errRecord
	}
	r.payload = b[recordHeader:r.size]
	return r, nil
}

// decodeEntry decodes a record that was read by its place in the index.
func decodeEntry(b []byte, group uint32, index uint64) (raft.Log, error) {
	r, err := nextRecord(b)
	switch {
	case err != nil:
		return raft.Log{}, err
	case crc32.Checksum(b[4:], castagnoli) != le.Uint32(b):
		return raft.Log{}, errors.New("a record's checksum is wrong")
	case r.kind > kindCopy || r.group != group || r.index != index:
		return raft.Log{}, fmt.Errorf("the record is of group %d, index %d; group %d, index %d was expected", r.group, r.index,
			group, index)
	}
	split := len(r.payload) - int(r.extSize)
	l := raft.Log{Index: r.index, Term: r.term, Type: r.typ, Data: r.payload[:split:split]}
	if r.extSize > 0 {
		l.Extensions = r.payload[split:]
	}
	if r.at != 0 {
		l.AppendedAt = time.Unix(0, r.at)
	}
	return l, nil
}

// DamageError says that a file of the log does not hold what it must, and what to do.
type DamageError struct {
	File   string
	Offset int64
	Reason string
}

// Error names the place and the remedy.
func (e *DamageError) Error() string {
	return fmt.Sprintf("log file %s is damaged at offset %d: %s; restore this node from its peers: stop it, move its data "+
		"folder away and start it with an empty one", e.File, e.Offset, e.Reason)
}
