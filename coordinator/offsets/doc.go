// Package offsets owns the pure rules of committed offsets of streams groups: who may commit, fetch and delete
// (Kafka's OffsetMetadataManager and StreamsGroup.validateOffsetCommit). Where offsets are stored is not its business.
//
// It must not know sockets, disks, clocks, random numbers, loggers or the wire.
package offsets
