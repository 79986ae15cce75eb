package sim

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/vnet"
)

// hops are the connections that nodes opened for the inner hop. What is written to some of them may be delivered late, while
// everything else between the same nodes goes on: as when one TCP connection of several is cut, or its buffers are full.
type hops struct {
	mu    sync.Mutex
	conns map[*hopConn]struct{}
	late  int // bytes that were delivered late
	// apart says that the Raft group of the system shard reaches nobody.
	apart bool
}

// keepSystemApart has no new connection of the system shard's Raft group come through for some time.
func (h *hops) keepSystemApart(d time.Duration) {
	set := func(apart bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.apart = apart
	}
	set(true)
	time.AfterFunc(d, func() { set(false) })
}

// from is how a node dials.
func (h *hops) from(node int, host *vnet.Host) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		nc, err := host.Dial(ctx, address)
		if err != nil {
			return nil, err
		}
		return &hopConn{Conn: nc, hops: h, node: node}, nil
	}
}

// stall has all hops that a node has open deliver nothing for some time, and then everything.
func (h *hops) stall(node int, late time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.conns {
		if c.node == node && !c.stalled {
			c.stalled = true
			time.AfterFunc(late, c.release)
		}
	}
}

// delivered is how many bytes were delivered late.
func (h *hops) delivered() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.late
}

// release ends all stalls.
func (h *hops) release() {
	h.mu.Lock()
	var all []*hopConn
	for c := range h.conns {
		all = append(all, c)
	}
	h.mu.Unlock()
	for _, c := range all {
		c.release()
	}
}

// kindHop is the first byte of an inner hop (server, "kindHop"), systemRaft how a connection of the system shard's Raft group
// begins (raftnode, "kindRaft", and the group's number).
const (
	kindHop    = 'H'
	systemRaft = "R\x00\x00\x00\x00"
)

// hopConn is a connection that a node dialed. Its fields are guarded by hops.mu; one goroutine writes at a time.
type hopConn struct {
	net.Conn
	hops *hops
	node int

	begun, hop        bool
	stalled, flushing bool
	closed            bool // by the node, while there was something to deliver
	late              []byte
}

// Write implements net.Conn.
func (c *hopConn) Write(b []byte) (int, error) {
	c.hops.mu.Lock()
	if !c.begun {
		c.begun, c.hop = true, len(b) > 0 && b[0] == kindHop
		if c.hops.apart && strings.HasPrefix(string(b), systemRaft) {
			c.hops.mu.Unlock()
			return 0, net.ErrClosed
		}
		if c.hop {
			if c.hops.conns == nil {
				c.hops.conns = map[*hopConn]struct{}{}
			}
			c.hops.conns[c] = struct{}{}
		}
	}
	if c.stalled || c.flushing {
		c.late = append(c.late, b...)
		c.hops.mu.Unlock()
		return len(b), nil
	}
	c.hops.mu.Unlock()
	return c.Conn.Write(b)
}

// release delivers what was written meanwhile.
func (c *hopConn) release() {
	c.hops.mu.Lock()
	defer c.hops.mu.Unlock()
	if c.stalled {
		c.stalled, c.flushing = false, true
		go c.flush()
	}
}

func (c *hopConn) flush() {
	for {
		c.hops.mu.Lock()
		b := c.late
		c.late = nil
		c.hops.late += len(b)
		if len(b) == 0 {
			c.flushing = false
			closed := c.closed
			c.hops.mu.Unlock()
			if closed {
				_ = c.close()
			}
			return
		}
		c.hops.mu.Unlock()
		_ = c.SetWriteDeadline(time.Time{})
		if _, err := c.Conn.Write(b); err != nil {
			_ = c.close()
		}
	}
}

// Close implements net.Conn. What was written still arrives, as from a kernel that goes on without the process.
func (c *hopConn) Close() error {
	c.hops.mu.Lock()
	if c.stalled || c.flushing {
		c.closed = true
		c.hops.mu.Unlock()
		return c.SetReadDeadline(time.Unix(1, 0))
	}
	c.hops.mu.Unlock()
	return c.close()
}

func (c *hopConn) close() error {
	c.hops.mu.Lock()
	delete(c.hops.conns, c)
	c.hops.mu.Unlock()
	return c.Conn.Close()
}
