package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/coordd/coordd/raftnode/seglog"
	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
)

// FSM is the state machine of one group. Apply, Snapshot and Restore are called one at a time.
type FSM interface {
	// Apply brings the state to index. The entry must not be kept beyond the call unless it is never changed. An error
	// says that the entry was rejected and the state left as it was, alike on every replica; it is told to the
	// proposer. An error that matches ErrOutdated stops this node instead. What else would differ between replicas must panic.
	Apply(index uint64, entry []byte) error
	// Snapshot captures the state in constant time; WriteTo runs beside later calls of Apply.
	Snapshot() (io.WriterTo, error)
	// Restore replaces the state by a snapshot's, which holds all entries up to index. It must notice a damaged one. After an
	// error the state must be as it was before; another snapshot is tried then.
	Restore(index uint64, r io.Reader) error
}

// Peer is one node of the static peer list.
type Peer struct {
	ID int32
	// Address is the host and port at which the other nodes reach the node's raft port.
	Address string
}

// Config says what a node is made of. NodeID, Dir, Peers, Groups and NewFSM have no default.
type Config struct {
	NodeID int32
	// Dir is the data folder. One process at a time owns it.
	Dir string
	// ListenAddress is what the raft port binds to; AdvertisedAddress (default: this node's address in Peers) is how
	// the other nodes know this one.
	ListenAddress, AdvertisedAddress string
	// Peers lists every node of the cluster, this one included; every node is given the same list. One peer alone is
	// a cluster of one. Ids are fixed when the data folder is formed, addresses may change between starts.
	Peers []Peer
	// Groups is the number of groups, numbered from 0; fixed when the data folder is formed.
	Groups int
	Timing Timing
	// NewFSM makes the state machine of a group; called once per group by Open.
	NewFSM func(group uint32) FSM
	// Listen and Dial are the network; nil means TCP.
	Listen func(addr string) (net.Listener, error)
	Dial   func(ctx context.Context, addr string) (net.Conn, error)
	// Logger may be nil.
	Logger hclog.Logger
	// Registerer takes the metrics; may be nil.
	Registerer prometheus.Registerer
	// Fatal is told of what only a new process recovers from: the log or a term could not be written, for another reason than
	// a full log, or ErrOutdated. It should end the process at once, as a crash would; nil leaves the
	// node running without taking part in its groups, and lets the library panic over the term.
	Fatal func(error)

	logFS seglog.FS // below the log; replaced in tests
}

// Timing holds the time constants; the zero value of a field takes the value of [LAN].
type Timing struct {
	// Heartbeat is the time without word from the leader after which a follower suspects it; it is also the base of
	// the election timeout.
	Heartbeat time.Duration
	// Lease is how long a proof of leadership ([Group.Proof]) should be relied on; it allows for clocks of unequal speed
	// and must not be longer than Heartbeat. A leader without word from a majority steps down after Heartbeat: earlier
	// would cost leaderships on a busy machine and gain nothing, since no other node is elected before.
	Lease time.Duration
	// Commit is how often an idle leader tells the commit index.
	Commit time.Duration
	// IO bounds a dial and one request between nodes; snapshots get more by their size.
	IO time.Duration
	// Handshake bounds the wait for the first bytes of an accepted connection.
	Handshake time.Duration

	// SnapshotInterval, SnapshotThreshold and TrailingLogs: how often a snapshot is considered, after how many new
	// entries it is taken, and how many entries stay in the log behind it.
	SnapshotInterval  time.Duration
	SnapshotThreshold uint64
	TrailingLogs      uint64
	// SnapshotBytes and TrailingBytes bound the same by size: a snapshot is also taken when the entries since the last one
	// are longer than that and than half of it, and fewer than TrailingLogs entries stay behind it when they are longer.
	SnapshotBytes, TrailingBytes uint64

	// Watchdog is how long a leader may be unable to commit before the group gives up leadership and is restarted in
	// place.
	Watchdog time.Duration
	// Transfer bounds one call of Transfer, Drain the transfers of all groups on shutdown.
	Transfer, Drain time.Duration

	// Balance is the least time between two transfers that this node starts to spread the leaders; negative: off.
	Balance time.Duration
	// BalanceQuiet is how long a group is left alone after an election that nobody planned.
	BalanceQuiet time.Duration
	// BalanceStart replaces BalanceQuiet for the first election of a group, so that a cluster that comes up spreads
	// soon.
	BalanceStart time.Duration
}

