// Package shard owns the step machine of one shard: it takes inputs (calls, leadership, commit results, timers) one at
// a time, asks the decisions of streams and offsets, keeps one log entry in flight, parks replies until what they show
// is committed, and hands effects to its [Host]. It has no goroutine of its own; whoever steps it owns it.
//
// It must not know sockets, disks, clocks, random numbers, loggers, Raft or the wire.
package shard
