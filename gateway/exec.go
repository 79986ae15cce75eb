package gateway

import (
	"errors"
	"sync/atomic"
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
// malformed; done is not told then. The frame must stay as it is until then. A request that names topics which the image
// does not have (yet) waits for the image. ageMs is [shard.Call.AgeMs].
func (g *Gateway) execute(client *coordinator.Client, frame []byte, ageMs int64, done func(answer []byte, err *coordinator.Error)) error {
	h, body, err := protocol.ParseHeader(frame[4:])
	if err != nil {
		return err
	}
	if !protocol.Supported(h.Key, h.Version) {
		return errGroupRequest
	}
	if aboutConfigs(h.Key) {
		return g.executeConfigs(h, body, done)
	}
	e := &execution{done: done}
	e.call.Client, e.call.AgeMs, e.call.Done = client, ageMs, e
	names := &topicNames{g: g}
	if e.call.Request, e.finish, err = g.decodeGroupRequest(h, body, names); err != nil {
		return err
	}
	if names.complete(h) {
		g.coords.Submit(g.coords.Shard(shard.GroupID(e.call.Request)), &e.call)
		return nil
	}
	g.run(func() { g.executeLater(e, h, body) })
	return nil
}

// executeLater executes a request when the image has its topics, or after topicPatience without those that are missing;
// without any image it is told to come again.
func (g *Gateway) executeLater(e *execution, h protocol.Header, body []byte) {
	timer := time.NewTimer(g.cfg.topicPatience)
	defer timer.Stop()
	for waiting := true; ; {
		changed := g.cluster.Changed()
		names := &topicNames{g: g}
		request, finish, err := g.decodeGroupRequest(h, body, names)
		complete := names.complete(h)
		switch {
		case err != nil || !waiting && g.cluster.Image() == nil:
			e.done(nil, &coordinator.Error{Code: coordinator.CoordinatorLoadInProgress})
			return
		case complete || !waiting:
			g.absent.add(names.missing)
			e.call.Request, e.finish = request, finish
			g.coords.Submit(g.coords.Shard(shard.GroupID(request)), &e.call)
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			waiting = false
		case <-g.ctx.Done():
			waiting = false
		}
	}
}

// decodeGroupRequest decodes a request about one group, and says how its response is encoded.
func (g *Gateway) decodeGroupRequest(h protocol.Header, body []byte, names *topicNames) (request any, finish func(*shard.Call) []byte, err error) {
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
		req, refused, err := decode(h.Version, body, names.name)
		if err == nil {
			for i := range req.Topics {
				names.known(req.Topics[i].Name)
			}
		}
		return req, func(call *shard.Call) []byte {
			return protocol.AppendCommit(nil, h, call.Response.(*offsets.CommitResponse), refused...)
		}, err
	case protocol.KeyOffsetFetch:
		groups, err := protocol.DecodeOffsetFetch(h.Version, body, names.name)
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
		if err == nil {
			for i := range req.Topics {
				names.known(req.Topics[i].Name)
			}
		}
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

// errand is a question to the leader of a group's shard, or of a shard, on behalf of a client connection or, without one, of all.
type errand struct {
	group string
	// numbered says that the leader of the shard of this number is meant, whatever the group.
	numbered bool
	number   uint32
	c        *conn
	// began is from when on its age counts: since the request was read from the client, or, 0 so far, since the leader was
	// looked for on behalf of a client that was there.
	began time.Duration
	// lasting says that it is not refused for its age.
	lasting bool
	// exact says that the answer depends on what became of earlier attempts; see [settled].
	exact bool
	// once says that it is not made again where an attempt may have done it; see [ofOffsets].
	once bool
	// maybe says that an attempt was made whose outcome is not known: it may have done what it was to do.
	maybe bool
}

// gone is closed with the client's connection.
func (e *errand) gone() <-chan struct{} {
	if e.c == nil {
		return nil
	}
	return e.c.done
}

// wanted says that somebody still waits for the answer. What a client asked for before it went must not be done any
// more: it may have said something else on another connection since.
func (e *errand) wanted() bool { return e.c == nil || !e.c.hungUp() }

// attempt is one try of an errand at one leader.
type attempt struct {
	errand *errand
	leader int32
	state  atomic.Int32 // attemptMade, attemptSent or attemptGivenUp
	done   chan outcome
	// answered is told instead of done where it is set.
	answered func(answer []byte, err *coordinator.Error)
}

func (a *attempt) tell(answer []byte, err *coordinator.Error) {
	if a.answered != nil {
		a.answered(answer, err)
		return
	}
	a.done <- outcome{answer, err}
}

// What became of an attempt: it is given to the shard, or to the connection to its node, or given up before.
const (
	attemptMade int32 = iota
	attemptSent
	attemptGivenUp
)

// send notes that the request is on its way from now on; false means that it must not be, since the attempt was given up.
func (a *attempt) send() bool { return a.state.CompareAndSwap(attemptMade, attemptSent) }

// giveUp keeps the request from being sent, unless it was. It says whether it never will have been.
func (a *attempt) giveUp() (unsent bool) {
	return a.state.CompareAndSwap(attemptMade, attemptGivenUp) || a.state.Load() == attemptGivenUp
}

// wanted says that the request is to be sent if it was not yet. It may make a system call.
func (a *attempt) wanted() bool { return a.state.Load() == attemptMade && a.errand.wanted() }

// atLeader has an attempt made at the leader of a group's shard, and again at the next one when the leadership moves
// meanwhile: heartbeats and leaves are safe to repeat, while they are not too old, and so is what no leader began with. Without a leader it waits; once it
// has waited for ParkTime in all the answer is COORDINATOR_NOT_AVAILABLE. An error means that no answer is wanted, or what
// start said.
func (g *Gateway) atLeader(e *errand, start func(*attempt) error) (outcome, error) {
	number := e.number
	if !e.numbered {
		number = g.coords.Shard(e.group)
	}
	if e.began == 0 {
		e.began = g.now()
	}
	patience := g.cfg.ParkTime
	for {
		if !e.wanted() {
			return outcome{}, errClosed
		}
		if !e.lasting && g.now()-e.began > g.cfg.freshFor {
			return outcome{err: tooOld}, nil
		}
		changed := g.coords.LeaderChanged(number)
		leader, ok := g.coords.Leader(number)
		if ok {
			a := &attempt{errand: e, leader: leader, done: make(chan outcome, 1)}
			if err := start(a); err != nil {
				return outcome{}, err
			}
			out, over := g.await(number, a)
			if over {
				return out, nil
			}
			e.maybe = e.maybe || !a.giveUp() && (out.err == nil || !out.err.NotStarted)
			if e.once && e.maybe {
				return outcome{err: notAvailable}, nil
			}
		}
		if patience == g.cfg.ParkTime {
			g.metrics.parked.Inc()
		}
		wait := patience
		if ok {
			wait = min(wait, retryPause)
		}
		began := time.Now()
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-e.gone():
		case <-g.ctx.Done():
			patience = 0
		}
		timer.Stop()
		if patience -= time.Since(began); patience <= 0 {
			return outcome{err: notAvailable}, nil
		}
	}
}

// lastWord is how long the old leader is waited for when there is a new one and the outcome at the old one matters: a node
// that lost its leadership says at once what it has not begun.
const lastWord = 50 * time.Millisecond

// await waits for the outcome of an attempt. over is false when another leader is to be tried; the outcome is then why the
// leader refused it, or nothing where that is not known.
func (g *Gateway) await(number uint32, a *attempt) (out outcome, over bool) {
	timeout := time.NewTimer(attemptTimeout)
	defer timeout.Stop()
	defer a.giveUp()
	var last <-chan time.Time
	for {
		changed := g.coords.LeaderChanged(number)
		now, ok := g.coords.Leader(number)
		select {
		case out := <-a.done:
			return out, out.err == nil || out.err.Code != coordinator.NotCoordinator
		default:
		}
		if ok && now != a.leader && a.leader != g.coords.Self() && last == nil {
			if !a.errand.exact {
				return outcome{}, false // the old leader may never answer: its machine is gone
			}
			last = time.After(g.cfg.lastWord)
		}
		select {
		case out := <-a.done:
			return out, out.err == nil || out.err.Code != coordinator.NotCoordinator
		case <-changed:
		case <-last:
			return outcome{}, false
		case <-a.errand.gone():
			return outcome{err: notAvailable}, true
		case <-timeout.C:
			return outcome{err: notAvailable}, true
		case <-g.ctx.Done():
			return outcome{err: notAvailable}, true
		}
	}
}

// requestAtLeader has a request about one group answered by its leader, wherever that is. It blocks. frame must stay as
// it is even after it returned (an attempt may have been given up).
func (g *Gateway) requestAtLeader(e *errand, client *coordinator.Client, frame []byte) (outcome, error) {
	e.lasting = leaves(frame)
	e.once = ofOffsets(frame)
	e.exact = e.lasting || e.once || settles(frame)
	out, err := g.atLeader(e, func(a *attempt) error {
		if a.leader == g.coords.Self() {
			a.send()
			return g.execute(client, frame, ageMs(g.now()-e.began), a.tell)
		}
		g.metrics.hops.Inc()
		g.hops.request(a.leader, hopKafka, client, frame, a)
		return nil
	})
	if err == nil && out.err == nil && e.maybe {
		out.answer = settled(frame, out.answer)
	}
	return out, err
}
