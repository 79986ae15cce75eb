// Package streams owns the decisions of a streams group (KIP-1071): join, heartbeat, leave, expiry, reconciliation,
// target assignment and description, one file each. A decision reads a group and returns records, a reply, changes of
// soft state and effects; it changes nothing itself.
//
// It must not know sockets, disks, clocks, random numbers, loggers or the wire.
package streams
