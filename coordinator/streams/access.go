package streams

import (
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// newMemberMeta and newMember are what a member is before its first records (the defaults of Kafka's
// StreamsGroupMember).
var (
	newMemberMeta    = &record.MemberMetadata{RebalanceTimeoutMs: -1, TopologyEpoch: -1}
	newMemberCurrent = &record.CurrentAssignment{State: record.MemberStable}
	noTarget         = &record.TargetMember{}
	newGroupMetadata = &record.GroupMetadata{
		Epoch: 1, ValidatedTopologyEpoch: -1, StoredDescriptionEpoch: -1, FailedDescriptionEpoch: -1,
	}
)

// metaOf, currentOf and targetOf tolerate members of which the log holds only a part.
func metaOf(m *fsm.Member) *record.MemberMetadata {
	if m == nil || m.Meta == nil {
		return newMemberMeta
	}
	return m.Meta
}

func currentOf(m *fsm.Member) *record.CurrentAssignment {
	if m == nil || m.Current == nil {
		return newMemberCurrent
	}
	return m.Current
}

func targetOf(m *fsm.Member) *record.TargetMember {
	if m == nil || m.Target == nil {
		return noTarget
	}
	return m.Target
}

// groupMetadata is the stored metadata of a group, or that of a new group.
func groupMetadata(g *fsm.Group) *record.GroupMetadata {
	if g == nil || g.Metadata == nil {
		return newGroupMetadata
	}
	return g.Metadata
}

func groupIDOf(g *fsm.Group) string {
	if g == nil {
		return ""
	}
	return g.ID
}

func groupTopology(g *fsm.Group) *topology.Topology {
	if g == nil {
		return nil
	}
	return g.Topology
}

func assignmentEpoch(g *fsm.Group) int32 {
	if g == nil || g.TargetMeta == nil {
		return 1
	}
	return g.TargetMeta.AssignmentEpoch
}

func targetTimestamp(g *fsm.Group) int64 {
	if g == nil || g.TargetMeta == nil {
		return 0
	}
	return g.TargetMeta.TimestampMs
}

func numMembers(g *fsm.Group) int {
	if g == nil {
		return 0
	}
	return g.NumMembers()
}

func reconciledTo(c *record.CurrentAssignment, epoch int32) bool {
	return c.State == record.MemberStable && c.MemberEpoch == epoch
}
