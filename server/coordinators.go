package server

import (
	"iter"
	"time"
	"unicode/utf16"

	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/gateway"
)

// coordinators shows the shards to the gateway.
type coordinators struct{ *Node }

var _ gateway.Coordinators = coordinators{}

// Self implements gateway.Coordinators.
func (c coordinators) Self() int32 { return c.config.NodeID }

// Shards implements gateway.Coordinators.
func (c coordinators) Shards() uint32 { return uint32(len(c.shards)) }

// Shard implements gateway.Coordinators.
func (c coordinators) Shard(group string) uint32 {
	return shardOf(group, len(c.shards))
}

// shardOf is the shard of a group, as Kafka chooses a partition of __consumer_offsets.
func shardOf(group string, shards int) uint32 {
	return uint32(javaHash(group)&0x7fffffff) % uint32(shards)
}

// javaHash is String.hashCode: over UTF-16 code units.
func javaHash(s string) int32 {
	var h int32
	for _, r := range s {
		if r > 0xffff {
			high, low := utf16.EncodeRune(r)
			h = 31*h + int32(high)
			r = low
		}
		h = 31*h + int32(r)
	}
	return h
}

// runnerOf is the shard of a group on this node.
func (n *Node) runnerOf(group string) *runner { return n.shards[shardOf(group, len(n.shards))] }

// Holds implements gateway.Coordinators.
func (c coordinators) Holds(group string) bool {
	return c.shards[c.Shard(group)].replica.State().Group(group) != nil
}

// Leader implements gateway.Coordinators.
func (c coordinators) Leader(number uint32) (int32, bool) {
	if number == gateway.SystemShard {
		leader := c.system.leaderNode()
		return leader, leader >= 0
	}
	r := c.shards[number]
	r.leaderMu.Lock()
	defer r.leaderMu.Unlock()
	return r.leader, r.leader >= 0
}

// LeaderChanged implements gateway.Coordinators.
func (c coordinators) LeaderChanged(number uint32) <-chan struct{} {
	if number == gateway.SystemShard {
		return c.system.leaderChanged()
	}
	r := c.shards[number]
	r.leaderMu.Lock()
	defer r.leaderMu.Unlock()
	return r.changed
}

// Submit implements gateway.Coordinators.
func (c coordinators) Submit(number uint32, call *shard.Call) {
	c.shards[number].post(input{kind: inputCall, call: call})
}

// LetGo implements gateway.Coordinators.
func (c coordinators) LetGo(number uint32, holder *shard.Holder) {
	c.shards[number].post(input{kind: inputLetGo, holder: holder})
}

// Gone implements gateway.Coordinators.
func (c coordinators) Gone(number uint32, holder *shard.Holder, byClient bool) {
	c.shards[number].post(input{kind: inputGone, holder: holder, ok: byClient})
}

// LedSince implements gateway.Coordinators.
func (c coordinators) LedSince(number uint32, since time.Time) bool {
	return c.shards[number].ledSince(since)
}

// Groups implements gateway.Coordinators.
func (c coordinators) Groups(number uint32) iter.Seq[gateway.GroupListing] {
	return func(yield func(gateway.GroupListing) bool) {
		for g := range c.shards[number].replica.State().Groups() {
			if !yield(gateway.GroupListing{ID: g.ID, State: streams.StateOf(g)}) {
				return
			}
		}
	}
}

// Position implements gateway.Coordinators.
func (c coordinators) Position(number uint32) uint64 { return c.shards[number].replica.index.Load() }

// AwaitPosition implements gateway.Coordinators.
func (c coordinators) AwaitPosition(number uint32, position uint64, done func(reached bool)) {
	replica := c.shards[number].replica
	if replica.index.Load() >= position {
		done(true)
		return
	}
	c.run(func() {
		patience := time.NewTimer(awaitPatience)
		defer patience.Stop()
		look := time.NewTicker(5 * time.Millisecond)
		defer look.Stop()
		for replica.index.Load() < position {
			select {
			case <-look.C:
			case <-patience.C:
				done(false)
				return
			case <-c.ctx.Done():
				done(false)
				return
			}
		}
		done(true)
	})
}
