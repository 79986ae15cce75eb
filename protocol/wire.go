package protocol

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"unsafe"
)

// ErrMalformed says that bytes do not follow the layout of their API and version. A broker closes the connection then.
var ErrMalformed = errors.New("malformed request")

// reader reads Kafka's primitive types. After the first failure it returns zero values only; bad tells.
type reader struct {
	src []byte
	bad bool
}

func (r *reader) fail() {
	r.bad = true
	r.src = nil
}

func (r *reader) err() error {
	if r.bad {
		return ErrMalformed
	}
	return nil
}

func (r *reader) int8() int8 {
	if len(r.src) < 1 {
		r.fail()
		return 0
	}
	v := r.src[0]
	r.src = r.src[1:]
	return int8(v)
}

func (r *reader) bool() bool { return r.int8() != 0 }

func (r *reader) int16() int16 {
	if len(r.src) < 2 {
		r.fail()
		return 0
	}
	v := binary.BigEndian.Uint16(r.src)
	r.src = r.src[2:]
	return int16(v)
}

func (r *reader) int32() int32 {
	if len(r.src) < 4 {
		r.fail()
		return 0
	}
	v := binary.BigEndian.Uint32(r.src)
	r.src = r.src[4:]
	return int32(v)
}

func (r *reader) int64() int64 {
	if len(r.src) < 8 {
		r.fail()
		return 0
	}
	v := binary.BigEndian.Uint64(r.src)
	r.src = r.src[8:]
	return int64(v)
}

// uvarint reads an unsigned varint of at most five bytes whose value fits 32 bits.
func (r *reader) uvarint() uint32 {
	if len(r.src) > 0 && r.src[0] < 0x80 {
		v := r.src[0]
		r.src = r.src[1:]
		return uint32(v)
	}
	v, n := binary.Uvarint(r.src[:min(len(r.src), 5)])
	if n <= 0 || v > 1<<32-1 {
		r.fail()
		return 0
	}
	r.src = r.src[n:]
	return uint32(v)
}

func (r *reader) span(n int) []byte {
	if n < 0 || n > len(r.src) {
		r.fail()
		return nil
	}
	b := r.src[:n:n]
	r.src = r.src[n:]
	return b
}

// compactString returns a string that aliases the frame.
func (r *reader) compactString() string {
	return alias(r.span(int(r.uvarint()) - 1))
}

// compactNullable returns a string that aliases the frame, or false for null.
func (r *reader) compactNullable() (string, bool) {
	n := int(r.uvarint()) - 1
	if n < 0 || r.bad {
		return "", false
	}
	return alias(r.span(n)), !r.bad
}

// compactLen reads the length of an array whose elements take at least size bytes each; negative means null. A length
// that the rest of the body cannot hold is malformed, so that nobody allocates for it.
func (r *reader) compactLen(size int) int {
	n := int(int32(r.uvarint()) - 1) // as in Kafka and kmsg, lengths that overflow are null
	if n > len(r.src)/size {
		r.fail()
		return 0
	}
	return n
}

// tags skips a tagged-field section.
func (r *reader) tags() {
	if len(r.src) > 0 && r.src[0] == 0 {
		r.src = r.src[1:]
		return
	}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		r.uvarint()
		r.span(int(r.uvarint()))
	}
}

// alias returns b as a string that shares its bytes: it is valid as long as nobody writes to b.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func appendInt16(dst []byte, v int16) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) }
func appendInt32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }
func appendInt64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

func appendUvarint(dst []byte, v uint32) []byte {
	for range (bits.Len32(v|1) - 1) / 7 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

func appendCompactString(dst []byte, s string) []byte {
	dst = appendUvarint(dst, uint32(len(s))+1)
	return append(dst, s...)
}

// appendCompactLen appends the length of an array that is not null.
func appendCompactLen(dst []byte, n int) []byte { return appendUvarint(dst, uint32(n)+1) }
