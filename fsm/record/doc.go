// Package record owns the record types of the replicated log and their codecs: Kafka's StreamsGroup* and OffsetCommit
// records (byte-compatible, semantics of StreamsGroup*.json and OffsetCommit*.json in kafka group-coordinator 4.4), the
// project's own record types, and the envelope of a log entry. Records of other types, such as 18 of early drafts, are
// skipped when they are read.
//
// Own record types, never reused:
//
//	1000 OffsetsClaim   the group's offsets are kept upstream under the static member "coordd"
//	1001 Node           a coordd node of the cluster (system shard)
//	1002 BrokerSlot     the port slot of an upstream broker (system shard)
//	1003 Cluster        cluster-wide facts fixed at formation (system shard)
//	1004 GroupConfig    the settings of one group, which may not exist (system shard)
//	1005 JournalEntry   why a group rebalanced: causes, moved tasks, times (the newest JournalSlots of each group)
//	1006 GroupMarks     shutdown request, end of the initial delay, and since when a group is empty
//	1007 GroupTopics    partition counts that the group was configured with last, and since when its topics do not fit them
//	1008 TopologyVersion a topology that a group has or had, by topology epoch
//	1009 OffsetsStore   where the group's committed offsets are kept, upstream without the record; and whether a move left some upstream that do not count
package record
