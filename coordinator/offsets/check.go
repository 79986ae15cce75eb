package offsets

import (
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
)

// First versions with a meaning of their own for errors (Kafka's OffsetMetadataManager).
const (
	// memberEpochCommits is the OffsetCommit version from which clients know member epochs.
	memberEpochCommits = 9
	// memberEpochTxnCommits is the same for TxnOffsetCommit.
	memberEpochTxnCommits = 6
)

// CheckCommit says whether a commit is allowed: None, or the code that answers every partition of it. g is nil when the
// group does not exist; a commit without a member is then accepted, as Kafka makes a simple group for it.
//
// Members may commit in every epoch since they were granted the task, so that a commit under way during a rebalance is
// not lost (KIP-1071 "Offset handling"; StreamsGroup.validateOffsetCommit). The rules stand in Kafka's order.
func CheckCommit(g *fsm.Group, req *CommitRequest) coordinator.Code {
	if req.Transactional && req.GroupID == "" {
		return coordinator.InvalidGroupID
	}
	if g == nil {
		return checkMissing(req)
	}
	if req.MemberEpoch < 0 {
		if g.NumMembers() == 0 {
			return coordinator.None // tools, plain producers
		}
		if req.Transactional && req.MemberEpoch == -1 && req.MemberID == "" && req.InstanceID == nil {
			return coordinator.None // a producer that does not send group metadata
		}
	}
	m := g.Member(req.MemberID)
	if m == nil {
		return coordinator.UnknownMemberID
	}
	if !req.Transactional && req.Version < memberEpochCommits {
		return coordinator.UnsupportedVersion
	}
	epoch := memberEpoch(m)
	if req.MemberEpoch == epoch || req.MemberEpoch < epoch && grantedBy(g, m, req) {
		return coordinator.None
	}
	if req.Transactional && req.Version < memberEpochTxnCommits {
		return coordinator.IllegalGeneration
	}
	return coordinator.StaleMemberEpoch
}

func checkMissing(req *CommitRequest) coordinator.Code {
	first := int16(memberEpochCommits)
	if req.Transactional {
		first = memberEpochTxnCommits
	}
	switch {
	case req.MemberEpoch < 0:
		return coordinator.None
	case req.Version >= first:
		return coordinator.GroupIDNotFound
	}
	return coordinator.IllegalGeneration
}

func memberEpoch(m *fsm.Member) int32 {
	if m.Current == nil {
		return 0
	}
	return m.Current.MemberEpoch
}

// grantedBy says whether the member held the tasks behind all partitions of the request at the request's epoch already.
func grantedBy(g *fsm.Group, m *fsm.Member, req *CommitRequest) bool {
	if g.Topology == nil || m.Current == nil {
		return false
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := t.Partitions[j].Partition
			if !grantedPartition(g.Topology, m, t.Name, p, req.MemberEpoch) && !grantedEarlier(g, m, t.Name, p, req.MemberEpoch) {
				return false
			}
		}
	}
	return true
}

// grantedEarlier looks at the topology that the member runs where that is not the group's: it may commit for tasks of its own
// until they are taken from it, also for topics that the group does not read any more.
func grantedEarlier(g *fsm.Group, m *fsm.Member, topic string, partition, epoch int32) bool {
	if m.Meta == nil || m.Meta.TopologyEpoch == g.Topology.Epoch {
		return false
	}
	t := g.JoinedTopology(m.Meta.TopologyEpoch)
	return t != nil && t != g.Topology && grantedPartition(t, m, topic, partition, epoch)
}

// grantedPartition accepts when any of the subtopologies that read the topic matches: Kafka looks at an arbitrary one.
func grantedPartition(t *topology.Topology, m *fsm.Member, topic string, partition, epoch int32) bool {
	for s := range t.Readers(topic) {
		task := topology.Task{Subtopology: s.ID, Partition: partition}
		granted, ok := m.Current.Assigned.Active.Epoch(task)
		if !ok {
			granted, ok = m.Current.Revoking.Active.Epoch(task)
		}
		if ok && epoch >= granted {
			return true
		}
	}
	return false
}

// CheckFetch says whether offsets of the group may be read: nil, or the error of the whole group. g is nil when the
// group does not exist, which is no error. Unlike for commits the epoch must be the member's own.
func CheckFetch(g *fsm.Group, req *FetchRequest) *coordinator.Error {
	if g == nil || req.MemberID == nil && req.MemberEpoch < 0 {
		return nil
	}
	var m *fsm.Member
	if req.MemberID != nil {
		m = g.Member(*req.MemberID)
	}
	if m == nil {
		return coordinator.Errorf(coordinator.UnknownMemberID, "The group has no such member.")
	}
	if epoch := memberEpoch(m); req.MemberEpoch != epoch {
		return coordinator.Errorf(coordinator.StaleMemberEpoch, "The member epoch is %d, not %d.", epoch, req.MemberEpoch)
	}
	return nil
}

// CheckDeleteGroup says whether an OffsetDelete request reaches its group: nil, or the error of the whole request.
func CheckDeleteGroup(g *fsm.Group, groupID string) *coordinator.Error {
	switch {
	case groupID == "":
		return coordinator.Errorf(coordinator.InvalidGroupID, "The group id is empty.")
	case g == nil:
		return coordinator.Errorf(coordinator.GroupIDNotFound, "Group %s not found.", groupID)
	}
	return nil
}

// CheckDelete says whether offsets of a topic may be deleted: not while the group has members and reads the topic.
func CheckDelete(g *fsm.Group, topic string) coordinator.Code {
	switch {
	case g == nil:
		return coordinator.GroupIDNotFound
	case g.NumMembers() > 0 && g.ReadsTopic(topic):
		return coordinator.GroupSubscribedToTopic
	}
	return coordinator.None
}
