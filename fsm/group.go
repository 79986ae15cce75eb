package fsm

import (
	"iter"
	"slices"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Group is the hard state of one streams group (semantics of StreamsGroup.java, the part that its records rebuild). It
// is immutable. Its methods take a nil Group for a group without records.
type Group struct {
	ID string
	// Metadata, TargetMeta and Topology are nil until their first record.
	Metadata   *record.GroupMetadata
	TargetMeta *record.TargetMetadata
	Topology   *topology.Topology
	// OffsetsClaimed says whether an OffsetsClaim record exists.
	OffsetsClaimed bool
	// Marks is nil while all of them are zero.
	Marks *record.GroupMarks
	// Topics is nil while the topology is not ready.
	Topics *record.GroupTopics
	// OffsetsStore is nil without a record; Store says what that means.
	OffsetsStore *record.OffsetsStore

	members *iradix.Tree[*Member]  // by member id; nil until the first
	statics *iradix.Tree[[]string] // instance id -> member ids, ascending; nil until the first
	owners  owners
	// numMembers and numTargets count the entries of members that are a member, or have a target.
	numMembers, numTargets int
	// stable counts the members in state STABLE by member epoch, epochs ascending, so that the members reconciled to
	// any epoch are known without visiting them.
	stable  []epochCount
	journal journal
	// versions are the topologies that the group has and had.
	versions versions
	offsets  offsets
	hashes   [7]uint64 // of the group's own records, by hashIndex
}

type epochCount struct {
	epoch   int32
	members int32
}

// Member is the hard state of one member. It is immutable; parts are nil until their first record. Task lists are never
// nil, and active tasks of Current have epochs.
type Member struct {
	ID      string
	Meta    *record.MemberMetadata
	Current *record.CurrentAssignment
	Target  *record.TargetMember

	metaHash, currentHash, targetHash uint64
	// holder stands for the member in the owner indexes while no other member holds the task.
	holder *holder
}

// exists says whether m is a member. A target assignment alone makes nobody a member.
func (m *Member) exists() bool { return m.Meta != nil || m.Current != nil }

// process is the id of the member's process; it is empty until the metadata is known.
func (m *Member) process() string {
	if m.Meta == nil {
		return ""
	}
	return m.Meta.ProcessID
}

// instance is the instance id of a static member.
func (m *Member) instance() *string {
	if m.Meta == nil {
		return nil
	}
	return m.Meta.InstanceID
}

// held returns the tasks that a member holds in one role: assigned or not yet confirmed to be revoked.
func (m *Member) held(r role) topology.Tasks {
	if m.Current == nil {
		return nil
	}
	return r.of(&m.Current.Assigned).Union(r.of(&m.Current.Revoking))
}

// Member returns the member with an id, or nil. It does not allocate or keep the id.
func (g *Group) Member(id string) *Member {
	if g == nil {
		return nil
	}
	if m, ok := get(g.members, id); ok && m.exists() {
		return m
	}
	return nil
}

// Members yields the members by ascending id.
func (g *Group) Members() iter.Seq[*Member] {
	return func(yield func(*Member) bool) {
		if g == nil {
			return
		}
		for m := range values(g.members) {
			if m.exists() && !yield(m) {
				return
			}
		}
	}
}

// NumMembers is the number of members.
func (g *Group) NumMembers() int {
	if g == nil {
		return 0
	}
	return g.numMembers
}

// Static returns the member id that is registered under an instance id. It does not allocate or keep the instance id.
func (g *Group) Static(instance string) (memberID string, ok bool) {
	if g == nil {
		return "", false
	}
	ids, ok := get(g.statics, instance)
	if !ok {
		return "", false
	}
	return ids[len(ids)-1], true
}

// Epoch is the group epoch; 1 for a new group.
func (g *Group) Epoch() int32 {
	if g == nil || g.Metadata == nil {
		return 1
	}
	return g.Metadata.Epoch
}

// AssignmentEpoch is the group epoch for which the target assignment was computed; 1 for a new group.
func (g *Group) AssignmentEpoch() int32 {
	if g == nil || g.TargetMeta == nil {
		return 1
	}
	return g.TargetMeta.AssignmentEpoch
}

// MetadataHash is the hash of the topics that the group reads; 0 for a new group.
func (g *Group) MetadataHash() int64 {
	if g == nil || g.Metadata == nil {
		return 0
	}
	return g.Metadata.MetadataHash
}

// ValidatedTopologyEpoch is the topology epoch whose topics were last found complete, or -1.
func (g *Group) ValidatedTopologyEpoch() int32 {
	if g == nil || g.Metadata == nil {
		return -1
	}
	return g.Metadata.ValidatedTopologyEpoch
}

// Reconciled says whether every member is in state STABLE at the assignment epoch.
func (g *Group) Reconciled() bool {
	if g == nil {
		return true
	}
	i, ok := findEpoch(g.stable, g.AssignmentEpoch())
	if !ok {
		return g.numMembers == 0
	}
	return int(g.stable[i].members) == g.numMembers
}

// NumReconciled is the number of members in state STABLE at an epoch.
func (g *Group) NumReconciled(epoch int32) int {
	if g == nil {
		return 0
	}
	if i, ok := findEpoch(g.stable, epoch); ok {
		return int(g.stable[i].members)
	}
	return 0
}

// ActiveOwner returns the id of the process that holds a task as active, or has not confirmed its revocation. Where
// records give a task to several processes, which no decision does, it is the first by id.
func (g *Group) ActiveOwner(t topology.Task) (processID string, ok bool) {
	if g == nil {
		return "", false
	}
	h := g.owners[active].holders(t)
	if h == nil {
		return "", false
	}
	return h.process, true
}

// StandbyHeldBy says whether a process holds a task as standby, or has not confirmed its revocation.
func (g *Group) StandbyHeldBy(t topology.Task, processID string) bool {
	return g != nil && g.owners[standby].holders(t).has(processID)
}

// WarmupHeldBy says whether a process holds a task as warm-up, or has not confirmed its revocation.
func (g *Group) WarmupHeldBy(t topology.Task, processID string) bool {
	return g != nil && g.owners[warmup].holders(t).has(processID)
}

// HasWarmup says whether any process holds a task as warm-up, or has not confirmed its revocation.
func (g *Group) HasWarmup(t topology.Task) bool {
	return g != nil && g.owners[warmup].holders(t) != nil
}

// HasReplica says whether any process holds a task as standby or as warm-up, or has not confirmed its revocation.
func (g *Group) HasReplica(t topology.Task) bool {
	return g.HasWarmup(t) || g != nil && g.owners[standby].holders(t) != nil
}

// ReplicaHolders are the processes that hold a task as standby or as warm-up, or have not confirmed its revocation. One that
// does both, which no decision lets it, comes twice.
func (g *Group) ReplicaHolders(t topology.Task) iter.Seq[string] {
	return func(yield func(processID string) bool) {
		if g == nil {
			return
		}
		for _, r := range [...]role{standby, warmup} {
			for h := g.owners[r].holders(t); h != nil; h = h.next {
				if !yield(h.process) {
					return
				}
			}
		}
	}
}

// empty says whether nothing is known of the group any more.
func (g *Group) empty() bool {
	return g.Metadata == nil && g.TargetMeta == nil && g.Topology == nil && !g.OffsetsClaimed && g.Marks == nil && g.Topics == nil &&
		g.OffsetsStore == nil && len(g.journal) == 0 && len(g.versions) == 0 && g.offsets.count == 0 && size(g.members) == 0
}

func findEpoch(list []epochCount, epoch int32) (int, bool) {
	return slices.BinarySearchFunc(list, epoch, func(e epochCount, epoch int32) int {
		return int(int64(e.epoch) - int64(epoch))
	})
}

// countEpoch returns list with n more members at an epoch, without changing it.
func countEpoch(list []epochCount, epoch, n int32) []epochCount {
	i, ok := findEpoch(list, epoch)
	switch {
	case !ok:
		out := make([]epochCount, 0, len(list)+1)
		out = append(append(out, list[:i]...), epochCount{epoch: epoch, members: n})
		return append(out, list[i:]...)
	case list[i].members+n == 0:
		return append(slices.Clone(list[:i]), list[i+1:]...)
	}
	out := slices.Clone(list)
	out[i].members += n
	return out
}
