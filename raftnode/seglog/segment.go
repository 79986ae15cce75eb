package seglog

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

const (
	segmentSuffix = ".seg"
	// spareSuffix marks a file that is no part of the log: on its way to become a segment, or none any more.
	spareSuffix = ".spare"
)

// segment is one file of the log.
type segment struct {
	header
	file File

	// Only whoever writes uses these.
	end    int64 // where the next frame goes
	sealed bool

	// Guarded by Log.mu.
	live    int   // entries that are still to be found here
	bytes   int64 // their size
	readers int
}

func segmentName(seq uint64) string { return fmt.Sprintf("%016x%s", seq, segmentSuffix) }

func parseSegmentName(name string) (seq uint64, ok bool) {
	hex, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok {
		return 0, false
	}
	seq, err := strconv.ParseUint(hex, 16, 64)
	return seq, err == nil && name == segmentName(seq) && seq > 0 && seq < math.MaxUint32
}

// room is how many bytes of records the next frame may have; that the frame which seals the segment fits behind it is
// provided for.
func (s *segment) room() int64 {
	if s.sealed {
		return 0
	}
	return max(0, s.size-align(s.end)-2*frameHeader-7)
}

// reserve is what requests leave free at the end of a segment for drops: when there is no room for another segment, they
// are what frees one.
func (s *segment) reserve() int64 {
	if s.end == headerSize {
		return 0 // a record as large as a segment is possible
	}
	return s.size / 64
}

// capacity is the largest record that a segment of a size can hold.
func capacity(size int64) int64 { return size - headerSize - 2*frameHeader - 7 }

// initialize makes a file a segment without entries. What the file held before does not count any more.
func initialize(f File, seq uint64, size int64) (*segment, error) {
	var salt [8]byte
	if _, err := rand.Read(salt[:]); err != nil {
		return nil, err
	}
	s := &segment{header: header{seq: seq, salt: le.Uint64(salt[:]), size: size}, file: f, end: headerSize}
	if _, err := f.WriteAt(s.encode(), 0); err != nil {
		return nil, err
	}
	return s, f.Datasync()
}

// readRecord reads what the index says is at p.
func (s *segment) readRecord(p position) ([]byte, error) {
	b := make([]byte, p.size)
	if n, err := s.file.ReadAt(b, int64(p.off)); err != nil && (n < len(b) || !errors.Is(err, io.EOF)) {
		return nil, err
	}
	return b, nil
}

// scan gives the frames of a segment to visit, in order, with their places, and finds the end of what was written: the
// first place without a valid frame. It is an error when a valid one follows later, since each was durable before the
// next was begun.
func scan(h header, b []byte, visit func(off int64, frame []byte) error) (end int64, frames int, isSealed bool, err error) {
	off := int64(headerSize)
	for {
		frame, records := frameAt(b, h.salt, off)
		if frame == nil {
			break
		}
		if records == sealed {
			return off, frames, true, nil
		}
		if err := visit(off, frame); err != nil {
			return off, frames, false, err
		}
		frames++
		off = align(off + int64(len(frame)))
	}
	for later := off + 8; later < int64(len(b)); later += 8 {
		if frame, _ := frameAt(b, h.salt, later); frame != nil {
			return off, frames, false, fmt.Errorf("what was written here cannot be read, but what was written later, at %d, can", later)
		}
	}
	return off, frames, false, nil
}

// records gives the records of a frame at off to visit.
func records(off int64, frame []byte, visit func(r record, off int64)) error {
	off += frameHeader
	for b := frame[frameHeader:]; len(b) > 0; {
		r, err := nextRecord(b)
		if err != nil {
			return err
		}
		visit(r, off)
		off += int64(r.size)
		b = b[r.size:]
	}
	return nil
}
