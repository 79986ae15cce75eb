// Package streams owns the decisions of a streams group (KIP-1071): join, heartbeat, leave, expiry, reconciliation,
// target assignment and description, one file each. A decision reads a group and returns records, a reply, changes of
// soft state and effects; it changes nothing itself. heartbeat.go has the order of the steps of a heartbeat; fencing is in
// member.go and static.go, what may be held back in hold.go, deadlines in soft.go, updates of the topology in update.go, lineage.go
// and stale.go, topics that do not fit any more in grace.go, which copies of tasks are caught up or lost in copies.go, copynews.go and
// warmup.go, and what a change would move, which is no decision, in plan.go.
//
// Answers are those of Kafka 4.4 (GroupMetadataManager and its helpers), but for what ends an application or leaves it
// stuck there:
//   - task lists are repeated until the member has them (tellTasks);
//   - a regular heartbeat to a group that does not exist is answered UNKNOWN_MEMBER_ID, after which the member joins;
//   - a static member may repeat its join;
//   - a report of tasks that the member was given is never refused (checkOwned);
//   - the assignment interval delays nobody who has tasks, and a timer computes the target;
//   - removed members leave the endpoint list, which tells what can be resolved where topics are missing;
//   - an assignor's result is checked, and a bad one changes nothing.
//
// It must not know sockets, disks, clocks, random numbers, loggers or the wire.
package streams
