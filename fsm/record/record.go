package record

import (
	"fmt"

	"github.com/coordd/coordd/topology"
)

// Type is the number of a record type, the first two bytes of a key.
type Type int16

// Record types. 1, 17 and 19–23 are Kafka's (CoordinatorRecordType); numbers from 1000 are the project's own.
const (
	// TypeOffsetCommit is also what keys of type 0 are read as, which Kafka's oldest versions wrote for the same thing.
	TypeOffsetCommit      Type = 1
	TypeGroupMetadata     Type = 17
	TypeMemberMetadata    Type = 19
	TypeTargetMetadata    Type = 20
	TypeTargetMember      Type = 21
	TypeCurrentAssignment Type = 22
	TypeTopology          Type = 23
	TypeOffsetsClaim      Type = 1000
	TypeNode              Type = 1001
	TypeBrokerSlot        Type = 1002
	TypeCluster           Type = 1003
	TypeGroupConfig       Type = 1004
	TypeJournalEntry      Type = 1005
	TypeGroupMarks        Type = 1006
	TypeGroupTopics       Type = 1007
	TypeTopologyVersion   Type = 1008
	TypeOffsetsStore      Type = 1009
)

// Key names what a record is about; the latest record of a key wins. Keys are comparable.
type Key struct {
	Type Type
	// Group is the group id of types 1, 17–23, 1000 and 1004–1009; empty otherwise.
	Group string
	// Member is the member id of types 19, 21 and 22; empty otherwise.
	Member string
	// Topic is the topic of type 1; empty otherwise.
	Topic string
	// ID is the partition (1), node id (1001), broker id (1002), slot (1005) or topology epoch (1008); 0 otherwise.
	ID int32
}

// Record is one keyed fact. A nil Value deletes the key (a tombstone).
type Record struct {
	Key   Key
	Value Value
}

// Value is one of the pointer types below. Values are immutable once they are in a Record.
type Value interface{ recordType() Type }

// GroupMetadata is StreamsGroupMetadataValue (type 17).
type GroupMetadata struct {
	Epoch                  int32
	MetadataHash           int64
	ValidatedTopologyEpoch int32 // -1: never validated
	// AssignmentConfigs are the assignment settings used last, keys ascending.
	AssignmentConfigs      []KeyValue
	StoredDescriptionEpoch int32 // -1: none
	FailedDescriptionEpoch int32 // -1: none
}

// MemberMetadata is StreamsGroupMemberMetadataValue (type 19).
type MemberMetadata struct {
	InstanceID         *string
	RackID             *string
	ClientID           string
	ClientHost         string
	RebalanceTimeoutMs int32 // -1: never told
	TopologyEpoch      int32 // -1: never told
	ProcessID          string
	UserEndpoint       *Endpoint
	// ClientTags are sorted by key.
	ClientTags []KeyValue
}

// TargetMetadata is StreamsGroupTargetAssignmentMetadataValue (type 20).
type TargetMetadata struct {
	AssignmentEpoch int32
	// TimestampMs is when the target was computed, in milliseconds since 1970; 0 after the group became empty.
	TimestampMs int64
}

// TargetMember is StreamsGroupTargetAssignmentMemberValue (type 21).
type TargetMember struct{ Assignment topology.Assignment }

// CurrentAssignment is StreamsGroupCurrentMemberAssignmentValue (type 22).
type CurrentAssignment struct {
	MemberEpoch   int32
	PreviousEpoch int32
	State         MemberState
	// Assigned are the tasks that the member was told to own; active tasks carry assignment epochs.
	Assigned topology.Assignment
	// Revoking are the tasks whose release the member has not confirmed yet.
	Revoking topology.Assignment
}

// Topology is StreamsGroupTopologyValue (type 23).
type Topology struct{ topology.Topology }

// OffsetCommit is OffsetCommitValue (type 1): the offset that a group committed for a partition.
type OffsetCommit struct {
	Offset int64
	// LeaderEpoch is the leader epoch of the last record consumed, or -1.
	LeaderEpoch int32
	Metadata    string
	// CommitTimestampMs is when it was committed, in milliseconds since 1970.
	CommitTimestampMs int64
	// ExpireTimestampMs is when it expires, for a commit that asked for a retention of its own, in milliseconds since
	// 1970; -1: none. Kafka writes such a value in version 1, which has neither leader epoch nor topic id.
	ExpireTimestampMs int64
	// TopicID is the id of the topic at the time, or zero.
	TopicID [16]byte
}

// OffsetsStore (type 1009) says where the committed offsets of the group are kept. A group without the record has them in
// StoreUpstream.
type OffsetsStore struct {
	Store Store
	// LeftUpstream says that the offsets are in the log, but a move of them may have left others upstream that do not count.
	LeftUpstream bool
}