// LAN is the timing for nodes in one data centre: failover in 0.5 s at the median, under 0.75 s at worst.
func LAN() Timing {
	return Timing{
		Heartbeat:         250 * time.Millisecond,
		Lease:             150 * time.Millisecond,
		Commit:            50 * time.Millisecond,
		IO:                2 * time.Second,
		Handshake:         2 * time.Second,
		SnapshotInterval:  30 * time.Second,
		SnapshotThreshold: 4096,
		TrailingLogs:      2048,
		SnapshotBytes:     4 << 20,
		TrailingBytes:     4 << 20,
		Watchdog:          5 * time.Second,
		Transfer:          2 * time.Second,
		Drain:             2 * time.Second,
		Balance:           2 * time.Second,
		BalanceQuiet:      30 * time.Second,
		BalanceStart:      3 * time.Second,
	}
}

// WAN is the timing for nodes that are far apart: failover in about 2 s.
func WAN() Timing {
	t := LAN()
	t.Heartbeat, t.Lease, t.Commit = time.Second, 500*time.Millisecond, 50*time.Millisecond
	t.IO, t.Handshake = 5*time.Second, 5*time.Second
	t.Watchdog, t.Transfer, t.Drain = 10*time.Second, 6*time.Second, 6*time.Second
	return t
}

// Open's and Start's errors about the data folder.
var (
	// ErrDataDirInUse: another process owns the data folder.
	ErrDataDirInUse = errors.New("data folder is in use")
	// ErrDataDirMismatch: the data folder was formed with another node id, other peers or another number of groups.
	ErrDataDirMismatch = errors.New("data folder does not fit the configuration")
)

func (c *Config) complete() error {
	c.Timing.complete()
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Listen == nil {
		c.Listen = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	c.Peers = slices.SortedFunc(slices.Values(c.Peers), func(a, b Peer) int { return int(a.ID) - int(b.ID) })
	return c.check()
}

func (c *Config) check() error {
	switch {
	case c.Dir == "":
		return errors.New("raft: no data folder given")
	case c.Groups < 1:
		return fmt.Errorf("raft: %d groups; at least one is needed", c.Groups)
	case c.NewFSM == nil:
		return errors.New("raft: no state machine given")
	case c.Timing.Lease > c.Timing.Heartbeat:
		return fmt.Errorf("raft: lease %v is longer than heartbeat %v", c.Timing.Lease, c.Timing.Heartbeat)
	}
	self := false
	for i, p := range c.Peers {
		if p.ID < 0 || p.Address == "" {
			return fmt.Errorf("raft: peer %d has address %q; ids start at 0 and addresses must be given", p.ID, p.Address)
		}
		if i > 0 && c.Peers[i-1].ID == p.ID {
			return fmt.Errorf("raft: peer %d is listed twice", p.ID)
		}
		if p.ID == c.NodeID {
			self = true
			if c.AdvertisedAddress == "" {
				c.AdvertisedAddress = p.Address
			}
		}
	}
	if !self {
		return fmt.Errorf("raft: node %d is not in the list of peers", c.NodeID)
	}
	return nil
}

func (t *Timing) complete() {
	d := LAN()
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&t.Heartbeat, d.Heartbeat)
	def(&t.Lease, min(d.Lease, t.Heartbeat))
	def(&t.Commit, d.Commit)
	def(&t.IO, d.IO)
	def(&t.Handshake, d.Handshake)
	def(&t.SnapshotInterval, d.SnapshotInterval)
	def(&t.Watchdog, d.Watchdog)
	def(&t.Transfer, d.Transfer)
	def(&t.Drain, d.Drain)
	def(&t.Balance, d.Balance)
	def(&t.BalanceQuiet, d.BalanceQuiet)
	def(&t.BalanceStart, d.BalanceStart)
	if t.SnapshotThreshold == 0 {
		t.SnapshotThreshold = d.SnapshotThreshold
	}
	if t.TrailingLogs == 0 {
		t.TrailingLogs = d.TrailingLogs
	}
	if t.SnapshotBytes == 0 {
		t.SnapshotBytes = d.SnapshotBytes
	}
	if t.TrailingBytes == 0 {
		t.TrailingBytes = d.TrailingBytes
	}
}
