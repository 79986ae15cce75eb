// Package offsets owns the pure rules of committed offsets of streams groups: who may commit, fetch and delete
// (Kafka's OffsetMetadataManager and StreamsGroup.validateOffsetCommit), in either store; and of offsets in the shard's log
// which records a request makes, what a fetch shows of them, when they expire, and the copy by which they are compared when
// they go from one store to the other. The steps of such a move, and when the upstream is asked, are the shard's business. DESIGN.md
// tells the reasons.
//
// It must not know sockets, disks, clocks, random numbers, loggers or the wire.
package offsets
