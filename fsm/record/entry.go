package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"sync"
)

// MaxEntrySize is the largest encoded entry in bytes.
const MaxEntrySize = 512 << 10

// ErrEntryTooLarge says that records do not fit into one entry.
var ErrEntryTooLarge = errors.New("entry larger than 512 KiB")

// ErrChecksum says that an entry was damaged.
var ErrChecksum = errors.New("entry checksum mismatch")

// Entry is one entry of a shard's log: an envelope and the records that one or more decisions made.
type Entry struct {
	// FeatureLevel is the lowest feature level whose releases keep all of the records (LevelOf).
	FeatureLevel uint16
	// LeaderTimeMs is the leader's wall clock in milliseconds since 1970; the only time that Evolve may see.
	LeaderTimeMs int64
	// Proposal is the leader's own number for the entry, so that it recognises its entries when they are applied.
	Proposal uint64
	Records  []Record
	// Skipped counts the records that DecodeEntry left out because their type is unknown; EncodeEntry ignores it.
	Skipped int
}

// An entry is a header of headerSize bytes and count records. All integers are big-endian.
//
//	0  magic        byte
//	1  version      byte
//	2  feature level uint16
//	4  leader time  int64
//	12 proposal     uint64
//	20 count        uint32
//	24 CRC32C       uint32, over all other bytes
//
// A record is the key's length (uint32), the key, the value's length (uint32, tombstone for none), the value.
const (
	entryMagic   = 0xC7
	entryVersion = 1
	countOffset  = 20
	crcOffset    = 24
	headerSize   = 28

	// minRecord is the smallest record: two lengths and a key that is only a type.
	minRecord = 10
)

// TombstoneLength stands for the length of a value that deletes its key.
const TombstoneLength = math.MaxUint32

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(entry []byte) uint32 {
	return crc32.Update(crc32.Checksum(entry[:crcOffset], castagnoli), castagnoli, entry[headerSize:])
}

// AppendRecord appends one record as entries and snapshots hold it. It fails, and appends nothing, when the value is not
// one for the key or a string is too long.
func AppendRecord(dst []byte, r Record) ([]byte, error) {
	w := writer{b: dst}
	start := len(dst)
	w.b = append(w.b, 0, 0, 0, 0)
	w.key(r.Key)
	binary.BigEndian.PutUint32(w.b[start:], uint32(len(w.b)-start-4))
	if r.Value == nil {
		w.b = binary.BigEndian.AppendUint32(w.b, TombstoneLength)
	} else {
		if r.Value.recordType() != r.Key.Type {
			w.err = ErrValue
		}
		start = len(w.b)
		w.b = append(w.b, 0, 0, 0, 0)
		w.value(r.Value)
		binary.BigEndian.PutUint32(w.b[start:], uint32(len(w.b)-start-4))
	}
	if w.err != nil {
		return dst, fmt.Errorf("record %s: %w", r.Key, w.err)
	}
	return w.b, nil
}

// Encoder builds one entry from the records of several decisions in one buffer. Its zero value is ready.
type Encoder struct {
	buf   []byte
	start int
	count int
}

// Reset begins a new entry, appended to dst (which may be nil).
func (e *Encoder) Reset(dst []byte) {
	e.start, e.count = len(dst), 0
	e.buf = append(dst, make([]byte, headerSize)...)
}

// Len is the size of the entry so far, Count its number of records.
func (e *Encoder) Len() int { return max(len(e.buf)-e.start, headerSize) }

// Count is the number of records so far.
func (e *Encoder) Count() int { return e.count }

// Append adds records, all or none: it fails with ErrEntryTooLarge when the entry would exceed MaxEntrySize, with
// ErrTooLong or ErrValue for records that cannot be encoded, and then leaves the entry as it was.
func (e *Encoder) Append(records ...Record) error {
	if len(e.buf) == 0 {
		e.Reset(nil)
	}
	buf, err := e.buf, error(nil)
	for _, r := range records {
		if buf, err = AppendRecord(buf, r); err != nil {
			return err
		}
		if len(buf)-e.start > MaxEntrySize {
			return ErrEntryTooLarge
		}
	}
	e.buf, e.count = buf, e.count+len(records)
	return nil
}

// Finish completes the entry with its envelope and returns the buffer given to Reset with the entry appended. The
// Encoder must be Reset before it is used again.
func (e *Encoder) Finish(featureLevel uint16, leaderTimeMs int64, proposal uint64) []byte {
	if len(e.buf) == 0 {
		e.Reset(nil)
	}
	b := e.buf[e.start:]
	b[0], b[1] = entryMagic, entryVersion
	binary.BigEndian.PutUint16(b[2:], featureLevel)
	binary.BigEndian.PutUint64(b[4:], uint64(leaderTimeMs))
	binary.BigEndian.PutUint64(b[12:], proposal)
	binary.BigEndian.PutUint32(b[countOffset:], uint32(e.count))
	binary.BigEndian.PutUint32(b[crcOffset:], checksum(b))
	out := e.buf
	*e = Encoder{}
	return out
}

