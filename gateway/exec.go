package gateway

import (
	"errors"
	"strings"
	"time"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/protocol"
)

// errGroupRequest says that a request has no single group that a shard could answer for.
var errGroupRequest = errors.New("not a request for one group")

// execution is a call to a shard of this node and how its response becomes an answer frame.
type execution struct {
	call   shard.Call
	finish func(*shard.Call) []byte
	done   func(answer []byte, err *coordinator.Error)
}

// CallDone implements shard.Completer.
func (e *execution) CallDone(call *shard.Call) {
	if call.Err != nil {
		e.done(nil, call.Err)
		return
	}
	e.done(e.finish(call), nil)
}

// execute gives a request about one group, whole with its length prefix, to the shard of this node. done is told once,
// on any goroutine, the answer frame or why the shard did not take the call. An error means that the request is
// malformed; done is not told then. The frame must stay as it is until then.
func (g *Gateway) execute(client *coordinator.Client, frame []byte, done func(answer []byte, err *coordinator.Error)) error {
	h, body, err := protocol.ParseHeader(frame[4:])
	if err != nil {
		return err
	}
	if !protocol.Supported(h.Key, h.Version) {
		return errGroupRequest
	}
	e := &execution{done: done}
	if e.call.Request, e.finish, err = g.decodeGroupRequest(h, body); err != nil {
		return err
	}
	e.call.Client, e.call.Done = client, e
	g.coords.Submit(g.coords.Shard(shard.GroupID(e.call.Request)), &e.call)
	return nil
}

// decodeGroupRequest decodes a request about one group, and says how its response is encoded.
func (g *Gateway) decodeGroupRequest(h protocol.Header, body []byte) (request any, finish func(*shard.Call) []byte, err error) {
	switch h.Key {
	case protocol.KeyStreamsGroupHeartbeat:
		req := &streams.HeartbeatRequest{}
		err = protocol.DecodeHeartbeat(h.Version, body, req)
		return req, func(call *shard.Call) []byte {
			return protocol.AppendHeartbeat(nil, h.Version, h.Correlation, &call.Heartbeat)
		}, err
	case protocol.KeyOffsetCommit, protocol.KeyTxnOffsetCommit:
		decode := protocol.DecodeOffsetCommit
		if h.Key == protocol.KeyTxnOffsetCommit {
			decode = protocol.DecodeTxnOffsetCommit
		}
		req, refused, err := decode(h.Version, body, g.topicName)
		return req, func(call *shard.Call) []byte {
			return protocol.AppendCommit(nil, h, call.Response.(*offsets.CommitResponse), refused...)
		}, err
	case protocol.KeyOffsetFetch:
		groups, err := protocol.DecodeOffsetFetch(h.Version, body, g.topicName)
		if err != nil {
			return nil, nil, err
		}
		if len(groups) != 1 {
			return nil, nil, errGroupRequest
		}
		one := groups[0]
		return one.Request, func(call *shard.Call) []byte {
			answer := protocol.FetchAnswer{GroupID: one.Request.GroupID, Response: call.Response.(*offsets.FetchResponse), Refused: one.Refused}
			g.fillTopicIDs(h.Version, answer.Response)
			out, _ := protocol.AppendOffsetFetch(nil, h, []protocol.FetchAnswer{answer}, nil) // no upstream part, no error
			return out
		}, nil
	case protocol.KeyOffsetDelete:
		req, err := protocol.DecodeOffsetDelete(h.Version, body)
		return req, func(call *shard.Call) []byte {
			return protocol.AppendOffsetDelete(nil, h, call.Response.(*offsets.DeleteResponse))
		}, err
	case protocol.KeyStreamsGroupDescribe:
		req, err := protocol.DecodeStreamsDescribe(h.Version, body)
		if err != nil {
			return nil, nil, err
		}
		return describeCall(h, req)
	case protocol.KeyDeleteGroups:
		return deleteCall(h, body)
	}
	return nil, nil, errGroupRequest
}

// topicName is protocol.TopicNames over the image; an id that it does not have makes it look again soon.
func (g *Gateway) topicName(id [16]byte) (string, bool) {
	image := g.cluster.Image()
	if image == nil {
		return "", false
	}
	name, ok := image.TopicName(id)
	if !ok {
		g.cluster.RefreshImage()
	}
	return name, ok
}

// outcome is what an attempt to answer a group request came to.
type outcome struct {
	answer []byte
	err    *coordinator.Error
}

