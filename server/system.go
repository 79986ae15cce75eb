package server

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/loglimit"
	"github.com/coordd/coordd/raftnode"
)

// The registration protocol between nodes (kind 'S' of the raft port): a node sends one JSON line every registerEvery
// to the system shard's leader, which answers each with a line.
const (
	kindSystem    byte = 'S'
	registerEvery      = 250 * time.Millisecond
	// deadAfter is the silence after which a node is taken out of what clients are shown, and graceAfterElection how
	// long a new leader waits to hear the others before it judges.
	deadAfter          = time.Second
	graceAfterElection = 1500 * time.Millisecond
	// maxRegistration bounds a line of the protocol, in bytes, and maxAddress an address in it.
	maxRegistration = 4096
	maxAddress      = 512
	// maxRecords bounds the records of one entry of the system shard, far below the size that an entry may have.
	maxRecords = 128
	// systemGroup is the Raft group of the system shard.
	systemGroup = 0
)

// registration is what a node tells of itself.
type registration struct {
	ID             int32  `json:"id"`
	RaftAddress    string `json:"raft"`
	ClientHost     string `json:"host"`
	ClientPort     uint16 `json:"port"`
	BrokerPortBase uint16 `json:"brokerBase"`
	BrokerPortStep uint16 `json:"brokerStep"`
	// FeatureLevel is record.FeatureLevel of the node's release; releases before 2 tell none.
	FeatureLevel uint16 `json:"level,omitempty"`
}

func (r registration) record(live bool) *record.Node {
	return &record.Node{
		RaftAddress: r.RaftAddress, ClientHost: r.ClientHost, ClientPort: r.ClientPort,
		BrokerPortBase: r.BrokerPortBase, BrokerPortStep: r.BrokerPortStep, Live: live, FeatureLevel: r.FeatureLevel,
	}
}

// system keeps the cluster's common facts in the system shard: nodes and whether they live, and the port numbers of
// upstream brokers. The leader of the system shard writes them.
type system struct {
	node    *Node
	replica *replica
	group   *raftnode.Group

	mu        sync.Mutex
	leader    int32         // -1: unknown
	changed   chan struct{} // closed when leader changes
	term      uint64
	electedAt time.Time
	seen      map[int32]sighting
	refused   loglimit.Limit[struct{}]
	wake      chan struct{}
	proposals atomic.Uint64
}

type sighting struct {
	registration
	at time.Time
}

func newSystem(n *Node) *system {
	s := &system{node: n, leader: -1, changed: make(chan struct{}), seen: map[int32]sighting{}, wake: make(chan struct{}, 1)}
	s.replica = newReplica(func() {
		n.cluster.update()
		n.groupConfigs.update()
	})
	s.replica.skipped = n.recordsSkipped("system shard")
	return s
}

func (s *system) leadership(c raftnode.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.leader
	defer func() {
		if s.leader != before {
			close(s.changed)
			s.changed = make(chan struct{})
		}
	}()
	switch c := c.(type) {
	case raftnode.Elected:
		s.leader, s.term, s.electedAt = s.node.config.NodeID, c.Term, time.Now()
		clear(s.seen)
		s.node.log.Info("leads the system shard", "term", c.Term)
	case raftnode.LeaderKnown:
		s.leader = c.Node
	case raftnode.Lost:
		s.leader = -1
		s.node.log.Info("no longer leads the system shard")
	case raftnode.LeaderUnknown:
		s.leader = -1
	}
	s.poke()
}

func (s *system) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *system) leads() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader == s.node.config.NodeID
}

func (s *system) leaderNode() int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader
}

// leaderChanged returns a channel that is closed at the next change of the leader.
func (s *system) leaderChanged() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// isNode says whether the cluster has a node of this id: the ids are fixed when it is formed. Others are not shown to
// clients, whoever says that they are.
func (s *system) isNode(id int32) bool {
	c := s.node.config
	return id == c.NodeID || slices.ContainsFunc(c.Peers, func(p config.Peer) bool { return p.ID == id })
}

// acceptable says whether what another node tells of itself can be shown to clients.
func (s *system) acceptable(r *registration) bool {
	return s.isNode(r.ID) && r.ID != s.node.config.NodeID && r.ClientHost != "" &&
		len(r.ClientHost) <= maxAddress && len(r.RaftAddress) <= maxAddress
}

// refuse logs, once a second at most, that a registration was not taken.
func (s *system) refuse(r *registration, from net.Addr) {
	if skipped, ok := s.refused.Pass(struct{}{}); ok {
		s.node.log.Warn("refused a registration: not another node of this cluster, or without a usable address", "node", r.ID,
			"remote", from, "left-out", skipped)
	}
}

// sight takes note of a registration; only the leader's notes count.
func (s *system) sight(r registration) {
	s.mu.Lock()
	old, known := s.seen[r.ID]
	s.seen[r.ID] = sighting{r, time.Now()}
	s.mu.Unlock()
	if !known || old.registration != r {
		s.poke()
	}
}

// run writes what the leader has to write, until ctx ends.
func (s *system) run(ctx context.Context) {
	tick := time.NewTicker(registerEvery)
	defer tick.Stop()
	for {
		if s.leads() {
			s.sight(s.node.registration())
			if records := s.due(); len(records) > 0 {
				s.propose(ctx, records[:min(len(records), maxRecords)])
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.wake:
		}
	}
}

// due is what the log should say and does not.
func (s *system) due() []record.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.replica.State()
	var records []record.Record
	if state.Cluster() == nil {
		records = append(records, record.Record{Key: record.Key{Type: record.TypeCluster}, Value: &record.Cluster{
			ID: s.node.newClusterID(), Shards: int32(s.node.config.Shards), FeatureLevel: record.FeatureLevel,
		}})
	}
	return append(append(records, s.dueNodes()...), s.dueSlots()...)
}

