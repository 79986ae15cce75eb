package streams

import (
	"fmt"
	"strings"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
)

// copyNews is what a decision finds in reports that calls for the next target, and what it notes of it.
type copyNews struct {
	causes CauseKind
	detail []string
	copies copies
	epoch  int32 // that would be raised
	// quiet says that the next target will be made with all that was reported anyway: nothing is to be raised.
	quiet bool
	line  lineage
	// marks and restoring are for the soft state.
	marks     []warmupMark
	restoring []restoringMark
	// again says that the warm-ups are to be looked at once more when nothing will have been reported for too long.
	again bool
}

// maxCopyDetails is how many tasks an explanation names.
const maxCopyDetails = 3

func (n *copyNews) raise(why CauseKind, detail string) {
	n.causes |= why
	if len(n.detail) < maxCopyDetails {
		n.detail = append(n.detail, detail)
	}
}

// explained says what was found, for people.
func (n *copyNews) explained() string { return strings.Join(n.detail, "; ") }

// stale says whether the member can get nothing.
func (n *copyNews) stale(m *fsm.Member) bool { return n.line.stale(metaOf(m).TopologyEpoch) }

// look looks at a warm-up of a member.
func (n *copyNews) look(m *fsm.Member, w warmup) {
	records, known := n.copies.behind(m, w.Task)
	switch {
	case !waits(m, w.Task) || n.stale(m) || n.copies.away(m): // it is looked at again when the member is back
	case w.ready && n.copies.far(m, w.Task): // more is known of it now
		n.again = true
		n.mark(m, warmup{Task: w.Task})
	case w.ready:
		if !n.quiet && !raisedBefore(n.copies.group, w.raised) {
			w.raised = n.epoch
			n.mark(m, w)
			n.raise(CauseWarmup, fmt.Sprintf("it is not known how far behind warm-up %s on %s is", taskText(w.Task), m.ID))
		}
	case w.stalled && n.copies.far(m, w.Task):
		switch offset, _ := n.copies.offset(m, w.Task); {
		case offset != w.at:
			n.again = true
			n.mark(m, warmup{Task: w.Task})
		case !n.quiet && !raisedBefore(n.copies.group, w.raised):
			w.raised = n.epoch
			n.mark(m, w)
			n.raise(CauseStalled, fmt.Sprintf("warm-up %s on %s stays at %d of %d records", taskText(w.Task), m.ID, offset, n.copies.leastEnd(w.Task)))
		}
	case w.stalled:
		n.again = true
		n.mark(m, warmup{Task: w.Task})
		n.look(m, warmup{Task: w.Task})
	case known && records <= n.copies.lag:
		if !n.quiet && !raisedBefore(n.copies.group, w.raised) {
			w.raised = n.epoch
			n.mark(m, w)
			n.raise(CauseWarmup, fmt.Sprintf("warm-up %s on %s is %d records behind", taskText(w.Task), m.ID, records))
		}
	case w.raised != 0:
		w.raised = 0
		n.mark(m, w)
	}
}

func (n *copyNews) mark(m *fsm.Member, w warmup) {
	n.marks = append(n.marks, warmupMark{m.ID, w})
}

// lookRestoring looks at a task whose owner has lost its state.
func (n *copyNews) lookRestoring(owner *fsm.Member, t topology.Task, r restoring) {
	if n.quiet || raisedBefore(n.copies.group, r.raised) || away(owner) ||
		!currentOf(owner).Assigned.Active.Contains(t) || !targetOf(owner).Assignment.Active.Contains(t) {
		return
	}
	if m := n.replicaHolder(owner, t); m != nil {
		r.raised = n.epoch
		n.restoring = append(n.restoring, restoringMark{t, &r})
		n.raise(CauseStateLost, fmt.Sprintf("%s has to restore %s, which %s has", owner.ID, taskText(t), m.ID))
	}
}

// replicaHolder is a member of another process than the owner's that holds a caught-up copy of the task and could run it; nil
// where there is none. What is behind the end that the holders tell needs no look at the reports of all members.
func (n *copyNews) replicaHolder(owner *fsm.Member, t topology.Task) *fsm.Member {
	c := &n.copies
	if !c.group.HasReplica(t) {
		return nil
	}
	end, _ := c.holdersEnd(t)
	for _, m := range c.holders(t) {
		if metaOf(m).ProcessID == metaOf(owner).ProcessID || c.away(m) || n.stale(m) || currentOf(m).Assigned.Active.Contains(t) {
			continue
		}
		if offset, ok := c.offset(m, t); ok && end-offset <= c.lag && c.caughtUp(m, t) {
			return m
		}
	}
	return nil
}

// warmupMark replaces what is known of a warm-up.
type warmupMark struct {
	member string
	warmup
}

// restoringMark replaces what is known of an active task; nil: its state is there.
type restoringMark struct {
	task topology.Task
	now  *restoring
}

// warmup is what is known of a member's warm-up.
func (m *SoftMember) warmup(t topology.Task) warmup {
	if m != nil {
		for i := range m.warmups {
			if m.warmups[i].Task == t {
				return m.warmups[i]
			}
		}
	}
	return warmup{Task: t}
}

