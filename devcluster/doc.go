// Package devcluster owns `coordd dev`: three nodes and an embedded Kafka (kfake) in one process. All of Raft is real and
// on disk. It is the only package of the product that imports kfake.
//
// It must not hold any behaviour of its own: what works here works in a cluster of `coordd serve`.
package devcluster
