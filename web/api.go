package web

import "context"

// ClusterStatus is the cluster as one node sees it together with what the other nodes say of themselves.
type ClusterStatus struct {
	// ClusterID is coordd's own id, fixed when the cluster was formed; empty before.
	ClusterID string `json:"clusterId"`
	// AskedNode is the node that answered.
	AskedNode int32        `json:"askedNode"`
	Nodes     []NodeStatus `json:"nodes"`
	Shards    []ShardView  `json:"shards"`
	// Quorum says that every shard, the system shard included, has a leader that serves.
	Quorum bool `json:"quorum"`
}

// ShardView is one shard over all nodes. Shard -1 is the system shard.
type ShardView struct {
	Shard int `json:"shard"`
	// Leader is -1 while the shard has none that serves.
	Leader       int32  `json:"leader"`
	Term         uint64 `json:"term"`
	CommitIndex  uint64 `json:"commitIndex"`
	AppliedIndex uint64 `json:"appliedIndex"`
	// Kept says that an operator moved the leadership here: it stays until the leader loses it.
	Kept      bool           `json:"kept"`
	Followers []FollowerView `json:"followers"`
}

// FollowerView is what a shard's leader knows of a follower.
type FollowerView struct {
	Node int32 `json:"node"`
	// Lag is the number of log entries that the follower is behind.
	Lag uint64 `json:"lag"`
	// Live says that the follower answered lately.
	Live bool `json:"live"`
}

// NodeStatus is what a node says of itself.
type NodeStatus struct {
	Node int32 `json:"node"`
	// Reachable is false when the asked node got no answer from this one; then only Node and Error count.
	Reachable     bool   `json:"reachable"`
	Error         string `json:"error,omitempty"`
	Version       string `json:"version,omitempty"`
	ClientAddress string `json:"clientAddress,omitempty"`
	RaftAddress   string `json:"raftAddress,omitempty"`
	// Drained says that the node is kept from leading, see [Leaders].
	Drained bool `json:"drained"`
	// FeatureLevel is that of the node's release; 0 for those that do not tell theirs.
	FeatureLevel uint16 `json:"featureLevel,omitempty"`
	// OffsetsLogHindrance says why, as far as the node knows, no group may begin to keep its committed offsets in the log, with the
	// nodes that are too old; empty when it may.
	OffsetsLogHindrance string `json:"offsetsLogHindrance,omitempty"`
	// UptimeMs is the time since the process started, in milliseconds.
	UptimeMs int64          `json:"uptimeMs,omitempty"`
	Upstream UpstreamStatus `json:"upstream"`
	Shards   []ShardStatus  `json:"shards,omitempty"`
}

// UpstreamStatus is a node's view of the Kafka cluster behind.
type UpstreamStatus struct {
	Reachable bool   `json:"reachable"`
	ClusterID string `json:"clusterId,omitempty"`
	Brokers   int    `json:"brokers"`
	Topics    int    `json:"topics"`
	Error     string `json:"error,omitempty"`
}

// ShardStatus is one shard on one node. Shard -1 is the system shard.
type ShardStatus struct {
	Shard        int    `json:"shard"`
	Role         string `json:"role"`
	Serving      bool   `json:"serving"`
	Kept         bool   `json:"kept"`
	Leader       int32  `json:"leader"`
	Term         uint64 `json:"term"`
	LastIndex    uint64 `json:"lastIndex"`
	CommitIndex  uint64 `json:"commitIndex"`
	AppliedIndex uint64 `json:"appliedIndex"`
	Groups       int    `json:"groups"`
	// TakingOver is the number of groups of which the leader, as this node is, has not taken the membership in the Kafka
	// behind over yet: until then no task moves in them.
	TakingOver int `json:"takingOver"`
	// Digest is a checksum of the state at AppliedIndex, equal on all nodes that applied as much.
	Digest    string         `json:"digest"`
	Followers []FollowerView `json:"followers,omitempty"`
}

// GroupSummary is one group of a list.
type GroupSummary struct {
	Group           string `json:"group"`
	State           string `json:"state"`
	Shard           int    `json:"shard"`
	Coordinator     int32  `json:"coordinator"` // -1 while the shard has no leader
	Epoch           int32  `json:"epoch"`
	AssignmentEpoch int32  `json:"assignmentEpoch"`
	TopologyEpoch   int32  `json:"topologyEpoch"` // -1 without a topology
	Members         int    `json:"members"`
}

// GroupDetail is one group with its members.
type GroupDetail struct {
	GroupSummary
	// Problem says which topics are missing or do not fit, by those that the node sees that tells it; empty when nothing is
	// wrong.
	Problem string `json:"problem,omitempty"`
	// GraceLeftMs is how long the group goes on with the partition counts of before although its topics do not fit; 0 when
	// it does not.
	GraceLeftMs int64         `json:"graceLeftMs,omitempty"`
	MemberList  []GroupMember `json:"memberList"`
}

// GroupMember is one member of a group. Tasks are written subtopology_partition, as Kafka Streams prints them.
type GroupMember struct {
	Member     string   `json:"member"`
	Epoch      int32    `json:"epoch"`
	State      string   `json:"state"`
	InstanceID string   `json:"instanceId,omitempty"`
	ClientID   string   `json:"clientId"`
	Host       string   `json:"host"`
	ProcessID  string   `json:"processId"`
	Active     []string `json:"active"`
	Standby    []string `json:"standby"`
	Warmup     []string `json:"warmup"`
	// Revoking are tasks that the member has not given up yet.
	Revoking      []string `json:"revoking"`
	TargetActive  []string `json:"targetActive"`
	TargetStandby []string `json:"targetStandby"`
	TargetWarmup  []string `json:"targetWarmup"`
}

// Problem is the body of an answer other than 200.
type Problem struct {
	Error string `json:"error"`
}

// Cluster is what the admin port shows, and what operators can do with it.
type Cluster interface {
	Leaders
	Topologies
	Plans
	Offsets
	Imports
	// Status asks all nodes.
	Status(ctx context.Context) ClusterStatus
	// Local is this node alone.
	Local() NodeStatus
	// Ready is nil when this node can serve clients, else the reason why not.
	Ready() error
	// Groups are all groups by id, from this node's replicas.
	Groups() []GroupSummary
	// Group is one group from the shard's leader, or from this node's replica where the leader does not answer; false when
	// there is no such group.
	Group(ctx context.Context, id string) (GroupDetail, bool)
	// LocalGroup is one group from this node's replica alone.
	LocalGroup(id string) (GroupDetail, bool)
	// Journal is why a group rebalanced, from the shard's leader. It fails with ErrNoGroup, or with the reason why the
	// leader does not answer.
	Journal(ctx context.Context, id string) (GroupJournal, error)
	// LocalJournal is the journal of a group from this node's replica alone.
	LocalJournal(id string) (GroupJournal, error)
}
