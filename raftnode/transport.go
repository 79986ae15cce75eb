package raftnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// pooledConns is how many idle connections to a peer a group keeps.
const pooledConns = 3

// errMuted is what a group's requests get while it must not reach its peers.
var errMuted = errors.New("the group is muted until it is restarted")

// transport is the library's network transport of one group, and what can be learnt on the way: how far the followers
// are, and whether an election was asked for by the leader before.
type transport struct {
	*raft.NetworkTransport
	stream  *streamLayer
	planned *atomic.Uint64
	muted   atomic.Bool
	storage func() error  // why this node cannot store entries
	repeat  time.Duration // pause before an unanswered heartbeat is sent again
	epoch   time.Time
	peers   []*peer     // without this node
	damaged func(error) // told of a snapshot that cannot be sent
}

// peer is what is known of another node; times are nanoseconds since the transport's epoch, 0 for never.
type peer struct {
	id        raft.ServerID
	node      int32
	reach     *reach
	lastIndex atomic.Uint64
	contact   atomic.Int64 // when it answered last
	acked     atomic.Int64 // when the latest request was sent with whose answer it acknowledged this node's term
	beats     beats
	returns   returns
}

var (
	_ raft.Transport   = (*transport)(nil)
	_ raft.WithPreVote = (*transport)(nil)
	_ raft.WithClose   = (*transport)(nil)
)

func newTransport(n *Node, group uint32, planned *atomic.Uint64, log hclog.Logger) (*transport, error) {
	r := route{kind: kindRaft, group: group}
	l, err := n.mux.listen(r)
	if err != nil {
		return nil, err
	}
	s := &streamLayer{muxListener: l, addr: advertised(n.cfg.AdvertisedAddress)}
	s.life, s.cut = context.WithCancel(context.Background())
	t := &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			ServerAddressProvider: addresses(n.cfg.Peers),
			Logger:                log,
			Stream:                s,
			MaxPool:               pooledConns,
			MaxRPCsInFlight:       1, // see AppendEntriesPipeline
			Timeout:               n.cfg.Timing.IO,
		}),
		stream:  s,
		planned: planned,
		storage: n.Storage,
		repeat:  n.cfg.Timing.Heartbeat / repeatsPerTimeout,
		epoch:   time.Now().Add(-1), // so that no time is 0
	}
	for _, p := range n.cfg.Peers {
		if p.ID != n.cfg.NodeID {
			t.peers = append(t.peers, &peer{id: serverID(p.ID), node: p.ID, reach: n.reach[p.ID]})
		}
	}
	return t, nil
}

// Close stops the transport and cuts its connections; the library would leave them to its peers.
func (t *transport) Close() error {
	err := t.NetworkTransport.Close()
	t.stream.cut()
	t.stream.mux.reset(t.stream.route)
	return err
}

// mute cuts the group off from its peers for good.
func (t *transport) mute() {
	t.muted.Store(true)
	t.stream.cut()
	t.stream.mux.reset(t.stream.route)
}

// AppendEntries sends entries or a heartbeat. Heartbeats come at least five times per heartbeat timeout, so their
// answers are a fresh view of the follower.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	if t.muted.Load() {
		return errMuted
	}
	p := t.peer(id)
	if p == nil || !isHeartbeat(args) {
		return t.sendEntries(p, id, target, args, resp)
	}
	first, err := p.beats.send(t.repeat, t.stream.life.Done(), func(r *raft.AppendEntriesResponse) error {
		return t.appendEntries(p, id, target, args, r)
	})
	if err == nil {
		*resp = *first
	}
	return err
}

func (t *transport) appendEntries(p *peer, id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	sent := t.now()
	err := t.NetworkTransport.AppendEntries(id, target, args, resp)
	t.note(p, err)
	if err != nil || resp.Term > args.Term || p == nil {
		return err
	}
	last := resp.LastLog
	if n := len(args.Entries); n > 0 && resp.Success {
		last = max(last, args.Entries[n-1].Index)
	}
	p.lastIndex.Store(last)
	raise(&p.contact, t.now())
	raise(&p.acked, sent)
	p.returns.answered()
	return nil
}

// note tells whether a peer answered. What an own cut of the connections causes says nothing about it.
func (t *transport) note(p *peer, err error) {
	switch {
	case p == nil || t.muted.Load():
	case err == nil:
		p.reach.answered()
	default:
		p.reach.failed(err)
	}
}

