package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coordd/coordd/protocol"
)

var (
	errDeadline = os.ErrDeadlineExceeded
	errBadFrame = errors.New("frame length out of range")
	errRefused  = errors.New("request not served")
	errClosed   = errors.New("gateway closed")
	errFull     = errors.New("too many connections")
)

// Config is what a Gateway is made of.
type Config struct {
	Coordinators Coordinators
	Cluster      Cluster
	// GroupConfigs are the settings of groups; nil where the upstream alone has them.
	GroupConfigs GroupConfigs
	Network      Network
	Logger       hclog.Logger
	// Registerer takes the gateway's metrics; nil for none.
	Registerer prometheus.Registerer

	// ClientListen is the address of the port that stands for this node.
	ClientListen string
	// BrokerListen is the address of the port that stands for the upstream broker of slot k.
	BrokerListen func(k int32) string
	// NodeIDBase is what a node's id is added to for its id towards clients; 0 means 1,000,000.
	NodeIDBase int32
	// MaxRequestBytes is the largest request taken (socket.request.max.bytes); 0 means 100 MiB.
	MaxRequestBytes int
	// IdleTimeout closes connections without requests (connections.max.idle.ms); 0 means 10 minutes.
	IdleTimeout time.Duration
	// MaxConnections is how many client connections are served at once (max.connections); 0 means no limit.
	MaxConnections int
	// ParkTime is how long a group request waits for its shard to have a leader; 0 means 1.5 s.
	ParkTime time.Duration
	// Quirks are repairs of what an upstream answers.
	Quirks Quirks
	// StateDir is an existing directory for what the gateway keeps over restarts: what the upstream's brokers serve, so
	// that clients are answered while the upstream is away. Empty for none.
	StateDir string
	// Versions is what every upstream broker is taken to serve; no broker is asked then. It is for tests and for
	// embedding without an upstream that could be asked; nil otherwise.
	Versions *Versions

	holdVersions, freshVersions, viewPatience, topicPatience, freshFor, lastWord time.Duration // for tests; see the constants
}

// Gateway serves the clients of one node.
type Gateway struct {
	cfg     Config
	coords  Coordinators
	cluster Cluster
	net     Network
	log     causeLog
	metrics metrics
	made    time.Time

	versions  versionCache
	where     coordinatorCache
	foreign   foreignGroups
	absent    absentTopics
	hops      *hopClients
	far       farBeats
	holderIDs atomic.Uint64
	partial   atomic.Pointer[<-chan struct{}] // Cluster.Changed when brokers without a number were waited for in vain

	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup
	runMu sync.Mutex // orders run against Close

	mu     sync.Mutex
	node   *port
	ports  map[int32]*port // by slot number
	conns  map[*conn]struct{}
	hopsIn map[net.Conn]uint64 // and the order in which they came
	hopSeq uint64
	closed bool
}

// port is a listening port and the node that it stands for.
type port struct {
	g      *Gateway
	ln     net.Listener
	id     int32 // the node id towards clients
	broker int32 // the upstream broker; -1 on the node's own port
}

const noBroker int32 = -1

