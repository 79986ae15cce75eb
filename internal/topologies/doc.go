// Package topologies holds topologies with the partition counts, tasks and problems that the rules of KIP-1071 and of Kafka give
// them, worked out by hand. The tests of sizing go by them, and so does the comparison with a real Kafka.
package topologies
