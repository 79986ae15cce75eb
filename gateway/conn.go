package gateway

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

const (
	maxInflight   = 512             // unanswered requests of a connection before it is read no further
	maxUnwritten  = 1 << 20         // bytes of answers that a client has not taken before it is read no further
	spliceSize    = 64 << 10        // larger frames are passed on in pieces
	writePatience = 2 * time.Minute // a client that takes nothing for so long is disconnected
	minFrame      = 8               // key, version, correlation id
)

// conn is a client connection. One goroutine reads it; whoever answers the request at the head of the order writes.
type conn struct {
	g    *Gateway
	port *port
	nc   net.Conn
	done chan struct{}   // closed with the connection
	raw  syscall.RawConn // nil where the connection is no socket

	// Owned by the reader.
	in      frameReader
	client  *coordinator.Client
	readErr error
	began   time.Duration // when the reader began to work on what it read, see [Gateway.now]; guarded by mu, too
	waited  bool          // something was waited for since then
	beats   int           // heartbeats answered since then; guarded by mu
	big     int           // size of the frame at the front that is to be passed on in pieces
	home    int32         // the upstream broker for what any broker may answer; see homeBroker
	ups     map[int32]*upstream
	others  map[string]denial   // groups that are not ours, by the leader's word
	vacated map[string]denial   // groups that made room for a classic one, and when: see [conn.ours]
	nudged  map[string]struct{} // groups whose members were sent to their coordinator
	hold    connHold
	evicted atomic.Bool // this node ends the connection
	left    atomic.Bool // the client was seen to have ended it

	mu         sync.Mutex
	moved      sync.Cond // told when waiting > 0 and head, output or flushing changed
	waiting    int
	head, tail *slot
	inflight   int
	out        *outBuf
	reading    bool // the reader will write the output at the end of what it works on
	flushing   bool // somebody writes to the socket
	closed     bool

	wbuf []byte // of tryWrite; owned by whoever set flushing
	wn   int

	onReadable func(fd uintptr) bool
	onWritable func(fd uintptr) bool

	activity atomic.Uint32 // rises with every read; see sweep
	idle     idleness      // owned by the sweeper
}

func newConn(p *port, nc net.Conn) *conn {
	c := &conn{g: p.g, port: p, nc: nc, done: make(chan struct{}), home: noBroker}
	c.moved.L = &c.mu
	c.client = &coordinator.Client{Host: javaHost(nc.RemoteAddr()), Principal: anonymous}
	if sc, ok := nc.(*net.TCPConn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw = raw
			c.onReadable, c.onWritable = c.readReady, c.writeReady
		}
	}
	return c
}

const anonymous = "User:ANONYMOUS"

// javaHost prints an address as java.net.InetAddress does without a name.
func javaHost(a net.Addr) string {
	if a == nil {
		return "/"
	}
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		host = a.String()
	}
	return "/" + host
}

// serve reads until the connection ends.
func (c *conn) serve() {
	for c.readErr == nil {
		if c.big > 0 {
			c.relayRequest()
			continue
		}
		if c.raw == nil {
			c.readPlain()
			continue
		}
		if err := c.raw.Read(c.onReadable); err != nil && c.readErr == nil {
			if errors.Is(err, errDeadline) {
				_ = c.nc.SetReadDeadline(time.Time{}) // the sweeper asked for a look at the socket
				continue
			}
			c.readErr = err
		}
	}
	c.end()
}

func (c *conn) readPlain() {
	n, err := c.nc.Read(c.in.room(c.need()))
	c.in.w += n
	c.activity.Add(1)
	if n > 0 {
		c.process()
	}
	if err != nil && c.readErr == nil {
		c.readErr = err
		c.lost(err)
	}
}

// lost notes that the client has ended the connection, unless the error comes of what this node did.
func (c *conn) lost(err error) {
	if !errors.Is(err, net.ErrClosed) && !errors.Is(err, errDeadline) {
		c.left.Store(true)
	}
}

// readReady is called by the runtime's poller with the socket ready, and stays inside of one RawConn.Read as long as
// the connection lives: so a round trip costs one read, not a second one that only says "nothing more yet". A read that
// did not fill the buffer has emptied the socket, and the next byte wakes the poller again (epoll(7), edge-triggered).
// The end of a stream that came together with the last bytes is not told again; the sweeper looks for it.
func (c *conn) readReady(fd uintptr) bool {
	for {
		room := c.in.room(c.need())
		n, err := syscall.Read(int(fd), room)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			c.in.release()
			return false
		case err != nil:
			c.readErr = err
			c.lost(err)
			return true
		case n <= 0:
			c.readErr = io.EOF
			c.lost(io.EOF)
			return true
		}
		c.in.w += n
		c.activity.Add(1)
		c.process()
		if c.readErr != nil || c.big > 0 {
			return true
		}
		if n < len(room) {
			c.in.release()
			return false
		}
	}
}

