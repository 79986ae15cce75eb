package gateway

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

// Quirks repair answers of an upstream that Kafka's own clients cannot take, or that Kafka would not give.
type Quirks struct {
	// NullTopicConfigs: CreateTopics answers null or unsourced configs; clients get an empty list.
	NullTopicConfigs bool
	// NoDescribeTopicPartitions hides API 75.
	NoDescribeTopicPartitions bool
	// NoTelemetry hides APIs 71 and 72.
	NoTelemetry bool
	// FetchNeedsGroup: OffsetFetch of a group that does not exist is an error; Kafka answers that there are no offsets.
	FetchNeedsGroup bool
	// NoGroupConfigRights: the rights on a group leave out those on its configs; who may do all else may do that.
	NoGroupConfigRights bool
}

// KfakeQuirks are the repairs that kfake needs.
var KfakeQuirks = Quirks{
	NullTopicConfigs: true, NoDescribeTopicPartitions: true, NoTelemetry: true, FetchNeedsGroup: true, NoGroupConfigRights: true,
}

// passedOn is what happens to the answer of the upstream's coordinator of the groups that a request names: it tells when
// that coordinator has changed.
func (c *conn) passedOn(h protocol.Header, body []byte, groups ...string) rewriter {
	forget := forgetsWhenMoved(groups...)
	if h.Key != protocol.KeyOffsetFetch || !c.g.cfg.Quirks.FetchNeedsGroup {
		return forget
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = h.Version
	if req.ReadFrom(slices.Clone(body)) != nil {
		return forget // the upstream judges it
	}
	return func(c *conn, h protocol.Header, answer []byte) ([]byte, error) {
		answer, err := forget(c, h, answer)
		if err != nil {
			return nil, err
		}
		_, body, err := protocol.ResponseBody(h.Key, h.Version, answer[4:])
		if err != nil {
			return nil, err
		}
		resp := kmsg.NewPtrOffsetFetchResponse()
		resp.Version = h.Version
		if err := resp.ReadFrom(body); err != nil {
			return nil, err
		}
		if !answerMissingGroups(req, resp) {
			return answer, nil
		}
		return protocol.AppendResponse(nil, h, resp), nil
	}
}

// answerMissingGroups says for each group that does not exist that there are no offsets; false when all groups exist.
func answerMissingGroups(req *kmsg.OffsetFetchRequest, resp *kmsg.OffsetFetchResponse) bool {
	const missing = int16(coordinator.GroupIDNotFound)
	changed := false
	if resp.ErrorCode == missing {
		changed = true
		resp.ErrorCode, resp.Topics = 0, nil
		for _, t := range req.Topics {
			none := kmsg.OffsetFetchResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				none.Partitions = append(none.Partitions, kmsg.OffsetFetchResponseTopicPartition{
					Partition: p, Offset: -1, LeaderEpoch: -1, Metadata: kmsg.StringPtr(""),
				})
			}
			resp.Topics = append(resp.Topics, none)
		}
	}
	for i := range resp.Groups {
		g := &resp.Groups[i]
		n := slices.IndexFunc(req.Groups, func(r kmsg.OffsetFetchRequestGroup) bool { return r.Group == g.Group })
		if g.ErrorCode != missing || n < 0 {
			continue
		}
		changed = true
		g.ErrorCode, g.Topics = 0, nil
		for _, t := range req.Groups[n].Topics {
			none := kmsg.OffsetFetchResponseGroupTopic{Topic: t.Topic, TopicID: t.TopicID}
			for _, p := range t.Partitions {
				none.Partitions = append(none.Partitions, kmsg.OffsetFetchResponseGroupTopicPartition{
					Partition: p, Offset: -1, LeaderEpoch: -1, Metadata: kmsg.StringPtr(""),
				})
			}
			g.Topics = append(g.Topics, none)
		}
	}
	return changed
}
