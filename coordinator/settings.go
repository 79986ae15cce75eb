package coordinator

// GroupSettings are the effective settings of one group: its own where set, else the node's (Kafka's GroupConfig).
// Durations are in milliseconds. A GroupSettings is immutable once it is shared.
type GroupSettings struct {
	SessionTimeoutMs        int32
	HeartbeatIntervalMs     int32
	MaxSize                 int32
	NumStandbyReplicas      int32
	NumWarmupReplicas       int32
	InitialRebalanceDelayMs int32
	AssignmentIntervalMs    int32
	TaskOffsetIntervalMs    int32
	AcceptableRecoveryLag   int64
	AssignorName            string
	// AssignorOffload lets target assignments of large groups be computed beside the shard.
	AssignorOffload        bool
	RackAwareTags          []string
	OffsetMetadataMaxBytes int32
}