// raise sets a value unless it is higher already: heartbeats and entries are answered side by side.
func raise(a *atomic.Int64, v int64) {
	for old := a.Load(); v > old && !a.CompareAndSwap(old, v); old = a.Load() {
	}
}

func (t *transport) now() int64 { return int64(time.Since(t.epoch)) }

func (t *transport) peer(id raft.ServerID) *peer {
	for _, p := range t.peers {
		if p.id == id {
			return p
		}
	}
	return nil
}

// proven is when the latest requests were sent that a majority, this node included, acknowledged; 0 for never. Until
// a heartbeat timeout after that moment no follower of that majority votes for another node, unless this one hands
// over.
func (t *transport) proven() int64 {
	need := (len(t.peers) + 1) / 2 // acknowledgements besides this node
	if need == 0 {
		return t.now()
	}
	var buf [8]int64
	acks := buf[:0]
	for _, p := range t.peers {
		acks = append(acks, p.acked.Load())
	}
	slices.Sort(acks)
	return acks[len(acks)-need]
}

// AppendEntriesPipeline is refused: the library's pipeline can hang for good when a follower rejects a request while
// two are under way (the reader has left, sender and decoder wait for it), and then the follower gets nothing more and
// raft cannot be stopped. With batches of up to maxAppendEntries a pipeline gains little anyway.
func (t *transport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// RequestVote asks for a vote.
func (t *transport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest,
	resp *raft.RequestVoteResponse) error {
	if args.LeadershipTransfer {
		t.planned.Store(args.Term)
	}
	return t.retryStale(id, func() error { return t.NetworkTransport.RequestVote(id, target, args, resp) })
}

// RequestPreVote asks whether a vote would be given.
func (t *transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest,
	resp *raft.RequestPreVoteResponse) error {
	return t.retryStale(id, func() error { return t.NetworkTransport.RequestPreVote(id, target, args, resp) })
}

// retryStale repeats a request that failed on a pooled connection: after a restart of the peer all of them are dead,
// and a vote that fails counts as refused.
func (t *transport) retryStale(id raft.ServerID, request func() error) (err error) {
	defer func() {
		if t.storage() == nil {
			t.note(t.peer(id), err)
		}
	}()
	for range pooledConns + 1 {
		if t.muted.Load() {
			return errMuted
		}
		if err := t.storage(); err != nil {
			return err // it could be elected, but not lead
		}
		var dial *dialError
		var timeout net.Error
		err = request()
		if err == nil || errors.As(err, &dial) || errors.As(err, &timeout) && timeout.Timeout() {
			return err
		}
	}
	return err
}

// follower is what is known of a follower.
func (t *transport) follower(node int32) FollowerStatus {
	f := FollowerStatus{Node: node}
	if p := t.peer(serverID(node)); p != nil {
		f.LastIndex = p.lastIndex.Load()
		if c := p.contact.Load(); c != 0 {
			f.LastContact = t.epoch.Add(time.Duration(c))
		}
	}
	return f
}

// streamLayer is the connections of one group.
type streamLayer struct {
	*muxListener
	addr advertised
	life context.Context // ends when the group is cut off from its peers
	cut  context.CancelFunc
}

var _ raft.StreamLayer = (*streamLayer)(nil)

// Addr is the advertised address: the library uses it as this node's address.
func (s *streamLayer) Addr() net.Addr { return s.addr }

// Dial opens a connection to the same group on another node.
func (s *streamLayer) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.life, timeout)
	defer cancel()
	c, err := s.mux.open(ctx, string(addr), s.route)
	if err != nil {
		return nil, &dialError{err}
	}
	return c, nil
}

type dialError struct{ err error }

func (e *dialError) Error() string { return "dial: " + e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

type advertised string

func (a advertised) Network() string { return "tcp" }
func (a advertised) String() string  { return string(a) }

// addresses gives the configured address of a node, whatever address the log holds: nodes may move.
type addresses []Peer

// ServerAddr is the address of a node.
func (a addresses) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	for _, p := range a {
		if serverID(p.ID) == id {
			return raft.ServerAddress(p.Address), nil
		}
	}
	return "", fmt.Errorf("node %s is not in the list of peers", id)
}
