package streams

import (
	"maps"
	"slices"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// minPatienceMs bounds how often warm-ups are looked at.
const minPatienceMs = 1000

// warmupPatience is for how long nothing need be reported of a warm-up, in milliseconds.
func warmupPatience(s *coordinator.GroupSettings) int64 {
	return max(minPatienceMs, unreportedIntervals*int64(s.TaskOffsetIntervalMs))
}

// noteWarmups keeps since when the member has its warm-ups, and forgets what it lost of tasks that it gives up, or under an
// assignor that does not look at it.
func (h *heartbeat) noteWarmups(d *Decision, next *record.CurrentAssignment) {
	if h.soft != nil && len(h.soft.restoring) > 0 && !usesWarmups(&h.env) {
		for t, r := range h.soft.restoring {
			if r.member == h.memberID {
				d.Soft.restoring = append(d.Soft.restoring, restoringMark{task: t})
			}
		}
	} else if next != h.current && h.soft != nil && len(h.soft.restoring)+len(h.restoring) > 0 {
		for t := range h.current.Assigned.Active.All() {
			r, lost := h.soft.restoring[t]
			if (!lost || r.member == h.memberID) && !next.Assigned.Active.Contains(t) {
				d.Soft.restoring = append(d.Soft.restoring, restoringMark{task: t})
			}
		}
	}
	tasks := next.Assigned.Warmup
	if next != h.current && d.Soft.warmupMarks != nil {
		d.Soft.warmupMarks = slices.DeleteFunc(d.Soft.warmupMarks, func(w warmupMark) bool {
			return w.member == h.memberID && !tasks.Contains(w.Task)
		})
	}
	switch {
	case next == h.current && !h.joining():
		return
	case tasks.IsEmpty() && (h.entry == nil || h.entry.warmups == nil):
		return
	}
	list := make([]warmup, 0, tasks.Len())
	fresh, soon := false, false
	for t := range tasks.All() {
		w := h.entry.warmup(t)
		at, _ := reported(h.reports().tasks, t)
		switch {
		case w.since == 0 || h.joining():
			w = warmup{Task: t, since: h.env.Now, at: at}
			// Of a standby that has become one, and of one whose member is back, it may be known already that it is caught up.
			fresh, soon = true, soon || h.replaced != nil || h.current.Assigned.Standby.Contains(t)
		case w.stalled && !h.current.Assigned.Warmup.Contains(t): // it has its turn again
			w.at = at
		}
		list = append(list, w)
	}
	if h.entry != nil && !h.joining() {
		for _, w := range h.entry.warmups {
			if w.stalled && !tasks.Contains(w.Task) && !next.Assigned.Active.Contains(w.Task) {
				list = append(list, w)
			}
		}
	}
	d.Soft.warmups, d.Soft.warmupsChanged = list, true
	due := h.env.Now + warmupPatience(h.env.Settings)
	if soon {
		due = h.env.Now + minPatienceMs
	}
	if fresh && (h.soft == nil || h.soft.WarmupDue == 0 || due < h.soft.WarmupDue) {
		d.Soft.Warmup = due
	}
}

// applyCopies makes the part of a change that concerns copies of tasks.
func (s *Soft) applyCopies(c *SoftChange) {
	if c.processes != nil {
		s.processes, s.processesOf = c.processes, c.processesOf
	}
	if c.warmupsChanged {
		if m := s.Members[c.Member]; m != nil {
			m.warmups = c.warmups
		}
	}
	for _, mark := range c.warmupMarks {
		m := s.Members[mark.member]
		if m == nil {
			continue
		}
		// The list is that of whoever looks at it: an outcome of a snapshot may be on its way.
		m.warmups = slices.Clone(m.warmups)
		i := slices.IndexFunc(m.warmups, func(w warmup) bool { return w.Task == mark.Task })
		switch {
		case i >= 0:
			m.warmups[i] = mark.warmup
		default:
			m.warmups = append(m.warmups, mark.warmup)
		}
	}
	for _, mark := range c.restoring {
		if mark.now == nil {
			delete(s.restoring, mark.task)
			continue
		}
		if s.restoring == nil {
			s.restoring = map[topology.Task]restoring{}
		}
		s.restoring[mark.task] = *mark.now
	}
}

// isBack has the copies looked at soon of which nobody is told while the member is away. What was raised for them may be computed
// as of then.
func (s *Soft) isBack(m *SoftMember, now int64) {
	m.DisconnectDeadline = 0
	m.warmups = slices.Clone(m.warmups)
	for i := range m.warmups {
		m.warmups[i].raised = 0
	}
	for t, r := range s.restoring {
		r.raised = 0
		s.restoring[t] = r
	}
	if len(m.warmups)+len(s.restoring) > 0 {
		s.WarmupDue = earlier(s.WarmupDue, now+minPatienceMs)
	}
}

// Heard notes that a member is alive whose heartbeat cannot be decided yet.
func (s *Soft) Heard(member string, now, deadline int64) {
	if m := s.Members[member]; m != nil {
		m.SessionDeadline = deadline
		if m.disconnected() {
			s.isBack(m, now)
		}
	}
}

// forgetRestoring forgets what a member has to restore, who is gone.
func (s *Soft) forgetRestoring(member string) {
	for t, r := range s.restoring {
		if r.member == member {
			delete(s.restoring, t)
		}
	}
}

// tickWarmups looks at all warm-ups of the group, and at what is being restored: what was reported while a target was computed
// was not looked at, and of some warm-ups it may not have been reported for too long how far behind they are. A client
// never tells that of a copy for which it has found nothing to restore, as in an app that has nothing to do.
func tickWarmups(g *fsm.Group, soft *Soft, env *Env, d *Decision) *copyNews {
	n := &copyNews{
		copies: copies{group: g, soft: soft, lag: env.Settings.AcceptableRecoveryLag},
		epoch:  g.Epoch() + 1, quiet: assignmentEpoch(g) < g.Epoch(), line: lineageOf(g),
	}
	if !usesWarmups(env) || soft.Topics == nil || !soft.Topics.Configured.Ready() {
		// With another assignor, or with topics that fit, a new target is computed anyway.
		d.Soft.Warmup = -1
		for m := range g.Members() {
			if !currentOf(m).Assigned.Warmup.IsEmpty() {
				d.Soft.Warmup = env.Now + warmupPatience(env.Settings)
				break
			}
		}
		return n
	}
	d.Soft.Warmup = -1
	for m := range g.Members() {
		if !currentOf(m).Assigned.Warmup.IsEmpty() && !n.stale(m) {
			n.tick(m, env, d)
		}
	}
	for _, t := range slices.SortedFunc(maps.Keys(soft.restoring), topology.Task.Compare) {
		if owner := g.Member(soft.restoring[t].member); owner != nil {
			n.lookRestoring(owner, t, soft.restoring[t])
		}
	}
	d.Soft.warmupMarks, d.Soft.restoring = n.marks, n.restoring
	return n
}

// tick looks at the warm-ups of a member.
func (n *copyNews) tick(m *fsm.Member, env *Env, d *Decision) {
	patience := warmupPatience(env.Settings)
	waiting := n.waiting(m)
	var unreported []topology.Task
	for t := range currentOf(m).Assigned.Warmup.All() {
		w := n.copies.soft.Members[m.ID].warmup(t)
		if !waits(m, t) {
			continue
		}
		offset, told := n.copies.offset(m, t)
		due, far := env.Now+patience, n.copies.far(m, t)
		switch _, known := n.copies.behind(m, t); {
		case w.ready && far: // as look notes
		case w.ready:
			due = 0
		case known && !far:
		case w.since == 0 || waiting || told && offset != w.at:
			w.since, w.at = env.Now, offset
			n.mark(m, w)
			if waiting {
				due = env.Now + max(minPatienceMs, patience/8)
			}
		case env.Now < w.since+patience:
			due = w.since + patience
		case w.stalled:
			due = 0 // until something else is reported
		case far && n.quiet: // a target may be under way that does not know it
			due = env.Now + minPatienceMs
		case far:
			w.stalled, w.raised, due = true, 0, 0
			n.mark(m, w)
			d.Effects = append(d.Effects, WarmupStalled{m.ID, t, offset, n.copies.leastEnd(t), patience})
		default:
			w.ready, due = true, 0
			n.mark(m, w)
			unreported = append(unreported, t)
		}
		n.look(m, w)
		if w.ready && n.quiet { // the target that is due may be one of before
			due = env.Now + minPatienceMs
		}
		if due != 0 {
			d.Soft.Warmup = earlier(max(0, d.Soft.Warmup), due)
		}
	}
	if unreported != nil {
		d.Effects = append(d.Effects, WarmupUnreported{Member: m.ID, Tasks: topology.NewTasks(unreported...), AfterMs: patience})
	}
}

// waiting says that nothing can be known of the member's warm-ups yet: it is away, has not acknowledged its tasks, or restores
// active tasks, which comes first.
func (n *copyNews) waiting(m *fsm.Member) bool {
	soft := n.copies.soft.Members[m.ID]
	return n.copies.away(m) || soft != nil && soft.toldAt != 0 || n.copies.restores(m)
}
