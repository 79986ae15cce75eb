// Package fsm owns the hard state of a shard: immutable values of streams groups that are rebuilt from the records of
// KIP-1071 by Evolve, the only mutator, used alike for live operation, replay and snapshots.
//
// It must not know sockets, disks, clocks, random numbers or loggers.
package fsm
