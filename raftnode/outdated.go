package raftnode

import "errors"

// ErrOutdated: what the other nodes apply, this node's state machine cannot, as its release is older than the one that wrote it.
// A [FSM] returns it from Apply and Restore; then the node takes part in no group any more, tells [Config.Fatal], and
// [Node.Storage] says why. Its data folder stays as it is: a newer release goes on from there.
var ErrOutdated = errors.New("written by a newer release")

// tooOld stops a node for what its state machine cannot apply. The group's state is what it was before that entry.
func (n *Node) tooOld(err error) {
	if n.outdated.CompareAndSwap(nil, &err) {
		n.cfg.Logger.Error("this node stops: its release is too old", "error", err)
	}
}

// outdatedBy is why the node stopped, nil when it did not.
func (n *Node) outdatedBy() error {
	if err := n.outdated.Load(); err != nil {
		return *err
	}
	return nil
}
