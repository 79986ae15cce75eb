package protocol

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

var ignoreTags = cmpopts.IgnoreTypes(kmsg.Tags{})

func TestStreamsDescribe(t *testing.T) {
	t.Parallel()
	instance := "i"
	d := &streams.Description{
		GroupID: "g", State: streams.StateStable, Epoch: 5, AssignmentEpoch: 4, AssignorName: "sticky",
		Topology: &topology.Topology{Epoch: 2, Subtopologies: []topology.Subtopology{
			{ID: "1", SourceTopics: []string{"z", "a"}, RepartitionSourceTopics: []topology.InternalTopic{{Name: "r2", Partitions: 3}, {Name: "r1", Partitions: 2}}},
			{ID: "0", RepartitionSinkTopics: []string{"r2", "r1"}, StateChangelogTopics: []topology.InternalTopic{
				{Name: "cl", Partitions: 3, ReplicationFactor: 1, Configs: []topology.Config{{Key: "y", Value: "1"}, {Key: "x", Value: "2"}}},
			}},
		}},
		Members: []streams.MemberDescription{
			{MemberID: "m2", MemberEpoch: 4},
			{
				MemberID: "m1", MemberEpoch: 5,
				Meta: &record.MemberMetadata{
					InstanceID: &instance, ClientID: "c", ClientHost: "/10.0.0.7", TopologyEpoch: 2, ProcessID: "p",
					UserEndpoint: &record.Endpoint{Host: "h", Port: 65535}, ClientTags: []record.KeyValue{{Key: "zone", Value: "b"}, {Key: "rack", Value: "a"}},
				},
				TaskOffsets: []streams.TaskOffset{{Task: topology.Task{Subtopology: "1", Partition: 1}, Offset: 5}, {Task: topology.Task{Subtopology: "0", Partition: 2}, Offset: 6}},
				Assigned:    topology.Assignment{Active: topology.Tasks{{Subtopology: "0", Partitions: []int32{1, 2}}}},
				Target:      topology.Assignment{Standby: topology.Tasks{{Subtopology: "1", Partitions: []int32{0}}}},
			},
		},
	}
	for v := int16(0); v <= 1; v++ {
		h := Header{Key: KeyStreamsGroupDescribe, Version: v, Correlation: 1}
		k := kmsg.NewPtrStreamsGroupDescribeRequest()
		k.Version, k.Groups, k.IncludeAuthorizedOperations, k.IncludeTopologyDescription = v, []string{"g", "gone"}, true, v >= 1
		req, err := DecodeStreamsDescribe(v, k.AppendTo(nil))
		if err != nil || !cmp.Equal(req, &StreamsDescribe{Groups: k.Groups, AuthorizedOperations: true, TopologyDescription: v >= 1}) {
			t.Fatalf("v%d: %+v, %v", v, req, err)
		}
		resp := answer(t, h, AppendStreamsDescribe(nil, h, req, []StreamsDescription{{d, 264}, {NotDescribed("gone"), NoOperations}}), kmsg.NewPtrStreamsGroupDescribeResponse())
		want := describedWant(v, &instance)
		if diff := cmp.Diff(want, resp.Groups, ignoreTags, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("v%d (-want +got):\n%s", v, diff)
		}
	}
}

func describedWant(v int16, instance *string) []kmsg.StreamsGroupDescribeResponseGroup {
	m1 := kmsg.StreamsGroupDescribeResponseGroupMember{
		MemberID: "m1", MemberEpoch: 5, InstanceID: instance, ClientID: "c", ClientHost: "/10.0.0.7", TopologyEpoch: 2, ProcessID: "p",
		UserEndpoint:     &kmsg.StreamsGroupDescribeResponseGroupMemberUserEndpoint{Host: "h", Port: 65535},
		ClientTags:       []kmsg.StreamsGroupDescribeResponseGroupMemberClientTag{{Key: "rack", Value: "a"}, {Key: "zone", Value: "b"}},
		TaskOffsets:      []kmsg.TaskOffset{{SubtopologyID: "0", Partition: 2, Offset: 6}, {SubtopologyID: "1", Partition: 1, Offset: 5}},
		Assignment:       kmsg.StreamsAssignment{ActiveTasks: []kmsg.TaskIDs{{SubtopologyID: "0", Partitions: []int32{1, 2}}}},
		TargetAssignment: kmsg.StreamsAssignment{StandbyTasks: []kmsg.TaskIDs{{SubtopologyID: "1", Partitions: []int32{0}}}},
	}
	g := kmsg.StreamsGroupDescribeResponseGroup{
		Group: "g", State: "Stable", Epoch: 5, AssignmentEpoch: 4, AuthorizedOperations: 264,
		Topology: &kmsg.StreamsGroupDescribeResponseGroupTopology{Epoch: 2, Subtopologies: []kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology{
			{SubtopologyID: "0", RepartitionSinkTopics: []string{"r1", "r2"}, StateChangelogTopics: []kmsg.TopicInfo{
				{Topic: "cl", NumPartitions: 3, ReplicationFactor: 1, Configs: []kmsg.TopicInfoConfig{{Key: "x", Value: "2"}, {Key: "y", Value: "1"}}},
			}},
			{SubtopologyID: "1", SourceTopics: []string{"a", "z"}, RepartitionSourceTopics: []kmsg.TopicInfo{{Topic: "r1", NumPartitions: 2}, {Topic: "r2", NumPartitions: 3}}},
		}},
		Members: []kmsg.StreamsGroupDescribeResponseGroupMember{m1, {MemberID: "m2", MemberEpoch: 4, TopologyEpoch: -1}},
	}
	message, assignor := "Group gone not found.", "sticky"
	if v >= 1 {
		g.AssignorName, g.TopologyDescriptionStatus = &assignor, 1
	}
	return []kmsg.StreamsGroupDescribeResponseGroup{g, {Group: "gone", ErrorCode: 69, ErrorMessage: &message, AuthorizedOperations: NoOperations}}
}
