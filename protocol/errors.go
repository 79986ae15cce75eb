package protocol

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
)

// AppendError appends the frame of a well-formed answer that carries one error wherever the layout of the request's API
// and version has room for it: at the top, or on every group, topic, partition or resource that the request names. It
// serves the group APIs, the config APIs and FindCoordinator; other keys and bodies that cannot be read give
// [ErrMalformed]. The message is left out where the version has no room for one.
func AppendError(dst []byte, h Header, body []byte, code coordinator.Code, message string) ([]byte, error) {
	resp, err := errorResponse(h, body, code, nullable(message))
	if err != nil {
		return dst, err
	}
	return AppendResponse(dst, h, resp), nil
}

func errorResponse(h Header, body []byte, code coordinator.Code, message *string) (kmsg.Response, error) {
	if resp := topLevelError(h, int16(code), message); resp != nil {
		return resp, nil
	}
	req := kmsg.RequestForKey(h.Key)
	if req == nil {
		return nil, ErrMalformed
	}
	if err := decode(req, h.Version, body); err != nil {
		return nil, err
	}
	switch r := req.(type) {
	case *kmsg.OffsetCommitRequest:
		return commitError(r, int16(code)), nil
	case *kmsg.TxnOffsetCommitRequest:
		return txnCommitError(r, int16(code)), nil
	case *kmsg.OffsetFetchRequest:
		return fetchError(r, code), nil
	case *kmsg.FindCoordinatorRequest:
		return findError(r, int16(code), message), nil
	case *kmsg.DeleteGroupsRequest:
		k := kmsg.NewPtrDeleteGroupsResponse()
		for _, id := range r.Groups {
			k.Groups = append(k.Groups, kmsg.DeleteGroupsResponseGroup{Group: id, ErrorCode: int16(code), ErrorMessage: message})
		}
		return k, nil
	case *kmsg.DescribeConfigsRequest:
		k := kmsg.NewPtrDescribeConfigsResponse()
		for _, res := range r.Resources {
			k.Resources = append(k.Resources, kmsg.DescribeConfigsResponseResource{
				ErrorCode: int16(code), ErrorMessage: message, ResourceType: res.ResourceType, ResourceName: res.ResourceName,
			})
		}
		return k, nil
	case *kmsg.AlterConfigsRequest:
		k := kmsg.NewPtrAlterConfigsResponse()
		for _, res := range r.Resources {
			k.Resources = append(k.Resources, kmsg.AlterConfigsResponseResource{
				ErrorCode: int16(code), ErrorMessage: message, ResourceType: res.ResourceType, ResourceName: res.ResourceName,
			})
		}
		return k, nil
	case *kmsg.IncrementalAlterConfigsRequest:
		k := kmsg.NewPtrIncrementalAlterConfigsResponse()
		for _, res := range r.Resources {
			k.Resources = append(k.Resources, kmsg.IncrementalAlterConfigsResponseResource{
				ErrorCode: int16(code), ErrorMessage: message, ResourceType: res.ResourceType, ResourceName: res.ResourceName,
			})
		}
		return k, nil
	}
	return describeError(h, body, code, message)
}

