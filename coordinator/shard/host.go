package shard

import (
	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Host is what a machine needs of the world. Its methods return at once; outcomes come back as inputs of the machine,
// never from within the call.
type Host interface {
	// Propose hands an entry to the shard's log. The outcome is [Machine.Committed] or [Machine.ProposalFailed]. change
	// says what the entry makes of the state; it is nil for an entry that is a part of a larger decision.
	Propose(id uint64, entry record.Entry, change *Change)
	// Proof is when this node was last known to lead in the term (ms), without asking anybody; 0 when it is not known.
	Proof(term uint64) int64
	// Verify asks the other nodes whether this one still leads. The outcome is [Machine.Verified].
	Verify(startedAt int64)
	// Wake asks for [Machine.Tick] at the given time (ms); an earlier wish is replaced.
	Wake(at int64)

	// Settings are the effective settings of a group.
	Settings(group string) *coordinator.GroupSettings
	// Topics is the upstream's topics now, and a number that changes when any of them changes.
	Topics() (topology.Metadata, uint64)
	// Leaders tells where the leaders of partitions are; nil when nobody knows.
	Leaders() topology.Leaders
	// TopicsCurrent says whether Topics is no older than this node's leadership. With an older picture a topic that the
	// leader before knew may seem to be missing.
	TopicsCurrent() bool
	// TopicsAsOf is a time (ms) at which the upstream was asked of whose answer, or a later one, Topics is.
	TopicsAsOf() int64
	// RefreshTopics asks for a new picture of all topics soon: the one that there is may be too old. TopicsAsOf follows.
	RefreshTopics()
	// RefreshNeeded asks for a new picture of the topics of the groups that are there soon: one of them was missing. It
	// costs less, and TopicsAsOf need not follow.
	RefreshNeeded()
	// LookUpTopics asks the upstream for topics by name: [Machine.TopicsLookedUp].
	LookUpTopics(op uint64, topics []string)
	// Assignor is the assignor of that name, or the default one where the name is not registered.
	Assignor(name string) assignor.Assignor
	// Compute runs the job beside the shard: [Machine.Computed].
	Compute(op uint64, job *streams.TargetJob)
	// CreationError says why a topic could not be created lately; "" when there is nothing to say.
	CreationError(topic string) string
	// CreateTopics asks for internal topics of a group to be created upstream; what was asked for before and is not among
	// them is not wanted any more.
	CreateTopics(group string, topics []topology.InternalTopic)
	// CompareTopics has the settings of internal topics that exist compared with what the group asks for.
	CompareTopics(group string, topics []topology.InternalTopic)

	// Foreign asks which group the upstream has under that id: [Machine.ForeignChecked].
	Foreign(group string)
	// Claim takes over the group's membership upstream: [Machine.Claimed].
	Claim(group string)
	// Release ends the group's membership upstream: [Machine.Released].
	Release(group string)
	// Forget drops what this node knows of the membership without telling the upstream; another node leads now.
	Forget(group string)
	// Commit, Fetch, DeleteOffsets and DropOffsets (all of a group) work on the store: [Machine.StoreDone].
	Commit(op uint64, request *offsets.CommitRequest)
	Fetch(op uint64, request *offsets.FetchRequest)
	DeleteOffsets(op uint64, request *offsets.DeleteRequest)
	DropOffsets(op uint64, group string)

	// OffsetsHindrance says why no group may begin to keep its offsets in the log: which nodes of the cluster would leave them out
	// of their state, or may do so. It is "" when none would.
	OffsetsHindrance() string

	// Observe tells what happened, for logs and metrics.
	Observe(Event)
}

// Change is what an entry does to a state: From becomes To. A replica that is at From need not evolve again what the
// leader evolved already, and shares the values.
type Change struct{ From, To fsm.State }

// OffsetCounts counts changes of offsets in the log by what they came of.
type OffsetCounts struct{ Committed, Deleted, Expired int }

func (c *OffsetCounts) add(o OffsetCounts) {
	c.Committed += o.Committed
	c.Deleted += o.Deleted
	c.Expired += o.Expired
}

// OffsetsMoved is a move of a group's offsets: how many came along, and how many did not, as their topics are gone.
type OffsetsMoved struct {
	From, To      record.Store
	Offsets, Left int
}

// Event is something worth a log line or a metric.
type Event struct {
	Group string
	// Before and After are the group's states where they differ.
	Before, After streams.GroupState
	// Cause is set when the group epoch was raised.
	Cause streams.Cause
	// Grace is set when the group begins or ends to go on although its topics do not fit.
	Grace *streams.GraceChange
	// Unreported is set when warm-ups count as caught up because nothing is reported of them.
	Unreported *streams.WarmupUnreported
	// Stalled is set when a warm-up makes no progress.
	Stalled *streams.WarmupStalled
	// Kept says that a new group keeps its offsets upstream although new ones keep them in the log: there were some.
	Kept bool
	// Hindered is why a new group keeps its offsets upstream although new ones keep them in the log: Host.OffsetsHindrance.
	Hindered string
	// Transactional says that a transactional commit was refused because the group's offsets are in the log.
	Transactional bool
	// Moved is set when the group's offsets were moved to another store.
	Moved *OffsetsMoved
	// Offsets says how many offsets in the log were changed.
	Offsets OffsetCounts
	// Expired says that the group was deleted because it was empty for so long.
	Expired bool
	// Refused is an error that was answered to a member.
	Refused *coordinator.Error
	Member  string
	// Failed is trouble of coordd's own, such as an assignor that gave no assignment.
	Failed error
}
