// Package raftnode owns replication: many groups of hashicorp/raft in one process over one port, their log, stable and
// snapshot stores below one data folder, leadership (who leads, proof of leadership, transfer, spread over the nodes)
// and the port itself, which other protocols between nodes may share.
//
// What it promises on top of the library:
//   - a proposal is answered exactly once, and "not started" is told apart from "outcome unknown";
//   - a proposal made on the strength of one term is never applied when it was logged in another;
//   - leadership is announced only after a barrier of the term, so that the state is complete;
//   - what a start reads again, and what stays in the log, is bounded in bytes and not only in entries;
//   - a leader that cannot do its work gives leadership up by itself, in this process and without a restart.
//
// The data folder of a node:
//
//	LOCK              who has it open
//	node.json         node id, peers and number of groups that it was formed with
//	log/              the entries of all groups, see package seglog
//	group-NNN/raft.db a group's term and vote (bolt)
//	group-NNN/snapshots/
//
// It must not know what an entry means: that is the FSM's business. It and seglog below it are
// the only packages that import hashicorp/raft.
package raftnode
