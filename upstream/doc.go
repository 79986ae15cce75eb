// Package upstream owns coordd's own connections to the Kafka cluster behind it: topic metadata and creation (as a
// topicctl.Source), the question whether a group id is in use there, and the offsets of streams groups that are kept
// there ([Offsets]). It also tells the racks of partitions' leaders (as topology.Leaders), which are no part of the topics'
// metadata, whether topics are there that are asked for by name, where logs start and end, and for moves of apps what the upstream's
// own coordinator has of a group (as a coordinator.Origin). It is the only package that uses the Kafka client library.
//
// It must not know shards, Raft, client connections or how groups decide.
package upstream
