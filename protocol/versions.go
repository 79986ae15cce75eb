package protocol

// Action is what the gateway does with a request.
type Action uint8

// Actions.
const (
	// Reject: not listed in ApiVersions; the connection is closed, as a broker does with an API that it does not serve.
	Reject Action = iota
	// Local: answered here, whatever the upstream is.
	Local
	// Forward: bytes go unchanged to the upstream broker that the port stands for, and the answer back.
	Forward
	// Rewrite: as Forward, with broker addresses in the answer replaced.
	Rewrite
	// FanOut: answered from what this node holds and what the upstream says.
	FanOut
	// RouteByGroup: here when the group (or resource) is held here, else forwarded; batches are split and merged.
	RouteByGroup
)

// String is the name of the action, for log lines.
func (a Action) String() string {
	switch a {
	case Local:
		return "local"
	case Forward:
		return "forward"
	case Rewrite:
		return "rewrite"
	case FanOut:
		return "fan-out"
	case RouteByGroup:
		return "route by group"
	}
	return "reject"
}

// API is one line of the table of API keys. Min and Max are the versions that are served; Max < Min: none.
type API struct {
	Key      int16
	Name     string
	Min, Max int16
	Action   Action
}

// apis has a line for every key of Kafka 4.4, at its index. Versions are Kafka 4.4's, with one exception: Produce is
// listed from 0, because librdkafka concludes from its absence that a broker knows no compression (KAFKA-18659).
var apis = [...]API{
	{0, "Produce", 0, 13, Rewrite},
	{1, "Fetch", 4, 18, Rewrite},
	{2, "ListOffsets", 1, 11, Forward},
	{3, "Metadata", 0, 13, Rewrite},
	{4, "LeaderAndIsr", 0, -1, Reject},
	{5, "StopReplica", 0, -1, Reject},
	{6, "UpdateMetadata", 0, -1, Reject},
	{7, "ControlledShutdown", 0, -1, Reject},
	{8, "OffsetCommit", 2, 10, RouteByGroup},
	{9, "OffsetFetch", 1, 10, RouteByGroup},
	{10, "FindCoordinator", 0, 6, RouteByGroup},
	{11, "JoinGroup", 0, 9, RouteByGroup},
	{12, "Heartbeat", 0, 4, RouteByGroup},
	{13, "LeaveGroup", 0, 5, RouteByGroup},
	{14, "SyncGroup", 0, 5, RouteByGroup},
	{15, "DescribeGroups", 0, 6, RouteByGroup},
	{16, "ListGroups", 0, 5, FanOut},
	{17, "SaslHandshake", 0, 1, Forward},
	{18, "ApiVersions", 0, 5, Local},
	{19, "CreateTopics", 2, 7, Forward},
	{20, "DeleteTopics", 1, 6, Forward},
	{21, "DeleteRecords", 0, 2, Forward},
	{22, "InitProducerId", 0, 5, Forward},
	{23, "OffsetForLeaderEpoch", 2, 4, Forward},
	{24, "AddPartitionsToTxn", 0, 5, Forward},
	{25, "AddOffsetsToTxn", 0, 4, Forward},
	{26, "EndTxn", 0, 5, Forward},
	{27, "WriteTxnMarkers", 1, 2, Forward},
	{28, "TxnOffsetCommit", 0, 6, RouteByGroup},
	{29, "DescribeAcls", 1, 3, Forward},
	{30, "CreateAcls", 1, 3, Forward},
	{31, "DeleteAcls", 1, 3, Forward},
	{32, "DescribeConfigs", 1, 4, RouteByGroup},
	{33, "AlterConfigs", 0, 2, RouteByGroup},
	{34, "AlterReplicaLogDirs", 1, 2, Forward},
	{35, "DescribeLogDirs", 1, 5, Forward},
	{36, "SaslAuthenticate", 0, 2, Forward},
	{37, "CreatePartitions", 0, 3, Forward},
	{38, "CreateDelegationToken", 1, 3, Forward},
	{39, "RenewDelegationToken", 1, 2, Forward},
	{40, "ExpireDelegationToken", 1, 2, Forward},
	{41, "DescribeDelegationToken", 1, 3, Forward},
	{42, "DeleteGroups", 0, 3, RouteByGroup},
	{43, "ElectLeaders", 0, 2, Forward},
	{44, "IncrementalAlterConfigs", 0, 1, RouteByGroup},
	{45, "AlterPartitionReassignments", 0, 1, Forward},
	{46, "ListPartitionReassignments", 0, 0, Forward},
	{47, "OffsetDelete", 0, 0, RouteByGroup},
	{48, "DescribeClientQuotas", 0, 1, Forward},
	{49, "AlterClientQuotas", 0, 1, Forward},
	{50, "DescribeUserScramCredentials", 0, 0, Forward},
	{51, "AlterUserScramCredentials", 0, 0, Forward},
	{52, "Vote", 0, 2, Reject},
	{53, "BeginQuorumEpoch", 0, 1, Reject},
	{54, "EndQuorumEpoch", 0, 1, Reject},
	{55, "DescribeQuorum", 0, 2, Forward},
	{56, "AlterPartition", 2, 3, Reject},
	{57, "UpdateFeatures", 0, 2, Forward},
	{58, "Envelope", 0, 0, Reject},
	{59, "FetchSnapshot", 0, 1, Reject},
	{60, "DescribeCluster", 0, 2, Rewrite},
	{61, "DescribeProducers", 0, 0, Forward},
	{62, "BrokerRegistration", 0, 4, Reject},
	{63, "BrokerHeartbeat", 0, 2, Reject},
	{64, "UnregisterBroker", 0, 0, Forward},
	{65, "DescribeTransactions", 0, 0, Forward},
	{66, "ListTransactions", 0, 2, Forward},
	{67, "AllocateProducerIds", 0, 0, Reject},
	{68, "ConsumerGroupHeartbeat", 0, 1, RouteByGroup},
	{69, "ConsumerGroupDescribe", 0, 1, RouteByGroup},
	{70, "ControllerRegistration", 0, 0, Reject},
	{71, "GetTelemetrySubscriptions", 0, 0, Forward},
	{72, "PushTelemetry", 0, 0, Forward},
	{73, "AssignReplicasToDirs", 0, 0, Reject},
	{74, "ListConfigResources", 0, 1, RouteByGroup},
	{75, "DescribeTopicPartitions", 0, 0, Forward},
	{76, "ShareGroupHeartbeat", 1, 1, RouteByGroup},
	{77, "ShareGroupDescribe", 1, 1, RouteByGroup},
	{78, "ShareFetch", 1, 2, Rewrite},
	{79, "ShareAcknowledge", 1, 2, Rewrite},
	{80, "AddRaftVoter", 0, 1, Forward},
	{81, "RemoveRaftVoter", 0, 0, Forward},
	{82, "UpdateRaftVoter", 0, 0, Reject},
	{83, "InitializeShareGroupState", 0, 0, Reject},
	{84, "ReadShareGroupState", 0, 0, Reject},
	{85, "WriteShareGroupState", 0, 1, Reject},
	{86, "DeleteShareGroupState", 0, 0, Reject},
	{87, "ReadShareGroupStateSummary", 0, 1, Reject},
	{88, "StreamsGroupHeartbeat", 0, 1, Local},
	{89, "StreamsGroupDescribe", 0, 1, Local},
	{90, "DescribeShareGroupOffsets", 0, 1, RouteByGroup},
	{91, "AlterShareGroupOffsets", 0, 0, RouteByGroup},
	{92, "DeleteShareGroupOffsets", 0, 0, RouteByGroup},
	{93, "StreamsGroupTopologyDescriptionUpdate", 0, 0, Reject},
	{94, "UnregisterController", 0, 0, Forward},
}

// Lookup returns the line of a key, or false for a key that Kafka 4.4 does not have.
func Lookup(key int16) (API, bool) {
	if key < 0 || int(key) >= len(apis) {
		return API{}, false
	}
	return apis[key], true
}

// Supported says whether a request of this key and version is served at all. Anything else ends the connection, except
// for ApiVersions, which is answered by [AppendUnsupportedApiVersions].
func Supported(key, version int16) bool {
	api, ok := Lookup(key)
	return ok && api.Action != Reject && version >= api.Min && version <= api.Max
}
