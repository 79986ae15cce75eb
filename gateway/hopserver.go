package gateway

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/coordd/coordd/coordinator"
)

// maxHopInflight is how many requests of a peer may be unanswered before it is read no further. It is more than a large
// group has members: when they join at once, requests about other groups are not to wait behind them.
const maxHopInflight = 32 << 10

// hopServer is the answering side of an inner hop.
type hopServer struct {
	g     *Gateway
	nc    net.Conn
	slots chan struct{}
	held  map[uint64]*farHold // by the peer's client connections; owned by serve

	mu      sync.Mutex
	out     []byte
	writing bool
}

// acceptHops serves the connections of other nodes.
func (g *Gateway) acceptHops() {
	for {
		nc, err := g.net.Hops.Accept()
		if err != nil {
			if g.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			g.log.note("accept", "cannot accept a connection of another node", "error", err)
			if !g.pause(50 * time.Millisecond) {
				return
			}
			continue
		}
		g.mu.Lock()
		if g.closed {
			g.mu.Unlock()
			_ = nc.Close()
			return
		}
		g.hopSeq++
		g.hopsIn[nc] = g.hopSeq
		g.run(func() { g.serveHop(nc) })
		tooOld := g.oldestHop()
		g.mu.Unlock()
		if tooOld != nil {
			g.log.note("inner hop in", "too many connections of other nodes: closing the oldest", "limit", maxHopsIn)
			_ = tooOld.Close()
		}
	}
}

// maxHopsIn bounds the connections of other nodes. Each node keeps one, so that more come only from a stranger or from
// nodes that reconnect.
const maxHopsIn = 64

// oldestHop is the connection to close where there are too many; the lock is held.
func (g *Gateway) oldestHop() net.Conn {
	if len(g.hopsIn) <= maxHopsIn {
		return nil
	}
	var oldest net.Conn
	for nc, seq := range g.hopsIn {
		if oldest == nil || seq < g.hopsIn[oldest] {
			oldest = nc
		}
	}
	delete(g.hopsIn, oldest)
	return oldest
}

// hopFramePatience is how long the rest of a frame may take once it has begun.
const hopFramePatience = 10 * time.Second

// hopReader gives a peer time between frames, but not inside one.
type hopReader struct {
	nc      net.Conn
	inFrame bool
	armed   bool
}

// Read implements io.Reader.
func (r *hopReader) Read(p []byte) (int, error) {
	switch {
	case r.inFrame && !r.armed:
		r.armed = true
		if err := r.nc.SetReadDeadline(time.Now().Add(hopFramePatience)); err != nil {
			return 0, err
		}
	case !r.inFrame && r.armed:
		r.armed = false
		if err := r.nc.SetReadDeadline(time.Time{}); err != nil {
			return 0, err
		}
	}
	return r.nc.Read(p)
}

func (g *Gateway) serveHop(nc net.Conn) {
	h := &hopServer{g: g, nc: nc, slots: make(chan struct{}, maxHopInflight), held: map[uint64]*farHold{}}
	if err := h.serve(); err != nil && !errors.Is(err, io.EOF) && g.ctx.Err() == nil {
		g.log.note("inner hop in", "closing the connection of another node", "peer", nc.RemoteAddr(), "error", err)
	}
	for connection := range h.held {
		h.gone(connection, false)
	}
	_ = nc.Close()
	g.mu.Lock()
	delete(g.hopsIn, nc)
	g.mu.Unlock()
}

func (h *hopServer) serve() error {
	in := &hopReader{nc: h.nc, inFrame: true}
	br := bufio.NewReaderSize(in, 64<<10)
	version, err := br.ReadByte()
	if err != nil {
		return err
	}
	if version != hopVersion {
		return errHop
	}
	h.send(0, nil, nil)
	limit := h.g.cfg.MaxRequestBytes + 256<<10 // the names of the client come on top
	for {
		in.inFrame = false
		if _, err := br.Peek(1); err != nil {
			return err
		}
		in.inFrame = true
		frame, err := readHopFrame(br, limit)
		if err != nil {
			return err
		}
		r, err := parseHopRequest(frame)
		if err != nil {
			return err
		}
		switch r.kind {
		case hopLetGo, hopGone, hopEnded:
			h.message(&r)
			continue
		case hopPing:
			h.send(0, nil, nil)
			continue
		}
		select {
		case h.slots <- struct{}{}:
		case <-h.g.ctx.Done():
			return errClosed
		}
		if err := h.handle(&r); err != nil {
			return err
		}
	}
}

