// Package convergence owns the simulation of whole rebalances: processes of Streams threads with state on disk restore, tail and
// process their tasks in virtual time, and the decisions of coordinator/streams, made over an fsm.Group that evolves with
// their records, say who has which task. What a rebalance costs comes out as numbers: tasks that moved, records that were
// restored, the time in which nobody processed a task, group epochs. The table of
// docs/assignors.md is made here.
//
// A simulated client does what the Java client of Kafka 4.4 does (StreamsGroupHeartbeatRequestManager, TaskManager,
// DefaultStateUpdater): when it reports positions, and of which tasks, is in report_test.go.
//
// It must not know a real clock, goroutines, sockets, or an assignor from within.
package convergence
