package raftnode

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
)

// watchEvery is how often the node looks after its groups.
const watchEvery = 500 * time.Millisecond

// preferred is the node that should lead a group when all are well: groups go round the nodes in the order of ids.
func (c *Config) preferred(group uint32) int32 {
	return c.Peers[int(group)%len(c.Peers)].ID
}

// supervise watches the groups and spreads their leaders until the node stops.
func (n *Node) supervise() {
	defer close(n.supervised)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var moved, aside time.Time
	var was bool
	for {
		select {
		case <-n.stopping:
			return
		case now := <-tick.C:
			for _, g := range n.groups {
				g.watch(now)
				g.snapshotBySize()
			}
			is := n.aside()
			if is {
				if !was || now.Sub(aside) >= n.cfg.Timing.Drain {
					n.stayAside()
					aside = time.Now()
				}
			} else if was {
				n.lastWord()
			}
			if was = is; is {
				continue
			}
			if n.cfg.Timing.Balance > 0 && now.Sub(moved) >= n.cfg.Timing.Balance && n.balance(now) {
				moved = time.Now()
			}
		}
	}
}

// Evacuate hands every group that this node leads to other nodes and keeps it from leading, as far as others can: it goes on
// serving its clients and following, others do not hand it groups, and what it comes to lead by an election it hands on.
// That lasts until Readmit or the end of the process. It returns the groups that stay for now, with the reason, after twice
// Timing.Drain at the latest.
func (n *Node) Evacuate(ctx context.Context) map[uint32]error {
	n.evacuated.Store(true)
	select {
	case n.handing <- struct{}{}: // free after Timing.Drain at the latest
		defer func() { <-n.handing }()
	case <-ctx.Done():
		return n.handOver(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timing.Drain)
	defer cancel()
	n.say(kindLeaving)
	defer n.lastWord()
	return n.handOver(ctx)
}

// lastWord says that the node is back, unless it is still to be left alone: it may have been readmitted while it said that it
// leaves.
func (n *Node) lastWord() {
	if !n.aside() && !n.draining.Load() {
		n.say(kindBack)
	}
}

// Readmit ends what Evacuate began: the balancers give this node its share again.
func (n *Node) Readmit() {
	n.evacuated.Store(false)
	n.lastWord()
}

// Evacuated says whether the node is kept from leading.
func (n *Node) Evacuated() bool { return n.evacuated.Load() }

// stayAside says again that this node leads nothing, since that is forgotten, and hands on what it came to lead.
func (n *Node) stayAside() {
	select {
	case n.handing <- struct{}{}:
		defer func() { <-n.handing }()
	default:
		return
	}
	if n.draining.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(n.lifetime, n.cfg.Timing.Drain)
	defer cancel()
	n.say(kindLeaving)
	defer n.lastWord()
	for g, err := range n.handOver(ctx) {
		n.groups[g].log.Debug("leads nothing, but leadership stays here for now", "error", err)
	}
}

// balance moves at most one group to the node that should lead it, and says whether it tried.
func (n *Node) balance(now time.Time) bool {
	for _, g := range n.groups {
		if n.draining.Load() {
			return false
		}
		to := n.cfg.preferred(g.id)
		if to == n.cfg.NodeID || g.isKept() || !g.settled(now) || !g.canTake(to) {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		stop := context.AfterFunc(n.lifetime, cancel)
		err := g.Transfer(ctx, to)
		stop()
		cancel()
		if err != nil {
			g.log.Info("leadership stays here for now", "preferred", to, "error", err)
			g.mu.Lock()
			g.unplannedAt, g.cold = now, false // leave the group alone for a while
			g.mu.Unlock()
		} else {
			g.log.Info("leadership moved to the preferred node", "to", to)
		}
		return true
	}
	return false
}

// settled says whether this node serves the group and no unplanned election is recent.
func (g *Group) settled(now time.Time) bool {
	if g.serving.Load() == 0 {
		return false
	}
	t := &g.node.cfg.Timing
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unplannedAt.IsZero() {
		return now.Sub(g.electedAt) >= t.Balance
	}
	quiet := t.BalanceQuiet
	if g.cold {
		quiet = min(quiet, t.BalanceStart)
	}
	return now.Sub(g.unplannedAt) >= quiet
}

// canTake says whether a node is live and close enough behind to lead.
func (g *Group) canTake(node int32) bool {
	in := g.inst.Load()
	if in == nil || in.raft.State() != raft.Leader || g.node.isLeaving(node) {
		return false
	}
	f := in.trans.follower(node)
	return time.Since(f.LastContact) < g.node.cfg.Timing.Heartbeat && f.LastIndex+nearEnough >= in.raft.LastIndex()
}
