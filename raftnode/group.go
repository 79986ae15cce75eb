package raftnode

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// maxInFlight bounds the proposals of a group that wait for their outcome. The library's queue holds maxAppendEntries,
// so that a proposal within the bound never blocks the caller, whatever the disk does.
const maxInFlight = maxAppendEntries - 4

// Group is one replicated log and state machine. Its methods may be called from any goroutine.
type Group struct {
	id   uint32
	node *Node
	log  *limitedLog
	fsm  *fsmAdapter
	disk *store
	snap *snapshots

	onChange func(Change)
	mover    Mover // nil: nobody has anything to hand over

	inst         atomic.Pointer[instance] // nil when stopped
	serving      atomic.Uint64            // term for which Elected was told, 0 when Lost was
	moving       atomic.Int32             // transfers that hold proposals back
	transferring chan struct{}            // held by the transfer under way
	planned      atomic.Uint64            // term that the former leader asked this node to begin
	through      atomic.Uint64            // what appliedThrough found last
	kept         atomic.Uint64            // term in which the group is to stay here, see Keep

	restart chan string // to the group's goroutine: restart in place, and why; room for one
	done    chan struct{}
	// ended is closed when no instance uses the stores any more; valid after done, nil when none ever did.
	ended <-chan struct{}

	mu sync.Mutex
	// told is the leader that OnChange was told last, -1 for none.
	told int32
	// electedAt is when Elected was told last; unplannedAt when last without a plan; cold says that nobody had led the
	// group before, as far as this node knows since its start.
	electedAt, unplannedAt time.Time
	cold, everLed          bool
	// vanishedAt is when the leader that this node followed went without another one being known yet; handedAt when this
	// node handed leadership over last. Zero when not.
	vanishedAt, handedAt time.Time
	// stuckSince is since when raft leads without Elected having been told, refusedSince since when all proposals are
	// refused for a transfer; zero when not.
	stuckSince, refusedSince time.Time
	// aloneSince is since when this node, whose log is full, knows no other node that leads; zero when not.
	aloneSince time.Time
	restarts   uint64
	caughtUp   bool // see Node.Ready
}

// ID is the group's number.
func (g *Group) ID() uint32 { return g.id }

// OnChange sets who is told of changes of leadership, in order, from one goroutine per group. It must be set before
// [Node.Start] and must not block: the group is told of nothing else meanwhile.
func (g *Group) OnChange(f func(Change)) { g.onChange = f }

// OnMove sets who hands over what is not in the log when leadership of the group is transferred. It must be set before
// [Node.Start].
func (g *Group) OnMove(m Mover) { g.mover = m }

// Leader is the node that leads the group as far as this node knows.
func (g *Group) Leader() (node int32, ok bool) {
	in := g.inst.Load()
	if in == nil {
		return -1, false
	}
	_, id := in.raft.LeaderWithID()
	node, ok = parseID(id)
	if ok && node == g.node.cfg.NodeID && in.raft.State() != raft.Leader {
		return -1, false
	}
	return node, ok
}

// Keep has the group stay at this node, which serves it: the balancer leaves it here until this node loses the leadership
// for whatever reason. The error is ErrNotLeader.
func (g *Group) Keep() error {
	term := g.serving.Load()
	if term == 0 {
		return ErrNotLeader
	}
	g.kept.Store(term)
	return nil
}

// isKept says whether the group is to stay here.
func (g *Group) isKept() bool {
	term := g.serving.Load()
	return term != 0 && g.kept.Load() == term
}

// Status is what this node knows of the group.
func (g *Group) Status() Status {
	s := Status{Group: g.id, Role: Stopped, Leader: -1, AppliedIndex: g.fsm.applied.Load()}
	g.mu.Lock()
	s.Restarts = g.restarts
	g.mu.Unlock()
	in := g.inst.Load()
	if in == nil {
		return s
	}
	s.Role = roleOf(in.raft.State())
	s.Term = in.raft.CurrentTerm()
	s.Serving = g.serving.Load() != 0 && s.Role == Leader
	s.Kept = s.Serving && g.isKept()
	if n, ok := g.Leader(); ok {
		s.Leader = n
	}
	s.AppliedIndex = g.appliedThrough(in)
	s.CommitIndex = in.raft.CommitIndex()
	s.LastIndex = in.raft.LastIndex()
	s.SnapshotIndex = g.snap.last.Load()
	if s.Role == Leader {
		s.Followers = g.followers(in)
	} else {
		s.LastContact = in.raft.LastContact()
	}
	return s
}

func roleOf(s raft.RaftState) Role {
	switch s {
	case raft.Leader:
		return Leader
	case raft.Candidate:
		return Candidate
	case raft.Follower:
		return Follower
	}
	return Stopped
}

// appliedThrough is the last index whose effect the state machine holds. The library does not show it entries without
// a command, and its own figure counts entries that are only queued.
func (g *Group) appliedThrough(in *instance) uint64 {
	handed := in.raft.AppliedIndex()
	applied := max(g.fsm.applied.Load(), g.through.Load())
	for i := handed; i > applied; i-- {
		if !g.disk.isEmptyEntry(i) {
			return applied
		}
	}
	applied = max(handed, applied)
	g.through.Store(applied)
	return applied
}

// CaughtUp says, once and for all, that the state machine reached what was committed when a leader was first known.
func (g *Group) CaughtUp() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.caughtUp {
		return true
	}
	in := g.inst.Load()
	if in == nil {
		return false
	}
	// The commit index is not kept on disk: it is 0 until the leader tells it.
	_, led := g.Leader()
	commit := in.raft.CommitIndex()
	g.caughtUp = led && commit > 0 && g.appliedThrough(in) >= commit
	return g.caughtUp
}

// followers is what the instance knows of its followers.
func (g *Group) followers(in *instance) []FollowerStatus {
	now := time.Now()
	var out []FollowerStatus
	for _, p := range g.node.cfg.Peers {
		if p.ID == g.node.cfg.NodeID {
			continue
		}
		f := in.trans.follower(p.ID)
		f.Live = !f.LastContact.IsZero() && now.Sub(f.LastContact) < g.node.cfg.Timing.Heartbeat
		out = append(out, f)
	}
	return out
}

// leading says whether the group's instance is raft's leader now.
func (g *Group) leading() bool {
	in := g.inst.Load()
	return in != nil && in.raft.State() == raft.Leader
}

func (g *Group) tell(c Change) {
	g.log.Debug("leadership", "change", c)
	g.node.metrics.leaderChanged(g.id)
	if g.onChange != nil {
		g.onChange(c)
	}
}

func serverID(node int32) raft.ServerID { return raft.ServerID(strconv.Itoa(int(node))) }

func parseID(id raft.ServerID) (int32, bool) {
	n, err := strconv.ParseInt(string(id), 10, 32)
	if err != nil {
		return -1, false
	}
	return int32(n), true
}
