package raftnode

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// A connection to the raft port begins with a preface: one byte that names the protocol and four bytes, big-endian,
// with the group (zero for protocols other than raft). What follows belongs to the protocol.
const (
	kindRaft byte = 'R'

	prefaceSize = 5
)

const (
	// maxPrefaces bounds the connections that have not said yet what they are.
	maxPrefaces = 128
	// backlog bounds the connections of a protocol that wait to be accepted.
	backlog = 64
	// maxGroupConns bounds the accepted connections of one group; each costs a read buffer of 256 KiB. When a new one
	// comes, the one that was silent the longest goes: it is most likely left from a node that died.
	maxGroupConns = 64
)

// mux shares one listener between groups and protocols. Bytes that it does not understand cost the connection, a
// counter and at most one log line a second and cause.
type mux struct {
	ln        net.Listener
	dial      func(ctx context.Context, addr string) (net.Conn, error)
	log       *limitedLog
	handshake time.Duration
	dropped   func(cause string)
	notices   map[byte]func(node int32) // protocols that are the preface alone, with a node's id as the group
	began     time.Time

	mu        sync.Mutex
	listeners map[route]*muxListener
	served    map[route]bool // routes that had a listener once
	conns     map[*muxConn]struct{}
	prefaces  map[net.Conn]struct{}
	closed    bool
	wg        sync.WaitGroup
}

// route is where the preface of a connection sends it.
type route struct {
	kind  byte
	group uint32
}

func newMux(ln net.Listener, dial func(context.Context, string) (net.Conn, error), handshake time.Duration,
	log hclog.Logger, dropped func(string)) *mux {
	if dropped == nil {
		dropped = func(string) {}
	}
	return &mux{
		ln: ln, dial: dial, log: newLimitedLog(log, &lines{}), handshake: handshake, dropped: dropped, began: time.Now(),
		listeners: map[route]*muxListener{},
		served:    map[route]bool{},
		conns:     map[*muxConn]struct{}{},
		prefaces:  map[net.Conn]struct{}{},
	}
}

// serve accepts until close.
func (m *mux) serve() {
	m.wg.Go(func() {
		var delay time.Duration
		for {
			c, err := m.ln.Accept()
			if err == nil {
				delay = 0
				m.accepted(c)
				continue
			}
			if m.isClosed() || errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of file descriptors, most likely: go on, slowly.
			m.log.Warn("raft port cannot accept", "error", err)
			delay = min(max(2*delay, 5*time.Millisecond), time.Second)
			time.Sleep(delay)
		}
	})
}

func (m *mux) accepted(c net.Conn) {
	m.mu.Lock()
	if m.closed || len(m.prefaces) >= maxPrefaces {
		closed := m.closed
		m.mu.Unlock()
		_ = c.Close()
		if !closed {
			m.drop("flood", c, "waiting", maxPrefaces)
		}
		return
	}
	m.prefaces[c] = struct{}{}
	m.wg.Add(1)
	m.mu.Unlock()
	go func() {
		defer m.wg.Done()
		m.greet(c)
	}()
}

// greet reads the preface and hands the connection on.
func (m *mux) greet(c net.Conn) {
	var b [prefaceSize]byte
	err := c.SetReadDeadline(time.Now().Add(m.handshake))
	if err == nil {
		_, err = io.ReadFull(c, b[:])
	}
	if err == nil {
		err = c.SetReadDeadline(time.Time{})
	}
	m.mu.Lock()
	delete(m.prefaces, c)
	if m.closed {
		m.mu.Unlock()
		_ = c.Close()
		return
	}
	if err != nil {
		m.mu.Unlock()
		_ = c.Close()
		if errors.Is(err, io.EOF) { // closed without a word: a dial given up when a node stopped, or a probe of the port
			m.dropped("preface")
			return
		}
		m.drop("preface", c, "error", err)
		return
	}
	r := route{kind: b[0], group: binary.BigEndian.Uint32(b[1:])}
	if notice := m.notices[r.kind]; notice != nil {
		m.mu.Unlock()
		_ = c.Close()
		notice(int32(r.group))
		return
	}
	l := m.listeners[r]
	if l == nil {
		known := m.served[r]
		m.mu.Unlock()
		_ = c.Close()
		if known { // what it wants is being stopped or restarted
			m.dropped("stopped")
			return
		}
		m.drop("unknown", c, "kind", fmt.Sprintf("%q", r.kind), "group", r.group)
		return
	}
	mc := m.track(c, r, false)
	var oldest *muxConn
	if r.kind == kindRaft {
		oldest = m.tooMany(r)
	}
	ok := l.deliver(mc)
	m.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
		m.drop("too many", c, "group", r.group)
	}
	if !ok {
		_ = mc.Close()
		m.drop("backlog", c, "kind", fmt.Sprintf("%q", r.kind), "group", r.group)
	}
}