// topLevelError is the answer of APIs that have their error at the top; nil for others.
func topLevelError(h Header, code int16, message *string) kmsg.Response {
	switch h.Key {
	case KeyJoinGroup:
		k := kmsg.NewPtrJoinGroupResponse()
		k.ErrorCode = code
		return k
	case KeyHeartbeat:
		k := kmsg.NewPtrHeartbeatResponse()
		k.ErrorCode = code
		return k
	case KeyLeaveGroup:
		k := kmsg.NewPtrLeaveGroupResponse()
		k.ErrorCode = code
		return k
	case KeySyncGroup:
		k := kmsg.NewPtrSyncGroupResponse()
		k.ErrorCode = code
		return k
	case KeyListGroups:
		k := kmsg.NewPtrListGroupsResponse()
		k.ErrorCode = code
		return k
	case KeyOffsetDelete:
		k := kmsg.NewPtrOffsetDeleteResponse()
		k.ErrorCode = code
		return k
	case KeyConsumerGroupHeartbeat:
		k := kmsg.NewPtrConsumerGroupHeartbeatResponse()
		k.ErrorCode, k.ErrorMessage = code, message
		return k
	case KeyShareGroupHeartbeat:
		k := kmsg.NewPtrShareGroupHeartbeatResponse()
		k.ErrorCode, k.ErrorMessage = code, message
		return k
	case KeyStreamsGroupHeartbeat:
		k := kmsg.NewPtrStreamsGroupHeartbeatResponse()
		k.ErrorCode, k.ErrorMessage = code, message
		k.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
		return k
	case keyAlterShareGroupOffsets:
		k := kmsg.NewPtrAlterShareGroupOffsetsResponse()
		k.ErrorCode, k.ErrorMessage = code, message
		return k
	case keyDeleteShareGroupOffsets:
		k := kmsg.NewPtrDeleteShareGroupOffsetsResponse()
		k.ErrorCode, k.ErrorMessage = code, message
		return k
	case keyListConfigResources:
		k := kmsg.NewPtrListConfigResourcesResponse()
		k.ErrorCode = code
		return k
	}
	return nil
}

// describeError is the answer of the APIs that describe several groups.
func describeError(h Header, body []byte, code coordinator.Code, message *string) (kmsg.Response, error) {
	ids, err := Groups(h.Key, h.Version, body)
	if err != nil {
		return nil, err
	}
	e := &coordinator.Error{Code: code}
	if message != nil {
		e.Message = *message
	}
	results := make([]GroupResult, len(ids))
	for i, id := range ids {
		results[i] = GroupResult{id, e}
	}
	if resp := describeFailed(h.Key, h.Version, results); resp != nil {
		return resp, nil
	}
	return nil, ErrMalformed
}

func commitError(r *kmsg.OffsetCommitRequest, code int16) kmsg.Response {
	k := kmsg.NewPtrOffsetCommitResponse()
	for _, t := range r.Topics {
		kt := kmsg.OffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
		for _, p := range t.Partitions {
			kt.Partitions = append(kt.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
		}
		k.Topics = append(k.Topics, kt)
	}
	return k
}

func txnCommitError(r *kmsg.TxnOffsetCommitRequest, code int16) kmsg.Response {
	k := kmsg.NewPtrTxnOffsetCommitResponse()
	for _, t := range r.Topics {
		kt := kmsg.TxnOffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
		for _, p := range t.Partitions {
			kt.Partitions = append(kt.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
		}
		k.Topics = append(k.Topics, kt)
	}
	return k
}

func fetchError(r *kmsg.OffsetFetchRequest, code coordinator.Code) kmsg.Response {
	k := kmsg.NewPtrOffsetFetchResponse()
	if r.Version >= 8 {
		for _, g := range r.Groups {
			kg := kmsg.NewOffsetFetchResponseGroup()
			kg.Group, kg.ErrorCode = g.Group, int16(code)
			k.Groups = append(k.Groups, kg)
		}
		return k
	}
	req := &offsets.FetchRequest{Version: r.Version}
	for _, t := range r.Topics {
		req.Topics = append(req.Topics, offsets.FetchTopic{Name: t.Topic, Partitions: t.Partitions})
	}
	fetchSingle(r.Version, k, &FetchAnswer{Response: offsets.FetchFailed(req, &coordinator.Error{Code: code})})
	return k
}

func findError(r *kmsg.FindCoordinatorRequest, code int16, message *string) kmsg.Response {
	k := kmsg.NewPtrFindCoordinatorResponse()
	if r.Version < 4 {
		k.ErrorCode, k.ErrorMessage, k.NodeID, k.Port = code, message, -1, -1
		return k
	}
	for _, key := range r.CoordinatorKeys {
		k.Coordinators = append(k.Coordinators, kmsg.FindCoordinatorResponseCoordinator{Key: key, NodeID: -1, Port: -1, ErrorCode: code, ErrorMessage: message})
	}
	return k
}
