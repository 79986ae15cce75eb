package server

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/raftnode"
)

// whatToDo is the advice for a node that met what a newer release wrote.
const whatToDo = "start this node with the release of the other nodes; its data folder is as it should be"

// Outdated says whether an error given to [Parts].Fatal tells that the release of this node is too old for what others wrote.
func Outdated(err error) bool { return errors.Is(err, raftnode.ErrOutdated) }

// level is the feature level of this node.
func (n *Node) level() uint16 {
	if n.parts.FeatureLevel != 0 {
		return n.parts.FeatureLevel
	}
	return record.FeatureLevel
}

// behind names the nodes that have not announced the level, as far as this node's replica of the system shard knows. What a node
// announced last counts while it is down, too.
func (n *Node) behind(level uint16) (names []string) {
	known := map[int32]*record.Node{}
	for id, node := range n.system.replica.State().Nodes() {
		known[id] = node
	}
	for _, id := range n.members() {
		node := known[id]
		switch {
		case id == n.config.NodeID:
			if n.level() < level {
				names = append(names, fmt.Sprintf("node %d (feature level %d)", id, n.level()))
			}
		case node == nil:
			names = append(names, fmt.Sprintf("node %d (has never been up)", id))
		case node.Level() < level && !node.Live:
			names = append(names, fmt.Sprintf("node %d (feature level %d when it was up last)", id, node.Level()))
		case node.Level() < level:
			names = append(names, fmt.Sprintf("node %d (feature level %d)", id, node.Level()))
		}
	}
	return names
}

// offsetsHindrance is shard.Host.OffsetsHindrance.
func (n *Node) offsetsHindrance() string {
	names := n.behind(record.OffsetsLevel)
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("all nodes must have been up with a release that keeps offsets in coordd's log (feature level %d); not so: %s",
		record.OffsetsLevel, strings.Join(names, ", "))
}

// OffsetsHindrance implements shard.Host.
func (r *runner) OffsetsHindrance() string { return r.node.offsetsHindrance() }

const (
	// forming is how long after its start a node expects the others to be about to announce themselves, and announced how long
	// it waits for them then.
	forming   = 5 * time.Second
	announced = 500 * time.Millisecond
)

// onceAnnounced calls f. Where new groups are to keep their offsets in the log it lets the nodes of a cluster that just started
// announce themselves first, which takes milliseconds as a rule: groups that are made in between would stay upstream.
func (n *Node) onceAnnounced(f func()) {
	if n.config.OffsetsStore != "raft" || n.clock.elapsed() > forming || n.offsetsHindrance() == "" {
		f()
		return
	}
	go func() {
		n.awaitAnnounced()
		if n.ctx.Err() == nil {
			f()
		}
	}()
}

func (n *Node) awaitAnnounced() {
	patience := time.NewTimer(announced)
	defer patience.Stop()
	for {
		changed := n.cluster.Changed()
		if n.offsetsHindrance() == "" {
			return
		}
		select {
		case <-changed:
		case <-patience.C:
			return
		case <-n.ctx.Done():
			return
		}
	}
}