// New makes a Gateway; [Gateway.Start] lets it serve.
func New(cfg Config) *Gateway {
	if cfg.NodeIDBase == 0 {
		cfg.NodeIDBase = 1_000_000
	}
	if cfg.MaxRequestBytes == 0 {
		cfg.MaxRequestBytes = protocol.MaxRequestSize
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = 10 * time.Minute
	}
	if cfg.ParkTime == 0 {
		cfg.ParkTime = 1500 * time.Millisecond
	}
	if cfg.topicPatience == 0 {
		cfg.topicPatience = topicPatience
	}
	if cfg.viewPatience == 0 {
		cfg.viewPatience = viewPatience
	}
	if cfg.freshFor == 0 {
		cfg.freshFor = freshFor
	}
	if cfg.lastWord == 0 {
		cfg.lastWord = lastWord
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Network.Listen == nil {
		cfg.Network.Listen = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	if cfg.Network.Dial == nil {
		cfg.Network.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	g := &Gateway{
		cfg: cfg, coords: cfg.Coordinators, cluster: cfg.Cluster, net: cfg.Network,
		made: time.Now(), ports: map[int32]*port{}, conns: map[*conn]struct{}{}, hopsIn: map[net.Conn]uint64{},
	}
	g.log.logger = cfg.Logger
	g.metrics.init(g, cfg.Registerer)
	g.versions.init(g)
	g.where.init()
	g.foreign.init(g)
	g.hops = newHopClients(g)
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// Start opens the node's own port and lets the broker ports follow the upstream. An error means that the node's port
// could not be opened.
func (g *Gateway) Start() error {
	ln, err := g.net.Listen(g.cfg.ClientListen)
	if err != nil {
		return fmt.Errorf("client port: %w", err)
	}
	g.node = &port{g: g, ln: ln, id: g.clientID(g.coords.Self()), broker: noBroker}
	g.run(g.node.accept)
	g.run(g.watchSlots)
	g.run(g.sweep)
	if g.net.Hops != nil {
		g.run(g.acceptHops)
	}
	return nil
}

// Addr is the address of the node's own port.
func (g *Gateway) Addr() net.Addr { return g.node.ln.Addr() }

// Close ends all connections and waits until nothing of the gateway runs.
func (g *Gateway) Close() {
	g.mu.Lock()
	g.closed = true
	ports, conns, hops := g.ports, g.conns, g.hopsIn
	g.ports, g.conns, g.hopsIn = map[int32]*port{}, map[*conn]struct{}{}, map[net.Conn]uint64{}
	g.mu.Unlock()
	g.runMu.Lock()
	g.stop()
	g.runMu.Unlock()
	if g.node != nil {
		_ = g.node.ln.Close()
	}
	for _, p := range ports {
		_ = p.ln.Close()
	}
	if g.net.Hops != nil {
		_ = g.net.Hops.Close()
	}
	for c := range conns {
		c.evicted.Store(true)
		c.close()
	}
	for nc := range hops {
		_ = nc.Close()
	}
	g.hops.close()
	g.wg.Wait()
}

// run starts a goroutine that Close waits for; f ends when the gateway's context does. What is started after Close has
// begun ends by itself.
func (g *Gateway) run(f func()) {
	g.runMu.Lock()
	defer g.runMu.Unlock()
	if g.ctx.Err() != nil {
		go f()
		return
	}
	g.wg.Add(1)
	go func() {
		defer g.wg.Done()
		f()
	}()
}

// clientID is the id of a coordd node towards clients.
func (g *Gateway) clientID(node int32) int32 { return g.cfg.NodeIDBase + node }

// watchSlots opens a port for each upstream broker as they become known.
func (g *Gateway) watchSlots() {
	for {
		changed := g.cluster.Changed()
		var retry <-chan time.Time
		for _, s := range g.cluster.Slots() {
			if err := g.openSlot(s); err != nil {
				g.log.note("broker port", "cannot open the port of an upstream broker", "broker", s.Broker, "error", err)
				retry = time.After(time.Second)
			}
		}
		g.versions.prefetch()
		select {
		case <-changed:
		case <-retry:
		case <-g.ctx.Done():
			return
		}
	}
}

func (g *Gateway) openSlot(s Slot) error {
	g.mu.Lock()
	_, open := g.ports[s.K]
	g.mu.Unlock()
	if open {
		return nil
	}
	ln, err := g.net.Listen(g.cfg.BrokerListen(s.K))
	if err != nil {
		return err
	}
	p := &port{g: g, ln: ln, id: s.Broker, broker: s.Broker}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		_ = ln.Close()
		return nil
	}
	g.ports[s.K] = p
	g.mu.Unlock()
	g.run(p.accept)
	return nil
}

// accept serves the connections of a port until it is closed.
func (p *port) accept() {
	for {
		nc, err := p.ln.Accept()
		if err != nil {
			if p.g.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			p.g.log.note("accept", "cannot accept a connection", "error", err)
			if !p.g.pause(50 * time.Millisecond) { // out of file descriptors: leave the others time to end
				return
			}
			continue
		}
		c := newConn(p, nc)
		if err := p.g.admit(c); err != nil {
			_ = nc.Close()
			if err == errClosed {
				return
			}
			p.g.log.note("connections", "a client was refused: max.connections is reached", "limit", p.g.cfg.MaxConnections)
		}
	}
}

// pause waits; false means that the gateway closes.
func (g *Gateway) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-g.ctx.Done():
		return false
	}
}

// admit serves a connection unless the gateway is closed or full.
func (g *Gateway) admit(c *conn) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errClosed
	}
	if limit := g.cfg.MaxConnections; limit > 0 && len(g.conns) >= limit {
		return errFull
	}
	g.conns[c] = struct{}{}
	g.metrics.connections.Inc()
	g.run(c.serve)
	return nil
}

func (g *Gateway) forget(c *conn) {
	g.mu.Lock()
	delete(g.conns, c)
	g.mu.Unlock()
	g.metrics.connections.Dec()
}

const sweepEvery = 15 * time.Second

// idleness is what the sweeper knows of a connection.
type idleness struct {
	seen   uint32
	since  time.Time
	looked bool
}

// sweep closes connections that have been idle for too long, and lets each connection that has become quiet look once
// whether its client has gone: see conn.readReady.
func (g *Gateway) sweep() {
	tick := time.NewTicker(min(sweepEvery, g.cfg.IdleTimeout))
	defer tick.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case now := <-tick.C:
			for _, c := range g.connections() {
				c.sweep(now)
			}
		}
	}
}

// connections are the client connections now.
func (g *Gateway) connections() []*conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.conns))
}

func (c *conn) sweep(now time.Time) {
	seen := c.activity.Load()
	if c.idle.since.IsZero() || seen != c.idle.seen {
		c.idle = idleness{seen: seen, since: now}
		return
	}
	if !c.idle.looked && c.raw != nil {
		c.idle.looked = true
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
	c.mu.Lock()
	busy := c.inflight > 0
	c.mu.Unlock()
	if !busy && now.Sub(c.idle.since) >= c.g.cfg.IdleTimeout {
		c.evicted.Store(true)
		c.close()
	}
}