var (
	notCoordinator = &coordinator.Error{Code: coordinator.NotCoordinator}
	notAvailable   = &coordinator.Error{Code: coordinator.CoordinatorNotAvailable}
	unreachable    = &coordinator.Error{Code: coordinator.NotCoordinator, Message: "the leader's node cannot be reached"}
)

// attemptTimeout ends an attempt that nobody answers although its leader stays the leader.
const attemptTimeout = 60 * time.Second

// retryPause is between two attempts at what seems to be the same leader: it was just elected and does not know, or
// it lost and we do not know.
const retryPause = 20 * time.Millisecond

// atLeader has an attempt made at the leader of a group's shard, and again at the next one when the leadership moves
// meanwhile: heartbeats, commits and leaves are safe to repeat. Without a leader it waits; once it has waited for
// ParkTime in all the answer is COORDINATOR_NOT_AVAILABLE.
func (g *Gateway) atLeader(group string, attempt func(leader int32, done chan<- outcome) error) (outcome, error) {
	number := g.coords.Shard(group)
	patience := g.cfg.ParkTime
	for {
		changed := g.coords.LeaderChanged(number)
		leader, ok := g.coords.Leader(number)
		if ok {
			done := make(chan outcome, 1)
			if err := attempt(leader, done); err != nil {
				return outcome{}, err
			}
			out, over := g.await(number, leader, done)
			if over {
				return out, nil
			}
		}
		if patience == g.cfg.ParkTime {
			g.metrics.parked.Inc()
		}
		start := time.Now()
		wait := patience
		if ok {
			wait = min(wait, retryPause)
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-g.ctx.Done():
			patience = 0
		}
		timer.Stop()
		if patience -= time.Since(start); patience <= 0 {
			return outcome{err: notAvailable}, nil
		}
	}
}

// await waits for the outcome of an attempt at a leader. over is false when another leader is to be tried.
func (g *Gateway) await(number uint32, leader int32, done <-chan outcome) (out outcome, over bool) {
	timeout := time.NewTimer(attemptTimeout)
	defer timeout.Stop()
	for {
		changed := g.coords.LeaderChanged(number)
		if now, ok := g.coords.Leader(number); ok && now != leader && leader != g.coords.Self() {
			return outcome{}, false // the old leader may never answer: its machine is gone
		}
		select {
		case out := <-done:
			return out, out.err == nil || out.err.Code != coordinator.NotCoordinator
		case <-changed:
		case <-timeout.C:
			return outcome{err: notAvailable}, true
		case <-g.ctx.Done():
			return outcome{err: notAvailable}, true
		}
	}
}

// requestAtLeader has a request about one group answered by its leader, wherever that is. It blocks. frame must stay as
// it is even after it returned (an attempt may have been given up).
func (g *Gateway) requestAtLeader(client *coordinator.Client, group string, frame []byte) (outcome, error) {
	return g.atLeader(group, func(leader int32, done chan<- outcome) error {
		tell := func(answer []byte, err *coordinator.Error) { done <- outcome{answer, err} }
		if leader == g.coords.Self() {
			return g.execute(client, frame, tell)
		}
		g.metrics.hops.Inc()
		g.hops.request(leader, hopKafka, client, frame, tell)
		return nil
	})
}

// holdsAtLeader asks a group's leader whether the group is ours. It blocks.
func (g *Gateway) holdsAtLeader(client *coordinator.Client, group string) (held bool, err *coordinator.Error) {
	out, _ := g.atLeader(group, func(leader int32, done chan<- outcome) error {
		tell := func(answer []byte, err *coordinator.Error) { done <- outcome{answer, err} }
		if leader == g.coords.Self() {
			g.executeHolds(client, group, tell)
		} else {
			g.hops.request(leader, hopHolds, client, []byte(group), tell)
		}
		return nil
	})
	if out.err != nil {
		return false, out.err
	}
	return len(out.answer) == 1 && out.answer[0] == 1, nil
}

// executeHolds answers a HoldsRequest by one byte, 1 for held.
func (g *Gateway) executeHolds(client *coordinator.Client, group string, done func(answer []byte, err *coordinator.Error)) {
	e := &execution{done: done, finish: func(call *shard.Call) []byte {
		if call.Response.(*shard.HoldsResponse).Held {
			return []byte{1}
		}
		return []byte{0}
	}}
	group = strings.Clone(group) // an attempt may be given up while the shard still looks at it
	e.call = shard.Call{Client: client, Request: &shard.HoldsRequest{GroupID: group}, Done: e}
	g.coords.Submit(g.coords.Shard(group), &e.call)
}