// noticeCopies looks at what the member reports of its copies: whether it makes a warm-up caught up, its own or another's, or
// tells of a state that is lost.
func (h *heartbeat) noticeCopies(d *Decision) {
	if h.soft == nil || !h.known || h.offsets.tasks == nil && h.offsets.ends == nil && !h.mute() || !usesWarmups(&h.env) ||
		!h.topics.Configured.Ready() || h.hard == nil {
		return
	}
	n := h.copyNews()
	if h.mute() {
		// It got the warm-up before it was known what it speaks.
		for t := range h.current.Assigned.Warmup.All() {
			w := h.entry.warmup(t)
			w.ready = true
			n.look(h.hard, w)
		}
	}
	if h.offsets.tasks != nil || h.offsets.ends != nil {
		h.noticeLost(n)
		h.noticeCaughtUp(n)
		h.noticeProgress(n)
	}
	if due := h.env.Now + warmupPatience(h.env.Settings); n.again {
		d.Soft.Warmup = earlier(h.soft.WarmupDue, due)
	}
	d.Soft.warmupMarks, d.Soft.restoring = n.marks, n.restoring
	d.Soft.processes, d.Soft.processesOf = n.copies.processes, h.group
	h.restoring = n.restoring
	h.causes |= n.causes
	h.copyDetail = n.explained()
}

// mute says that nothing is ever reported of the warm-ups that the member has.
func (h *heartbeat) mute() bool { return h.req.Version < 1 && !h.current.Assigned.Warmup.IsEmpty() }

func (h *heartbeat) copyNews() *copyNews {
	epoch := h.group.Epoch()
	return &copyNews{
		copies: copies{group: h.group, soft: h.soft, lag: h.env.Settings.AcceptableRecoveryLag, self: h.memberID, own: h.reports()},
		epoch:  epoch + 1, quiet: h.causes != 0 || assignmentEpoch(h.group) < epoch, line: h.line,
	}
}

// noticeCaughtUp looks at the warm-ups of which the member says, or said before, anything.
func (h *heartbeat) noticeCaughtUp(n *copyNews) {
	before := h.soft.offsets(h.memberID)
	for t := range reportedTasks(n.copies.own.tasks, n.copies.own.ends, before.tasks, before.ends) {
		if !h.group.HasReplica(t) {
			continue
		}
		if h.group.HasWarmup(t) {
			h.lookAtHolders(n, t)
		}
		if r, ok := h.soft.restoring[t]; ok && r.member != h.memberID {
			if owner := h.group.Member(r.member); owner != nil {
				n.lookRestoring(owner, t, r)
			}
		}
	}
}

// noticeProgress forgets what made no progress when it was a warm-up, and gets on as another copy.
func (h *heartbeat) noticeProgress(n *copyNews) {
	if h.entry == nil {
		return
	}
	for _, w := range h.entry.warmups {
		if w.stalled && !h.current.Assigned.Warmup.Contains(w.Task) {
			if offset, ok := reported(n.copies.own.tasks, w.Task); ok && offset > w.at {
				n.mark(h.hard, warmup{Task: w.Task})
			}
		}
	}
}

func (h *heartbeat) lookAtHolders(n *copyNews, t topology.Task) {
	for _, m := range n.copies.holders(t) {
		if currentOf(m).Assigned.Warmup.Contains(t) {
			n.look(m, h.soft.Members[m.ID].warmup(t))
		}
	}
}

// noticeLost compares what the member reports of the active tasks that it runs with what it needs, and with what it reported
// before. An end that others have reported is of an earlier time: the member is no less behind than that.
func (h *heartbeat) noticeLost(n *copyNews) {
	if h.offsets.tasks == nil {
		return // an end alone may be newer than the offset
	}
	before := h.soft.offsets(h.memberID)
	for t := range h.current.Assigned.Active.All() {
		r, known := h.soft.restoring[t]
		if !known || r.member != h.memberID {
			r, known = restoring{member: h.memberID}, false
		}
		offset, ok := reported(n.copies.own.tasks, t)
		if !ok {
			if known { // clients report no offset of a task that runs
				n.restoring = append(n.restoring, restoringMark{task: t})
			}
			continue
		}
		last, _ := reported(before.tasks, t)
		end, ok := reported(n.copies.own.ends, t)
		if h.offsets.ends == nil || !ok { // the end may be of long ago
			r.had = max(r.had, last)
			end, ok = max(end, r.had), ok || known || last-offset > n.copies.lag
			if h.group.HasReplica(t) {
				if other, told := n.copies.holdersEnd(t); told {
					end, ok = max(end, other), true
				}
			}
		}
		switch lost := ok && end-offset > n.copies.lag; {
		case ok && !lost && known:
			n.restoring = append(n.restoring, restoringMark{task: t})
		case lost && !known:
			n.restoring = append(n.restoring, restoringMark{t, &r})
			fallthrough
		case known:
			n.lookRestoring(h.hard, t, r)
		}
	}
}
