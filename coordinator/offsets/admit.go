package offsets

import (
	"slices"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
)

// Admit decides what of a commit may be stored, nil for nothing, and answers the rest. As in Kafka, whose front end
// (KafkaApis.handleOffsetCommitRequest) takes out partitions that do not exist before the coordinator sees the request,
// these get UNKNOWN_TOPIC_OR_PARTITION whatever the member may do, and the others are judged without them. topics may lag
// behind; therefore what the member may commit is left for the store to judge. topics is nil where nothing is known of
// any. The request is not changed.
func Admit(g *fsm.Group, req *CommitRequest, topics topology.Metadata, metadataLimit int32) (kept *CommitRequest, refused []CommitTopicResult) {
	kept = req
	if code := CheckCommit(g, req); code != coordinator.None {
		if kept, refused = splitAbsent(req, topics); len(kept.Topics) == 0 {
			return nil, refused
		}
		if len(refused) > 0 {
			code = CheckCommit(g, kept)
		}
		if code != coordinator.None {
			return nil, Joined(refused, CommitFailed(kept, code).Topics)
		}
	}
	kept, large := SplitLargeMetadata(kept, metadataLimit)
	refused = Joined(refused, markAbsent(large, topics))
	if len(kept.Topics) == 0 {
		kept = nil
	}
	return kept, refused
}

// absent says whether a partition is known not to exist.
func absent(topics topology.Metadata, topic string, partition int32) bool {
	if topics == nil {
		return false
	}
	t, ok := topics.Topic(topic)
	return !ok || partition < 0 || partition >= t.Partitions
}

// splitAbsent takes out the partitions that do not exist, and answers them.
func splitAbsent(req *CommitRequest, topics topology.Metadata) (*CommitRequest, []CommitTopicResult) {
	rest := *req
	rest.Topics = nil
	var refused []CommitTopicResult
	for _, t := range req.Topics {
		missing := CommitTopicResult{Name: t.Name, ID: t.ID}
		kept := t
		kept.Partitions = slices.DeleteFunc(slices.Clone(t.Partitions), func(p CommitPartition) bool {
			gone := absent(topics, t.Name, p.Partition)
			if gone {
				missing.Partitions = append(missing.Partitions, PartitionResult{p.Partition, coordinator.UnknownTopicOrPartition})
			}
			return gone
		})
		if len(kept.Partitions) > 0 {
			rest.Topics = append(rest.Topics, kept)
		}
		if len(missing.Partitions) > 0 {
			refused = append(refused, missing)
		}
	}
	return &rest, refused
}

// markAbsent lets refused partitions that do not exist be answered with that.
func markAbsent(refused []CommitTopicResult, topics topology.Metadata) []CommitTopicResult {
	for i := range refused {
		for j := range refused[i].Partitions {
			if p := &refused[i].Partitions[j]; absent(topics, refused[i].Name, p.Partition) {
				p.Code = coordinator.UnknownTopicOrPartition
			}
		}
	}
	return refused
}

// Joined puts two parts of an answer together, so that each topic stands in it once.
func Joined(part, more []CommitTopicResult) []CommitTopicResult {
	if len(part) == 0 || len(more) == 0 {
		return append(part, more...)
	}
	type topicKey struct {
		name string
		id   [16]byte
	}
	at := make(map[topicKey]int, len(part))
	for i, t := range part {
		at[topicKey{t.Name, t.ID}] = i
	}
	for _, t := range more {
		key := topicKey{t.Name, t.ID}
		i, ok := at[key]
		if !ok {
			at[key] = len(part)
			part = append(part, t)
			continue
		}
		part[i].Partitions = append(part[i].Partitions, t.Partitions...)
	}
	return part
}

// AdmitDelete decides which offsets may be deleted, and answers the others: UNKNOWN_TOPIC_OR_PARTITION for what does not
// exist, GROUP_SUBSCRIBED_TO_TOPIC for what the members read.
func AdmitDelete(g *fsm.Group, req *DeleteRequest, topics topology.Metadata) (kept *DeleteRequest, refused []CommitTopicResult) {
	kept = &DeleteRequest{GroupID: req.GroupID}
	for _, t := range req.Topics {
		code := CheckDelete(g, t.Name)
		may, not := FetchTopic{Name: t.Name, ID: t.ID}, CommitTopicResult{Name: t.Name, ID: t.ID}
		for _, p := range t.Partitions {
			switch {
			case absent(topics, t.Name, p):
				not.Partitions = append(not.Partitions, PartitionResult{p, coordinator.UnknownTopicOrPartition})
			case code != coordinator.None:
				not.Partitions = append(not.Partitions, PartitionResult{p, code})
			default:
				may.Partitions = append(may.Partitions, p)
			}
		}
		if len(may.Partitions) > 0 {
			kept.Topics = append(kept.Topics, may)
		}
		if len(not.Partitions) > 0 {
			refused = append(refused, not)
		}
	}
	return kept, refused
}
