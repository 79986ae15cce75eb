package vnet

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// backlog is how many connections of a listener wait to be accepted; more are refused.
const backlog = 128

// firstPort is the first port that is given out where none is asked for.
const firstPort = 40000

// Network is a set of hosts that reach each other. Its methods may be called from any goroutine.
type Network struct {
	mu      sync.Mutex
	hosts   map[string]*Host
	latency time.Duration
	links   map[[2]string]*link
	changed chan struct{} // closed and replaced when a link changes
	conns   map[*Conn]struct{}
}

// link is the way from one host to another.
type link struct {
	cut, refused bool
	latency      time.Duration
	hasLatency   bool
}

// New makes a network without latency and faults.
func New() *Network {
	return &Network{
		hosts:   map[string]*Host{},
		links:   map[[2]string]*link{},
		changed: make(chan struct{}),
		conns:   map[*Conn]struct{}{},
	}
}

// Host is the host of a name, made when it is first asked for.
func (n *Network) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[name]
	if h == nil {
		h = &Host{net: n, name: name, listeners: map[int]*listener{}, nextPort: firstPort}
		n.hosts[name] = h
	}
	return h
}

// SetLatency sets the one-way latency of all links that have none of their own.
func (n *Network) SetLatency(d time.Duration) {
	n.change(func() { n.latency = d })
}

// SetLinkLatency sets the one-way latency between two hosts, in both directions.
func (n *Network) SetLinkLatency(a, b string, d time.Duration) {
	n.both(a, b, func(l *link) { l.latency, l.hasLatency = d, true })
}

// Cut makes the links between two hosts black holes.
func (n *Network) Cut(a, b string) { n.both(a, b, func(l *link) { l.cut = true }) }

// CutOneWay makes the link from one host to another a black hole; the way back works.
func (n *Network) CutOneWay(from, to string) {
	n.change(func() { n.link(from, to).cut = true })
}

// Refuse resets the connections between two hosts and refuses new ones.
func (n *Network) Refuse(a, b string) {
	n.both(a, b, func(l *link) { l.refused = true })
	n.reset(func(c *Conn) bool {
		return c.local.host == a && c.remote.host == b || c.local.host == b && c.remote.host == a
	})
}

// Heal removes the faults between two hosts.
func (n *Network) Heal(a, b string) { n.both(a, b, func(l *link) { l.cut, l.refused = false, false }) }

// Isolate cuts a host from all others.
func (n *Network) Isolate(name string) {
	for _, other := range n.others(name) {
		n.Cut(name, other)
	}
}

// Rejoin heals all links of a host.
func (n *Network) Rejoin(name string) {
	for _, other := range n.others(name) {
		n.Heal(name, other)
	}
}

// ResetConns resets every connection between two hosts; new ones work.
func (n *Network) ResetConns(a, b string) {
	n.reset(func(c *Conn) bool { return c.local.host == a && c.remote.host == b })
}

// NumConns is how many connections exist that are not closed on both sides, each counted once per open side.
func (n *Network) NumConns() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}

func (n *Network) others(name string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for h := range n.hosts {
		if h != name {
			out = append(out, h)
		}
	}
	return out
}

func (n *Network) both(a, b string, f func(*link)) {
	n.change(func() {
		f(n.link(a, b))
		f(n.link(b, a))
	})
}

func (n *Network) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *Network) link(from, to string) *link {
	key := [2]string{from, to}
	l := n.links[key]
	if l == nil {
		l = &link{}
		n.links[key] = l
	}
	return l
}

// state is how the link is now, and a channel that is closed when any link changes.
func (n *Network) state(from, to string) (link, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var l link
	if p := n.links[[2]string{from, to}]; p != nil {
		l = *p
	}
	if !l.hasLatency {
		l.latency = n.latency
	}
	return l, n.changed
}

func (n *Network) reset(match func(*Conn) bool) {
	var hit []*Conn
	n.mu.Lock()
	for c := range n.conns {
		if match(c) {
			hit = append(hit, c)
		}
	}
	n.mu.Unlock()
	for _, c := range hit {
		c.abort()
		c.peer.abort()
	}
}

