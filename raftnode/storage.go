package raftnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coordd/coordd/raftnode/seglog"
)

const (
	// makeRoomEvery is the pause between two attempts to make room by snapshots.
	makeRoomEvery = 30 * time.Second
)

// Storage is why this node cannot store entries, nil while it can. With ErrNoRoom that ends by itself when there is room
// again: until then the node leads nothing, and follows only to know who leads. With ErrLogFailed it takes no part in any group
// until its process is started anew, with ErrOutdated until that has a newer release.
func (n *Node) Storage() error {
	if err := n.ended(); err != nil {
		return err
	}
	if noRoom, full := n.entries.Room(); full {
		return fmt.Errorf("%w in %s: %w", ErrNoRoom, n.cfg.Dir, noRoom)
	}
	return nil
}

// ended is why this node takes part in no group any more, nil while it does.
func (n *Node) ended() error {
	if err := n.outdatedBy(); err != nil {
		return err
	}
	return n.entries.Err()
}

// Errors of [Node.Storage]; test with errors.Is.
var (
	// ErrNoRoom: the log is full and the disk has no room for more.
	ErrNoRoom = seglog.ErrNoRoom
	// ErrLogFailed: a write or sync of the log failed.
	ErrLogFailed = seglog.ErrFailed
)

// endProcess asks for the end of the process for what only another one recovers from.
func (n *Node) endProcess(err error) {
	if n.cfg.Fatal != nil {
		n.cfg.Fatal(err)
	}
}

// storeFailed is called after a failed attempt to store something: when that will be so for all attempts, or the library no
// longer knows what the log holds, the others are to stop hearing from this node at once.
func (g *Group) storeFailed() {
	in := g.inst.Load()
	if in == nil || in.trans.muted.Load() {
		return // see watchStorage
	}
	if err := g.node.entries.Err(); err != nil {
		g.giveUp(in, err.Error())
	} else if g.disk.stale.Load() {
		g.giveUp(in, staleReason)
	}
}

const staleReason = "not all entries could be stored, so that the log is read anew"

// alonePatience is how long a node whose log is full waits for another one that leads, in heartbeat timeouts.
const alonePatience = 12

// watchStorage ends an instance that is of no use, and says whether it did. After a failure of the log that is any: it could
// vote and be elected, but store nothing. So it is where the release is too old for what is in a group. So is one that does not know
// what the log holds. While the log is full, it is one that knows no leader: it would go on standing for election, or have others do
// so in vain.
func (g *Group) watchStorage(in *instance, now time.Time) bool {
	if err := g.node.ended(); err != nil {
		g.giveUp(in, err.Error())
		g.node.endProcess(err)
		return true
	}
	if g.disk.stale.Load() {
		g.giveUp(in, staleReason)
		return true
	}
	full := g.node.Storage()
	leader, ok := g.Leader()
	g.mark(&g.aloneSince, full != nil && (!ok || leader == g.node.cfg.NodeID))
	g.mu.Lock()
	alone := g.aloneSince
	g.mu.Unlock()
	if alone.IsZero() || now.Sub(alone) < alonePatience*g.node.cfg.Timing.Heartbeat {
		return false
	}
	g.giveUp(in, full.Error())
	return true
}

// aside says whether this node should lead nothing as far as others can: it is drained, or its disk has no room for the
// log's next segment. In the second case it goes on following, and leads where all others are in the same state.
func (n *Node) aside() bool {
	noRoom, _ := n.entries.Room()
	return noRoom != nil || n.evacuated.Load()
}

// awaitStorage waits until the node can store entries; false when it stops meanwhile. Where only the log has to be read anew
// a full one is no reason to wait: the group follows on.
func (g *Group) awaitStorage() bool {
	for g.node.entries.Err() != nil || g.node.Storage() != nil && !g.disk.stale.Load() {
		select {
		case <-time.After(watchEvery):
		case <-g.node.stopping:
			return false
		}
	}
	return true
}

// makeRoom takes snapshots while there is no room for the next log segment, before the present one is full: a snapshot
// lets go of the entries that it covers, and with them of segments.
func (n *Node) makeRoom(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var last time.Time
	for {
		select {
		case now := <-tick.C:
			if noRoom, _ := n.entries.Room(); noRoom == nil || now.Sub(last) < makeRoomEvery {
				continue
			}
			for _, g := range n.groups {
				g.compact()
			}
			last = time.Now()
		case <-ctx.Done():
			return
		}
	}
}

// compact takes a snapshot if that lets go of entries. The library logs what goes wrong.
func (g *Group) compact() {
	in := g.inst.Load()
	if in == nil {
		return
	}
	first, _ := g.disk.FirstIndex()
	if kept := g.node.cfg.Timing.TrailingLogs; in.raft.AppliedIndex() <= max(first, g.snap.last.Load())+kept {
		return
	}
	err := in.raft.Snapshot().Error()
	if err != nil && !errors.Is(err, raft.ErrRaftShutdown) && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		g.log.Warn("no snapshot that would make room for the log", "error", err)
	}
}
