package server

import (
	"context"
	"errors"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/web"
)

// AbortTopology implements web.Topologies.
func (n *Node) AbortTopology(ctx context.Context, r web.AbortRequest) (web.Aborted, error) {
	if r.Group == "" {
		return web.Aborted{}, web.Refuse(web.NotAllowed, "the group id is empty; 'coordd groups list' shows the groups")
	}
	return atLeader(ctx, n, r.Group, func(ctx context.Context) (web.Aborted, error) { return n.LocalAbortTopology(ctx, r) },
		func(ctx context.Context, leader web.Client) (web.Aborted, error) { return leader.AbortTopology(ctx, r) })
}

// atLeader asks the leader of a group's shard, this node or another one, and again where the leadership has just moved on.
func atLeader[A any](ctx context.Context, n *Node, group string, local func(context.Context) (A, error), remote func(context.Context, web.Client) (A, error)) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, changePatience)
	defer cancel()
	number := int(shardOf(group, len(n.shards)))
	for {
		leader, err := n.awaitLeader(ctx, number)
		if err != nil {
			var none A
			return none, err
		}
		var answer A
		if leader == n.config.NodeID {
			answer, err = local(ctx)
		} else {
			answer, err = remote(ctx, n.peer(leader))
			err = n.askedOf(leader, err)
		}
		var refused *web.Refusal
		if !errors.As(err, &refused) || refused.Kind != web.Elsewhere || ctx.Err() != nil {
			return answer, err
		}
		pause(ctx, leaderPoll)
	}
}

// LocalAbortTopology implements web.Topologies. Where its outcome is not known, as the leadership was lost on the way, the
// request is made again at the next leader: it names the epoch, so that what is taken back once is not taken back twice.
func (n *Node) LocalAbortTopology(ctx context.Context, r web.AbortRequest) (web.Aborted, error) {
	answer, err := n.askShard(ctx, r.Group, &shard.AbortTopologyRequest{GroupID: r.Group, Epoch: r.Epoch}, "look at 'coordd groups topology' before you try again")
	if err != nil {
		return web.Aborted{}, err
	}
	response := answer.(*shard.AbortTopologyResponse)
	if response.Err != nil {
		return web.Aborted{}, refusedAbort(response.Err)
	}
	n.log.Info("topology update taken back on an operator's request", "group", cut(r.Group), "from", response.From, "restored", response.Restored, "epoch", response.Epoch)
	return web.Aborted{Group: r.Group, Aborted: response.From, Restored: response.Restored, Epoch: response.Epoch}, nil
}

// askShard hands a request to a group's shard on this node and returns its response. late says what to do where there was none in
// time.
func (n *Node) askShard(ctx context.Context, group string, request any, late string) (any, error) {
	number := shardOf(group, len(n.shards))
	done := make(answered, 1)
	call := &shard.Call{Client: &coordinator.Client{ID: "coordd", Host: "/127.0.0.1"}, Request: request, Done: done}
	(coordinators{n}).Submit(number, call)
	select {
	case <-done:
	case <-ctx.Done():
		return nil, web.Refuse(web.Conflict, "%s has not answered in time; %s", shardText(int(number)), late)
	}
	switch {
	case call.Err == nil:
		return call.Response, nil
	case call.Err.Code == coordinator.CoordinatorLoadInProgress:
		return nil, web.Refuse(web.Elsewhere, "node %d: %s", n.config.NodeID, call.Err.Message)
	}
	if call.Err.Code == coordinator.CoordinatorNotAvailable {
		return nil, web.Refuse(web.Conflict, "%s", call.Err.Message)
	}
	return nil, web.Refuse(web.Elsewhere, "node %d does not lead %s", n.config.NodeID, shardText(int(number)))
}

func refusedAbort(err *coordinator.Error) error {
	switch err.Code {
	case coordinator.GroupIDNotFound:
		return web.Refuse(web.NotFound, "%s", err.Message)
	case coordinator.CoordinatorNotAvailable:
		return web.Refuse(web.Conflict, "%s Try again in a moment.", err.Message)
	}
	return web.Refuse(web.Conflict, "%s", err.Message)
}

// answered is told when a call is answered.
type answered chan struct{}

// CallDone implements shard.Completer.
func (a answered) CallDone(*shard.Call) { a <- struct{}{} }
