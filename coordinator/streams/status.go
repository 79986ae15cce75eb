package streams

import (
	"fmt"
	"strings"

	"github.com/coordd/coordd/fsm/record"
)

// noStatus is the status of a response without any: clients take an absent list for "unchanged".
var noStatus = []Status{}

// respond fills the reply.
func (h *heartbeat) respond(d *Decision, next *record.CurrentAssignment) {
	s, r := h.env.Settings, &d.Reply
	r.MemberID, r.MemberEpoch = h.memberID, next.MemberEpoch
	r.HeartbeatIntervalMs, r.TaskOffsetIntervalMs = h.interval(d, next), s.TaskOffsetIntervalMs
	r.AcceptableRecoveryLag = s.AcceptableRecoveryLag
	r.Status = h.status()
	acknowledged := h.reported() && h.req.Active.SameTasks(next.Assigned.Active) &&
		h.req.Standby.SameTasks(next.Assigned.Standby) && h.req.Warmup.SameTasks(next.Assigned.Warmup)
	tell := h.tellTasks(next, acknowledged)
	again := !tell && h.repeatsTasks()
	tell = tell || again
	switch {
	case again && h.entry.repeats+1 >= maxRepeats:
		d.Soft.told = -1
	case tell && !acknowledged:
		d.Soft.told, d.Soft.repeated = h.env.Now, again
	case acknowledged && h.entry != nil && h.entry.toldAt != 0:
		d.Soft.told = -1
	}
	if tell {
		a := &next.Assigned
		r.Active, r.Standby, r.Warmup = a.Active.WithoutEpochs().NonNil(), a.Standby.NonNil(), a.Warmup.NonNil()
	}
	h.endpoints(d, next)
	h.holding(d, next, acknowledged)
}

// tellTasks decides whether the response lists the tasks: when they changed, and again until the member has them. It has
// not while it reports others, or comes with the epoch before: a response was lost, and Kafka would never repeat it.
func (h *heartbeat) tellTasks(next *record.CurrentAssignment, acknowledged bool) bool {
	switch {
	case h.joining() || h.behind():
		return true
	case next != h.current && !next.Assigned.Equal(h.current.Assigned):
		return true
	}
	return h.reported() && !acknowledged
}

// maxRepeats bounds how often the same tasks are told to a member that answers without a report: clients do not report
// what they have already. It is more than the requests of a member that may be on the way.
const maxRepeats = 3

// repeatsTasks says that the member has not acknowledged its tasks within a heartbeat interval: a request that came late,
// over a connection that the client gave up, may have changed them without the client's knowledge.
func (h *heartbeat) repeatsTasks() bool {
	return !h.joining() && !h.reported() && h.req.MemberEpoch == h.current.MemberEpoch &&
		h.entry != nil && h.entry.toldAt != 0 && h.env.Now-h.entry.toldAt >= int64(h.env.Settings.HeartbeatIntervalMs)
}

// status lists the group's conditions in Kafka's order.
func (h *heartbeat) status() []Status {
	list := noStatus
	if h.stale {
		list = append(list, Status{StatusStaleTopology, fmt.Sprintf(
			"The member's topology epoch %d is behind the group's topology epoch %d.", h.meta.TopologyEpoch, h.topology.Epoch)})
	}
	if h.delayed != "" {
		list = append(list, Status{StatusAssignmentDelayed, h.delayed})
	}
	if problem, ok := h.problemStatus(); ok {
		list = append(list, problem)
	}
	if who := h.shutdown(); who != "" {
		list = append(list, Status{StatusShutdownApplication, "Streams group member " + who +
			" encountered a fatal error and requested a shutdown for the entire application."})
	}
	if missing := h.missingTags(); missing != nil {
		list = append(list, Status{StatusMissingClientTags, "Missing required client tags for rack-aware standby assignment: [" +
			strings.Join(missing, ", ") + "]. Configure them via 'client.tag.<tagKey>' in your Streams config."})
	}
	return list
}

// shutdown is the member that asked for the application's shutdown first.
func (h *heartbeat) shutdown() string {
	switch {
	case marksOf(h.group).ShutdownBy != "":
		return h.group.Marks.ShutdownBy
	case h.req.ShutdownApplication:
		return h.memberID
	}
	return ""
}

// missingTags are the configured rack-aware tags that the member lacks. Clients of version 0 do not know the status
// and would fail on it.
func (h *heartbeat) missingTags() (missing []string) {
	if h.req.Version < 1 {
		return nil
	}
	for _, key := range h.env.Settings.RackAwareTags {
		found := false
		for i := range h.meta.ClientTags {
			found = found || h.meta.ClientTags[i].Key == key
		}
		if !found {
			missing = append(missing, key)
		}
	}
	return missing
}