// Store is a place for the committed offsets of a group.
type Store int8

// Stores of offsets.
const (
	// StoreUpstream is the group coordinator of the Kafka cluster behind.
	StoreUpstream Store = 0
	// StoreRaft is the shard's own log.
	StoreRaft Store = 1
)

// String is the name that settings use.
func (s Store) String() string {
	switch s {
	case StoreUpstream:
		return "upstream"
	case StoreRaft:
		return "raft"
	}
	return fmt.Sprintf("store %d", int8(s))
}

// OffsetsClaim (type 1000) says that offsets of the group may be in flight to, or kept at, the upstream under the
// static member "coordd": a new leader must take that membership over before the first commit or task move.
type OffsetsClaim struct{}

// Node (type 1001, system shard) is one coordd node.
type Node struct {
	RaftAddress string
	ClientHost  string
	ClientPort  uint16
	// BrokerPortBase is the first of the node's ports that stand for upstream brokers, and BrokerPortStep the
	// distance between two of them.
	BrokerPortBase uint16
	BrokerPortStep uint16
	// Live says whether the system leader reaches the node.
	Live bool
	// FeatureLevel is what the node announced last, 0 for a release that announces none (see Level).
	FeatureLevel uint16
}

// BrokerSlot (type 1002, system shard) is the number k of the port that stands for an upstream broker on every node.
type BrokerSlot struct{ Slot int32 }

// Cluster (type 1003, system shard) holds what is fixed when the cluster is formed.
type Cluster struct {
	ID     string
	Shards int32
	// FeatureLevel is that of the node which formed the cluster; what may be written goes by those of the nodes.
	FeatureLevel int32
}

// GroupConfig (type 1004, system shard) holds the settings of one group. It does not depend on whether the group exists,
// and is deleted when no setting is left.
type GroupConfig struct {
	// Settings are by name, ascending, with values as texts.
	Settings []KeyValue
}

// GroupMarks (type 1006) is what a group must not forget over a failover although Kafka keeps it in memory only. It is
// deleted when all of it is zero. Times are the leader's wall clock in milliseconds since 1970.
type GroupMarks struct {
	// ShutdownBy is the member that first asked for the application's shutdown, "" when none did.
	ShutdownBy string
	// DelayUntilMs is when the initial rebalance delay ends that the first member of the empty group started; 0 when it
	// started none.
	DelayUntilMs int64
	// EmptySinceMs is when the last member went, 0 while the group has members.
	EmptySinceMs int64
}

// GroupTopics (type 1007) is what a group goes on with while its topics do not fit its topology: the numbers of the
// configuration that was ready last. It is deleted when the group's topology is not ready, unless a grace that another topology
// began runs on: then it has no numbers.
type GroupTopics struct {
	// TopologyEpoch is the epoch of the topology that has these numbers.
	TopologyEpoch int32
	// SinceMs is when the topics were first seen not to fit, on the leader's wall clock in milliseconds since 1970; 0
	// while they do.
	SinceMs int64
	Sizes   topology.Sizes
}

// KeyValue is a string pair.
type KeyValue struct{ Key, Value string }

// Endpoint is where an application serves interactive queries.
type Endpoint struct {
	Host string
	Port uint16
}

// MemberState is the reconciliation state of a member (StreamsGroupMember.java, MemberState).
type MemberState int8

// States of a member.
const (
	MemberStable          MemberState = 1
	MemberUnrevokedTasks  MemberState = 2
	MemberUnreleasedTasks MemberState = 3
	MemberUnknown         MemberState = 127
)

func (*OffsetCommit) recordType() Type      { return TypeOffsetCommit }
func (*GroupMetadata) recordType() Type     { return TypeGroupMetadata }
func (*MemberMetadata) recordType() Type    { return TypeMemberMetadata }
func (*TargetMetadata) recordType() Type    { return TypeTargetMetadata }
func (*TargetMember) recordType() Type      { return TypeTargetMember }
func (*CurrentAssignment) recordType() Type { return TypeCurrentAssignment }
func (*Topology) recordType() Type          { return TypeTopology }
func (*OffsetsClaim) recordType() Type      { return TypeOffsetsClaim }
func (*Node) recordType() Type              { return TypeNode }
func (*BrokerSlot) recordType() Type        { return TypeBrokerSlot }
func (*Cluster) recordType() Type           { return TypeCluster }
func (*GroupConfig) recordType() Type       { return TypeGroupConfig }
func (*JournalEntry) recordType() Type      { return TypeJournalEntry }
func (*GroupMarks) recordType() Type        { return TypeGroupMarks }
func (*GroupTopics) recordType() Type       { return TypeGroupTopics }
func (*OffsetsStore) recordType() Type      { return TypeOffsetsStore }
