package raftnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// transferTries is how often a transfer is tried.
	transferTries = 3
	// transferPoll is how often a transfer looks whether its target has caught up; heartbeats tell that.
	transferPoll = 5 * time.Millisecond
	// nearEnough is how many entries a target may be behind when proposals are held back for it.
	nearEnough = maxAppendEntries
)

// Transfer hands leadership of the group to another node and returns nil when this node has ceased to lead. It is
// bounded by Timing.Transfer and tried up to three times. Proposals are refused with ErrMoving only while a target
// that is nearly caught up receives the last entries. When it fails this node leads on; no entry is lost either way.
func (g *Group) Transfer(ctx context.Context, to int32) error {
	if to == g.node.cfg.NodeID {
		if g.leading() {
			return nil
		}
		return fmt.Errorf("%w: ask the leader to hand over to node %d", ErrNotLeader, to)
	}
	if !slices.ContainsFunc(g.node.cfg.Peers, func(p Peer) bool { return p.ID == to }) {
		return fmt.Errorf("transfer group %d: node %d is not in the cluster", g.id, to)
	}
	ctx, cancel := context.WithTimeout(ctx, g.node.cfg.Timing.Transfer)
	defer cancel()
	var err error
	for range transferTries {
		err = g.transferOnce(ctx, to)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrNotLeader) || errors.Is(err, ErrAway) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("transfer group %d to node %d: %w", g.id, to, err)
	}
	return nil
}

// Mover is told of transfers, so that what only the leader knows can go along. Its methods may be called from any
// goroutine.
type Mover interface {
	// Pause comes first: from now on nothing new is to be proposed, until Resume or the loss of the leadership. It does
	// not wait.
	Pause()
	// HandOver sends what is not in the log to the node that will lead, which has every entry by then; term is the one in
	// which this node leads. It is bounded by ctx. The transfer goes on whatever comes of it.
	HandOver(ctx context.Context, to int32, term uint64)
	// Resume tells that the transfer failed and this node leads on, if it does.
	Resume()
}

// transferOnce begins the library's transfer only when the target has every entry: a transfer to a node that lags can
// leave the library believing for ever that it is under way (hashicorp/raft issue 696). One transfer of a group is under way
// at a time: a second one, which the library refuses, would resume what the first one has paused.
func (g *Group) transferOnce(ctx context.Context, to int32) (err error) {
	select {
	case g.transferring <- struct{}{}:
		defer func() { <-g.transferring }()
	case <-ctx.Done():
		return ctx.Err()
	}
	in := g.inst.Load()
	if in == nil || in.raft.State() != raft.Leader {
		return ErrNotLeader
	}
	if err := g.waitFor(ctx, in, to, nearEnough); err != nil {
		return err
	}
	if g.mover != nil {
		g.mover.Pause()
		defer func() {
			if err != nil {
				g.mover.Resume()
			}
		}()
	}
	g.moving.Add(1)
	defer g.moving.Add(-1)
	// The last entries take a round trip and a write; much more says that the target is not well.
	last, cancel := context.WithTimeout(ctx, 2*g.node.cfg.Timing.Heartbeat)
	defer cancel()
	if err := g.waitFor(last, in, to, 0); err != nil {
		return err
	}
	addr, err := addresses(g.node.cfg.Peers).ServerAddr(serverID(to))
	if err != nil {
		return err
	}
	if g.mover != nil {
		within, cancel := context.WithTimeout(ctx, g.node.cfg.Timing.Heartbeat)
		g.mover.HandOver(within, to, in.raft.CurrentTerm())
		cancel()
	}
	err = in.transfers.do(func() error { return in.raft.LeadershipTransferToServer(serverID(to), addr).Error() })
	if err == nil {
		g.mu.Lock()
		g.handedAt = time.Now()
		g.mu.Unlock()
	}
	return err
}

