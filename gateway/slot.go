package gateway

import (
	"sync"
	"time"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/protocol"
)

// slot is one request of a client connection and the place of its answer in the order of answers.
type slot struct {
	c     *conn
	next  *slot
	ready bool // the answer is in out; guarded by c.mu
	h     protocol.Header
	frame []byte // the request with its length prefix; aliases buf
	buf   *readBuf
	out   []byte           // the answer with its length prefix; empty for none
	began time.Duration    // when the reader had read the request, see [Gateway.now]; notOurs where the answer is not ours
	code  coordinator.Code // the first error in the answer

	call shard.Call
	beat streams.HeartbeatRequest
}

var slots = sync.Pool{New: func() any {
	s := &slot{}
	s.call.Request = &s.beat
	s.call.Done = s
	return s
}}

// open starts a slot at the end of the order of answers. Its frame is pinned until the slot is answered.
func (c *conn) open(h protocol.Header, frame []byte) *slot {
	s := slots.Get().(*slot)
	s.c, s.h, s.frame, s.buf = c, h, frame, c.in.rb
	s.buf.pin()
	s.ready, s.next, s.out = false, nil, s.out[:0]
	s.began, s.code = c.began, coordinator.None
	c.mu.Lock()
	if c.tail == nil {
		c.head = s
	} else {
		c.tail.next = s
	}
	c.tail = s
	c.inflight++
	c.mu.Unlock()
	return s
}

// answer says that s.out holds the answer. It may be called on any goroutine and does not block on the client. The slot
// must not be touched afterwards.
func (s *slot) answer() {
	c := s.c
	c.mu.Lock()
	c.count(s)
	s.ready = true
	if c.head != s {
		c.mu.Unlock()
		return
	}
	c.drain()
	switch {
	case c.reading || c.flushing || c.out == nil:
		c.mu.Unlock() // the reader or the flusher will write it
	case c.head == nil:
		c.flush(false)
	default:
		// More answers are on their way: let a goroutine gather them to one write.
		c.flushing = true
		c.mu.Unlock()
		go c.flushLoop(nil, 0)
	}
}

// drain moves the answers at the head of the order to the output. c.mu is held.
func (c *conn) drain() {
	for c.head != nil && c.head.ready {
		s := c.head
		c.head = s.next
		c.inflight--
		if len(s.out) > 0 && !c.closed {
			if c.out == nil {
				c.out = outBufs.Get().(*outBuf)
			}
			c.out.b = append(c.out.b, s.out...)
		}
		s.recycle()
	}
	if c.head == nil {
		c.tail = nil
	}
	if c.waiting > 0 {
		c.moved.Broadcast()
	}
}

func (s *slot) recycle() {
	if s.buf != nil {
		s.buf.unpin()
	}
	s.c, s.next, s.frame, s.buf = nil, nil, nil, nil
	s.beat.Topology, s.beat.ClientTags = nil, nil
	s.call.Client, s.call.Response, s.call.Err, s.call.Hold = nil, nil, nil, nil
	s.call.AgeMs = 0
	s.call.Heartbeat = streams.HeartbeatResponse{}
	if cap(s.out) > 4<<10 {
		s.out = nil
	}
	slots.Put(s)
}

// flush writes what is in the output unless somebody does already. c.mu is held; it returns without. Without mayBlock
// what the socket does not take at once is left to a goroutine.
func (c *conn) flush(mayBlock bool) {
	if c.flushing || c.out == nil {
		c.mu.Unlock()
		return
	}
	c.flushing = true
	o := c.out
	c.out = nil
	c.mu.Unlock()
	n := 0
	if !mayBlock {
		if n = c.tryWrite(o.b); n < len(o.b) {
			go c.flushLoop(o, n)
			return
		}
	}
	c.flushLoop(o, n)
}

// flushLoop writes o from position n on and then whatever has come meanwhile. The caller has set c.flushing.
func (c *conn) flushLoop(o *outBuf, n int) {
	for {
		if o != nil {
			if n < len(o.b) {
				c.write(o.b[n:])
			}
			o.free()
		}
		c.mu.Lock()
		o, n = c.out, 0
		c.out = nil
		if o == nil {
			c.flushing = false
			if c.waiting > 0 {
				c.moved.Broadcast()
			}
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
}

// fail answers a heartbeat with an error of the coordinator's own.
func (s *slot) fail(err *coordinator.Error) {
	s.code = err.Code
	s.call.Heartbeat = streams.HeartbeatResponse{Err: err}
	s.out = protocol.AppendHeartbeat(s.out[:0], s.h.Version, s.h.Correlation, &s.call.Heartbeat)
	s.answer()
}

// CallDone implements shard.Completer for heartbeats.
func (s *slot) CallDone(call *shard.Call) {
	if call.Err != nil {
		if call.Err.Code == coordinator.NotCoordinator && !call.WasHeld() {
			g, maybe := s.c.g, !call.Err.NotStarted
			g.run(func() { g.rebeat(s, s.began, maybe) })
			return
		}
		s.fail(call.Err)
		return
	}
	if call.Heartbeat.Err != nil {
		s.code = call.Heartbeat.Err.Code
	}
	s.out = protocol.AppendHeartbeat(s.out[:0], s.h.Version, s.h.Correlation, &call.Heartbeat)
	s.answer()
}
