// Package histories checks what clients saw of committed offsets: that each group and partition is one register which is
// read and written atomically, that only who has the task writes it, and that a commit which was acknowledged is never lost.
// Clients of its own, members that are told to leave, crash or stand still and go on committing as before, and readers, put a
// cluster under load and write the history down. DESIGN.md says what is checked, and why that is exact.
//
// It knows a cluster by Kafka's protocol only: who uses it brings connections and faults, in virtual time or to processes.
// Time is what package time says. It is for tests, and reaches into no node.
package histories