// drop counts and, seldom, logs a connection that is not served.
func (m *mux) drop(cause string, c net.Conn, kv ...any) {
	m.dropped(cause)
	m.log.Warn("raft port dropped a connection: "+cause, append([]any{"remote", c.RemoteAddr()}, kv...)...)
}

// now is the time since the mux began, in nanoseconds; setting the wall clock does not change it.
func (m *mux) now() int64 { return int64(time.Since(m.began)) }

// tooMany is the connection of a group to be closed when there are more than the bound. m.mu is held.
func (m *mux) tooMany(r route) (oldest *muxConn) {
	n := 0
	for c := range m.conns {
		if c.route == r && !c.outgoing {
			if n++; oldest == nil || c.lastRead.Load() < oldest.lastRead.Load() {
				oldest = c
			}
		}
	}
	if n <= maxGroupConns {
		return nil
	}
	return oldest
}

// listen makes the listener of a route. There is at most one.
func (m *mux) listen(r route) (*muxListener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, net.ErrClosed
	}
	if m.listeners[r] != nil {
		return nil, fmt.Errorf("raft port: protocol %q group %d is served already", r.kind, r.group)
	}
	l := &muxListener{mux: m, route: r, conns: make(chan net.Conn, backlog), done: make(chan struct{})}
	m.listeners[r] = l
	m.served[r] = true
	return l, nil
}

// open dials another node's raft port.
func (m *mux) open(ctx context.Context, addr string, r route) (net.Conn, error) {
	if m.isClosed() {
		return nil, net.ErrClosed
	}
	c, err := m.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		_ = c.Close()
		return nil, net.ErrClosed
	}
	mc := m.track(c, r, true)
	m.mu.Unlock()
	b := append(make([]byte, 0, prefaceSize), r.kind)
	b = binary.BigEndian.AppendUint32(b, r.group)
	deadline := time.Now().Add(m.handshake)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	err = c.SetWriteDeadline(deadline)
	if err == nil {
		_, err = c.Write(b)
	}
	if err == nil {
		err = c.SetWriteDeadline(time.Time{})
	}
	if err != nil {
		_ = mc.Close()
		return nil, err
	}
	return mc, nil
}

// reset closes all connections of a route, both ways.
func (m *mux) reset(r route) {
	var cut []*muxConn
	m.mu.Lock()
	for c := range m.conns {
		if c.route == r {
			cut = append(cut, c)
		}
	}
	m.mu.Unlock()
	for _, c := range cut {
		_ = c.Close()
	}
}

func (m *mux) isClosed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// close closes the port, its listeners and all connections, and waits for the mux's own goroutines.
func (m *mux) close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	var cut []net.Conn
	for c := range m.conns {
		cut = append(cut, c)
	}
	for c := range m.prefaces {
		cut = append(cut, c)
	}
	var ls []*muxListener
	for _, l := range m.listeners {
		ls = append(ls, l)
	}
	m.mu.Unlock()
	err := m.ln.Close()
	for _, l := range ls {
		_ = l.Close()
	}
	for _, c := range cut {
		_ = c.Close()
	}
	m.wg.Wait()
	return err
}
