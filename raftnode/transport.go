package raftnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	// pooledConns is how many idle connections to a peer a group keeps.
	pooledConns = 3
	// pipelined is how many append requests to a follower are under way at once; more costs latency on a LAN.
	pipelined = 2
)

// errMuted is what a group's requests get while it must not reach its peers.
var errMuted = errors.New("the group is muted until it is restarted")

// transport is the library's network transport of one group, and what can be learnt on the way: how far the followers
// are, and whether an election was asked for by the leader before.
type transport struct {
	*raft.NetworkTransport
	stream  *streamLayer
	planned *atomic.Uint64
	muted   atomic.Bool

	mu        sync.Mutex
	followers map[raft.ServerID]FollowerStatus
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
	return &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			ServerAddressProvider: addresses(n.cfg.Peers),
			Logger:                log,
			Stream:                s,
			MaxPool:               pooledConns,
			MaxRPCsInFlight:       pipelined,
			Timeout:               n.cfg.Timing.IO,
		}),
		stream:    s,
		planned:   planned,
		followers: map[raft.ServerID]FollowerStatus{},
	}, nil
}

// Close stops the transport and cuts its connections; the library would leave them to its peers.
func (t *transport) Close() error {
	err := t.NetworkTransport.Close()
	t.stream.mux.reset(t.stream.route)
	return err
}

// mute cuts the group off from its peers for good.
func (t *transport) mute() {
	t.muted.Store(true)
	t.stream.mux.reset(t.stream.route)
}

// AppendEntries sends entries or a heartbeat. Heartbeats come at least five times per heartbeat timeout, so their
// answers are a fresh view of the follower.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	if t.muted.Load() {
		return errMuted
	}
	err := t.NetworkTransport.AppendEntries(id, target, args, resp)
	if err == nil && resp.Term <= args.Term {
		last := resp.LastLog
		if n := len(args.Entries); n > 0 && resp.Success {
			last = max(last, args.Entries[n-1].Index)
		}
		t.saw(id, last)
	}
	return err
}

// AppendEntriesPipeline opens a pipeline of requests.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	if t.muted.Load() {
		return nil, errMuted
	}
	return t.NetworkTransport.AppendEntriesPipeline(id, target)
}

// RequestVote asks for a vote.
func (t *transport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest,
	resp *raft.RequestVoteResponse) error {
	if args.LeadershipTransfer {
		t.planned.Store(args.Term)
	}
	return t.retryStale(func() error { return t.NetworkTransport.RequestVote(id, target, args, resp) })
}

// RequestPreVote asks whether a vote would be given.
func (t *transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest,
	resp *raft.RequestPreVoteResponse) error {
	return t.retryStale(func() error { return t.NetworkTransport.RequestPreVote(id, target, args, resp) })
}

// retryStale repeats a request that failed on a pooled connection: after a restart of the peer all of them are dead,
// and a vote that fails counts as refused.
func (t *transport) retryStale(request func() error) (err error) {
	for range pooledConns + 1 {
		if t.muted.Load() {
			return errMuted
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

func (t *transport) saw(id raft.ServerID, last uint64) {
	node, ok := parseID(id)
	if !ok {
		return
	}
	t.mu.Lock()
	t.followers[id] = FollowerStatus{Node: node, LastIndex: last, LastContact: time.Now()}
	t.mu.Unlock()
}

// follower is what is known of a follower.
func (t *transport) follower(node int32) FollowerStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.followers[serverID(node)]
	f.Node = node
	return f
}

// streamLayer is the connections of one group.
type streamLayer struct {
	*muxListener
	addr advertised
}

var _ raft.StreamLayer = (*streamLayer)(nil)

// Addr is the advertised address: the library uses it as this node's address.
func (s *streamLayer) Addr() net.Addr { return s.addr }

// Dial opens a connection to the same group on another node.
func (s *streamLayer) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
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
