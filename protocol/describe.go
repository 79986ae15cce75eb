package protocol

import (
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// StreamsDescribe is a StreamsGroupDescribeRequest (API key 89).
type StreamsDescribe struct {
	Groups []string
	// AuthorizedOperations asks for the operations that the client may do on each group.
	AuthorizedOperations bool
	// TopologyDescription asks for the description of KIP-1331, which coordd does not keep.
	TopologyDescription bool
}

// DecodeStreamsDescribe reads a StreamsGroupDescribeRequest v0–1.
func DecodeStreamsDescribe(version int16, body []byte) (*StreamsDescribe, error) {
	var k kmsg.StreamsGroupDescribeRequest
	if err := decode(&k, version, body); err != nil {
		return nil, err
	}
	return &StreamsDescribe{Groups: k.Groups, AuthorizedOperations: k.IncludeAuthorizedOperations, TopologyDescription: k.IncludeTopologyDescription}, nil
}

// NoOperations stands for authorized operations that were not asked for.
const NoOperations int32 = math.MinInt32

// Topology description statuses (StreamsGroupDescribeResponse.json, KIP-1331).
const (
	descriptionNotRequested int8 = 0
	descriptionNotStored    int8 = 1
)

// StreamsDescription is one group of the answer with the operations the client may do on it, a bit set of Kafka's ACL
// operation codes or [NoOperations].
type StreamsDescription struct {
	*streams.Description
	Operations int32
}

// AppendStreamsDescribe appends the frame of a StreamsGroupDescribeResponse v0–1. Groups stand in the order given;
// everything inside a group is sorted.
func AppendStreamsDescribe(dst []byte, h Header, req *StreamsDescribe, groups []StreamsDescription) []byte {
	status := descriptionNotRequested
	if req.TopologyDescription {
		status = descriptionNotStored
	}
	k := kmsg.NewPtrStreamsGroupDescribeResponse()
	for _, d := range groups {
		g := describedGroup(d.Description)
		g.AuthorizedOperations = d.Operations
		if d.Err == nil {
			g.TopologyDescriptionStatus = status
		}
		k.Groups = append(k.Groups, g)
	}
	return AppendResponse(dst, h, k)
}

func describedGroup(d *streams.Description) kmsg.StreamsGroupDescribeResponseGroup {
	g := kmsg.NewStreamsGroupDescribeResponseGroup()
	g.Group = d.GroupID
	g.AuthorizedOperations = NoOperations
	if d.Err != nil {
		g.ErrorCode, g.ErrorMessage = int16(d.Err.Code), nullable(d.Err.Message)
		return g
	}
	g.State, g.Epoch, g.AssignmentEpoch = string(d.State), d.Epoch, d.AssignmentEpoch
	g.AssignorName = nullable(d.AssignorName)
	g.Topology = describedTopology(d.Topology)
	members := slices.Clone(d.Members)
	slices.SortFunc(members, func(a, b streams.MemberDescription) int { return strings.Compare(a.MemberID, b.MemberID) })
	for i := range members {
		g.Members = append(g.Members, describedMember(&members[i]))
	}
	return g
}

func describedTopology(t *topology.Topology) *kmsg.StreamsGroupDescribeResponseGroupTopology {
	if t == nil {
		return nil
	}
	out := kmsg.NewStreamsGroupDescribeResponseGroupTopology()
	out.Epoch = t.Epoch
	out.Subtopologies = []kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology{} // tools expect a list
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		ks := kmsg.NewStreamsGroupDescribeResponseGroupTopologySubtopology()
		ks.SubtopologyID = s.ID
		ks.SourceTopics = slices.Sorted(slices.Values(s.SourceTopics))
		ks.RepartitionSinkTopics = slices.Sorted(slices.Values(s.RepartitionSinkTopics))
		ks.StateChangelogTopics = describedTopics(s.StateChangelogTopics)
		ks.RepartitionSourceTopics = describedTopics(s.RepartitionSourceTopics)
		out.Subtopologies = append(out.Subtopologies, ks)
	}
	slices.SortFunc(out.Subtopologies, func(a, b kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology) int {
		return strings.Compare(a.SubtopologyID, b.SubtopologyID)
	})
	return &out
}

