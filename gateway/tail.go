package gateway

import (
	"encoding/binary"

	"github.com/coordd/coordd/protocol"
)

// Produce (v10) and Fetch (v16) answers end in a tagged field with the addresses of new leaders (KIP-951). Everything
// before it is walked over, record bytes by their length.
const (
	nodeEndpointsTag = 0
	// hiddenTag takes the place of nodeEndpointsTag where an answer is too large to be held, so that its length, which
	// is sent first, stays right. Clients skip tags that they do not know, and find the leader by its id.
	hiddenTag = 127
)

// hasTail says whether answers of this API end in tagged fields, among which NodeEndpoints may be.
func hasTail(key, version int16) bool {
	return key == protocol.KeyProduce && version >= 9 || key == protocol.KeyFetch && version >= 12
}

// produceAcks reads the acknowledgements that a Produce request asks for; ok is false when the bytes do not reach there.
func produceAcks(version int16, body []byte) (acks int16, ok bool) {
	w := &sliceWalker{b: body}
	switch {
	case version >= 9:
		w.skip(max(0, w.uvarint()-1))
	case version >= 3:
		w.skip(max(0, int(w.int16())))
	}
	acks = w.int16()
	return acks, !w.bad
}

// walker steps through an answer.
type walker interface {
	skip(n int)
	uvarint() int
	failed() bool
}

// walkTo steps to the tag buffer at the end of the answer's body.
func walkTo(w walker, key, version int16) {
	switch key {
	case protocol.KeyProduce:
		walkTopics(w, version, walkProduced)
		w.skip(4) // throttle time
	case protocol.KeyFetch:
		w.skip(4 + 2 + 4) // throttle time, error code, session id
		walkTopics(w, version, walkFetched)
	}
}

func walkTopics(w walker, version int16, partition func(walker)) {
	for range w.uvarint() - 1 {
		if version >= 13 {
			w.skip(16) // topic id, in both APIs since v13
		} else {
			walkBytes(w)
		}
		for range w.uvarint() - 1 {
			partition(w)
			if w.failed() {
				return
			}
		}
		walkTags(w)
		if w.failed() {
			return
		}
	}
}

func walkProduced(w walker) {
	w.skip(4 + 2 + 8 + 8 + 8) // partition, error code, base offset, append time, log start offset
	for range w.uvarint() - 1 {
		w.skip(4) // relative offset
		walkBytes(w)
		walkTags(w)
		if w.failed() {
			return
		}
	}
	walkBytes(w) // error message
	walkTags(w)
}

func walkFetched(w walker) {
	w.skip(4 + 2 + 8 + 8 + 8) // partition, error code, high watermark, last stable offset, log start offset
	for range w.uvarint() - 1 {
		w.skip(8 + 8) // producer id, first offset
		walkTags(w)
		if w.failed() {
			return
		}
	}
	w.skip(4)    // preferred read replica
	walkBytes(w) // records
	walkTags(w)
}

// walkBytes steps over a nullable compact string or bytes.
func walkBytes(w walker) { w.skip(max(0, w.uvarint()-1)) }

func walkTags(w walker) {
	for range w.uvarint() {
		w.uvarint()
		w.skip(w.uvarint())
		if w.failed() {
			return
		}
	}
}

// sliceWalker walks over bytes in memory.
type sliceWalker struct {
	b   []byte
	pos int
	bad bool
}

func (w *sliceWalker) failed() bool { return w.bad }

func (w *sliceWalker) skip(n int) {
	if w.bad || n < 0 || n > len(w.b)-w.pos {
		w.bad = true
		return
	}
	w.pos += n
}

func (w *sliceWalker) span(n int) []byte {
	start := w.pos
	if w.skip(n); w.bad {
		return nil
	}
	return w.b[start:w.pos]
}

func (w *sliceWalker) int16() int16 {
	if b := w.span(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (w *sliceWalker) uvarint() int {
	if w.bad {
		return 0
	}
	v, n := binary.Uvarint(w.b[w.pos:min(len(w.b), w.pos+5)])
	if n <= 0 {
		w.bad = true
		return 0
	}
	w.pos += n
	return int(v)
}

// rewriteTail replaces the addresses in NodeEndpoints.
func rewriteTail(c *conn, h protocol.Header, answer []byte) ([]byte, error) {
	w := &sliceWalker{b: answer}
	w.skip(4 + 4)
	walkTags(w) // of the response header
	walkTo(w, h.Key, h.Version)
	start := w.pos
	tags := w.uvarint()
	if w.bad {
		return nil, protocol.ErrMalformed
	}
	if tags == 0 {
		return answer, nil
	}
	tail := binary.AppendUvarint(nil, uint64(tags))
	for range tags {
		tag := w.uvarint()
		data := w.span(w.uvarint())
		if w.bad {
			return nil, protocol.ErrMalformed
		}
		if tag == nodeEndpointsTag {
			var err error
			if data, err = rewriteEndpoints(c.g, data); err != nil {
				return nil, err
			}
		}
		tail = binary.AppendUvarint(tail, uint64(tag))
		tail = binary.AppendUvarint(tail, uint64(len(data)))
		tail = append(tail, data...)
	}
	tail = append(tail, answer[w.pos:]...)
	return protocol.EndFrame(append(answer[:start], tail...), 0), nil
}

// rewriteEndpoints encodes the array of NodeEndpoints anew; nodes without an address here are left out.
func rewriteEndpoints(g *Gateway, data []byte) ([]byte, error) {
	w := &sliceWalker{b: data}
	var nodes []byte
	kept := 0
	for range w.uvarint() - 1 {
		id := w.span(4)
		walkBytes(w) // host
		w.skip(4)    // port
		rest := w.pos
		walkBytes(w) // rack
		walkTags(w)
		if w.bad {
			return nil, protocol.ErrMalformed
		}
		host, port, ok := g.addressOf(int32(binary.BigEndian.Uint32(id)))
		if !ok {
			continue
		}
		kept++
		nodes = append(nodes, id...)
		nodes = binary.AppendUvarint(nodes, uint64(len(host)+1))
		nodes = append(nodes, host...)
		nodes = binary.BigEndian.AppendUint32(nodes, uint32(port))
		nodes = append(nodes, data[rest:w.pos]...)
	}
	if w.bad {
		return nil, protocol.ErrMalformed
	}
	return append(binary.AppendUvarint(nil, uint64(kept+1)), nodes...), nil
}

// hideEndpoints passes an answer on up to its end, giving NodeEndpoints another tag.
func (r *relay) hideEndpoints(key, version int16) {
	r.skip(4 + 4)
	walkTags(r)
	walkTo(r, key, version)
	for range r.uvarint() {
		tag := r.readByte()
		if tag == nodeEndpointsTag {
			tag = hiddenTag
		}
		r.writeByte(tag)
		for tag >= 0x80 && r.err == nil { // the rest of a tag of several bytes
			tag = r.readByte()
			r.writeByte(tag)
		}
		r.skip(r.uvarint())
		if r.failed() {
			return
		}
	}
}
