package fsm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/coordd/coordd/fsm/record"
)

// A snapshot is, with big-endian integers,
//
//	magic   8 bytes, of which the last is the version
//	count   uint64
//	records count records by ascending key, as record.AppendRecord makes them
//	digest  uint64, the sum of the hashes of the records
var snapshotMagic = [8]byte{'c', 'o', 'o', 'r', 'd', 'd', 'S', 1}

// ErrSnapshot says that bytes are not a whole, undamaged snapshot.
var ErrSnapshot = errors.New("bad snapshot")

const (
	snapshotBuffer = 64 << 10
	// snapshotBatch is how many records are evolved at once; it bounds the memory beside the state itself.
	snapshotBatch = 1024
)

// WriteSnapshot writes the state. It holds one record in memory at a time, and other goroutines may evolve s meanwhile.
func WriteSnapshot(w io.Writer, s State) error {
	out := bufio.NewWriterSize(w, snapshotBuffer)
	_, _ = out.Write(snapshotMagic[:]) // a bufio.Writer keeps its first error for Flush
	_, _ = out.Write(binary.BigEndian.AppendUint64(out.AvailableBuffer(), uint64(s.NumRecords())))
	if err := writeRecords(out, s); err != nil {
		return err
	}
	_, _ = out.Write(binary.BigEndian.AppendUint64(out.AvailableBuffer(), s.Digest()))
	return out.Flush()
}

// maxUsualRecord is the size up to which a record is encoded in the writer's buffer; a larger one costs a copy.
const maxUsualRecord = 1 << 10

func writeRecords(out *bufio.Writer, s State) (err error) {
	var offset record.OffsetCommit // each in turn: there may be millions
	s.walk(func(v record.OffsetCommit) *record.OffsetCommit {
		offset = v
		return &offset
	}, func(r record.Record) bool {
		if out.Available() < maxUsualRecord {
			if err = out.Flush(); err != nil {
				return false
			}
		}
		var b []byte
		if b, err = record.AppendRecord(out.AvailableBuffer(), r); err != nil {
			err = fmt.Errorf("snapshot: %w", err)
			return false
		}
		_, err = out.Write(b)
		return err == nil
	})
	return err
}

// ReadSnapshot reads a state that WriteSnapshot wrote, and demands that nothing follows. It fails with ErrSnapshot, with
// an error of the reader, or with record.ErrVersion for a format of another version; memory beside the state is bounded.
// Records of types that this version does not keep are left out; skipped counts them.
func ReadSnapshot(from io.Reader) (s State, skipped int, err error) {
	r := snapshotReader{in: bufio.NewReaderSize(from, snapshotBuffer)}
	count, err := r.header()
	if err != nil {
		return State{}, 0, err
	}
	for range count {
		if err := r.record(); err != nil {
			return State{}, 0, err
		}
	}
	if err := r.flush(); err != nil {
		return State{}, 0, err
	}
	if err := r.trailer(); err != nil {
		return State{}, 0, err
	}
	return r.state, r.skipped, nil
}

type snapshotReader struct {
	in      *bufio.Reader
	peeked  int    // size of the record in the reader's buffer that was returned last
	buf     []byte // a large record
	decoder record.Decoder
	state   State
	batch   []record.Record // not evolved yet
	last    record.Key
	any     bool // whether last is set
	digest  uint64
	skipped int // records of unknown types
}

func (r *snapshotReader) header() (count uint64, err error) {
	b, err := r.read(r.buf[:0], len(snapshotMagic)+8)
	if err != nil {
		return 0, err
	}
	version := len(snapshotMagic) - 1
	if !bytes.Equal(b[:version], snapshotMagic[:version]) {
		return 0, fmt.Errorf("%w: no snapshot", ErrSnapshot)
	}
	if b[version] != snapshotMagic[version] {
		return 0, fmt.Errorf("snapshot: %w %d", record.ErrVersion, b[version])
	}
	return binary.BigEndian.Uint64(b[len(snapshotMagic):]), nil
}

// read appends n bytes of the snapshot to b.
func (r *snapshotReader) read(b []byte, n int) ([]byte, error) {
	for n > 0 {
		step := min(n, snapshotBuffer) // so that a wrong length costs no more memory than there is data
		at := len(b)
		b = append(b, make([]byte, step)...)
		if _, err := io.ReadFull(r.in, b[at:]); err != nil {
			return nil, cutShort(err)
		}
		n -= step
	}
	return b, nil
}

// part appends the next length and the bytes that it counts.
func (r *snapshotReader) part(b []byte) ([]byte, error) {
	at := len(b)
	b, err := r.read(b, 4)
	if err != nil {
		return nil, err
	}
	n, err := partSize(b[at:])
	if err != nil {
		return nil, err
	}
	return r.read(b, n)
}

// partSize is the length of a key or a value, which stands before it.
func partSize(b []byte) (int, error) {
	switch n := binary.BigEndian.Uint32(b); {
	case n == record.TombstoneLength:
		return 0, fmt.Errorf("%w: a tombstone", ErrSnapshot)
	case n > record.MaxRecordSize:
		return 0, fmt.Errorf("%w: a record of %d bytes", ErrSnapshot, n)
	default:
		return int(n), nil
	}
}

// next returns the next record, which is valid until the following call.
func (r *snapshotReader) next() ([]byte, error) {
	if _, err := r.in.Discard(r.peeked); err != nil {
		return nil, err
	}
	r.peeked = 0
	size := 0
	for range 2 { // key and value
		b, err := r.in.Peek(size + 4)
		if err != nil {
			return nil, cutShort(err)
		}
		n, err := partSize(b[size:])
		if err != nil {
			return nil, err
		}
		if size += 4 + n; size+4 > snapshotBuffer {
			return r.large()
		}
	}
	b, err := r.in.Peek(size)
	if err != nil {
		return nil, cutShort(err)
	}
	r.peeked = size
	return b, nil
}

// large returns the next record, which the reader's buffer may not hold.
func (r *snapshotReader) large() ([]byte, error) {
	b, err := r.part(r.buf[:0])
	if err == nil {
		b, err = r.part(b)
	}
	if err == nil {
		r.buf = b
	}
	return b, err
}

// cutShort names the end of the input, where more should follow, as what it is.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: cut short", ErrSnapshot)
	}
	return err
}

func (r *snapshotReader) record() error {
	b, err := r.next()
	if err != nil {
		return err
	}
	r.digest += hashOf(b)
	rec, _, err := r.decoder.Decode(b)
	if errors.Is(err, record.ErrUnknownType) {
		r.skipped++
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	if r.any && r.last.Compare(rec.Key) >= 0 {
		return fmt.Errorf("%w: %s after %s", ErrSnapshot, rec.Key, r.last)
	}
	r.last, r.any = rec.Key, true
	if r.batch = append(r.batch, rec); len(r.batch) == snapshotBatch {
		return r.flush()
	}
	return nil
}

func (r *snapshotReader) flush() (err error) {
	r.state, err = r.state.EvolveAll(r.batch)
	clear(r.batch)
	r.batch = r.batch[:0]
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return nil
}

func (r *snapshotReader) trailer() error {
	if _, err := r.in.Discard(r.peeked); err != nil {
		return err
	}
	b, err := r.read(r.buf[:0], 8)
	if err != nil {
		return err
	}
	if binary.BigEndian.Uint64(b) != r.digest {
		return fmt.Errorf("%w: digest mismatch", ErrSnapshot)
	}
	if _, err := r.in.ReadByte(); err != io.EOF {
		return fmt.Errorf("%w: more than a snapshot", ErrSnapshot)
	}
	return nil
}
