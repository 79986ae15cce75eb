package server

import (
	"context"
	"strings"
	"time"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/web"
)

// movePoll is how often it is looked whether a new leader may move offsets already.
const movePoll = 200 * time.Millisecond

// MoveOffsets implements web.Offsets.
func (n *Node) MoveOffsets(ctx context.Context, r web.MoveOffsetsRequest) (web.OffsetsMoved, error) {
	if _, err := storeNamed(r.To); err != nil {
		return web.OffsetsMoved{}, err
	}
	return atLeader(ctx, n, r.Group, func(ctx context.Context) (web.OffsetsMoved, error) { return n.LocalMoveOffsets(ctx, r) },
		func(ctx context.Context, leader web.Client) (web.OffsetsMoved, error) {
			return leader.MoveOffsets(ctx, r)
		})
}

func storeNamed(name string) (record.Store, error) {
	for _, s := range []record.Store{record.StoreUpstream, record.StoreRaft} {
		if name == s.String() {
			return s, nil
		}
	}
	return 0, web.Refuse(web.NotAllowed, "store %q is not allowed (allowed: upstream, raft)", name)
}

// LocalMoveOffsets implements web.Offsets. Where the leadership is lost on the way, the move is made again at the next leader.
func (n *Node) LocalMoveOffsets(ctx context.Context, r web.MoveOffsetsRequest) (web.OffsetsMoved, error) {
	to, err := storeNamed(r.To)
	if err != nil {
		return web.OffsetsMoved{}, err
	}
	for {
		answer, err := n.askShard(ctx, r.Group, &shard.MoveOffsetsRequest{GroupID: r.Group, To: to}, "run the command again")
		if err != nil {
			return web.OffsetsMoved{}, err
		}
		response := answer.(*shard.MoveOffsetsResponse)
		switch {
		case response.Err == nil:
			return web.OffsetsMoved{Group: r.Group, From: response.From.String(), To: r.To, Offsets: response.Offsets, Left: response.Left}, nil
		case response.Err.Code == coordinator.CoordinatorLoadInProgress && ctx.Err() == nil:
			pause(ctx, movePoll)
		default:
			return web.OffsetsMoved{}, refusedMove(response, r.Group, to)
		}
	}
}

// refusedMove says why offsets were not moved, or not all of the way, and what to do.
func refusedMove(response *shard.MoveOffsetsResponse, group string, to record.Store) error {
	why := strings.TrimSuffix(response.Err.Message, ".")
	switch {
	case response.Err.Code == coordinator.GroupIDNotFound:
		return noGroup(group)
	case response.Err.Code == coordinator.NonEmptyGroup:
		return web.Refuse(web.Conflict, "%s: stop the app, and wait until 'coordd groups describe' shows none (those that did not leave go when their session "+
			"times out)", why)
	case response.Err.Code == coordinator.InvalidRequest:
		return web.Refuse(web.Conflict, "%s", why)
	case response.Moved:
		return web.Refuse(web.Conflict, "%s; the offsets count in store %s already, but those of before are still there: run the command again", why, to)
	}
	return web.Refuse(web.Conflict, "%s; the offsets still count in store %s: run the command again", why, response.From)
}
