package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// maxString is the longest string, in bytes, that Kafka's generated readers accept.
const maxString = math.MaxInt16

// Errors of the codecs; all of them match with errors.Is.
var (
	// ErrMalformed says that bytes are not what their type demands.
	ErrMalformed = errors.New("malformed record")
	// ErrVersion says that bytes have a version that this program does not know.
	ErrVersion = errors.New("unknown version")
	// ErrUnknownType says that a key has a record type that this program does not keep.
	ErrUnknownType = errors.New("unknown record type")
	// ErrTooLong says that a string is longer than the 32,767 bytes that Kafka allows.
	ErrTooLong = errors.New("string longer than 32767 bytes")
	// ErrValue says that a record's value does not belong to its key.
	ErrValue = errors.New("value does not belong to its key")
)

// writer appends Kafka's encodings. The first error sticks; bytes written after it mean nothing.
type writer struct {
	b   []byte
	err error
}

func (w *writer) int8(v int8)     { w.b = append(w.b, byte(v)) }
func (w *writer) int16(v int16)   { w.b = binary.BigEndian.AppendUint16(w.b, uint16(v)) }
func (w *writer) uint16(v uint16) { w.b = binary.BigEndian.AppendUint16(w.b, v) }
func (w *writer) int32(v int32)   { w.b = binary.BigEndian.AppendUint32(w.b, uint32(v)) }
func (w *writer) int64(v int64)   { w.b = binary.BigEndian.AppendUint64(w.b, uint64(v)) }
func (w *writer) uvarint(v int)   { w.b = binary.AppendUvarint(w.b, uint64(v)) }
func (w *writer) noTags()         { w.b = append(w.b, 0) }

// array writes the length of a compact array.
func (w *writer) array(n int) { w.uvarint(n + 1) }

func (w *writer) checkString(s string) {
	if len(s) > maxString && w.err == nil {
		w.err = ErrTooLong
	}
}

// string writes a compact string.
func (w *writer) string(s string) {
	w.checkString(s)
	w.uvarint(len(s) + 1)
	w.b = append(w.b, s...)
}

func (w *writer) nullableString(s *string) {
	if s == nil {
		w.b = append(w.b, 0)
		return
	}
	w.string(*s)
}

// keyString writes a string in the encoding of non-flexible versions.
func (w *writer) keyString(s string) {
	w.checkString(s)
	w.int16(int16(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) strings(list []string) {
	w.array(len(list))
	for _, s := range list {
		w.string(s)
	}
}

func (w *writer) int32s(list []int32) {
	w.array(len(list))
	for _, v := range list {
		w.int32(v)
	}
}

func (w *writer) int16s(list []int16) {
	w.array(len(list))
	for _, v := range list {
		w.int16(v)
	}
}

// tag starts a tagged field whose content is size bytes long.
func (w *writer) tag(tag, size int) {
	w.uvarint(tag)
	w.uvarint(size)
}

// uvarintLen is the size of v as an unsigned varint.
func uvarintLen(v int) int { return (bits.Len64(uint64(v)|1) + 6) / 7 }

// stringLen is the size of s as a compact string.
func stringLen(s string) int { return uvarintLen(len(s)+1) + len(s) }

// reader reads Kafka's encodings. The first error sticks, and everything read after it is zero. What it allocates is
// bounded by the bytes that are left: each element of an array has a smallest size.
type reader struct {
	b   []byte
	off int
	lim int // no read goes beyond it
	err error
	// text is a copy of b of which strings are parts, made when the first string is read.
	text string
	room *room // for offsets; may be nil
}

func newReader(b []byte) reader { return reader{b: b, lim: len(b)} }

func (r *reader) left() int { return r.lim - r.off }

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
	}
}

// take returns the next n bytes, or nil after an error.
func (r *reader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > r.left() {
		r.fail("%d bytes wanted at %d of %d", n, r.off, r.lim)
		return nil
	}
	r.off += n
	return r.b[r.off-n : r.off]
}

func (r *reader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) int16() int16 { return int16(r.uint16()) }

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// uvarint reads an unsigned varint of at most 32 bits.
func (r *reader) uvarint() int {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.b[r.off:min(r.lim, r.off+binary.MaxVarintLen32)])
	if n <= 0 || v > math.MaxInt32 {
		r.fail("bad varint at %d", r.off)
		return 0
	}
	r.off += n
	return int(v)
}

// array reads the length of a compact array whose elements take at least minSize bytes; -1 is null.
func (r *reader) array(minSize int) int {
	n := r.uvarint() - 1
	if r.err != nil {
		return 0
	}
	if n > r.left()/minSize {
		r.fail("array of %d elements in %d bytes", n, r.left())
		return 0
	}
	return n
}

// list is array for fields that may not be null.
func (r *reader) list(minSize int) int {
	n := r.array(minSize)
	if n < 0 {
		r.fail("null array at %d", r.off)
		return 0
	}
	return n
}

// stringBytes reads a compact string as bytes of the buffer; ok is false for null.
func (r *reader) stringBytes() (b []byte, ok bool) {
	n := r.uvarint() - 1
	if r.err != nil || n < 0 {
		return nil, false
	}
	if n > maxString {
		r.fail("string of %d bytes", n)
		return nil, false
	}
	return r.take(n), r.err == nil
}

func (r *reader) nullableString() *string {
	b, ok := r.stringBytes()
	if !ok {
		return nil
	}
	s := r.share(len(b))
	return &s
}

func (r *reader) string() string {
	b, ok := r.stringBytes()
	if !ok {
		r.fail("null string at %d", r.off)
		return ""
	}
	return r.share(len(b))
}

// share returns the n bytes before the position as a string; all strings of a reader share one copy of its bytes.
func (r *reader) share(n int) string {
	if n == 0 {
		return ""
	}
	if r.text == "" {
		r.text = string(r.b)
	}
	return r.text[r.off-n : r.off]
}

// keyString reads a string in the encoding of non-flexible versions, as bytes of the buffer.
func (r *reader) keyString() []byte {
	n := r.int16()
	if n < 0 {
		r.fail("null string at %d", r.off)
		return nil
	}
	return r.take(int(n))
}

func (r *reader) strings() []string {
	n := r.list(1)
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = r.string()
	}
	return list
}

// int32s reads an array that may be null; nil stands for both null and empty.
func (r *reader) int32s() []int32 {
	n := r.array(4)
	if n <= 0 {
		return nil
	}
	list := make([]int32, n)
	for i := range list {
		list[i] = r.int32()
	}
	return list
}

func (r *reader) int16s() []int16 {
	n := r.list(2)
	if n == 0 {
		return nil
	}
	list := make([]int16, n)
	for i := range list {
		list[i] = r.int16()
	}
	return list
}

// tags reads a tagged section. It calls field with the tag while the reader is limited to the field's bytes; field
// reports whether it knows the tag. Unknown tags are skipped. A nil field knows none.
func (r *reader) tags(field func(tag int) bool) {
	last := -1
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		tag, size := r.uvarint(), r.uvarint()
		if r.err != nil {
			return
		}
		if tag <= last || size > r.left() {
			r.fail("bad tagged field %d of %d bytes", tag, size)
			return
		}
		last = tag
		end, lim := r.off+size, r.lim
		r.lim = end
		known := field != nil && field(tag)
		r.lim = lim
		if known && r.off != end {
			r.fail("tagged field %d is %d bytes longer than read", tag, end-r.off)
			return
		}
		r.off = end
	}
}

// end demands that everything was read.
func (r *reader) end() error {
	if r.err == nil && r.left() > 0 {
		r.fail("%d bytes too many", r.left())
	}
	return r.err
}
