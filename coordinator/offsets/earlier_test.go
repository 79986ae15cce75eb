package offsets

import (
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// afterUpdate is a group whose topology of epoch 1 (in -> 0, old -> 1) was replaced by that of epoch 2 (in -> 0). Member "a" joined
// with the earlier one, is at epoch 5 and has 0_0 since epoch 2 and 1_0, granted at 3, still to revoke. "b" has the new one and the
// same tasks in its record, "c" a topology that the group does not know.
func afterUpdate(t *testing.T) *fsm.Group {
	t.Helper()
	key := func(typ record.Type, member string) record.Key {
		return record.Key{Type: typ, Group: "g", Member: member}
	}
	earlier := &topology.Topology{Epoch: 1, Subtopologies: []topology.Subtopology{
		{ID: "0", SourceTopics: []string{"in"}}, {ID: "1", SourceTopics: []string{"old"}},
	}}
	records := []record.Record{
		{Key: key(record.TypeGroupMetadata, ""), Value: &record.GroupMetadata{Epoch: 6}},
		{Key: key(record.TypeTopology, ""), Value: &record.Topology{Topology: topology.Topology{Epoch: 2, Subtopologies: earlier.Subtopologies[:1]}}},
		{Key: record.Key{Type: record.TypeTopologyVersion, Group: "g", ID: 1}, Value: &record.TopologyVersion{Root: 1, Declared: 1, Content: earlier}},
		{Key: record.Key{Type: record.TypeTopologyVersion, Group: "g", ID: 2}, Value: &record.TopologyVersion{Root: 2, Declared: 2}},
	}
	for id, epoch := range map[string]int32{"a": 1, "b": 2, "c": 0} {
		records = append(records,
			record.Record{Key: key(record.TypeMemberMetadata, id), Value: &record.MemberMetadata{ProcessID: id, TopologyEpoch: epoch}},
			record.Record{Key: key(record.TypeCurrentAssignment, id), Value: &record.CurrentAssignment{
				MemberEpoch: 5, PreviousEpoch: 4, State: record.MemberUnrevokedTasks,
				Assigned: topology.Assignment{Active: active("0", 0, 2)}, Revoking: topology.Assignment{Active: active("1", 0, 3)},
			}})
	}
	s, err := fsm.NewState().EvolveAll(records)
	if err != nil {
		t.Fatal(err)
	}
	return s.Group("g")
}

// TestCommitOfTheEarlierTopology: a member of the earlier topology commits for tasks of it until it has given them up, also with
// an epoch of before and for topics that the group reads no more.
func TestCommitOfTheEarlierTopology(t *testing.T) {
	for _, c := range []struct {
		member, topic string
		epoch         int32
		want          coordinator.Code
	}{
		{"a", "old", 5, coordinator.None},
		{"a", "old", 4, coordinator.None},
		{"a", "old", 3, coordinator.None},
		{"a", "old", 2, coordinator.StaleMemberEpoch}, // before it was granted
		{"a", "in", 4, coordinator.None},
		{"a", "other", 4, coordinator.StaleMemberEpoch},
		{"b", "old", 4, coordinator.StaleMemberEpoch},
		{"c", "old", 4, coordinator.StaleMemberEpoch},
	} {
		got := CheckCommit(afterUpdate(t), &CommitRequest{
			Version: 9, GroupID: "g", MemberID: c.member, MemberEpoch: c.epoch,
			Topics: []CommitTopic{{Name: c.topic, Partitions: []CommitPartition{{Partition: 0}}}},
		})
		if got != c.want {
			t.Errorf("%s at epoch %d for %s: %d, want %d", c.member, c.epoch, c.topic, got, c.want)
		}
	}
}

// TestDeleteOffsetsOfTheEarlierTopology: what a member still reads is subscribed to.
func TestDeleteOffsetsOfTheEarlierTopology(t *testing.T) {
	g := afterUpdate(t)
	for topic, want := range map[string]coordinator.Code{"in": coordinator.GroupSubscribedToTopic, "old": coordinator.GroupSubscribedToTopic, "other": coordinator.None} {
		if got := CheckDelete(g, topic); got != want {
			t.Errorf("%s: %d, want %d", topic, got, want)
		}
	}
}
