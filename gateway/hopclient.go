package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/coordd/coordd/coordinator"
)

// maxHopUnwritten is how many bytes may wait for a peer that does not read; requests beyond are not sent.
const maxHopUnwritten = 64 << 20

// hopClients holds one connection to each other node, opened when it is first needed.
type hopClients struct {
	g      *Gateway
	mu     sync.Mutex
	peers  map[int32]*hopClient
	closed bool
}

// hopClient is the sending side of an inner hop.
type hopClient struct {
	all     *hopClients
	node    int32
	mu      sync.Mutex
	nc      net.Conn    // nil while it is being opened
	queue   []queuedHop // what waits until it is open
	queued  int         // bytes in queue
	out     []byte
	writing bool
	next    uint64
	pending map[uint64]func([]byte, *coordinator.Error)
	clock   peerClock
	silent  int // how many pings were sent since the other node was heard
	dead    bool
	dial    func() (net.Conn, error)
}

// queuedHop is a request that is to be sent if it is still wanted when the connection is open; one without an attempt has
// no answer.
type queuedHop struct {
	request hopRequest
	attempt *attempt
}

func newHopClients(g *Gateway) *hopClients { return &hopClients{g: g, peers: map[int32]*hopClient{}} }

func (a *hopClients) peer(node int32) *hopClient {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	h := a.peers[node]
	if h == nil {
		h = &hopClient{all: a, node: node, pending: map[uint64]func([]byte, *coordinator.Error){}}
		h.dial = func() (net.Conn, error) {
			ctx, cancel := context.WithTimeout(a.g.ctx, dialTimeout)
			defer cancel()
			return a.g.net.DialPeer(ctx, node)
		}
		a.peers[node] = h
		a.g.run(h.serve)
	}
	return h
}

// request sends a request to a node. The attempt is told once, on any goroutine: the answer, what the other side said
// instead, or NOT_COORDINATOR when the node cannot be reached or the connection ended. It does not block; the payload is copied. A request that is not
// wanted any more when the connection opens is not sent.
func (a *hopClients) request(node int32, kind byte, client *coordinator.Client, payload []byte, to *attempt) {
	if a.g.net.DialPeer == nil {
		to.tell(nil, unreachable)
		return
	}
	h := a.peer(node)
	if h == nil {
		to.tell(nil, unreachable)
		return
	}
	h.mu.Lock()
	if h.dead || len(h.out)+h.queued > maxHopUnwritten {
		h.mu.Unlock()
		to.tell(nil, unreachable)
		return
	}
	if h.nc == nil {
		r := hopRequest{kind: kind, client: *client, payload: bytes.Clone(payload)}
		h.queue = append(h.queue, queuedHop{r, to})
		h.queued += len(payload)
		h.mu.Unlock()
		return
	}
	h.send(hopRequest{kind: kind, client: *client, payload: payload}, to)
	start := !h.writing
	if start {
		h.writing = true
	}
	h.mu.Unlock()
	if start {
		go h.write()
	}
}

// tell sends a message that has no answer to a node, behind what was sent to it before. A node that nothing was sent to
// need not be told anything.
func (a *hopClients) tell(node int32, kind byte, payload []byte) {
	a.mu.Lock()
	h := a.peers[node]
	a.mu.Unlock()
	if h == nil {
		return
	}
	h.mu.Lock()
	if h.dead || len(h.out)+h.queued > maxHopUnwritten {
		h.mu.Unlock()
		return
	}
	if h.nc == nil {
		h.queue = append(h.queue, queuedHop{hopRequest{kind: kind, payload: payload}, nil})
		h.queued += len(payload)
		h.mu.Unlock()
		return
	}
	h.send(hopRequest{kind: kind, payload: payload}, nil)
	start := !h.writing
	h.writing = true
	h.mu.Unlock()
	if start {
		go h.write()
	}
}

// send puts a request behind what is to be written, unless its attempt was given up. h.mu is held.
func (h *hopClient) send(r hopRequest, to *attempt) {
	if to != nil {
		if !to.send() {
			return
		}
		h.next++
		r.id = h.next
		r.asked = h.clock.at(to.errand.began)
		h.pending[r.id] = to.tell
	}
	h.out = appendHopRequest(h.out, &r)
}

// serve opens the connection and takes answers until it ends; everything that waits is told then.
func (h *hopClient) serve() {
	g := h.all.g
	err := h.receive()
	switch away := g.cfg.Network.Away; {
	case g.ctx.Err() != nil:
	case away != nil && away(h.node):
		g.log.logger.Debug("the connection to another node ended, which said that it would stop", "peer", h.node)
	default:
		g.log.note("inner hop", "the connection to another node ended", "peer", h.node, "error", err)
	}
	h.all.mu.Lock()
	delete(h.all.peers, h.node)
	h.all.mu.Unlock()
	h.mu.Lock()
	h.dead = true
	pending, queue := h.pending, h.queue
	h.pending, h.queue, h.out = nil, nil, nil
	nc := h.nc
	h.mu.Unlock()
	if nc != nil {
		abort(nc) // nobody waits for what is still on its way
	}
	for _, done := range pending {
		done(nil, unreachable)
	}
	for _, q := range queue {
		if q.attempt != nil {
			q.attempt.tell(nil, unreachable)
		}
	}
}