// Host is one machine.
type Host struct {
	net  *Network
	name string
	// guarded by net.mu
	listeners map[int]*listener
	nextPort  int
}

// Name is the host's name, which is also its address.
func (h *Host) Name() string { return h.name }

// Listen listens on "host:port" or ":port"; the host part is not looked at. Port 0 takes a free one.
func (h *Host) Listen(addr string) (net.Listener, error) {
	_, port, err := split(addr)
	if err != nil {
		return nil, err
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if port == 0 {
		port = h.port()
	}
	if h.listeners[port] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: Addr{h.name, port}, Err: syscall.EADDRINUSE}
	}
	l := &listener{host: h, addr: Addr{h.name, port}, conns: make(chan *Conn, backlog), done: make(chan struct{})}
	h.listeners[port] = l
	return l, nil
}

// port is a free port. net.mu is held.
func (h *Host) port() int {
	for h.listeners[h.nextPort] != nil {
		h.nextPort++
	}
	h.nextPort++
	return h.nextPort - 1
}

// Dial connects to "host:port". It takes a round trip; on a cut link it waits for ctx.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	to, port, err := split(addr)
	if err != nil {
		return nil, err
	}
	h.net.mu.Lock()
	local := Addr{h.name, h.port()}
	h.net.mu.Unlock()
	remote := Addr{to, port}
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Source: local, Addr: remote, Err: err}
	}
	for _, way := range [2][2]string{{h.name, to}, {to, h.name}} {
		if err := h.net.cross(ctx, way[0], way[1]); err != nil {
			return fail(err)
		}
	}
	c, err := h.net.connect(local, remote)
	if err != nil {
		return fail(err)
	}
	return c, nil
}

// cross waits until something sent now would have arrived.
func (n *Network) cross(ctx context.Context, from, to string) error {
	sent := time.Now()
	for {
		l, changed := n.state(from, to)
		switch {
		case l.refused:
			return syscall.ECONNREFUSED
		case !l.cut && time.Since(sent) >= l.latency:
			return ctx.Err()
		case l.cut:
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		default:
			if err := sleep(ctx, changed, l.latency-time.Since(sent)); err != nil {
				return err
			}
		}
	}
}

func sleep(ctx context.Context, changed <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-changed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (n *Network) connect(local, remote Addr) (*Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[remote.host]
	if h == nil {
		return nil, &net.DNSError{Err: "no such host", Name: remote.host, IsNotFound: true}
	}
	l := h.listeners[remote.port]
	if l == nil || len(l.conns) == cap(l.conns) {
		return nil, syscall.ECONNREFUSED
	}
	a, b := pair(n, local, remote)
	n.conns[a], n.conns[b] = struct{}{}, struct{}{}
	l.conns <- b // n.mu is held by every sender, so there is room
	return a, nil
}

// Close crashes the host: its listeners go and its connections are reset; the other sides learn of it when the link
// lets them. The host may listen and dial again afterwards.
func (h *Host) Close() {
	h.net.mu.Lock()
	var ls []*listener
	for _, l := range h.listeners {
		ls = append(ls, l)
	}
	h.net.mu.Unlock()
	for _, l := range ls {
		_ = l.Close()
	}
	var mine []*Conn
	h.net.mu.Lock()
	for c := range h.net.conns {
		if c.local.host == h.name {
			mine = append(mine, c)
		}
	}
	h.net.mu.Unlock()
	for _, c := range mine {
		c.abort()
	}
}

// Addr is an address on a network.
type Addr struct {
	host string
	port int
}

// Network is "tcp": what runs here takes it for that.
func (a Addr) Network() string { return "tcp" }

func (a Addr) String() string { return net.JoinHostPort(a.host, strconv.Itoa(a.port)) }

func split(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("address %q: bad port", addr)
	}
	return host, port, nil
}

// listener accepts on a port.
type listener struct {
	host  *Host
	addr  Addr
	conns chan *Conn
	done  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	closed := &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	select {
	case <-l.done:
		return nil, closed
	default:
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, closed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.host.net.mu.Lock()
		delete(l.host.listeners, l.addr.port)
		close(l.done)
		l.host.net.mu.Unlock()
		for {
			select {
			case c := <-l.conns:
				c.abort()
			default:
				return
			}
		}
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }
