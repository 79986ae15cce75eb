// Package coordinator owns what the decisions of all group protocols share: error codes, the client behind a request,
// and the effective settings of a group. Decisions are pure: time, settings, topic metadata and assignors come in as
// arguments. The sub-packages hold the decisions (streams, offsets) and the step machine of a shard (shard).
//
// It must not know sockets, disks, clocks, random numbers, loggers or the wire.
package coordinator
