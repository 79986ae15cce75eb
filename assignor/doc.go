// Package assignor owns the assignment of tasks to members: pure functions from a specification to an assignment; the
// same input gives the same output on any node.
//
// It must not know sockets, disks, clocks, random numbers, loggers, or how a group is stored.
package assignor
