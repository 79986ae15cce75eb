package config

import "math"

const (
	maxInt32 = math.MaxInt32
	maxPort  = 65535
)

// settings is the whole table; semantics of group.* as in Kafka's GroupCoordinatorConfig.
var settings = []Setting{
	{Name: "node.id", Help: "Number of this node, unique in the cluster.", Default: "0", kind: kindInt, min: 0, max: 999},
	{Name: "data.dir", Help: "Folder of this node's Raft logs and snapshots.", Default: "", kind: kindString},
	{Name: "raft.listen", Help: "Address where the other nodes reach this one (Raft and inner hops).", Default: "127.0.0.1:9640", kind: kindString},
	{Name: "raft.advertised", Help: "Address told to the other nodes; raft.listen when empty.", Default: "", kind: kindString},
	{Name: "raft.preset", Help: "Raft timing: lan, or wan for round trips of tens of milliseconds.", Default: "lan", kind: kindString, allowed: []string{"lan", "wan"}},
	{Name: "peers", Help: "All nodes of the cluster, this one included; empty for a cluster of one.", Default: "", kind: kindPeers},
	{Name: "client.listen", Help: "Address for Kafka clients.", Default: "127.0.0.1:9092", kind: kindString},
	{Name: "client.advertised.host", Help: "Host name told to clients; when empty, that of this node's client address in peers, else that of client.listen.", Default: "", kind: kindString},
	{Name: "broker.port.base", Help: "First port that stands for an upstream broker; broker k is at base + k times broker.port.step.", Default: "9100", kind: kindInt, min: 1, max: maxPort},
	{Name: "broker.port.step", Help: "Distance between the ports of two upstream brokers.", Default: "1", kind: kindInt, min: 1, max: 1000},
	{Name: "admin.listen", Help: "Address of the admin port: CLI, health, metrics.", Default: "127.0.0.1:9644", kind: kindString},
	{Name: "coordinator.node.id.base", Help: "Kafka node id of coordd node n is this number plus n; upstream broker ids must be smaller.", Default: "1000000", kind: kindInt, min: 1000, max: maxInt32 - 1000},
	{Name: "upstream.bootstrap.servers", Help: "Addresses of the Kafka cluster behind.", Default: "", kind: kindList},
	{Name: "upstream.quirks", Help: "Repairs of what the cluster behind answers: kfake for franz-go's in-process Kafka.", Default: "none", kind: kindString, allowed: []string{"none", "kfake"}},
	{Name: "shards", Help: "Number of Raft groups that hold streams groups; fixed when the cluster is formed.", Default: "8", kind: kindInt, min: 1, max: 64},
	{Name: "offsets.store", Help: "Where new streams groups keep their committed offsets: upstream, in the Kafka cluster behind; raft, in coordd's log. Groups that are there keep theirs where they are.", Default: "upstream", kind: kindString, allowed: []string{"upstream", "raft"}},
	{Name: "log.level", Help: "Least severe log line to write.", Default: "info", kind: kindString, allowed: []string{"trace", "debug", "info", "warn", "error"}},
	{Name: "log.format", Help: "Log lines as text or json.", Default: "text", kind: kindString, allowed: []string{"text", "json"}},
	{Name: "socket.request.max.bytes", Help: "Largest request that a client may send, in bytes.", Default: "104857600", kind: kindInt, min: 1024, max: maxInt32},
	{Name: "connections.max.idle.ms", Help: "A client connection that is silent for longer is closed.", Default: "600000", kind: kindInt, min: 1000, max: maxInt32},
	{Name: "max.connections", Help: "Client connections that this node accepts at once.", Default: "20000", kind: kindInt, min: 1, max: maxInt32},

	{Name: "group.streams.session.timeout.ms", Help: "A member that is silent for longer is removed.", Default: "45000", kind: kindInt, min: 1, max: maxInt32},
	{Name: "group.streams.min.session.timeout.ms", Help: "Smallest session timeout.", Default: "45000", kind: kindInt, min: 1, max: maxInt32},
	{Name: "group.streams.max.session.timeout.ms", Help: "Largest session timeout.", Default: "60000", kind: kindInt, min: 1, max: maxInt32},
	{Name: "group.streams.heartbeat.interval.ms", Help: "How often members send heartbeats.", Default: "5000", kind: kindInt, min: 1, max: maxInt32},
	{Name: "group.streams.min.heartbeat.interval.ms", Help: "Smallest heartbeat interval.", Default: "5000", kind: kindInt, min: 1, max: maxInt32},
	{Name: "group.streams.max.heartbeat.interval.ms", Help: "Largest heartbeat interval.", Default: "15000", kind: kindInt, min: 1, max: maxInt32},
	{Name: "group.streams.heartbeat.hold.ms", Help: "How long the answer to a heartbeat without news may be held back, so that a change is told at once; -1: the heartbeat interval less 100 ms, at most 4900; 0: not at all.", Default: "-1", kind: kindInt, min: -1, max: 20000},
	{Name: "group.streams.rebalance.heartbeat.interval.ms", Help: "Heartbeat interval of members that cannot be held while they wait for tasks or others wait for them; 0: no other than usual.", Default: "500", kind: kindInt, min: 0, max: maxInt32},
	{Name: "group.streams.disconnect.timeout.ms", Help: "A member whose connection ended without a leave is removed after this time, two heartbeat intervals at least; 0: after its session timeout.", Default: "0", kind: kindInt, min: 0, max: maxInt32},
	{Name: "group.streams.max.size", Help: "Most members of one group.", Default: "2147483647", kind: kindInt, min: 1, max: maxInt32},
	{Name: "group.streams.num.standby.replicas", Help: "Standby copies of each stateful task.", Default: "0", kind: kindInt, min: 0, max: maxInt32},
	{Name: "group.streams.max.standby.replicas", Help: "Most standby copies that a group may ask for.", Default: "2", kind: kindInt, min: 0, max: maxInt32},
	{Name: "group.streams.num.warmup.replicas", Help: "Warm-up copies that a group may have at once.", Default: "2", kind: kindInt, min: 0, max: maxInt32},
	{Name: "group.streams.max.warmup.replicas", Help: "Most warm-up copies that a group may ask for.", Default: "20", kind: kindInt, min: 0, max: maxInt32},
	{Name: "group.streams.initial.rebalance.delay.ms", Help: "How long the first assignment of an empty group waits for more members.", Default: "3000", kind: kindInt, min: 0, max: maxInt32},
	{Name: "group.streams.assignment.interval.ms", Help: "Least time between two assignments of a group.", Default: "1000", kind: kindInt, min: 0, max: maxInt32},
	{Name: "group.streams.min.assignment.interval.ms", Help: "Smallest assignment interval.", Default: "0", kind: kindInt, min: 0, max: maxInt32},
	{Name: "group.streams.max.assignment.interval.ms", Help: "Largest assignment interval.", Default: "15000", kind: kindInt, min: 0, max: maxInt32},
	{Name: "group.streams.topology.grace.ms", Help: "How long a running group whose topics are missing or do not fit any more goes on with the partition counts of before; 0: not at all, as Kafka.", Default: "60000", kind: kindInt, min: 0, max: maxInt32},
	{Name: "group.streams.task.offset.interval.ms", Help: "How often members report positions of their tasks.", Default: "60000", kind: kindInt, min: 1, max: maxInt32},
	{Name: "group.streams.min.task.offset.interval.ms", Help: "Smallest task offset interval.", Default: "15000", kind: kindInt, min: 1, max: maxInt32},
	{Name: "group.streams.acceptable.recovery.lag", Help: "A copy of a task that is behind by no more records counts as caught up.", Default: "10000", kind: kindInt, min: 0, max: math.MaxInt64},
	{Name: "group.streams.assignors", Help: "Assignors that groups may choose; the first is the default.", Default: "sticky,highly_available,auto", kind: kindList, allowed: []string{"sticky", "highly_available", "auto"}},
	{Name: "group.streams.rack.aware.assignment.tags", Help: "Client tags over which standbys are spread.", Default: "", kind: kindList},
	{Name: "group.streams.rack.aware.assignment.strategy", Help: "Whether active tasks prefer members in the rack of their partitions' leaders: none, or min_traffic, as far as the balance allows it.", Default: "none", kind: kindString, allowed: rackStrategies},
	{Name: "group.streams.assignor.offload.enable", Help: "Compute the assignments of large groups beside the shard, so that heartbeats of all groups go on.", Default: "true", kind: kindBool},
	{Name: "group.streams.topology.update.policy", Help: "What starts a topology update of a group: epoch, that a member joins with the next topology epoch; latest, that it joins with a topology that is new to the group, whatever epoch it sends.", Default: "epoch", kind: kindString, allowed: topologyPolicies},
	{Name: "group.streams.topology.fence.older", Help: "Refuse new members that come with an earlier topology than their group's.", Default: "false", kind: kindBool},
	{Name: "group.streams.topology.description.plugin.class", Help: "Kafka's class for descriptions of topologies; must be empty, since coordd loads no classes.", Default: "", kind: kindString},
	{Name: "group.coordinator.rebalance.protocols", Help: "Protocols of groups, as in Kafka; those other than streams are the cluster's behind.", Default: "classic,consumer,streams", kind: kindList, allowed: []string{"classic", "consumer", "streams", "share"}},
	{Name: "offsets.retention.minutes", Help: "A group without members is deleted after so long.", Default: "10080", kind: kindInt, min: 1, max: maxInt32},
	{Name: "offsets.retention.check.interval.ms", Help: "How often groups without members are looked for.", Default: "600000", kind: kindInt, min: 1, max: math.MaxInt64},
	{Name: "offset.metadata.max.bytes", Help: "Longest metadata of a committed offset.", Default: "4096", kind: kindInt, min: 0, max: maxInt32},
}
