package raftnode

import (
	"net"
	"sync"
	"sync/atomic"
)

// muxConn is a connection that the mux can find again to close it.
type muxConn struct {
	net.Conn
	mux      *mux
	route    route
	outgoing bool
	lastRead atomic.Int64 // nanoseconds since the mux began
}

// track registers a connection. m.mu is held.
func (m *mux) track(c net.Conn, r route, outgoing bool) *muxConn {
	mc := &muxConn{Conn: c, mux: m, route: r, outgoing: outgoing}
	mc.lastRead.Store(m.now())
	m.conns[mc] = struct{}{}
	return mc
}

// Read reads from the connection.
func (c *muxConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.lastRead.Store(c.mux.now())
	return n, err
}

// NetConn is the connection below, as of a tls.Conn.
func (c *muxConn) NetConn() net.Conn { return c.Conn }

// Close closes the connection and forgets it.
func (c *muxConn) Close() error {
	c.mux.mu.Lock()
	delete(c.mux.conns, c)
	c.mux.mu.Unlock()
	return c.Conn.Close()
}

// muxListener gives the accepted connections of one route.
type muxListener struct {
	mux   *mux
	route route
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

var _ net.Listener = (*muxListener)(nil)

// deliver hands over a connection; false when too many wait or nobody listens. mux.mu is held.
func (l *muxListener) deliver(c net.Conn) bool {
	select {
	case <-l.done:
		return false
	default:
	}
	select {
	case l.conns <- c:
		return true
	default:
		return false
	}
}

// Accept waits for a connection; after Close it fails with net.ErrClosed.
func (l *muxListener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends the listener; connections that it gave out stay open.
func (l *muxListener) Close() error {
	l.once.Do(func() {
		l.mux.mu.Lock()
		delete(l.mux.listeners, l.route)
		close(l.done)
		l.mux.mu.Unlock()
		for {
			select {
			case c := <-l.conns:
				_ = c.Close()
			default:
				return
			}
		}
	})
	return nil
}

// Addr is the address of the port.
func (l *muxListener) Addr() net.Addr { return l.mux.ln.Addr() }