// waitFor waits until a live target lacks at most the given number of entries; with none, also until no proposal is
// under way. It does not wait for a node that is about to stop.
func (g *Group) waitFor(ctx context.Context, in *instance, to int32, lag uint64) error {
	tick := time.NewTicker(transferPoll)
	defer tick.Stop()
	for {
		if in.raft.State() != raft.Leader {
			return ErrNotLeader
		}
		if g.node.isLeaving(to) {
			return ErrAway
		}
		f, last := in.trans.follower(to), in.raft.LastIndex()
		live := time.Since(f.LastContact) < g.node.cfg.Timing.Heartbeat
		if live && f.LastIndex+lag >= last && (lag > 0 || in.proposals.idle()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: it has entry %d of %d, live %v", ErrNotCaughtUp, f.LastIndex, last, live)
		case <-tick.C:
		}
	}
}

// TransferTo is [Group.Transfer] by the group's number.
func (n *Node) TransferTo(ctx context.Context, group uint32, to int32) error {
	g := n.Group(group)
	if g == nil {
		return fmt.Errorf("transfer: no group %d", group)
	}
	return g.Transfer(ctx, to)
}

// Drain hands every group that this node leads to the most caught-up live node, in bounded time (Timing.Drain), and
// keeps the balancer from taking any back. A group that has nowhere to go stays; that is no error.
func (n *Node) Drain(ctx context.Context) {
	n.draining.Store(true)
	if len(n.cfg.Peers) == 1 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timing.Drain)
	defer cancel()
	n.say(kindLeaving)
	for g, err := range n.handOver(ctx) {
		if errors.Is(err, errNobodyTook) {
			n.groups[g].log.Warn("leadership could not be handed over; the others will elect a leader", "error", err)
		}
	}
}

// handOver hands every group that this node leads to another one, and returns the groups that stay with the reason.
func (n *Node) handOver(ctx context.Context) map[uint32]error {
	load := &drainLoad{taken: map[int32]int{}}
	var mu sync.Mutex
	stay := map[uint32]error{}
	var wg sync.WaitGroup
	for _, g := range n.groups {
		wg.Go(func() {
			if err := g.drain(ctx, load); err != nil {
				mu.Lock()
				stay[g.id] = err
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return stay
}

// drainLoad counts what each node was given in one drain, so that the groups spread.
type drainLoad struct {
	mu    sync.Mutex
	taken map[int32]int
}

// pick chooses the follower with the longest log, among equals the one that was given the least.
func (l *drainLoad) pick(followers []FollowerStatus) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	best := slices.MaxFunc(followers, func(a, b FollowerStatus) int {
		return cmp.Or(cmp.Compare(a.LastIndex, b.LastIndex), l.taken[b.Node]-l.taken[a.Node], int(b.Node)-int(a.Node))
	})
	l.taken[best.Node]++
	return best.Node
}

// errNobodyTook: nodes that could have taken a group did not.
var errNobodyTook = errors.New("leadership was not taken")

// drain hands the group over if there is a live node to take it that does not stop itself, and says why the group stays.
// A node that refused once is not asked again.
func (g *Group) drain(ctx context.Context, load *drainLoad) error {
	tick := time.NewTicker(transferPoll)
	defer tick.Stop()
	var refused []int32
	var refusal error
	for ctx.Err() == nil {
		in := g.inst.Load()
		if in == nil || in.raft.State() != raft.Leader {
			return nil
		}
		takers := slices.DeleteFunc(g.followers(in), func(f FollowerStatus) bool {
			return !f.Live || g.node.isLeaving(f.Node) || slices.Contains(refused, f.Node)
		})
		switch {
		case len(takers) > 0:
			to := load.pick(takers)
			err := g.Transfer(ctx, to)
			if err == nil || errors.Is(err, ErrNotLeader) {
				return nil
			}
			g.log.Debug("leadership not handed over", "node", to, "error", err)
			refused, refusal = append(refused, to), err
			continue
		case slices.ContainsFunc(refused, func(node int32) bool { return !g.node.isLeaving(node) }):
			return fmt.Errorf("%w: %w", errNobodyTook, refusal)
		case len(refused) > 0 || g.leadsFor() >= g.node.cfg.Timing.Heartbeat:
			return ErrAlone // who refused stops itself; who is live would have answered by now
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	if in := g.inst.Load(); in == nil || in.raft.State() != raft.Leader {
		return nil
	}
	return cmp.Or(refusal, ctx.Err())
}

// leadsFor is for how long this node has led the group.
func (g *Group) leadsFor() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.stuckSince.IsZero() {
		return time.Since(g.stuckSince)
	}
	return time.Since(g.electedAt)
}
