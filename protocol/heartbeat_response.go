package protocol

import (
	"encoding/binary"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/topology"
)

// AppendHeartbeat appends the whole frame of a StreamsGroupHeartbeatResponse (StreamsGroupHeartbeatResponse.json v0–1),
// length prefix included. With an error every other field has its default, whatever resp holds, as in Kafka. A nil
// status list is sent as an empty one: to clients null means that the old statuses still hold.
func AppendHeartbeat(dst []byte, version int16, correlation int32, resp *streams.HeartbeatResponse) []byte {
	dst, start := BeginFrame(dst)
	dst = appendInt32(dst, correlation)
	dst = append(dst, 0) // header tags
	if resp.Err != nil {
		dst = appendHeartbeatError(dst, version, resp.Err)
	} else {
		dst = appendHeartbeatBody(dst, version, resp)
	}
	return EndFrame(dst, start)
}

func appendHeartbeatBody(dst []byte, version int16, resp *streams.HeartbeatResponse) []byte {
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0) // no throttling, no error, no message
	dst = appendCompactString(dst, resp.MemberID)
	dst = appendInt32(dst, resp.MemberEpoch)
	dst = appendInt32(dst, resp.HeartbeatIntervalMs)
	if version == 0 {
		dst = append(dst, 0, 0, 0, 0) // the legacy lag, which Kafka leaves at 0
	}
	dst = appendInt32(dst, resp.TaskOffsetIntervalMs)
	if version >= 1 {
		dst = appendInt64(dst, resp.AcceptableRecoveryLag)
	}
	dst = appendCompactLen(dst, len(resp.Status))
	for i := range resp.Status {
		dst = append(dst, byte(resp.Status[i].Code))
		dst = appendCompactString(dst, resp.Status[i].Detail)
		dst = append(dst, 0)
	}
	dst = appendTasks(dst, resp.Active)
	dst = appendTasks(dst, resp.Standby)
	dst = appendTasks(dst, resp.Warmup)
	if version >= 1 {
		dst = append(dst, 0) // TopologyDescriptionRequired
	}
	dst = appendInt32(dst, resp.EndpointEpoch)
	dst = appendEndpoints(dst, resp.Endpoints)
	return append(dst, 0)
}

func appendHeartbeatError(dst []byte, version int16, e *coordinator.Error) []byte {
	dst = appendInt32(dst, 0)
	dst = appendInt16(dst, int16(e.Code))
	if e.Message == "" {
		dst = append(dst, 0)
	} else {
		dst = appendCompactString(dst, e.Message)
	}
	dst = append(dst, 1)                      // member id ""
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0) // member epoch, heartbeat interval
	dst = appendInt32(dst, 0)                 // v0: legacy lag; v1: task offset interval
	if version == 0 {
		dst = appendInt32(dst, 0) // task offset interval
	} else {
		dst = appendInt64(dst, -1) // acceptable recovery lag
	}
	dst = append(dst, 1, 0, 0, 0) // no statuses, null task lists
	if version >= 1 {
		dst = append(dst, 0)
	}
	dst = appendInt32(dst, 0)
	return append(dst, 0, 0) // null endpoints, no tags
}

// appendTasks appends a nullable array of TaskIds.
func appendTasks(dst []byte, tasks topology.Tasks) []byte {
	if tasks == nil {
		return append(dst, 0)
	}
	dst = appendCompactLen(dst, len(tasks))
	for i := range tasks {
		dst = appendCompactString(dst, tasks[i].Subtopology)
		dst = appendPartitions(dst, tasks[i].Partitions)
		dst = append(dst, 0)
	}
	return dst
}

func appendPartitions(dst []byte, partitions []int32) []byte {
	dst = appendCompactLen(dst, len(partitions))
	for _, p := range partitions {
		dst = appendInt32(dst, p)
	}
	return dst
}

func appendEndpoints(dst []byte, endpoints []streams.EndpointPartitions) []byte {
	if endpoints == nil {
		return append(dst, 0)
	}
	dst = appendCompactLen(dst, len(endpoints))
	for i := range endpoints {
		e := &endpoints[i]
		dst = appendCompactString(dst, e.Endpoint.Host)
		dst = binary.BigEndian.AppendUint16(dst, e.Endpoint.Port)
		dst = append(dst, 0)
		dst = appendTopicPartitions(dst, e.Active)
		dst = appendTopicPartitions(dst, e.Standby)
		dst = append(dst, 0)
	}
	return dst
}

func appendTopicPartitions(dst []byte, topics []streams.TopicPartitions) []byte {
	dst = appendCompactLen(dst, len(topics))
	for i := range topics {
		dst = appendCompactString(dst, topics[i].Topic)
		dst = appendPartitions(dst, topics[i].Partitions)
		dst = append(dst, 0)
	}
	return dst
}
