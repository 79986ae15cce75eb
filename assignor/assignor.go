package assignor

import "github.com/coordd/coordd/topology"

// Spec is the input of an assignment.
type Spec struct {
	// Members are sorted by member id.
	Members []Member
	// Subtopologies are sorted by id as strings.
	Subtopologies []Subtopology
	// NumStandbyReplicas is the number of standby copies of each stateful task.
	NumStandbyReplicas int
	// RackAwareTags are the client tags over which standbys and warm-ups shall be spread. A process is where the first of its
	// members by id says, and in a tag that this one lacks apart from all others.
	RackAwareTags []string
	// NumWarmupReplicas is how many warm-up copies the group may have at once; 0: tasks move at once, without any.
	NumWarmupReplicas int
	// AcceptableRecoveryLag is the lag, in changelog records, up to which (inclusive) a copy of a task counts as caught up.
	AcceptableRecoveryLag int64
}

// Member is one member with the tasks that it holds now (assigned, without tasks pending revocation).
type Member struct {
	ID, ProcessID string
	InstanceID    *string
	RackID        *string
	// Stale says that the member runs an earlier topology than the group's: it may have no other tasks than those of Current, in
	// their roles, and keeps them.
	Stale bool
	// Away says that the member is not connected or has left for a while: it keeps what it has, and its state counts for nothing
	// that is to run now. Only [HighlyAvailable] looks at it.
	Away bool
	// Tags are the client tags of the member's process.
	Tags    map[string]string
	Current topology.Assignment
	// Offsets are the reported cumulative changelog positions by task; nil when nothing was reported.
	Offsets    Offsets
	EndOffsets Offsets
	// NoWarmups says that the member reports no offsets and can so get no warm-ups.
	NoWarmups bool
	// Ready are warm-up tasks of Current that count as caught up although their lag is not known.
	Ready topology.Tasks
	// Stalled are tasks of which a warm-up of the member is known to be behind and has made no progress for long, or made none
	// as long as the member had it. They may be of others than Current. Their warm-ups come after those of all others.
	Stalled topology.Tasks
	// Restoring are active tasks of Current whose state the member has lost, by its own reports.
	Restoring topology.Tasks
}

// Subtopology is what an assignor knows of a subtopology.
type Subtopology struct {
	ID string
	// Tasks is the number of its tasks; partitions are 0 to Tasks-1.
	Tasks int32
	// Stateful says whether it has a changelog topic.
	Stateful bool
	// LeaderRacks is the rack of the leader of each task's source partitions, by partition; "" where it is not known, nil
	// where active tasks are placed without regard to it.
	LeaderRacks []string
}

// Assignment is the target of each member by member id. Every member of the Spec has an entry.
type Assignment map[string]topology.Assignment

// Assignor computes assignments. Implementations are stateless and safe for concurrent use.
type Assignor interface {
	// Name is the name by which groups choose the assignor.
	Name() string
	// Assign computes the target; it fails only when there is no member.
	Assign(Spec) (Assignment, error)
}