func (s *system) dueNodes() []record.Record {
	state := s.replica.State()
	known := map[int32]*record.Node{}
	for id, n := range state.Nodes() {
		known[id] = n
	}
	var records []record.Record
	put := func(id int32, value record.Value) {
		records = append(records, record.Record{Key: record.Key{Type: record.TypeNode, ID: id}, Value: value})
	}
	judging := time.Since(s.electedAt) > graceAfterElection
	upgraded := s.upgraded(known)
	for id, seen := range s.seen {
		live := time.Since(seen.at) < deadAfter
		wanted := seen.record(live)
		if old := known[id]; old == nil || (*old != *wanted || upgraded) && (live || judging) {
			put(id, wanted)
		}
	}
	for id, n := range known {
		if !s.isNode(id) {
			put(id, nil)
			continue
		}
		if _, seen := s.seen[id]; !seen && n.Live && judging {
			dead := *n
			dead.Live = false
			put(id, &dead)
		}
	}
	slices.SortFunc(records, func(a, b record.Record) int { return int(a.Key.ID - b.Key.ID) })
	return records
}

// upgraded says whether a node announces a higher feature level than the log says. All nodes are written then: that node's state
// may lack the levels of the others, which its release of before left out of it.
func (s *system) upgraded(known map[int32]*record.Node) bool {
	for id, seen := range s.seen {
		if old := known[id]; old != nil && seen.record(true).Level() > old.Level() {
			return true
		}
	}
	return false
}

// dueSlots numbers upstream brokers that have no number yet, in the order of their ids. A number is never taken back.
func (s *system) dueSlots() []record.Record {
	state := s.replica.State()
	next := int32(0)
	numbered := map[int32]bool{}
	for id, slot := range state.Slots() {
		numbered[id] = true
		next = max(next, slot.Slot+1)
	}
	var records []record.Record
	for _, b := range s.node.watcher.Image().Brokers {
		if !numbered[b.ID] {
			records = append(records, record.Record{Key: record.Key{Type: record.TypeBrokerSlot, ID: b.ID}, Value: &record.BrokerSlot{Slot: next}})
			next++
		}
	}
	return records
}

func (s *system) propose(ctx context.Context, records []record.Record) {
	if err := s.write(ctx, records); err != nil {
		s.node.log.Debug("system shard: entry not written, trying again", "error", err)
		return
	}
	for _, r := range records {
		if n, ok := r.Value.(*record.Node); ok {
			s.node.log.Info("what clients are shown of a node", "peer", r.Key.ID, "live", n.Live, "address", n.ClientHost, "port", n.ClientPort)
		}
	}
}

// write returns when the records are committed and applied on this node, or with why they are not, or not as far as this
// node knows.
func (s *system) write(ctx context.Context, records []record.Record) error {
	entry := record.Entry{
		FeatureLevel: record.LevelOf(records), LeaderTimeMs: s.node.clock.now(), Proposal: s.proposals.Add(1), Records: records,
	}
	done := make(chan error, 1)
	s.group.Propose(record.EncodeEntry(nil, entry), func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// accept serves registrations of other nodes until the listener is closed.
func (s *system) accept(ctx context.Context, ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		s.node.run(func() { s.serve(ctx, conn) })
	}
}

func (s *system) serve(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	in := bufio.NewReaderSize(conn, maxRegistration)
	for {
		if conn.SetDeadline(time.Now().Add(4*deadAfter)) != nil {
			return
		}
		line, err := in.ReadSlice('\n')
		var r registration
		if err != nil || json.Unmarshal(line, &r) != nil || !s.leads() {
			return
		}
		if !s.acceptable(&r) {
			s.refuse(&r, conn.RemoteAddr())
			return
		}
		s.sight(r)
		if _, err := conn.Write([]byte("ok\n")); err != nil {
			return
		}
	}
}

// register tells the leader of the system shard about this node, again and again, until ctx ends.
func (s *system) register(ctx context.Context) {
	tick := time.NewTicker(registerEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		changed := s.leaderChanged()
		if leader := s.leaderNode(); leader >= 0 && leader != s.node.config.NodeID {
			s.registerWith(ctx, leader, tick.C)
		}
		select {
		case <-ctx.Done():
		case <-changed: // a cluster that forms should know its nodes at once
		case <-tick.C:
		}
	}
}

func (s *system) registerWith(ctx context.Context, leader int32, tick <-chan time.Time) {
	dialCtx, cancel := context.WithTimeout(ctx, deadAfter)
	conn, err := s.node.raft.DialPeer(dialCtx, leader, kindSystem)
	cancel()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	in := bufio.NewReaderSize(conn, 64)
	for s.leaderNode() == leader && !s.node.draining.Load() {
		if conn.SetDeadline(time.Now().Add(deadAfter)) != nil {
			return
		}
		line, err := json.Marshal(s.node.registration())
		if err != nil {
			return
		}
		if _, err := conn.Write(append(line, '\n')); err != nil {
			return
		}
		if _, err := in.ReadSlice('\n'); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}