// connected takes the connection into use, and sends what has waited for it and is still wanted.
func (h *hopClient) connected(nc net.Conn) {
	h.mu.Lock()
	for len(h.queue) > 0 {
		queue := h.queue
		h.queue, h.queued = nil, 0
		h.mu.Unlock()
		wanted := queue[:0]
		for _, q := range queue {
			if q.attempt == nil || q.attempt.wanted() {
				wanted = append(wanted, q)
			} else {
				q.attempt.tell(nil, unreachable)
			}
		}
		h.mu.Lock()
		for _, q := range wanted {
			h.send(q.request, q.attempt)
		}
	}
	h.nc, h.writing = nc, true
	h.mu.Unlock()
	go h.write()
}

func (h *hopClient) receive() error {
	g := h.all.g
	nc, err := h.dial()
	if err != nil {
		return err
	}
	defer closeWith(g.ctx, nc)()
	br := bufio.NewReaderSize(nc, 64<<10)
	if err := h.greet(nc, br); err != nil {
		_ = nc.Close()
		return err
	}
	h.connected(nc)
	ended := make(chan struct{})
	defer close(ended)
	g.run(func() { h.watch(nc, ended) })
	for {
		a, err := h.answer(br)
		switch {
		case err != nil:
			return err
		case a.id == 0:
			continue
		}
		h.mu.Lock()
		done := h.pending[a.id]
		delete(h.pending, a.id)
		h.mu.Unlock()
		if done == nil {
			return errHop
		}
		if err := a.failure(); err != nil {
			done(nil, err)
		} else {
			done(a.payload, nil)
		}
	}
}

// greet asks for the clock of the other node, by which requests are dated.
func (h *hopClient) greet(nc net.Conn, br *bufio.Reader) error {
	if err := nc.SetDeadline(deadlineIn(dialTimeout)); err != nil {
		return err
	}
	if _, err := nc.Write([]byte{hopVersion}); err != nil {
		return err
	}
	if a, err := h.answer(br); err != nil || a.id != 0 {
		return errors.Join(errHop, err)
	}
	return nc.SetDeadline(noDeadline)
}

// answer reads an answer.
func (h *hopClient) answer(br *bufio.Reader) (a hopAnswer, err error) {
	frame, err := readHopFrame(br, maxUpstream)
	if err != nil {
		return a, err
	}
	if a, err = parseHopAnswer(frame); err != nil {
		return a, err
	}
	now := h.all.g.now()
	h.mu.Lock()
	h.clock.heard(a.clock, now)
	h.silent = 0
	h.mu.Unlock()
	return a, nil
}

// A node is asked for its clock every hopPingEvery, and given up when it does not answer hopPings of them: its connection may
// be cut while that of its Raft is not.
const (
	hopPingEvery = time.Second
	hopPings     = 10
)

// watch ends a connection over which nothing comes any more.
func (h *hopClient) watch(nc net.Conn, ended <-chan struct{}) {
	g := h.all.g
	tick := time.NewTicker(hopPingEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ended:
			return
		case <-g.ctx.Done():
			return
		}
		h.mu.Lock()
		h.silent++
		over := h.silent > hopPings
		h.mu.Unlock()
		if over {
			g.log.note("inner hop silent", "another node does not answer on its connection: closing it", "node", h.node)
			abort(nc)
			return
		}
		h.all.tell(h.node, hopPing, nil)
	}
}

// abort ends a connection at once: what the other side has not been sent yet is dropped.
func abort(nc net.Conn) {
	under := nc
	for {
		t, ok := under.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		under = t.NetConn()
	}
	if t, ok := under.(interface{ SetLinger(sec int) error }); ok {
		_ = t.SetLinger(0)
	}
	_ = nc.Close()
}

// write sends what waits. The caller has set h.writing.
func (h *hopClient) write() {
	var spare []byte
	for {
		h.mu.Lock()
		b := h.out
		if len(b) == 0 || h.dead {
			h.writing = false
			h.mu.Unlock()
			return
		}
		h.out = spare[:0]
		h.mu.Unlock()
		_ = h.nc.SetWriteDeadline(time.Now().Add(writePatience))
		if _, err := h.nc.Write(b); err != nil {
			_ = h.nc.Close() // receive sees it
		}
		if spare = b; cap(spare) > keepBufSize {
			spare = nil
		}
	}
}

// close ends all connections.
func (a *hopClients) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
}

// closeWith closes nc when ctx ends; the returned function ends the watch.
func closeWith(ctx context.Context, nc net.Conn) func() bool {
	return context.AfterFunc(ctx, func() { _ = nc.Close() })
}

var noDeadline time.Time

func deadlineIn(d time.Duration) time.Time { return time.Now().Add(d) }
