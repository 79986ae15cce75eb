package streams

import (
	"strings"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Env is what a decision sees of the world beside the group.
type Env struct {
	// Now is the leader's time in milliseconds since 1970.
	Now int64
	// Settings are the group's effective settings.
	Settings *coordinator.GroupSettings
	// Metadata is the upstream's topics now, and MetadataVersion a number that changes whenever any topic changes.
	Metadata        topology.Metadata
	MetadataVersion uint64
	// MetadataAsOf is a time at which the upstream was asked of whose answer, or a later one, Metadata is.
	MetadataAsOf int64
	// Leaders tells where the leaders of partitions are; nil: nowhere. It is asked only while a target is computed for a group
	// whose settings want it.
	Leaders topology.Leaders
	// Sightings are what earlier decisions, which could not stand yet, saw of topologies that are to be set first.
	Sightings Sightings
	// Assignor computes target assignments.
	Assignor assignor.Assignor
	// OffloadFrom is the product of members and tasks from which on a target assignment is computed beside the shard;
	// 0: never.
	OffloadFrom int
	// HoldGrants is true while this leader has not yet taken over the group's membership upstream: active tasks that
	// a member would newly get count as unreleased, so that no task moves before the old leader's commits are fenced.
	HoldGrants bool
	// CreationErrors says why an earlier attempt to create a topic failed; "" when none did. It may be nil.
	CreationErrors func(topic string) string
}

// HeartbeatInput is all that [Heartbeat] looks at.
type HeartbeatInput struct {
	Group   *fsm.Group // nil: no such group
	Soft    *Soft      // nil: none yet
	Env     Env
	Client  *coordinator.Client
	Request *HeartbeatRequest
	// MayHold says that the answer could be held back.
	MayHold bool
	// Arrived is when the request came, where that is not Env.Now: the member's life counts from it.
	Arrived int64
	// Held says that the answer to this request is being held back. It is decided what a heartbeat without any news from
	// the member would be told now: what the request reported has been taken, and its member epoch is the last one that
	// the member was told, while the member may have been moved on since.
	Held bool
}

// Decision is the outcome of a decision. Nothing has changed when it is made: the shard proposes the records, applies
// Soft, releases Reply when the records (and all that the decision saw) are committed, and then runs the effects.
// A decision with Reply.Err set has no soft change, and no records other than marks: the wish to shut the application
// down outlives a refusal.
type Decision struct {
	Records []record.Record
	// Reply is meaningful for heartbeats and leaves only.
	Reply HeartbeatResponse
	// Soft is applied with [Soft.Apply] before the next decision of the group is made. It need not wait for the
	// commit: soft state ends with the leadership and is never rolled back.
	Soft    SoftChange
	Effects []Effect
	// Cause says why the group epoch was raised; its Kinds are 0 when it was not.
	Cause Cause
	// Doubt says that the decision goes by a problem of the topics that ends applications, or sets a topology first, before
	// the topics have been asked for after DoubtSince. It may be a refusal.
	Doubt      bool
	DoubtSince int64
	// Sighting is what a decision that sets a topology first saw of it; nil for others.
	Sighting *Sighting
	// Grace says that the group begins or ends to go on although its topics do not fit; nil when neither.
	Grace *GraceChange
	// Holding says whether the reply may be held back.
	Holding Holding

	told told
	// soon is SoftMember.soon once the answer is given.
	soon int64
	note *note
}

// Effect is something that the leader does after the commit. It may be repeated or lost without harm.
type Effect interface{ effect() }

// CreateTopics asks for internal topics to be created upstream. Partition counts are decided; a replication factor of
// 0 or less is the upstream's default.
type CreateTopics struct{ Topics []topology.InternalTopic }

// GroupEmptied says that the last member is gone: the group's membership upstream can be released.
type GroupEmptied struct{}

// AssignorFailed says that no new target could be made and that the old one stays; the assignor is tried again later.
type AssignorFailed struct{ Err error }

func (CreateTopics) effect()   {}
func (GroupEmptied) effect()   {}
func (AssignorFailed) effect() {}

// CauseKind is a set of reasons for a new group epoch. Journal entries in the log hold the numbers: they stay.
type CauseKind uint16

// Reasons for a new group epoch.
const (
	CauseJoin CauseKind = 1 << iota
	CauseMemberChanged
	CauseStaticReplacement
	CauseTopology
	CauseTopicChange
	CauseValidation
	CauseConfigChange
	CauseLeave
	CauseSessionExpired
	CauseRebalanceTimeout
	CauseDisconnected
	// CauseResumed stands for a change whose entry in the journal was cut off by a failover.
	CauseResumed
	// CauseWarmup: a warm-up has caught up, or counts so because nothing is reported of it.
	CauseWarmup
	// CauseStateLost: the owner of an active task has to restore its state, which another process has.
	CauseStateLost
	// CauseStalled: a warm-up is known to be behind and makes no progress, so that others have their turn.
	CauseStalled
)

var causeNames = [...]string{"join", "member changed", "static member replaced", "topology", "topics changed",
	"topology validation changed", "settings changed", "leave", "session expired", "rebalance timeout", "disconnected",
	"resumed", "warm-up caught up", "state lost", "warm-up stalled"}

// String lists the reasons for people.
func (k CauseKind) String() string {
	if k == 0 {
		return "none"
	}
	return strings.Join(k.Names(), ", ")
}

// Names are the reasons for people, one by one.
func (k CauseKind) Names() []string {
	names := []string{}
	for i, name := range causeNames {
		if k&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Label is the first reason as the value of a metric's label.
func (k CauseKind) Label() string {
	for i, name := range causeNames {
		if k&(1<<i) != 0 {
			return strings.ReplaceAll(name, " ", "_")
		}
	}
	return "none"
}

// CauseLabels are all values that [CauseKind.Label] has for a set with a reason.
func CauseLabels() []string {
	labels := make([]string, len(causeNames))
	for i := range causeNames {
		labels[i] = CauseKind(1 << i).Label()
	}
	return labels
}

// Cause is why a group epoch was raised, for log lines and the journal.
type Cause struct {
	Kinds CauseKind
	// Epoch is the new group epoch.
	Epoch int32
	// MemberID, InstanceID and Host belong to the member whose request or absence raised the epoch.
	MemberID, InstanceID, Host string
	// Detail is a short explanation for people; it may be empty.
	Detail string
}
