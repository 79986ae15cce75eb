// Package sim holds the test of the whole cluster in virtual time (testing/synctest): three nodes with real
// hashicorp/raft and the real gateway on a network in memory, an upstream in memory that fences as Kafka does, and
// simulated members that speak Kafka's protocol as the Java client does, under a seeded sequence of faults. An observer
// compares what members were told with what was committed.
//
// There is nothing in it but tests. It must not reach into a node beyond what server shows.
package sim
