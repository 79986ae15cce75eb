package streams

import (
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// noMarks are the marks of a group that has none.
var noMarks record.GroupMarks

// marksOf are the group's marks: what must survive a failover although Kafka keeps it in memory only.
func marksOf(g *fsm.Group) *record.GroupMarks {
	if g == nil || g.Marks == nil {
		return &noMarks
	}
	return g.Marks
}

// putMarks emits the marks where they change. Marks that are all zero are deleted, so that a group in normal life has
// none.
func (d *Decision) putMarks(g *fsm.Group, groupID string, marks record.GroupMarks) {
	if marks == *marksOf(g) {
		return
	}
	r := record.Record{Key: record.Key{Type: record.TypeGroupMarks, Group: groupID}}
	if marks != noMarks {
		r.Value = &marks
	}
	d.Records = append(d.Records, r)
}

// mark emits what the heartbeat changes of the marks: the first member ends the time of emptiness and may have started
// the initial delay, and the first wish to shut the application down is kept.
func (h *heartbeat) mark(d *Decision) {
	first := numMembers(h.group) == 0
	// In Kafka the group is empty for a moment, which ends the wish, while its only member is replaced.
	only := h.replaced != nil && numMembers(h.group) == 1
	if !first && !only && !h.req.ShutdownApplication {
		return
	}
	marks := *marksOf(h.group)
	if only {
		marks.ShutdownBy = ""
	}
	if first {
		marks.EmptySinceMs, marks.DelayUntilMs = 0, h.delayUntil(d)
	}
	if h.req.ShutdownApplication && marks.ShutdownBy == "" {
		marks.ShutdownBy = h.memberID
	}
	d.putMarks(h.group, h.groupID, marks)
}

// markShutdown keeps the wish of a member that leaves, unless another member asked before or nobody is left to shut down.
func (d *Decision) markShutdown(g *fsm.Group, member string) {
	if marks := *marksOf(g); marks.ShutdownBy == "" && g.NumMembers() > 0 {
		marks.ShutdownBy = member
		d.putMarks(g, g.ID, marks)
	}
}

// markEmpty notes that the last member is gone. A shutdown request ends with it; an initial delay goes on, as in Kafka.
func (d *Decision) markEmpty(g *fsm.Group, now int64) {
	marks := record.GroupMarks{EmptySinceMs: now}
	if until := marksOf(g).DelayUntilMs; until > now {
		marks.DelayUntilMs = until
	}
	d.putMarks(g, g.ID, marks)
}
