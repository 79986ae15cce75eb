package gateway

import (
	"encoding/binary"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/protocol"
)

// connHold is what a client connection knows of its heartbeats that may be held. It is owned by the connection's reader.
type connHold struct {
	holder *shard.Holder
	last   uint64   // the number of the last heartbeat
	shard  uint32   // its shard, where it went to a shard of this node
	shards uint64   // the shards that heartbeats went to, as bits
	nodes  []int32  // other nodes that heartbeats went to
	remote *farBeat // the last heartbeat, where it went to another node
}

// begin numbers a heartbeat for a shard of this node.
func (c *conn) begin(call *shard.Call, number uint32) {
	k := &c.hold
	if k.holder == nil {
		k.holder = shard.NewHolder(c.g.holderIDs.Add(1))
	}
	k.last++
	k.shard = number
	k.shards |= 1 << (number % 64)
	call.Hold, call.HoldNumber = k.holder, k.last
}

// letGo has the heartbeat that may be held answered, since another request came: answers keep their order.
func (c *conn) letGo() {
	k := &c.hold
	if k.last == 0 {
		return
	}
	if k.holder.Release(k.last) {
		c.g.coords.LetGo(k.shard, k.holder)
	}
	if b := k.remote; b != nil {
		k.remote = nil
		if !b.over.Load() {
			c.g.hops.tell(b.attempt.leader, hopLetGo, appendHold(nil, k.holder.ID, b.number))
		}
	}
}

// gone tells the shards that the connection has ended: by its client, unless this node ended it, be it for a broker behind
// that owed answers.
func (c *conn) gone() {
	k := &c.hold
	if k.last == 0 {
		return
	}
	byClient := (c.left.Load() || c.hungUp() && c.left.Load()) && !c.evicted.Load() && c.g.ctx.Err() == nil
	k.holder.Release(k.last)
	for n := range c.g.coords.Shards() {
		if k.shards&(1<<(n%64)) != 0 {
			c.g.coords.Gone(n, k.holder, byClient)
		}
	}
	kind := hopEnded
	if byClient {
		kind = hopGone
	}
	for _, node := range k.nodes {
		c.g.hops.tell(node, kind, appendHold(nil, k.holder.ID, k.last))
	}
}

// CallHeld implements shard.Keeper: the request's memory is not needed any more, and its time says nothing.
func (s *slot) CallHeld(*shard.Call) {
	s.began = heldBack
	s.frame, s.h.ClientID = nil, ""
	if s.buf != nil {
		s.buf.unpin()
		s.buf = nil
	}
}

// holdSize is how many bytes name a heartbeat of a connection on an inner hop.
const holdSize = 16

func appendHold(dst []byte, connection, number uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, connection), number)
}

func parseHold(b []byte) (connection, number uint64, rest []byte) {
	return binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), b[holdSize:]
}

// farHold is a client connection of another node, whose heartbeats are held here.
type farHold struct {
	holder *shard.Holder
	shard  uint32
	shards uint64
}

// beat takes a heartbeat of another node's client.
func (h *hopServer) beat(r *hopRequest, ageMs int64, done func([]byte, *coordinator.Error)) error {
	connection, number, frame := parseHold(r.payload)
	k := h.held[connection]
	if k == nil {
		k = &farHold{holder: shard.NewHolder(h.g.holderIDs.Add(1))}
		h.held[connection] = k
	}
	h.letGo(k, number-1)
	e := &farExecution{done: done, slots: h.slots}
	e.call = shard.Call{Client: &r.client, Request: &e.beat, AgeMs: ageMs, Done: e, Hold: k.holder, HoldNumber: number}
	return h.g.executeBeat(e, frame, k)
}

func (h *hopServer) letGo(k *farHold, number uint64) {
	if k.holder.Release(number) {
		h.g.coords.LetGo(k.shard, k.holder)
	}
}

// gone ends what a connection held: byClient says that its client ended it, not a node between.
func (h *hopServer) gone(connection uint64, byClient bool) {
	k := h.held[connection]
	if k == nil {
		return
	}
	delete(h.held, connection)
	k.holder.Release(^uint64(0))
	for n := range h.g.coords.Shards() {
		if k.shards&(1<<(n%64)) != 0 {
			h.g.coords.Gone(n, k.holder, byClient)
		}
	}
}

// executeBeat gives a heartbeat, whole with its length prefix, to its shard of this node, which may hold it.
func (g *Gateway) executeBeat(e *farExecution, frame []byte, k *farHold) error {
	h, body, err := protocol.ParseHeader(frame[4:])
	if err != nil {
		return err
	}
	if h.Key != protocol.KeyStreamsGroupHeartbeat || !protocol.Supported(h.Key, h.Version) {
		return errGroupRequest
	}
	e.version, e.correlation = h.Version, h.Correlation
	if err := protocol.DecodeHeartbeat(h.Version, body, &e.beat); err != nil {
		return err
	}
	n := g.coords.Shard(e.beat.GroupID)
	k.shard = n
	k.shards |= 1 << (n % 64)
	g.coords.Submit(n, &e.call)
	return nil
}

// farExecution is a heartbeat of another node's client at its shard. slots are what bounds the unanswered requests of the
// node that sent it; what is held does not count.
type farExecution struct {
	call        shard.Call
	beat        streams.HeartbeatRequest
	version     int16
	correlation int32
	done        func([]byte, *coordinator.Error)
	slots       chan struct{}
	left        bool
}

// CallHeld implements shard.Keeper.
func (e *farExecution) CallHeld(*shard.Call) { e.leave() }

func (e *farExecution) leave() {
	if !e.left {
		e.left = true
		<-e.slots
	}
}

// CallDone implements shard.Completer.
func (e *farExecution) CallDone(call *shard.Call) {
	e.leave()
	if call.Err != nil {
		e.done(nil, call.Err)
		return
	}
	e.done(protocol.AppendHeartbeat(nil, e.version, e.correlation, &call.Heartbeat), nil)
}
