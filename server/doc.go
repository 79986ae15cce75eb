// Package server owns one coordd node: it makes the node from its parts and knows the order in which they start and
// stop. It turns the step machine of each shard into something that runs (one owner at a time, timers, Raft, the
// upstream), and answers the gateway's and the admin port's questions about shards, nodes and groups. It keeps what all
// nodes share in the system shard: who the nodes are (system.go) and the settings of groups (groupconfigs.go).
//
// It must not decide anything about groups; that is the business of coordinator and its sub-packages.
package server
