package vnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how many bytes of one direction may be under way; a writer waits for room.
const window = 256 << 10

// Conn is one side of a connection.
type Conn struct {
	net           *Network
	local, remote Addr
	peer          *Conn
	in, out       *stream
	read, write   deadline
	closeOnce     sync.Once
	closed        chan struct{}
}

var _ net.Conn = (*Conn)(nil)

func pair(n *Network, a, b Addr) (*Conn, *Conn) {
	ab, ba := newStream(a.host, b.host), newStream(b.host, a.host)
	x := &Conn{net: n, local: a, remote: b, in: ba, out: ab, closed: make(chan struct{})}
	y := &Conn{net: n, local: b, remote: a, in: ab, out: ba, closed: make(chan struct{})}
	x.peer, y.peer = y, x
	return x, y
}

// stream is one direction: segments on their way, each with the time at which it may be read.
type stream struct {
	from, to string

	mu      sync.Mutex
	segs    []segment
	size    int
	changed chan struct{} // closed and replaced when something changes
	gone    bool          // the reader has closed: writes fail
}

type segment struct {
	data []byte
	sent time.Time
	end  error // instead of data: io.EOF or a reset
}

func newStream(from, to string) *stream {
	return &stream{from: from, to: to, changed: make(chan struct{})}
}

func (s *stream) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// finish ends the stream after what is under way, or drops that when the end is a reset.
func (s *stream) finish(end error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.segs); n > 0 && s.segs[n-1].end != nil {
		return
	}
	if end != io.EOF {
		s.segs, s.size = nil, 0
	}
	s.segs = append(s.segs, segment{sent: time.Now(), end: end})
	s.wake()
}

// leave says that nobody reads any more.
func (s *stream) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone, s.segs, s.size = true, nil, 0
	s.wake()
}

// Read reads what has arrived.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.readSome(b)
	if err != nil && err != io.EOF {
		err = &net.OpError{Op: "read", Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
	}
	return n, err
}

func (c *Conn) readSome(b []byte) (int, error) {
	for {
		if err := c.usable(&c.read); err != nil {
			return 0, err
		}
		if len(b) == 0 {
			return 0, nil
		}
		link, linkChanged := c.net.state(c.in.from, c.in.to)
		n, wait, changed, err := c.in.take(b, link)
		if n > 0 || err != nil {
			return n, err
		}
		c.pause(&c.read, wait, changed, linkChanged)
	}
}

// take moves what may be read now to b. When there is nothing, wait is how long until there is (0: unknown).
func (s *stream) take(b []byte, l link) (n int, wait time.Duration, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = s.changed
	if l.cut {
		return 0, 0, changed, nil
	}
	for len(s.segs) > 0 && n < len(b) {
		seg := &s.segs[0]
		if wait = l.latency - time.Since(seg.sent); wait > 0 {
			break
		}
		if seg.end != nil {
			if n == 0 {
				err = seg.end
			}
			break
		}
		k := copy(b[n:], seg.data)
		n += k
		s.size -= k
		if seg.data = seg.data[k:]; len(seg.data) == 0 {
			s.segs = s.segs[1:]
		}
	}
	if n > 0 {
		s.wake()
	}
	return n, wait, changed, err
}

// Write sends; it waits while a full window is under way.
func (c *Conn) Write(b []byte) (n int, err error) {
	for n < len(b) || len(b) == 0 {
		if err = c.usable(&c.write); err != nil {
			break
		}
		if len(b) == 0 {
			break
		}
		var k int
		var changed <-chan struct{}
		link, linkChanged := c.net.state(c.out.from, c.out.to)
		if k, changed, err = c.out.put(b[n:], link); err != nil {
			break
		}
		if n += k; k == 0 {
			c.pause(&c.write, 0, changed, linkChanged)
		}
	}
	if err != nil {
		err = &net.OpError{Op: "write", Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
	}
	return n, err
}

func (s *stream) put(b []byte, l link) (int, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		if l.cut { // the writer cannot know yet
			return len(b), s.changed, nil
		}
		return 0, nil, syscall.EPIPE
	}
	k := min(len(b), window-s.size)
	if k > 0 {
		s.segs = append(s.segs, segment{data: append([]byte(nil), b[:k]...), sent: time.Now()})
		s.size += k
		s.wake()
	}
	return k, s.changed, nil
}

// usable says why the connection cannot be used by this side now.
func (c *Conn) usable(d *deadline) error {
	select {
	case <-c.closed:
		return net.ErrClosed
	default:
	}
	if d.passed() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// pause waits until something may have changed.
func (c *Conn) pause(d *deadline, wait time.Duration, changed, linkChanged <-chan struct{}) {
	var after <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		after = t.C
	}
	select {
	case <-c.closed:
	case <-changed:
	case <-linkChanged:
	case <-d.done():
	case <-after:
	}
}

// Close ends both directions; what was written still arrives.
func (c *Conn) Close() error {
	c.shut(io.EOF)
	return nil
}

// abort ends both directions as a crash does.
func (c *Conn) abort() { c.shut(syscall.ECONNRESET) }

func (c *Conn) shut(end error) {
	c.closeOnce.Do(func() {
		close(c.closed)
		c.read.set(time.Time{})
		c.write.set(time.Time{})
		c.out.finish(end)
		c.in.leave()
		c.net.mu.Lock()
		delete(c.net.conns, c)
		c.net.mu.Unlock()
	})
}

// LocalAddr is this side's address.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the other side's address.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline sets the time after which reads fail; zero for none.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.read, t) }

// SetWriteDeadline sets the time after which writes fail; zero for none.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.write, t) }

func (c *Conn) setDeadline(d *deadline, t time.Time) error {
	if c.usableIgnoringDeadline() != nil {
		return &net.OpError{Op: "set", Net: "tcp", Source: c.local, Addr: c.remote, Err: net.ErrClosed}
	}
	d.set(t)
	return nil
}

func (c *Conn) usableIgnoringDeadline() error {
	select {
	case <-c.closed:
		return net.ErrClosed
	default:
		return nil
	}
}

// deadline is a time after which an operation fails, which may be moved while one waits.
type deadline struct {
	mu    sync.Mutex
	at    time.Time
	fired bool // at has passed
	timer *time.Timer
	ch    chan struct{} // closed when the deadline passes or is moved
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at, d.fired = t, false
	if d.ch != nil {
		close(d.ch)
		d.ch = nil
	}
	if t.IsZero() {
		return
	}
	ch := make(chan struct{})
	d.ch = ch
	d.timer = time.AfterFunc(time.Until(t), func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.ch == ch {
			close(ch)
			d.ch, d.fired = nil, true
		}
	})
}

func (d *deadline) passed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.over()
}

func (d *deadline) over() bool {
	return d.fired || !d.at.IsZero() && !time.Now().Before(d.at)
}

// done is closed when the deadline passes or is moved.
func (d *deadline) done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ch == nil {
		if d.over() {
			return closedChan
		}
		d.ch = make(chan struct{})
	}
	return d.ch
}

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
