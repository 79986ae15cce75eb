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
	ctx, cancel := context.WithTimeout(ctx, changePatience)
	defer cancel()
	number := int(shardOf(r.Group, len(n.shards)))
	for {
		leader, err := n.awaitLeader(ctx, number)
		if err != nil {
			return web.Aborted{}, err
		}
		var aborted web.Aborted
		if leader == n.config.NodeID {
			aborted, err = n.LocalAbortTopology(ctx, r)
		} else {
			aborted, err = n.peer(leader).AbortTopology(ctx, r)
			err = n.askedOf(leader, err)
		}
		var refused *web.Refusal
		if !errors.As(err, &refused) || refused.Kind != web.Elsewhere || ctx.Err() != nil {
			return aborted, err
		}
		pause(ctx, leaderPoll)
	}
}

// LocalAbortTopology implements web.Topologies. Where its outcome is not known, as the leadership was lost on the way, the
// request is made again at the next leader: it names the epoch, so that what is taken back once is not taken back twice.
func (n *Node) LocalAbortTopology(ctx context.Context, r web.AbortRequest) (web.Aborted, error) {
	number := shardOf(r.Group, len(n.shards))
	done := make(answered, 1)
	call := &shard.Call{
		Client: &coordinator.Client{ID: "coordd", Host: "/127.0.0.1"}, Request: &shard.AbortTopologyRequest{GroupID: r.Group, Epoch: r.Epoch}, Done: done,
	}
	(coordinators{n}).Submit(number, call)
	select {
	case <-done:
	case <-ctx.Done():
		return web.Aborted{}, web.Refuse(web.Conflict, "%s has not answered in time; look at 'coordd groups topology' before you try again", shardText(int(number)))
	}
	switch {
	case call.Err == nil:
	case call.Err.Code == coordinator.CoordinatorLoadInProgress:
		return web.Aborted{}, web.Refuse(web.Elsewhere, "node %d: %s", n.config.NodeID, call.Err.Message)
	default:
		return web.Aborted{}, web.Refuse(web.Elsewhere, "node %d does not lead %s", n.config.NodeID, shardText(int(number)))
	}
	response := call.Response.(*shard.AbortTopologyResponse)
	if response.Err != nil {
		return web.Aborted{}, refusedAbort(response.Err)
	}
	n.log.Info("topology update taken back on an operator's request", "group", cut(r.Group), "from", response.From, "restored", response.Restored, "epoch", response.Epoch)
	return web.Aborted{Group: r.Group, Aborted: response.From, Restored: response.Restored, Epoch: response.Epoch}, nil
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
