package gateway

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

// A group that does not exist has no offsets, in the layout of each version; groups that exist stay as they are.
func TestMissingGroupsHaveNoOffsets(t *testing.T) {
	const missing = int16(coordinator.GroupIDNotFound)
	one := kmsg.NewPtrOffsetFetchRequest()
	one.Version = 7
	one.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "in", Partitions: []int32{0, 3}}}
	single := kmsg.NewPtrOffsetFetchResponse()
	single.ErrorCode = missing
	if !answerMissingGroups(one, single) || single.ErrorCode != 0 || len(single.Topics) != 1 || len(single.Topics[0].Partitions) != 2 {
		t.Fatalf("%+v", single)
	}
	for i, p := range single.Topics[0].Partitions {
		if p.Partition != one.Topics[0].Partitions[i] || p.Offset != -1 || p.LeaderEpoch != -1 || p.Metadata == nil || *p.Metadata != "" {
			t.Errorf("%+v", p)
		}
	}
	several := kmsg.NewPtrOffsetFetchRequest()
	several.Version = 8
	several.Groups = []kmsg.OffsetFetchRequestGroup{
		{Group: "there"}, {Group: "gone", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "in", Partitions: []int32{1}}}}, {Group: "all"},
	}
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.Groups = []kmsg.OffsetFetchResponseGroup{
		{Group: "all", ErrorCode: missing}, {Group: "gone", ErrorCode: missing}, {Group: "there", ErrorCode: int16(coordinator.NotCoordinator)},
	}
	if !answerMissingGroups(several, resp) || resp.Groups[2].ErrorCode != int16(coordinator.NotCoordinator) {
		t.Fatalf("%+v", resp.Groups)
	}
	if g := resp.Groups[0]; g.ErrorCode != 0 || len(g.Topics) != 0 {
		t.Errorf("a fetch of all offsets: %+v", g)
	}
	if g := resp.Groups[1]; g.ErrorCode != 0 || len(g.Topics) != 1 || g.Topics[0].Partitions[0].Offset != -1 || g.Topics[0].Partitions[0].Partition != 1 {
		t.Errorf("a fetch of one partition: %+v", g)
	}
	if answerMissingGroups(several, resp) {
		t.Error("no group is missing any more")
	}
}
