package raftnode

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// What Propose, Verify and Transfer answer; test with errors.Is.
var (
	// ErrNotLeader: the node does not lead, or may not take this now; nothing was started.
	ErrNotLeader = errors.New("not the leader of the group")
	// ErrUnknown: the entry may have been logged and may be applied later, or never.
	ErrUnknown = errors.New("outcome unknown")
	// ErrRejected: the entry was committed and the state machine refused it; the state is as it was.
	ErrRejected = errors.New("entry rejected by the state machine")
	// ErrBusy is an ErrNotLeader: too many proposals are in flight.
	ErrBusy = fmt.Errorf("%w: too many proposals in flight", ErrNotLeader)
	// ErrMoving is an ErrNotLeader: leadership is being handed over.
	ErrMoving = fmt.Errorf("%w: leadership is being handed over", ErrNotLeader)
	// ErrStopped is an ErrNotLeader: the group is stopped or being restarted.
	ErrStopped = fmt.Errorf("%w: the group is stopped", ErrNotLeader)
	// ErrStaleTerm is an ErrNotLeader: leadership was lost and won again since the proposer was told that it leads;
	// the entry has no effect.
	ErrStaleTerm = fmt.Errorf("%w: proposed in an earlier term", ErrNotLeader)
	// ErrNotCaughtUp: the node that was to lead is silent or lacks entries; this node leads on.
	ErrNotCaughtUp = errors.New("the node has not caught up")
	// ErrAway: the node that was to lead stops or is drained (see [Node.Evacuate]); this node leads on.
	ErrAway = errors.New("the node stops or is drained")
	// ErrAlone: there is no other node that could lead.
	ErrAlone = errors.New("no other live node takes part")
)

// notStarted are the library's errors after which an entry is certainly in no log. Everything else, above all
// ErrLeadershipLost and a failed write of the log, leaves the outcome open.
var notStarted = []error{
	raft.ErrNotLeader,
	raft.ErrLeadershipTransferInProgress,
	raft.ErrEnqueueTimeout,
}

// proposalError maps the outcome of an Apply future.
func proposalError(err error) error {
	if err == nil {
		return nil
	}
	for _, n := range notStarted {
		if errors.Is(err, n) {
			return fmt.Errorf("%w: %w", ErrNotLeader, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// leaderError maps the outcome of a proof of leadership or a transfer: whatever went wrong, leadership is not proven.
func leaderError(err error) error {
	if err == nil || errors.Is(err, ErrNotLeader) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotLeader, err)
}
