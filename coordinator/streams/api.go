package streams

import (
	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Member epochs with a meaning of their own in a heartbeat request.
const (
	JoinEpoch        int32 = 0
	LeaveEpoch       int32 = -1
	StaticLeaveEpoch int32 = -2
)

// HeartbeatRequest is StreamsGroupHeartbeatRequest (API key 88, v0–v1). Strings may alias the request's buffer: what
// is kept beyond the call must be cloned. For slices and Tasks nil means null ("unchanged") and an empty, non-nil value
// means empty.
type HeartbeatRequest struct {
	Version             int16
	GroupID             string
	MemberID            string
	MemberEpoch         int32
	EndpointEpoch       int32
	InstanceID          *string
	RackID              *string
	RebalanceTimeoutMs  int32 // -1: unchanged
	Topology            *topology.Topology
	Active              topology.Tasks
	Standby             topology.Tasks
	Warmup              topology.Tasks
	ProcessID           *string
	UserEndpoint        *record.Endpoint
	ClientTags          []record.KeyValue
	TaskOffsets         []TaskOffset
	TaskEndOffsets      []TaskOffset
	ShutdownApplication bool
	// DuplicateTasks names a task list that mentions a subtopology or a partition twice; the wire layer merges such
	// lists and leaves the judgement to the decision.
	DuplicateTasks string
}

// TaskOffset is a reported position of a task: the sum over its changelog partitions.
type TaskOffset = assignor.TaskOffset

// HeartbeatResponse is StreamsGroupHeartbeatResponse. Task lists are either all nil or all non-nil.
type HeartbeatResponse struct {
	Err                   *coordinator.Error // nil: success
	MemberID              string
	MemberEpoch           int32
	HeartbeatIntervalMs   int32
	TaskOffsetIntervalMs  int32
	AcceptableRecoveryLag int64 // -1: not told
	Status                []Status
	Active                topology.Tasks
	Standby               topology.Tasks
	Warmup                topology.Tasks
	EndpointEpoch         int32
	// Endpoints is nil when there is nothing new for the member.
	Endpoints []EndpointPartitions
}

// StatusCode is a status of a heartbeat response (KIP-1071; StreamsGroupHeartbeatResponse.Status).
type StatusCode int8

// Status codes.
const (
	StatusStaleTopology                StatusCode = 0
	StatusMissingSourceTopics          StatusCode = 1
	StatusIncorrectlyPartitionedTopics StatusCode = 2
	StatusMissingInternalTopics        StatusCode = 3
	StatusShutdownApplication          StatusCode = 4
	StatusAssignmentDelayed            StatusCode = 5
	StatusMissingClientTags            StatusCode = 6
)

// Status is a condition of the group told to a member; Detail is for people.
type Status struct {
	Code   StatusCode
	Detail string
}

// EndpointPartitions are the partitions that the processes at an endpoint hold.
type EndpointPartitions struct {
	Endpoint record.Endpoint
	Active   []TopicPartitions
	Standby  []TopicPartitions
}

// TopicPartitions are partitions of a topic, ascending.
type TopicPartitions struct {
	Topic      string
	Partitions []int32
}

// GroupState is the state of a group (KIP-1071, "Streams Group States").
type GroupState string

// Group states, spelled as Kafka lists them.
const (
	StateEmpty       GroupState = "Empty"
	StateNotReady    GroupState = "NotReady"
	StateAssigning   GroupState = "Assigning"
	StateReconciling GroupState = "Reconciling"
	StateStable      GroupState = "Stable"
	StateDead        GroupState = "Dead"
)

// Description is one group of StreamsGroupDescribeResponse (API key 89).
type Description struct {
	Err             *coordinator.Error
	GroupID         string
	State           GroupState
	Epoch           int32
	AssignmentEpoch int32
	// Topology carries the decided partition counts where the topology is configured; nil without a topology.
	Topology     *topology.Topology
	Members      []MemberDescription
	AssignorName string
}

// MemberDescription is one member of a Description. Assigned has no tasks pending revocation.
type MemberDescription struct {
	MemberID       string
	MemberEpoch    int32
	Meta           *record.MemberMetadata
	TaskOffsets    []TaskOffset
	TaskEndOffsets []TaskOffset
	Assigned       topology.Assignment
	Target         topology.Assignment
}
