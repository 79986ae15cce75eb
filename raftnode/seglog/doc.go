// Package seglog owns the log entries of all raft groups of one node: one append-only log in segment files, shared by
// the groups, in which all that waits to be written at one moment costs one write and one fdatasync. Each group sees
// its entries as a raft.LogStore.
//
// What it promises:
//   - what was acknowledged is on disk and is there after a crash at any moment;
//   - what was acknowledged as deleted from the end of a group's log does not come back;
//   - a damaged file is told, with its name and the place, and never read as a shorter log, unless the damage cannot be
//     told from a write that a crash interrupted;
//   - after a failed write or fdatasync nothing is written any more until the log is opened again;
//   - the space on disk is bounded by what the groups keep.
//
// It must not know terms and votes (they are elsewhere, see raftnode) nor what an entry means. DESIGN.md tells the format
// of the files, the reasons and the bounds.
package seglog
