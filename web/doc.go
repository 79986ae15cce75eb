// Package web owns the admin port: health, metrics, and the state of the cluster and its groups as JSON, and the client
// with which the command line reads them and asks for changes: leaderships, topologies, offsets, imports. docs/cli.md
// lists the JSON fields; they stay.
//
// It must not know Raft, the wire of Kafka or how a group is stored; a node shows itself through [Cluster].
package web
