package offsets

import (
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// TestTopicsOfPatterns: what a member may commit and nobody may delete follows from the patterns in the log, whatever is known
// of the topics.
func TestTopicsOfPatterns(t *testing.T) {
	key := func(typ record.Type, member string) record.Key {
		return record.Key{Type: typ, Group: "g", Member: member}
	}
	s, err := fsm.NewState().EvolveAll([]record.Record{
		{Key: key(record.TypeGroupMetadata, ""), Value: &record.GroupMetadata{Epoch: 6}},
		{Key: key(record.TypeTopology, ""), Value: &record.Topology{Topology: topology.Topology{Subtopologies: []topology.Subtopology{
			{ID: "0", SourceTopicRegex: []string{"in-.*", `\w+consumer_offsets`}, StateChangelogTopics: []topology.InternalTopic{{Name: "in-log"}}},
			{ID: "1", SourceTopics: []string{"named"}, SourceTopicRegex: []string{".*-b"}},
		}}}},
		{Key: key(record.TypeMemberMetadata, "a"), Value: &record.MemberMetadata{ProcessID: "p"}},
		{Key: key(record.TypeCurrentAssignment, "a"), Value: &record.CurrentAssignment{
			MemberEpoch: 5, PreviousEpoch: 4, State: record.MemberStable,
			Assigned: topology.Assignment{Active: append(active("0", 0, 2), active("1", 3, 4)...)},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := s.Group("g")
	for _, c := range []struct {
		topic            string
		partition, epoch int
		commit, delete   coordinator.Code
	}{
		{topic: "in-a", epoch: 2, delete: coordinator.GroupSubscribedToTopic},
		{topic: "in-a", epoch: 1, commit: coordinator.StaleMemberEpoch, delete: coordinator.GroupSubscribedToTopic},
		{topic: "in-a", partition: 1, epoch: 3, commit: coordinator.StaleMemberEpoch, delete: coordinator.GroupSubscribedToTopic},
		{topic: "in-b", partition: 3, epoch: 4, delete: coordinator.GroupSubscribedToTopic}, // read by both
		{topic: "in-b", epoch: 2, delete: coordinator.GroupSubscribedToTopic},
		{topic: "in-log", epoch: 2, commit: coordinator.StaleMemberEpoch}, // of the topology itself
		{topic: "__consumer_offsets", epoch: 2, commit: coordinator.StaleMemberEpoch},
		{topic: "within-a", epoch: 2, commit: coordinator.StaleMemberEpoch},
		{topic: "within-a", epoch: 5}, // with its own epoch a member may commit whatever it likes
	} {
		req := &CommitRequest{GroupID: "g", MemberID: "a", MemberEpoch: int32(c.epoch), Version: 9, Topics: commits(c.topic, c.partition)}
		if got := CheckCommit(g, req); got != c.commit {
			t.Errorf("commit of %s-%d at epoch %d: %d, want %d", c.topic, c.partition, c.epoch, got, c.commit)
		}
		if got := CheckDelete(g, c.topic); got != c.delete {
			t.Errorf("deletion of %s: %d, want %d", c.topic, got, c.delete)
		}
	}
}
