package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/raftnode"
	"github.com/coordd/coordd/web"
)

const (
	// changePatience bounds what operators ask for: some tries of what raftnode bounds itself.
	changePatience = 20 * time.Second
	// leaderPatience is how long a shard without a leader is waited for.
	leaderPatience = 2 * time.Second
	// keepPatience is how long a node may take until it serves a shard that it was given.
	keepPatience = 5 * time.Second
	// leaderPoll is how often it is looked who leads.
	leaderPoll = 5 * time.Millisecond
)

// group is a shard's Raft group; -1 is the system shard.
func (n *Node) group(shard int) *raftnode.Group {
	if shard < 0 {
		return n.system.group
	}
	return n.shards[shard].group
}

// members are the ids of all nodes.
func (n *Node) members() []int32 {
	ids := []int32{n.config.NodeID}
	for _, p := range n.config.Peers {
		if p.ID != n.config.NodeID {
			ids = append(ids, p.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func (n *Node) checkMember(id int32) error {
	if ids := n.members(); !slices.Contains(ids, id) {
		return web.Refuse(web.NotAllowed, "node %d is not a member of the cluster (its nodes: %s)", id, strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ", "), "[]"))
	}
	return nil
}

func (n *Node) checkShard(shard int) error {
	if shard < -1 || shard >= len(n.shards) {
		return web.Refuse(web.NotAllowed, "shard %d does not exist (allowed: 0 to %d, and -1 for the system shard)", shard, len(n.shards)-1)
	}
	return nil
}

// shardText names a shard for people.
func shardText(shard int) string {
	if shard < 0 {
		return "the system shard"
	}
	return fmt.Sprintf("shard %d", shard)
}

// MoveLeader implements web.Leaders.
func (n *Node) MoveLeader(ctx context.Context, r web.MoveRequest) (web.Moved, error) {
	if err := errors.Join(n.checkShard(r.Shard), n.checkMember(r.To)); err != nil {
		return web.Moved{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, changePatience)
	defer cancel()
	for {
		leader, err := n.awaitLeader(ctx, r.Shard)
		if err != nil {
			return web.Moved{}, err
		}
		var moved web.Moved
		if leader == n.config.NodeID {
			moved, err = n.LocalMoveLeader(ctx, r)
		} else {
			moved, err = n.peer(leader).MoveLeader(ctx, r)
			err = n.askedOf(leader, err)
		}
		var refused *web.Refusal
		if !errors.As(err, &refused) || refused.Kind != web.Elsewhere || ctx.Err() != nil {
			return moved, err
		}
		pause(ctx, leaderPoll)
	}
}

// askedOf says which node did not answer.
func (n *Node) askedOf(node int32, err error) error {
	var refused *web.Refusal
	if err == nil || errors.As(err, &refused) {
		return err
	}
	return web.Refuse(web.Conflict, "node %d does not answer (%v); look at 'coordd status' and try again", node, reason(err))
}

// awaitLeader waits a little for a leader to be known.
func (n *Node) awaitLeader(ctx context.Context, shard int) (int32, error) {
	for end := time.Now().Add(leaderPatience); ; {
		if leader, ok := n.group(shard).Leader(); ok {
			return leader, nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return -1, web.Refuse(web.NoLeader, "%s has no leader; more than half of the nodes must be up and reach each other", shardText(shard))
		}
		pause(ctx, leaderPoll)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// LocalMoveLeader implements web.Leaders.
func (n *Node) LocalMoveLeader(ctx context.Context, r web.MoveRequest) (web.Moved, error) {
	if err := errors.Join(n.checkShard(r.Shard), n.checkMember(r.To)); err != nil {
		return web.Moved{}, err
	}
	g, self := n.group(r.Shard), n.config.NodeID
	status := g.Status()
	if status.Role != raftnode.Leader {
		return web.Moved{}, web.Refuse(web.Elsewhere, "node %d does not lead %s", self, shardText(r.Shard))
	}
	moved := web.Moved{Shard: r.Shard, From: self, Leader: r.To}
	if r.To == self {
		if n.raft.Evacuated() {
			return web.Moved{}, drainedRefusal(r.To)
		}
		return moved, n.LocalKeepLeader(ctx, web.KeepRequest{Shard: r.Shard})
	}
	if n.askNode(ctx, r.To).Drained { // what it told the others of that may be late, or lost
		return web.Moved{}, drainedRefusal(r.To)
	}
	if err := g.Transfer(ctx, r.To); err != nil {
		return web.Moved{}, n.whyNotMoved(g, r, err)
	}
	n.log.Info("leadership moved on an operator's request", "shard", r.Shard, "to", r.To)
	if err := n.peer(r.To).KeepLeader(ctx, web.KeepRequest{Shard: r.Shard}); err != nil {
		return web.Moved{}, web.Refuse(web.Conflict, "%s was handed to node %d, which did not confirm it (%v); see 'coordd leaders' and try again",
			shardText(r.Shard), r.To, reason(err))
	}
	return moved, nil
}

func drainedRefusal(node int32) error {
	return web.Refuse(web.Conflict, "node %d is drained or about to stop: 'coordd leaders drain %d --undo' takes it back", node, node)
}

// whyNotMoved says why a transfer failed, and what to do.
func (n *Node) whyNotMoved(g *raftnode.Group, r web.MoveRequest, err error) error {
	status := g.Status()
	shard := shardText(r.Shard)
	if errors.Is(err, raftnode.ErrNotLeader) && status.Role != raftnode.Leader {
		return web.Refuse(web.Elsewhere, "node %d no longer leads %s", n.config.NodeID, shard)
	}
	i := slices.IndexFunc(status.Followers, func(f raftnode.FollowerStatus) bool { return f.Node == r.To })
	switch {
	case errors.Is(err, raftnode.ErrAway):
		return drainedRefusal(r.To)
	case i >= 0 && !status.Followers[i].Live:
		return web.Refuse(web.Conflict, "node %d does not answer the leader of %s (node %d): start it, or move the shard to another node", r.To, shard, n.config.NodeID)
	case errors.Is(err, raftnode.ErrNotCaughtUp) && i >= 0:
		return web.Refuse(web.Conflict, "node %d is %d entries behind in %s: wait until 'coordd leaders' shows it caught up, and try again",
			r.To, status.LastIndex-min(status.LastIndex, status.Followers[i].LastIndex), shard)
	}
	return web.Refuse(web.Conflict, "%s stays with node %d: %v; try again", shard, n.config.NodeID, err)
}

// LocalKeepLeader implements web.Leaders.
func (n *Node) LocalKeepLeader(ctx context.Context, r web.KeepRequest) error {
	if err := n.checkShard(r.Shard); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, keepPatience)
	defer cancel()
	for {
		if n.serves(r.Shard) && n.group(r.Shard).Keep() == nil {
			return nil
		}
		if ctx.Err() != nil {
			return web.Refuse(web.Conflict, "node %d does not lead %s", n.config.NodeID, shardText(r.Shard))
		}
		pause(ctx, leaderPoll)
	}
}

// serves says whether this node leads a shard and answers for it.
func (n *Node) serves(shard int) bool {
	status := n.group(shard).Status()
	return status.Serving && (shard < 0 || n.shards[shard].began.Load() == status.Term)
}

// DrainNode implements web.Leaders.
func (n *Node) DrainNode(ctx context.Context, r web.DrainRequest) (web.Drained, error) {
	if err := n.checkMember(r.Node); err != nil {
		return web.Drained{}, err
	}
	if r.Node == n.config.NodeID {
		return n.LocalDrainNode(ctx, r)
	}
	ctx, cancel := context.WithTimeout(ctx, changePatience)
	defer cancel()
	drained, err := n.peer(r.Node).DrainNode(ctx, r)
	return drained, n.askedOf(r.Node, err)
}

// LocalDrainNode implements web.Leaders.
func (n *Node) LocalDrainNode(ctx context.Context, r web.DrainRequest) (web.Drained, error) {
	if r.Node != n.config.NodeID {
		return web.Drained{}, web.Refuse(web.NotAllowed, "this is node %d, not node %d", n.config.NodeID, r.Node)
	}
	result := web.Drained{Node: r.Node, Drained: !r.Undo, Shards: []web.DrainedShard{}}
	if r.Undo {
		n.raft.Readmit()
		n.log.Info("no longer drained: shards come back by and by")
		return result, nil
	}
	if len(n.members()) == 1 {
		return web.Drained{}, web.Refuse(web.Conflict, "node %d is the only node: there is none to take its shards", r.Node)
	}
	var led []int
	for shard := -1; shard < len(n.shards); shard++ {
		if n.group(shard).Status().Role == raftnode.Leader {
			led = append(led, shard)
		}
	}
	n.log.Info("drained on an operator's request: leaderships move to other nodes", "shards", len(led))
	stay := n.raft.Evacuate(ctx)
	for _, shard := range led {
		view := web.DrainedShard{Shard: shard, Leader: n.config.NodeID}
		if err := stay[n.group(shard).ID()]; err != nil {
			view.Problem = whyItStays(err)
		} else {
			view.Leader = n.newLeader(ctx, shard)
		}
		result.Shards = append(result.Shards, view)
	}
	return result, nil
}

func whyItStays(err error) string {
	switch {
	case errors.Is(err, raftnode.ErrAlone):
		return "no other node is up that is not drained"
	case errors.Is(err, raftnode.ErrNotCaughtUp):
		return "the other nodes have not caught up"
	}
	return err.Error()
}

// newLeader waits a little until it is known who leads a shard instead of this node.
func (n *Node) newLeader(ctx context.Context, shard int) int32 {
	for end := time.Now().Add(leaderPatience); time.Now().Before(end) && ctx.Err() == nil; pause(ctx, leaderPoll) {
		if leader, ok := n.group(shard).Leader(); ok && leader != n.config.NodeID {
			return leader
		}
	}
	return -1
}
