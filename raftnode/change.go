package raftnode

import "time"

// Change is a change of leadership as one node sees it: [Elected], [Lost], [LeaderKnown] or [LeaderUnknown]. Changes
// of a group are told in order. Elected and Lost alternate; what is told between them concerns other nodes.
type Change interface{ change() }

// Elected: this node leads the group and its state machine holds everything committed before Term.
type Elected struct {
	Term uint64
	// Planned says that the former leader handed over (Transfer), as opposed to an election after a failure.
	Planned bool
}

// Lost: this node no longer leads.
type Lost struct{}

// LeaderKnown: this node follows Node.
type LeaderKnown struct{ Node int32 }

// LeaderUnknown: the leader known before is gone and no other is known yet.
type LeaderUnknown struct{}

func (Elected) change()       {}
func (Lost) change()          {}
func (LeaderKnown) change()   {}
func (LeaderUnknown) change() {}

// Role is what a node is in a group.
type Role uint8

// The roles.
const (
	Follower Role = iota
	Candidate
	Leader
	Stopped
)

func (r Role) String() string {
	return [...]string{"follower", "candidate", "leader", "stopped"}[r]
}

// Status is a view of one group from this node.
type Status struct {
	Group uint32
	Role  Role
	// Serving says that this node leads and Elected was told.
	Serving bool
	// Kept says that the group is to stay here, see [Group.Keep].
	Kept bool
	Term uint64
	// Leader is the known leader, -1 when none is known.
	Leader int32
	// LastIndex is the last entry in this node's log, CommitIndex the last that this node knows to be committed,
	// AppliedIndex the last whose effect the state machine holds, SnapshotIndex the last in a snapshot.
	LastIndex, CommitIndex, AppliedIndex, SnapshotIndex uint64
	// LastContact is when the leader was heard last; zero on the leader and when never.
	LastContact time.Time
	// Followers is what the leader knows of the others, by node id; nil on other nodes.
	Followers []FollowerStatus
	// Restarts counts how often the watchdog restarted the group in place.
	Restarts uint64
}

// FollowerStatus is what a leader knows of one follower.
type FollowerStatus struct {
	Node int32
	// LastIndex is the last entry in the follower's log when it answered last.
	LastIndex uint64
	// LastContact is when it answered last; zero when never in this leadership.
	LastContact time.Time
	// Live says that it answered within the heartbeat timeout.
	Live bool
}
