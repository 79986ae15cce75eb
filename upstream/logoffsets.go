package upstream

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
)

// LogOffsets asks the leaders of partitions for the first offset of a time (milliseconds since 1970) or later, or, by
// offsets.LogEnd and offsets.LogStart, where their logs end and start. Every partition that was asked for has an answer.
// Records of open transactions count, as in Kafka's own tools.
func (c *Client) LogOffsets(ctx context.Context, at int64, partitions map[string][]int32) map[offsets.TopicPartition]offsets.LogOffset {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	found := map[offsets.TopicPartition]offsets.LogOffset{}
	for topic, list := range partitions {
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = topic
		for _, p := range list {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p, at, -1
			rt.Partitions = append(rt.Partitions, rp)
			found[offsets.TopicPartition{Topic: topic, Partition: p}] = offsets.LogOffset{Offset: -1, Code: coordinator.CoordinatorNotAvailable}
		}
		req.Topics = append(req.Topics, rt)
	}
	if len(req.Topics) == 0 {
		return found
	}
	for _, shard := range c.admin.RequestSharded(ctx, req) {
		resp, ok := shard.Resp.(*kmsg.ListOffsetsResponse)
		if !ok || shard.Err != nil {
			noteLogFailure(found, shard.Req, shard.Err)
			continue
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				key := offsets.TopicPartition{Topic: t.Topic, Partition: p.Partition}
				if _, asked := found[key]; !asked {
					continue
				}
				o := offsets.LogOffset{Offset: p.Offset, Code: coordinator.Code(p.ErrorCode)}
				if p.ErrorCode != 0 || o.Offset < 0 {
					o.Offset = -1
				}
				found[key] = o
			}
		}
	}
	return found
}

// noteLogFailure notes for the partitions of a request why it had no answer, where Kafka said why.
func noteLogFailure(found map[offsets.TopicPartition]offsets.LogOffset, request kmsg.Request, err error) {
	failed, ok := request.(*kmsg.ListOffsetsRequest)
	var code *kerr.Error
	if !ok || !errors.As(err, &code) {
		return
	}
	for _, t := range failed.Topics {
		for _, p := range t.Partitions {
			found[offsets.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = offsets.LogOffset{Offset: -1, Code: coordinator.Code(code.Code)}
		}
	}
}