// message takes what has no answer.
func (h *hopServer) message(r *hopRequest) {
	connection, number, _ := parseHold(r.payload)
	switch k := h.held[connection]; {
	case k == nil:
	case r.kind == hopLetGo:
		h.letGo(k, number)
	default:
		h.gone(connection, r.kind == hopGone)
	}
}

// errHopClock is a request that was read in the future: one of the clocks stood still with its machine, so that no age is
// right. A new connection asks for the clock anew.
var errHopClock = errors.New("the clock of an inner hop is wrong")

// handle gives a request to whoever answers it. Behind this the order in which requests come is kept, so that their age is
// looked at here, behind all that may keep them waiting before.
func (h *hopServer) handle(r *hopRequest) error {
	id, kind := r.id, r.kind
	answer := func(payload []byte, err *coordinator.Error) {
		payload, err = h.fitting(kind, payload, err)
		h.send(id, payload, err)
	}
	done := func(payload []byte, err *coordinator.Error) {
		<-h.slots
		answer(payload, err)
	}
	age := h.g.now() - r.asked
	switch {
	case age < -clockSlack:
		return errHopClock
	case age > h.g.cfg.freshFor && (r.kind != hopKafka || !leaves(r.payload)):
		done(nil, tooOld)
		return nil
	}
	switch r.kind {
	case hopBeat:
		if err := h.beat(r, ageMs(age), answer); err != nil {
			done(nil, &coordinator.Error{Code: coordinator.InvalidRequest})
		}
		return nil
	case hopKafka:
		if err := h.g.execute(&r.client, r.payload, ageMs(age), done); err != nil {
			done(nil, &coordinator.Error{Code: coordinator.InvalidRequest})
		}
		return nil
	case hopAwait:
		if len(r.payload) != 8 || h.g.cfg.GroupConfigs == nil {
			return errHop
		}
		h.g.cfg.GroupConfigs.Await(binary.BigEndian.Uint64(r.payload), func() { done(nil, nil) })
		return nil
	case hopPosition:
		if len(r.payload) != 4 || binary.BigEndian.Uint32(r.payload) >= h.g.coords.Shards() {
			return errHop
		}
		h.g.executePosition(binary.BigEndian.Uint32(r.payload), &r.client, done)
		return nil
	case hopHolds, hopVacate:
		h.g.executeHolding(r.kind, &r.client, string(r.payload), done)
		return nil
	}
	return errHop
}

// maxHopAnswer is the largest answer in bytes that goes over an inner hop, several times what a group of thousands of members
// takes. One of a group with absurd names would keep all others waiting, or end the hop and with it what is held over it.
const maxHopAnswer = 16 << 20

// fitting is the answer to a request, or the error in place of one that is too large: a member is sent to the leader, which can
// answer it.
func (h *hopServer) fitting(kind byte, payload []byte, err *coordinator.Error) ([]byte, *coordinator.Error) {
	if len(payload) <= maxHopAnswer {
		return payload, err
	}
	h.g.log.note("hop answer", "an answer is too large to be passed between nodes", "bytes", len(payload), "limit", maxHopAnswer)
	if kind == hopBeat {
		return nil, &coordinator.Error{Code: coordinator.NotCoordinator}
	}
	return nil, &coordinator.Error{Code: coordinator.InvalidRequest}
}

// send queues an answer; it does not wait for the peer.
func (h *hopServer) send(id uint64, payload []byte, err *coordinator.Error) {
	a := hopAnswer{id: id, clock: h.g.now(), payload: payload}
	if err != nil {
		a.code, a.notStarted = err.Code, err.NotStarted
	}
	h.mu.Lock()
	h.out = appendHopAnswer(h.out, &a)
	start := !h.writing
	h.writing = true
	h.mu.Unlock()
	if start {
		go h.write()
	}
}

func (h *hopServer) write() {
	var spare []byte
	for {
		h.mu.Lock()
		b := h.out
		if len(b) == 0 || len(b) > maxHopUnwritten {
			h.writing = false
			h.mu.Unlock()
			if len(b) > 0 {
				_ = h.nc.Close()
			}
			return
		}
		h.out = spare[:0]
		h.mu.Unlock()
		_ = h.nc.SetWriteDeadline(time.Now().Add(writePatience))
		if _, err := h.nc.Write(b); err != nil {
			_ = h.nc.Close()
			return
		}
		if spare = b; cap(spare) > keepBufSize {
			spare = nil
		}
	}
}
