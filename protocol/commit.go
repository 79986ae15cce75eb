package protocol

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
)

// Commits from these versions on name topics by id only (KIP-848 topic ids).
const (
	offsetCommitTopicIDs    = 10
	offsetFetchTopicIDs     = 10
	txnOffsetCommitTopicIDs = 6
)

// DecodeOffsetCommit reads an OffsetCommitRequest v2–10. Topics whose id names does not know are left out of the request
// and come back as results with UNKNOWN_TOPIC_ID, to be given to [AppendCommit]. Nothing aliases the body.
func DecodeOffsetCommit(version int16, body []byte, names TopicNames) (*offsets.CommitRequest, []offsets.CommitTopicResult, error) {
	var k kmsg.OffsetCommitRequest
	if err := decode(&k, version, body); err != nil {
		return nil, nil, err
	}
	req := &offsets.CommitRequest{
		Version: version, GroupID: k.Group, MemberID: k.MemberID, MemberEpoch: k.Generation, InstanceID: k.InstanceID,
		Topics: make([]offsets.CommitTopic, 0, len(k.Topics)),
	}
	for i := range k.Topics {
		kt := &k.Topics[i]
		t := offsets.CommitTopic{Name: kt.Topic, ID: kt.TopicID, Partitions: make([]offsets.CommitPartition, len(kt.Partitions))}
		for j := range kt.Partitions {
			p := &kt.Partitions[j]
			t.Partitions[j] = offsets.CommitPartition{Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata}
		}
		req.Topics = append(req.Topics, t)
	}
	var refused []offsets.CommitTopicResult
	if version >= offsetCommitTopicIDs {
		req.Topics, refused = resolveCommit(req.Topics, names)
	}
	return req, refused, nil
}

// DecodeTxnOffsetCommit reads a TxnOffsetCommitRequest v0–6, as [DecodeOffsetCommit] does. Below v3 the request has no
// member: epoch -1 and an empty id.
func DecodeTxnOffsetCommit(version int16, body []byte, names TopicNames) (*offsets.CommitRequest, []offsets.CommitTopicResult, error) {
	k := kmsg.NewTxnOffsetCommitRequest()
	if err := decode(&k, version, body); err != nil {
		return nil, nil, err
	}
	req := &offsets.CommitRequest{
		Version: version, Transactional: true, GroupID: k.Group, MemberID: k.MemberID, MemberEpoch: k.Generation, InstanceID: k.InstanceID,
		Transaction: offsets.Transaction{ID: k.TransactionalID, ProducerID: k.ProducerID, ProducerEpoch: k.ProducerEpoch},
		Topics:      make([]offsets.CommitTopic, 0, len(k.Topics)),
	}
	for i := range k.Topics {
		kt := &k.Topics[i]
		t := offsets.CommitTopic{Name: kt.Topic, ID: kt.TopicID, Partitions: make([]offsets.CommitPartition, len(kt.Partitions))}
		for j := range kt.Partitions {
			p := &kt.Partitions[j]
			t.Partitions[j] = offsets.CommitPartition{Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata}
		}
		req.Topics = append(req.Topics, t)
	}
	var refused []offsets.CommitTopicResult
	if version >= txnOffsetCommitTopicIDs {
		req.Topics, refused = resolveCommit(req.Topics, names)
	}
	return req, refused, nil
}

// resolveCommit names topics by their ids, and splits off those that have no known one.
func resolveCommit(topics []offsets.CommitTopic, names TopicNames) (known []offsets.CommitTopic, refused []offsets.CommitTopicResult) {
	known = topics[:0]
	for _, t := range topics {
		if name, ok := names(t.ID); ok {
			t.Name = name
			known = append(known, t)
			continue
		}
		r := offsets.CommitTopicResult{ID: t.ID, Partitions: make([]offsets.PartitionResult, len(t.Partitions))}
		for i, p := range t.Partitions {
			r.Partitions[i] = offsets.PartitionResult{Partition: p.Partition, Code: coordinator.UnknownTopicID}
		}
		refused = append(refused, r)
	}
	return known, refused
}

// AppendCommit appends the frame of the answer to an OffsetCommit or TxnOffsetCommit request: resp, then the topics that
// were refused before (unknown ids, missing rights).
func AppendCommit(dst []byte, h Header, resp *offsets.CommitResponse, refused ...offsets.CommitTopicResult) []byte {
	if h.Key == KeyTxnOffsetCommit {
		k := kmsg.NewPtrTxnOffsetCommitResponse()
		for _, list := range [...][]offsets.CommitTopicResult{resp.Topics, refused} {
			for _, t := range list {
				kt := kmsg.TxnOffsetCommitResponseTopic{Topic: t.Name, TopicID: t.ID, Partitions: make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(t.Partitions))}
				for i, p := range t.Partitions {
					kt.Partitions[i] = kmsg.TxnOffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: int16(p.Code)}
				}
				k.Topics = append(k.Topics, kt)
			}
		}
		return AppendResponse(dst, h, k)
	}
	k := kmsg.NewPtrOffsetCommitResponse()
	for _, list := range [...][]offsets.CommitTopicResult{resp.Topics, refused} {
		for _, t := range list {
			kt := kmsg.OffsetCommitResponseTopic{Topic: t.Name, TopicID: t.ID, Partitions: make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))}
			for i, p := range t.Partitions {
				kt.Partitions[i] = kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: int16(p.Code)}
			}
			k.Topics = append(k.Topics, kt)
		}
	}
	return AppendResponse(dst, h, k)
}
