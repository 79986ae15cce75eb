package raftnode

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// maxAppendEntries bounds a request between nodes, the batch of the state machine and the library's queue.
const maxAppendEntries = 64

// instance is one life of a group's raft; the group may outlive it.
type instance struct {
	raft      *raft.Raft
	trans     *transport
	proposals *proposals
	proofs    *proofs
	transfers *transfers

	down chan struct{} // closed when raft handles no request any more

	barriers []<-chan struct{} // attempts that were begun; only for the group's goroutine

	observer *raft.Observer
	leaders  chan raft.Observation // something about the leader changed
}

// newInstance starts raft on what the disk holds; the state machine is restored when it returns.
func (g *Group) newInstance() (*instance, error) {
	if err := g.node.entries.Err(); err != nil {
		return nil, fmt.Errorf("start group %d: %w", g.id, err)
	}
	log := newLibraryLog(g.log)
	trans, err := newTransport(g.node, g.id, &g.planned, log)
	if err != nil {
		return nil, err
	}
	trans.damaged = g.replaceSnapshot
	g.fsm.seen = 0
	down := make(chan struct{})
	g.disk.begin(down)
	r, err := raft.NewRaft(raftConfig(&g.node.cfg, log), g.fsm, g.disk, g.disk, g.snap, trans)
	if err != nil {
		if cause := g.node.outdatedBy(); cause != nil { // the library tells only that no snapshot can be read
			err = cause
		}
		return nil, errors.Join(fmt.Errorf("start group %d: %w", g.id, err), trans.Close())
	}
	in := &instance{
		raft: r, trans: trans, down: down,
		proposals: newProposals(), proofs: newProofs(), transfers: newTransfers(),
		leaders: make(chan raft.Observation, 1),
	}
	in.observer = raft.NewObserver(in.leaders, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	r.RegisterObserver(in.observer)
	go in.proposals.run(g)
	go in.proofs.run(g, in)
	return in, nil
}

// aloneTimeout is how long a node without peers waits before it elects itself: there is no leader that it could disturb.
const aloneTimeout = 50 * time.Millisecond

func raftConfig(c *Config, log hclog.Logger) *raft.Config {
	rc := raft.DefaultConfig()
	rc.LocalID = serverID(c.NodeID)
	rc.HeartbeatTimeout = c.Timing.Heartbeat
	rc.ElectionTimeout = c.Timing.Heartbeat
	rc.LeaderLeaseTimeout = c.Timing.Heartbeat
	if len(c.Peers) == 1 {
		alone := min(c.Timing.Heartbeat, aloneTimeout)
		rc.HeartbeatTimeout, rc.ElectionTimeout, rc.LeaderLeaseTimeout = alone, alone, alone
	}
	rc.CommitTimeout = c.Timing.Commit
	rc.MaxAppendEntries = maxAppendEntries
	rc.BatchApplyCh = true
	rc.ShutdownOnRemove = false
	rc.SnapshotInterval = c.Timing.SnapshotInterval
	rc.SnapshotThreshold = c.Timing.SnapshotThreshold
	rc.TrailingLogs = c.Timing.TrailingLogs
	rc.NoLegacyTelemetry = true
	rc.Logger = log
	return rc
}

// firstTerm is the term in which a group is formed; the first election has the next.
const firstTerm = 1

// bootstrap gives an empty group the configuration that every node of the static list gives it. Entry and term are
// the same everywhere, so that it does not matter who comes first, and who died in between does it again.
func (g *Group) bootstrap() error {
	last, err := g.disk.LastIndex()
	if err != nil {
		return err
	}
	empty, err := g.snap.empty()
	if err != nil {
		return err
	}
	if last > 0 || !empty {
		return nil
	}
	var conf raft.Configuration
	for _, p := range g.node.cfg.Peers {
		conf.Servers = append(conf.Servers, raft.Server{ID: serverID(p.ID), Address: raft.ServerAddress(p.Address)})
	}
	if err := g.disk.SetUint64(termKey, firstTerm); err != nil {
		return err
	}
	return g.disk.StoreLog(&raft.Log{
		Index: 1, Term: firstTerm, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(conf),
	})
}

// stop ends the instance within about the time given and answers everybody who waits. The instance has really ended,
// and its stores are free, when stopped is closed; with a disk that hangs that may be later.
func (in *instance) stop(log hclog.Logger, patience time.Duration) (stopped <-chan struct{}) {
	in.raft.DeregisterObserver(in.observer)
	in.proposals.stop()
	in.proofs.stop()
	in.transfers.stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	// What waits in the library's queues when it stops is never answered, so let it answer first. It does so soon: it
	// commits, or loses its lease.
	for _, c := range append(in.barriers, in.proposals.finished, in.proofs.finished, in.transfers.finished) {
		select {
		case <-c:
		case <-deadline.C:
			log.Warn("stopping while requests wait for their outcome")
			deadline.Reset(0)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end := in.raft.Shutdown()
		close(in.down)
		if err := end.Error(); err != nil {
			log.Warn("raft did not stop cleanly", "error", err)
		}
	}()
	in.trans.mute() // its goroutines wait for peers
	deadline.Reset(patience)
	select {
	case <-ended:
	case <-deadline.C:
		log.Error("raft does not stop; most likely the disk does not answer")
		_ = in.trans.Close()
	}
	in.proposals.abandon()
	in.proofs.abandon()
	in.transfers.abandon()
	return ended
}
