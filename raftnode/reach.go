package raftnode

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// reach is what this node knows of another one, taken over all groups: whether it answers, and whether it is about to
// stop. The library tells of each failed request of each group; one line a node is what an operator can use.
type reach struct {
	node     int32
	log      hclog.Logger
	after    time.Duration // silence that is worth a line
	quiet    *atomic.Bool  // this node stops: whom it reaches is of no use any more
	began    time.Time     // the moments below are nanoseconds since
	heard    atomic.Int64
	silent   atomic.Bool  // told
	leaving  atomic.Int64 // until when the node counts as about to stop
	lastLost atomic.Int64 // when it was told to be silent
}

// silences is how many heartbeat timeouts without an answer make a node unreachable for the log.
const silences = 4

func newReach(n *Node, node int32) *reach {
	return &reach{
		node: node, log: n.cfg.Logger, after: silences * n.cfg.Timing.Heartbeat, quiet: &n.draining, began: time.Now(),
	}
}

// now is a moment that the wall clock has no part in: a node is not unreachable, or about to stop, because somebody set it.
func (r *reach) now() int64 { return int64(time.Since(r.began)) }

// answered notes an answer.
func (r *reach) answered() {
	r.heard.Store(r.now())
	if r.silent.Load() && r.silent.CompareAndSwap(true, false) && !r.quiet.Load() {
		silent := time.Duration(r.now() - r.lastLost.Load()).Round(time.Millisecond)
		r.log.Info("node answers again", "peer", r.node, "told-unreachable-for", silent)
	}
}

// failed notes a request that failed.
func (r *reach) failed(err error) {
	now := r.now()
	if time.Duration(now-r.heard.Load()) < r.after || r.quiet.Load() || !r.silent.CompareAndSwap(false, true) {
		return
	}
	r.lastLost.Store(now)
	if r.isLeaving() {
		r.log.Info("node has stopped", "peer", r.node)
		return
	}
	r.log.Warn("node cannot be reached", "peer", r.node, "error", err)
}

func (r *reach) isLeaving() bool { return r.now() < r.leaving.Load() }

// The protocols of the raft port by which a node says whether others may hand it their groups: the preface alone, with the
// node's id in place of the group.
const (
	kindLeaving byte = 'D' // it is about to stop, or drained
	kindBack    byte = 'B' // it is no longer drained
)

// say tells the other nodes by a preface that this one leaves or is back. It returns when all know, or soon.
func (n *Node) say(kind byte) {
	ctx, cancel := context.WithTimeout(n.lifetime, n.cfg.Timing.Heartbeat/repeatsPerTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range n.cfg.Peers {
		if p.ID == n.cfg.NodeID {
			continue
		}
		wg.Go(func() {
			if c, err := n.mux.open(ctx, p.Address, route{kind: kind, group: uint32(n.cfg.NodeID)}); err == nil {
				_ = c.Close()
			}
		})
	}
	wg.Wait()
}

// leaves notes that another node is about to stop or drained. It is forgotten after the time that a stop takes; a node that
// stays drained says so again and again.
func (n *Node) leaves(node int32) {
	if r := n.reach[node]; r != nil {
		t := &n.cfg.Timing
		r.leaving.Store(r.now() + int64(2*t.Drain+silences*t.Heartbeat))
	}
}

// isBack forgets that another node was drained.
func (n *Node) isBack(node int32) {
	if r := n.reach[node]; r != nil {
		r.leaving.Store(0)
	}
}

// IsAway says whether another node is known to be drained or about to stop.
func (n *Node) IsAway(node int32) bool { return n.isLeaving(node) }

// isLeaving says whether a node is known to be about to stop or drained.
func (n *Node) isLeaving(node int32) bool {
	r := n.reach[node]
	return r != nil && r.isLeaving()
}