func describedTopics(topics []topology.InternalTopic) []kmsg.TopicInfo {
	out := make([]kmsg.TopicInfo, 0, len(topics))
	for _, t := range topics {
		k := kmsg.TopicInfo{Topic: t.Name, NumPartitions: t.Partitions, ReplicationFactor: t.ReplicationFactor}
		for _, c := range t.Configs {
			k.Configs = append(k.Configs, kmsg.TopicInfoConfig{Key: c.Key, Value: c.Value})
		}
		slices.SortFunc(k.Configs, func(a, b kmsg.TopicInfoConfig) int { return strings.Compare(a.Key, b.Key) })
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b kmsg.TopicInfo) int { return strings.Compare(a.Topic, b.Topic) })
	return out
}

func describedMember(m *streams.MemberDescription) kmsg.StreamsGroupDescribeResponseGroupMember {
	k := kmsg.NewStreamsGroupDescribeResponseGroupMember()
	k.MemberID, k.MemberEpoch = m.MemberID, m.MemberEpoch
	k.TopologyEpoch = -1
	if meta := m.Meta; meta != nil {
		k.InstanceID, k.RackID, k.ClientID, k.ClientHost = meta.InstanceID, meta.RackID, meta.ClientID, meta.ClientHost
		k.TopologyEpoch, k.ProcessID = meta.TopologyEpoch, meta.ProcessID
		if e := meta.UserEndpoint; e != nil {
			k.UserEndpoint = &kmsg.StreamsGroupDescribeResponseGroupMemberUserEndpoint{Host: e.Host, Port: e.Port}
		}
		tags := slices.Clone(meta.ClientTags)
		slices.SortFunc(tags, func(a, b record.KeyValue) int { return strings.Compare(a.Key, b.Key) })
		for _, t := range tags {
			k.ClientTags = append(k.ClientTags, kmsg.StreamsGroupDescribeResponseGroupMemberClientTag{Key: t.Key, Value: t.Value})
		}
	}
	k.TaskOffsets, k.TaskEndOffsets = describedOffsets(m.TaskOffsets), describedOffsets(m.TaskEndOffsets)
	k.Assignment, k.TargetAssignment = describedAssignment(m.Assigned), describedAssignment(m.Target)
	return k
}

func describedOffsets(in []streams.TaskOffset) []kmsg.TaskOffset {
	out := make([]kmsg.TaskOffset, 0, len(in))
	for _, o := range in {
		out = append(out, kmsg.TaskOffset{SubtopologyID: o.Subtopology, Partition: o.Partition, Offset: o.Offset})
	}
	slices.SortFunc(out, func(a, b kmsg.TaskOffset) int {
		if c := strings.Compare(a.SubtopologyID, b.SubtopologyID); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	return out
}

func describedAssignment(a topology.Assignment) kmsg.StreamsAssignment {
	ids := func(tasks topology.Tasks) []kmsg.TaskIDs {
		out := make([]kmsg.TaskIDs, 0, len(tasks))
		for _, t := range tasks {
			out = append(out, kmsg.TaskIDs{SubtopologyID: t.Subtopology, Partitions: t.Partitions})
		}
		return out
	}
	return kmsg.StreamsAssignment{ActiveTasks: ids(a.Active), StandbyTasks: ids(a.Standby), WarmupTasks: ids(a.Warmup)}
}

// NotDescribed is the answer for a group that is not there, or has another type.
func NotDescribed(groupID string) *streams.Description {
	return &streams.Description{GroupID: groupID, Err: coordinator.Errorf(coordinator.GroupIDNotFound, "Group %s not found.", groupID)}
}
