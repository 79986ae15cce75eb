package offsets

import "github.com/coordd/coordd/coordinator"

// CommitRequest is OffsetCommit (API key 8) or, with Transactional, TxnOffsetCommit (28) for one group. Topics have
// names: topic ids are resolved before. Strings may alias the request's buffer.
type CommitRequest struct {
	Version       int16
	Transactional bool
	GroupID       string
	MemberID      string
	MemberEpoch   int32 // generation or member epoch; -1 without a member
	InstanceID    *string
	Transaction   Transaction
	Topics        []CommitTopic
}

// Transaction names the producer of a transactional commit.
type Transaction struct {
	ID            string
	ProducerID    int64
	ProducerEpoch int16
}

// CommitTopic is one topic of a commit; ID is all zero when the request named the topic.
type CommitTopic struct {
	Name       string
	ID         [16]byte
	Partitions []CommitPartition
}

// CommitPartition is the offset to commit for a partition.
type CommitPartition struct {
	Partition   int32
	Offset      int64
	LeaderEpoch int32 // -1: unknown
	Metadata    *string
}

// CommitResponse holds a code for each topic and partition: in the order of the request, but what does not exist first.
type CommitResponse struct {
	Topics []CommitTopicResult
}

// CommitTopicResult is the outcome for one topic.
type CommitTopicResult struct {
	Name       string
	ID         [16]byte
	Partitions []PartitionResult
}

// PartitionResult is the outcome for one partition.
type PartitionResult struct {
	Partition int32
	Code      coordinator.Code
}

// FetchRequest is one group of OffsetFetch (API key 9).
type FetchRequest struct {
	Version       int16
	GroupID       string
	MemberID      *string
	MemberEpoch   int32 // -1 without a member
	RequireStable bool
	// Topics is nil for "all".
	Topics []FetchTopic
}

// FetchTopic asks for partitions of a topic.
type FetchTopic struct {
	Name       string
	ID         [16]byte
	Partitions []int32
}

// FetchResponse is the outcome for one group.
type FetchResponse struct {
	Err    *coordinator.Error
	Topics []FetchTopicResult
}

// FetchTopicResult holds the committed offsets of a topic.
type FetchTopicResult struct {
	Name       string
	ID         [16]byte
	Partitions []FetchedOffset
}

// FetchedOffset is a committed offset, -1 when there is none.
type FetchedOffset struct {
	Partition   int32
	Offset      int64
	LeaderEpoch int32
	Metadata    *string
	Code        coordinator.Code
}

// DeleteRequest is OffsetDelete (API key 47).
type DeleteRequest struct {
	GroupID string
	Topics  []FetchTopic
}

// DeleteResponse is the outcome of a DeleteRequest.
type DeleteResponse struct {
	Err    *coordinator.Error
	Topics []CommitTopicResult
}
