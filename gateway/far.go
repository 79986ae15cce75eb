package gateway

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/protocol"
)

// farBeat is a heartbeat that was given to another node, which may hold it. No goroutine waits for the answer.
type farBeat struct {
	g       *Gateway
	s       *slot
	number  uint64
	shard   uint32
	began   time.Time
	attempt attempt
	over    atomic.Bool
}

// farBeats are the heartbeats at other nodes by shard. While a shard has some, its leader is watched: a node that leads no
// more may never answer.
type farBeats struct {
	mu      sync.Mutex
	byShard map[uint32]map[*farBeat]struct{}
}

// beatFar gives a heartbeat to the node that leads its shard.
func (c *conn) beatFar(s *slot, number uint32, leader int32) error {
	g, k := c.g, &c.hold
	frame := append([]byte(nil), s.frame...)
	s.CallHeld(nil)
	s.frame = frame
	_, body, err := protocol.ParseHeader(frame[4:])
	if err == nil {
		s.beat = streams.HeartbeatRequest{}
		err = protocol.DecodeHeartbeat(s.h.Version, body, &s.beat) // again: it aliased the read buffer
	}
	if err != nil {
		return err
	}
	c.begin(&s.call, number)
	s.call.Hold = nil
	b := &farBeat{g: g, s: s, number: k.last, shard: number, began: time.Now()}
	b.attempt.errand = &errand{group: s.beat.GroupID, c: c, began: c.began}
	b.attempt.leader, b.attempt.answered = leader, b.answered
	client := s.call.Client // the slot may be answered, and used again, as soon as the beat is watched
	k.remote = b
	if !containsNode(k.nodes, leader) {
		k.nodes = append(k.nodes, leader)
	}
	g.far.add(g, b)
	g.metrics.hops.Inc()
	payload := append(appendHold(make([]byte, 0, holdSize+len(frame)), k.holder.ID, k.last), frame...)
	g.hops.request(leader, hopBeat, client, payload, &b.attempt)
	return nil
}

func containsNode(nodes []int32, node int32) bool {
	for _, n := range nodes {
		if n == node {
			return true
		}
	}
	return false
}

// answered takes the outcome. A heartbeat that did not reach its node is given to the next leader; one that did may have
// been held there, so that its member is to look for the leader itself and to report what it owns.
func (b *farBeat) answered(answer []byte, err *coordinator.Error) {
	if !b.over.CompareAndSwap(false, true) {
		return
	}
	unsent := b.attempt.giveUp()
	b.g.far.remove(b)
	switch {
	case err == nil:
		b.s.out, b.s.code = append(b.s.out[:0], answer...), codeIn(b.s.h, answer)
		b.s.answer()
	case err.Code == coordinator.NotCoordinator && unsent:
		b.g.run(func() { b.g.rebeat(b.s, b.attempt.errand.began, false) })
	default:
		b.s.fail(&coordinator.Error{Code: err.Code})
	}
}

func (f *farBeats) add(g *Gateway, b *farBeat) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byShard == nil {
		f.byShard = map[uint32]map[*farBeat]struct{}{}
	}
	beats := f.byShard[b.shard]
	if beats == nil {
		beats = map[*farBeat]struct{}{}
		f.byShard[b.shard] = beats
		g.run(func() { f.watch(g, b.shard) })
	}
	beats[b] = struct{}{}
}

func (f *farBeats) remove(b *farBeat) {
	f.mu.Lock()
	delete(f.byShard[b.shard], b)
	f.mu.Unlock()
}

// watchEvery is how often a watch looks for heartbeats that nobody answers.
const watchEvery = 5 * time.Second

// watch gives up the heartbeats of a shard whose leader is another one by now, or that were not answered for too long. It
// ends when there are none.
func (f *farBeats) watch(g *Gateway, number uint32) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		changed := g.coords.LeaderChanged(number)
		now := time.Now()
		var lost []*farBeat
		f.mu.Lock()
		leader, known := g.coords.Leader(number) // no older than what the beats went by
		beats := f.byShard[number]
		if len(beats) == 0 {
			delete(f.byShard, number)
			f.mu.Unlock()
			return
		}
		for b := range beats {
			if known && b.attempt.leader != leader || now.Sub(b.began) > attemptTimeout {
				lost = append(lost, b)
			}
		}
		f.mu.Unlock()
		for _, b := range lost {
			b.answered(nil, unreachable)
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-g.ctx.Done():
			f.mu.Lock()
			delete(f.byShard, number)
			f.mu.Unlock()
			return
		}
	}
}
