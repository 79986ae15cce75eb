// Package raftnode owns replication: many groups of hashicorp/raft in one process over one port, their log, stable and
// snapshot stores below one data folder, leadership (who leads, proof of leadership, transfer, spread over the nodes)
// and the port itself, which other protocols between nodes may share.
//
// What it promises on top of the library:
//   - a proposal is answered exactly once, and "not started" is told apart from "outcome unknown";
//   - a proposal made on the strength of one term is never applied when it was logged in another;
//   - leadership is announced only after a barrier of the term, so that the state is complete;
//   - a leader that cannot do its work gives leadership up by itself, in this process and without a restart.
//
// It must not know what an entry means: that is the FSM's business. It is the only package that imports hashicorp/raft.
package raftnode