// EncodeEntry appends an encoded entry to dst. Records that Evolve accepts can be encoded, and the caller keeps to
// MaxEntrySize with the help of Size; where that is not so dst is returned as it was, and every replica refuses an empty
// entry alike. An Encoder tells the reason.
func EncodeEntry(dst []byte, entry Entry) []byte {
	var e Encoder
	e.Reset(dst)
	if e.Append(entry.Records...) != nil {
		return dst
	}
	return e.Finish(entry.FeatureLevel, entry.LeaderTimeMs, entry.Proposal)
}

// MaxRecordSize is the largest size of one record.
const MaxRecordSize = MaxEntrySize - headerSize

// scratch holds buffers for records that are encoded only to be measured.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// Size is the size in bytes that a record takes in an entry; 0 when it cannot be encoded.
func Size(r Record) int {
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	b, err := AppendRecord((*buf)[:0], r)
	if err != nil {
		return 0
	}
	if cap(b) <= 64<<10 { // a rare large one is not worth keeping
		*buf = b
	}
	return len(b)
}

// DecodeEntry decodes an entry; the result shares no memory with b. Records of unknown types are left out and counted
// (semantics of a Kafka coordinator's load); anything else that it does not understand is an error: ErrVersion,
// ErrChecksum or ErrMalformed.
func DecodeEntry(b []byte) (Entry, error) {
	var e Entry
	switch {
	case len(b) < headerSize || b[0] != entryMagic:
		return e, fmt.Errorf("%w: no entry", ErrMalformed)
	case b[1] != entryVersion:
		return e, fmt.Errorf("entry: %w %d", ErrVersion, b[1])
	case len(b) > MaxEntrySize:
		return e, fmt.Errorf("entry of %d bytes: %w", len(b), ErrEntryTooLarge)
	case binary.BigEndian.Uint32(b[crcOffset:]) != checksum(b):
		return e, ErrChecksum
	}
	e.FeatureLevel = binary.BigEndian.Uint16(b[2:])
	e.LeaderTimeMs = int64(binary.BigEndian.Uint64(b[4:]))
	e.Proposal = binary.BigEndian.Uint64(b[12:])
	count := int(binary.BigEndian.Uint32(b[countOffset:]))
	rest := b[headerSize:]
	if count > len(rest)/minRecord {
		return e, fmt.Errorf("%w: %d records in %d bytes", ErrMalformed, count, len(rest))
	}
	e.Records = make([]Record, 0, count)
	var d Decoder
	for range count {
		r, n, err := d.Decode(rest)
		if errors.Is(err, ErrUnknownType) {
			e.Skipped++
		} else if err != nil {
			return Entry{}, err
		} else {
			e.Records = append(e.Records, r)
		}
		rest = rest[n:]
	}
	if len(rest) > 0 {
		return Entry{}, fmt.Errorf("%w: %d bytes too many", ErrMalformed, len(rest))
	}
	return e, nil
}

// Decoder decodes records that AppendRecord made, one after the other, and shares equal ids between neighbours. Its
// zero value is ready.
type Decoder struct {
	keys keyDecoder
	room room
}

// Decode decodes the first record of b, which shares no memory with it, and returns its size. With ErrUnknownType the
// size is right, too, so that the record can be skipped.
func (d *Decoder) Decode(b []byte) (r Record, size int, err error) {
	key, rest, err := cut(b)
	if err != nil {
		return r, 0, err
	}
	var value []byte
	isTombstone := len(rest) >= 4 && binary.BigEndian.Uint32(rest) == TombstoneLength
	if isTombstone {
		rest = rest[4:]
	} else if value, rest, err = cut(rest); err != nil {
		return r, 0, err
	}
	size = len(b) - len(rest)
	if r.Key, err = d.keys.decode(key); err != nil || isTombstone {
		return r, size, err
	}
	r.Value, err = decodeValue(r.Key.Type, value, &d.room)
	return r, size, err
}

// cut splits b after the bytes whose length stands at its beginning.
func cut(b []byte) (head, tail []byte, err error) {
	if len(b) < 4 {
		return nil, nil, fmt.Errorf("%w: record of %d bytes", ErrMalformed, len(b))
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n) > uint64(len(b)-4) {
		return nil, nil, fmt.Errorf("%w: %d bytes wanted of %d", ErrMalformed, n, len(b)-4)
	}
	return b[4 : 4+n], b[4+n:], nil
}
