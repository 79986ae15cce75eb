// Package topology owns the pure model of a Kafka Streams topology as KIP-1071 defines it: tasks and task sets,
// subtopologies, copartition groups, the partition counts of internal topics, and the metadata hash.
//
// It must not know sockets, disks, clocks, random numbers or loggers; topic metadata comes in through [Metadata].
package topology
