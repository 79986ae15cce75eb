package gateway

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/coordd/coordd/protocol"
)

const relayStep = 4 << 20 // bytes passed on between two looks at the clock

// splices says whether a frame, of which only the beginning is there, can be passed on in pieces: when its header (and
// what Produce says of acknowledgements) is there and nothing else of it is needed.
func splices(begin []byte) bool {
	h, body, err := protocol.ParseHeader(begin)
	if err != nil || !protocol.Supported(h.Key, h.Version) {
		return false
	}
	if h.Key == protocol.KeyProduce {
		_, ok := produceAcks(h.Version, body)
		return ok
	}
	api, _ := protocol.Lookup(h.Key)
	return api.Action == protocol.Forward
}

// relayRequest passes on the frame at the front, which has c.big bytes, without holding it whole.
func (c *conn) relayRequest() {
	size := c.big
	c.big = 0
	c.letGo()
	if err := c.relayFrame(size); err != nil {
		c.readErr = err
	}
}

func (c *conn) relayFrame(size int) error {
	begin := c.in.buffered()
	h, body, err := protocol.ParseHeader(begin[4:])
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.reading = true // what to() expects; nothing is answered inline here
	c.mu.Unlock()
	u, err := c.to(c.brokerFor(h.Key))
	c.mu.Lock()
	c.reading = false
	c.flush(true)
	if err != nil {
		return err
	}
	if acks, _ := produceAcks(h.Version, body); h.Key != protocol.KeyProduce || acks != 0 {
		s := c.open(h, nil)
		u.expect(expected{s: s, rewrite: rewriterFor(h.Key, h.Version), correlation: h.Correlation})
	}
	if _, err := u.nc.Write(begin); err != nil {
		return err
	}
	c.in.r = c.in.w
	rest := int64(4 + size - len(begin))
	c.in.release()
	for rest > 0 {
		n, err := io.CopyN(u.nc, c.nc, min(rest, relayStep))
		rest -= n
		c.activity.Add(1)
		if errors.Is(err, errDeadline) {
			_ = c.nc.SetReadDeadline(noDeadline) // the sweeper asked for a look at the socket
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var relayWriters = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 32<<10) }}

// relayAnswer passes an answer of size bytes on without holding it whole, when it is its turn. With a header, addresses
// in the answer's tail are kept from the client.
func (u *upstream) relayAnswer(s *slot, size int, h *protocol.Header) error {
	c := u.c
	if err := c.seize(s); err != nil {
		return err
	}
	w := relayWriters.Get().(*bufio.Writer)
	w.Reset(patient{c.nc})
	r := &relay{src: u.br, from: u.nc, dst: w, to: c.nc, left: 4 + size}
	if h != nil {
		r.hideEndpoints(h.Key, h.Version)
	}
	r.skip(r.left)
	if r.err == nil {
		r.err = w.Flush()
	}
	_ = c.nc.SetWriteDeadline(time.Time{})
	w.Reset(nil)
	relayWriters.Put(w)
	if r.err != nil {
		c.close()
		return r.err
	}
	u.taken()
	c.mu.Lock()
	s.ready = true
	s.out = s.out[:0]
	c.drain()
	c.mu.Unlock()
	c.flushLoop(nil, 0) // gives up what seize took
	return nil
}

// seize waits until the slot is at the head of the order and all answers before it are written, and takes the right to
// write to the client.
func (c *conn) seize(s *slot) error {
	c.mu.Lock()
	for {
		switch {
		case c.closed:
			c.mu.Unlock()
			return errClosed
		case c.head == s && c.out == nil && !c.flushing:
			c.flushing = true
			c.mu.Unlock()
			return nil
		case c.head == s && !c.flushing:
			c.flush(true)
			c.mu.Lock()
		default:
			c.wait()
		}
	}
}

// patient writes with a deadline that begins anew with each write.
type patient struct{ nc net.Conn }

func (p patient) Write(b []byte) (int, error) {
	_ = p.nc.SetWriteDeadline(time.Now().Add(writePatience))
	return p.nc.Write(b)
}

// relay is a walker over an answer that passes on whatever it walks over.
type relay struct {
	src  *bufio.Reader
	from net.Conn // what src reads; nil: all goes through src and dst
	dst  *bufio.Writer
	to   net.Conn // what dst writes
	left int
	err  error
}

func (r *relay) failed() bool { return r.err != nil }

func (r *relay) readByte() byte {
	if r.err != nil {
		return 0
	}
	if r.left < 1 {
		r.err = protocol.ErrMalformed
		return 0
	}
	b, err := r.src.ReadByte()
	if err != nil {
		r.err = err
	}
	r.left--
	return b
}

func (r *relay) writeByte(b byte) {
	if r.err == nil {
		r.err = r.dst.WriteByte(b)
	}
}

func (r *relay) uvarint() int {
	v := 0
	for shift := 0; shift < 35; shift += 7 {
		b := r.readByte()
		r.writeByte(b)
		v |= int(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	r.err = protocol.ErrMalformed
	return 0
}

// skip passes n bytes on.
func (r *relay) skip(n int) {
	if r.err != nil {
		return
	}
	if n < 0 || n > r.left {
		r.err = protocol.ErrMalformed
		return
	}
	r.left -= n
	for n > 0 && r.err == nil {
		if r.src.Buffered() == 0 && n >= spliceSize && r.from != nil {
			r.splice(n)
			return
		}
		b, err := r.src.Peek(max(1, min(n, r.src.Buffered())))
		if err != nil {
			r.err = err
			return
		}
		_, r.err = r.dst.Write(b)
		_, _ = r.src.Discard(len(b))
		n -= len(b)
	}
}

// splice lets the kernel move n bytes from socket to socket where it can.
func (r *relay) splice(n int) {
	if r.err = r.dst.Flush(); r.err != nil {
		return
	}
	for n > 0 && r.err == nil {
		_ = r.to.SetWriteDeadline(time.Now().Add(writePatience))
		var m int64
		m, r.err = io.CopyN(r.to, r.from, int64(min(n, relayStep)))
		n -= int(m)
	}
}
