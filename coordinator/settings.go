package coordinator

// Values of rack.aware.assignment.strategy, as Kafka's classic clients name them.
const (
	RackStrategyNone       = "none"
	RackStrategyMinTraffic = "min_traffic"
)

// GroupSettings are the effective settings of one group: its own where set, else the node's (Kafka's GroupConfig).
// Durations are in milliseconds. A GroupSettings is immutable once it is shared.
type GroupSettings struct {
	SessionTimeoutMs    int32
	HeartbeatIntervalMs int32
	// HeartbeatHoldMs is how long the answer to a heartbeat without news may be held back; 0: not at all, below 0: a little
	// less than the heartbeat interval, at most 4,900.
	HeartbeatHoldMs int32
	// RebalanceHeartbeatIntervalMs is the interval told to members that cannot be held while the group rebalances; 0: none.
	RebalanceHeartbeatIntervalMs int32
	// DisconnectTimeoutMs is after what time a member whose connection ended without a leave is removed; 0: never before
	// its session time-out. It counts for two heartbeat intervals at least.
	DisconnectTimeoutMs     int32
	MaxSize                 int32
	NumStandbyReplicas      int32
	NumWarmupReplicas       int32
	InitialRebalanceDelayMs int32
	AssignmentIntervalMs    int32
	// TopologyGraceMs is how long a group whose topics do not fit any more goes on with the partition counts of before; 0: not at
	// all, as Kafka.
	TopologyGraceMs       int32
	TaskOffsetIntervalMs  int32
	AcceptableRecoveryLag int64
	AssignorName          string
	// TopologyUpdatePolicy says what starts a topology update: "epoch", that a joiner sends the next topology epoch, or
	// "latest", that its topology is new to the group.
	TopologyUpdatePolicy string
	// TopologyFenceOlder refuses new members that come with an earlier topology than the group's.
	TopologyFenceOlder bool
	// AssignorOffload lets target assignments of large groups be computed beside the shard.
	AssignorOffload bool
	RackAwareTags   []string
	// RackAwareStrategy says whether active tasks are placed by the racks of their partitions' leaders: RackStrategyNone or
	// RackStrategyMinTraffic.
	RackAwareStrategy      string
	OffsetMetadataMaxBytes int32
}