func (c *conn) writeReady(fd uintptr) bool {
	for c.wn < len(c.wbuf) {
		n, err := syscall.Write(int(fd), c.wbuf[c.wn:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break // whatever it is, the goroutine that writes the rest meets it again
		}
		c.wn += n
	}
	return true
}

// tryWrite writes what the socket takes without waiting. The caller has set c.flushing.
func (c *conn) tryWrite(b []byte) int {
	if c.raw == nil {
		return 0
	}
	c.wbuf, c.wn = b, 0
	_ = c.raw.Write(c.onWritable)
	c.wbuf = nil
	return c.wn
}

// write writes all of b and may wait for the client. The caller has set c.flushing. A connection that cannot be written
// is closed; the reader sees that.
func (c *conn) write(b []byte) {
	n := c.tryWrite(b)
	if n == len(b) {
		return
	}
	_ = c.nc.SetWriteDeadline(time.Now().Add(writePatience))
	if _, err := c.nc.Write(b[n:]); err != nil {
		c.lost(err)
		c.close()
		return
	}
	_ = c.nc.SetWriteDeadline(time.Time{})
}

// need is the size of the frame at the front with its length prefix, 0 when it is not known.
func (c *conn) need() int {
	b := c.in.buffered()
	if len(b) < 4 {
		return 0
	}
	return 4 + int(binary.BigEndian.Uint32(b))
}

// process takes all whole frames that came, and writes all answers that are ready then by one write.
func (c *conn) process() {
	c.mu.Lock()
	c.reading, c.began, c.waited = true, c.g.now(), false
	c.mu.Unlock()
	for c.readErr == nil {
		b := c.in.buffered()
		if len(b) < 4 {
			break
		}
		size := int(int32(binary.BigEndian.Uint32(b)))
		if size < minFrame || size > c.g.cfg.MaxRequestBytes {
			c.g.log.note("frame length", "closing a connection for a frame of bad length", "client", c.client.Host, "bytes", size)
			c.readErr = errBadFrame
			break
		}
		if len(b) < 4+size {
			if size > spliceSize && splices(b[4:]) {
				c.big = size
			}
			break
		}
		c.in.r += 4 + size
		if err := c.dispatch(b[: 4+size : 4+size]); err != nil {
			c.readErr = err
		}
	}
	c.mu.Lock()
	c.reading = false
	c.settle()
	c.flush(true)
	c.holdBack()
}

// holdBack waits while the client has too many answers to take.
func (c *conn) holdBack() {
	c.mu.Lock()
	for !c.closed && (c.inflight >= maxInflight || c.out != nil && len(c.out.b) > maxUnwritten) {
		c.wait()
	}
	c.mu.Unlock()
}

// wait waits for a change of the order of answers or of the output. c.mu is held.
func (c *conn) wait() {
	c.waiting++
	c.moved.Wait()
	c.waiting--
}

// blocking runs f, which may take its time, on the reader: what is ready is written before, and answers that come
// meanwhile are written by those who give them. Requests behind are not worked on when the client has gone meanwhile.
func (c *conn) blocking(f func()) {
	c.mu.Lock()
	c.reading = false
	c.settle()
	c.flush(true)
	f()
	c.waited = true
	if c.readErr == nil && c.hungUp() {
		c.readErr = errClosed
	}
	c.mu.Lock()
	c.reading = true
	c.mu.Unlock()
}

// hungUp says whether the client has ended the connection, also while nobody reads it.
func (c *conn) hungUp() bool {
	select {
	case <-c.done:
		return true
	default:
	}
	if c.raw == nil {
		return false
	}
	ended := false
	err := c.raw.Control(func(fd uintptr) { ended = peerEnded(int(fd)) })
	if ended {
		c.left.Store(true)
	}
	return err != nil || ended
}

// know keeps the client of the request header; the same client is the rule on a connection.
func (c *conn) know(h *protocol.Header) {
	if c.client.ID != h.ClientID {
		next := *c.client
		next.ID = strings.Clone(h.ClientID)
		c.client = &next
	}
}

// close ends the connection; it may be called on any goroutine and more than once. It does not wait: the reader, who may be
// the one that calls, has the socket in use, and Close waits until nobody has.
func (c *conn) close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.done)
	}
	c.moved.Broadcast()
	c.mu.Unlock()
	go func() { _ = c.nc.Close() }()
}

// end is the reader's last act.
func (c *conn) end() {
	c.gone()
	c.close()
	_ = c.nc.Close()
	for _, u := range c.ups {
		u.close()
	}
	c.in.r = c.in.w
	c.in.release()
	c.g.forget(c)
}
