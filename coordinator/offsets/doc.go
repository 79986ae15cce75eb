// Package offsets owns the pure rules of committed offsets of streams groups: who may commit, fetch and delete
// (semantics.md §12). Where offsets are stored is not its business.
//
// It must not know sockets, disks, clocks, random numbers, loggers or the wire.
package offsets
