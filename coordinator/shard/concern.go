package shard

import (
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// view is what of a group concerns every member. A group whose view has changed is decided again for all that are held.
type view struct {
	epoch, assigned, validated, endpoints int32
	stable, shutdown                      bool
	delay                                 int64
}

func viewOf(g *fsm.Group, soft *streams.Soft) view {
	v := view{epoch: g.Epoch(), assigned: g.AssignmentEpoch(), stable: streams.StateOf(g) == streams.StateStable}
	if g.Metadata != nil {
		v.validated = g.Metadata.ValidatedTopologyEpoch
	}
	v.shutdown = g.Marks != nil && g.Marks.ShutdownBy != ""
	v.delay = soft.InitialDelayUntil
	if v.stable { // until then nobody is told of endpoints
		v.endpoints = soft.EndpointEpoch
	}
	return v
}

// await lists the tasks that the member's target has and the member has not.
func (m *Machine) await(h *held, g *fsm.Group) {
	m.awaitNothing(h)
	member := g.Member(h.request.MemberID)
	if member == nil || member.Current == nil || member.Target == nil {
		return
	}
	have, want := &member.Current.Assigned, &member.Target.Assignment
	if have.SameTasks(*want) {
		return
	}
	e := h.group
	for _, role := range [...][2]topology.Tasks{{want.Active, have.Active}, {want.Standby, have.Standby}, {want.Warmup, have.Warmup}} {
		for task := range role[0].All() {
			if role[1].Contains(task) {
				continue
			}
			if e.waits == nil {
				e.waits = map[topology.Task][]*held{}
			}
			e.waits[task] = append(e.waits[task], h)
			h.waits = append(h.waits, task)
		}
	}
}

func (m *Machine) awaitNothing(h *held) {
	for _, task := range h.waits {
		list := h.group.waits[task]
		for i, other := range list {
			if other == h {
				list[i] = list[len(list)-1]
				list = list[:len(list)-1]
				break
			}
		}
		if len(list) == 0 {
			delete(h.group.waits, task)
		} else {
			h.group.waits[task] = list
		}
	}
	h.waits = nil
}

// look has a held heartbeat decided again soon.
func (m *Machine) look(h *held) {
	if !h.listed {
		h.listed = true
		m.kept.due = append(m.kept.due, h)
	}
}

// lookAll has all held heartbeats of a group decided again soon.
func (m *Machine) lookAll(e *group) {
	for _, h := range e.held {
		m.look(h)
	}
}

// softSeen has the held members of a group looked at when its soft state has something new for all.
func (m *Machine) softSeen(e *group) {
	if len(e.held) == 0 {
		return
	}
	s := e.soft
	if e.seen.stable && s.EndpointEpoch != e.seen.endpoints || s.InitialDelayUntil != e.seen.delay {
		e.seen.delay = s.InitialDelayUntil
		if e.seen.stable {
			e.seen.endpoints = s.EndpointEpoch
		}
		m.lookAll(e)
	}
}

// heldAfter finds whom a committed batch concerns: all that are held of a group whose view changed, else those that wait
// for a task that was released.
func (m *Machine) heldAfter(before fsm.State, b *batch) {
	if len(m.kept.byHolder) == 0 {
		return
	}
	for _, id := range b.order {
		e, g := m.groups[id], m.committed.Group(id)
		if e == nil || len(e.held) == 0 || g == nil {
			continue
		}
		if v := viewOf(g, e.soft); v != e.seen {
			e.seen = v
			m.lookAll(e)
		}
	}
	for i := range b.records {
		k := &b.records[i].Key
		if e := m.groups[k.Group]; k.Type == record.TypeCurrentAssignment && e != nil && len(e.waits) > 0 {
			m.lookAtReleased(e, current(before, k), current(m.committed, k))
		}
	}
}

func current(s fsm.State, k *record.Key) *record.CurrentAssignment {
	if g := s.Group(k.Group); g != nil {
		if m := g.Member(k.Member); m != nil && m.Current != nil {
			return m.Current
		}
	}
	return &record.CurrentAssignment{}
}

// lookAtReleased looks at who waits for a task that a member had in some role and has not any more.
func (m *Machine) lookAtReleased(e *group, before, after *record.CurrentAssignment) {
	for role, had := range [...]topology.Tasks{
		before.Assigned.Active, before.Assigned.Standby, before.Assigned.Warmup,
		before.Revoking.Active, before.Revoking.Standby, before.Revoking.Warmup,
	} {
		has := [...]*topology.Assignment{&after.Assigned, &after.Revoking}
		for task := range had.All() {
			waiting := e.waits[task]
			if len(waiting) == 0 || inRole(has[0], role%3, task) || inRole(has[1], role%3, task) {
				continue
			}
			for _, h := range waiting {
				m.look(h)
			}
		}
	}
}

func inRole(a *topology.Assignment, role int, t topology.Task) bool {
	return [...]topology.Tasks{a.Active, a.Standby, a.Warmup}[role].Contains(t)
}

func decideTopics(m *Machine, g *fsm.Group, soft *streams.Soft) (streams.Decision, bool) {
	if g == nil || soft == nil {
		return streams.Decision{}, false
	}
	env := m.env(g.ID)
	d := streams.TopicsChanged(g, soft, &env)
	return d, !m.doubtful(g.ID, &d)
}

// lookLater has the group decided on by its timer soon, as a change of topics or settings that could not be stored demands.
func (e *group) lookLater(m *Machine) {
	if at := m.now + m.options.RetryMs; e.soft != nil && (e.soft.AssignmentDue == 0 || e.soft.AssignmentDue > at) {
		m.applySoft(e.id, e.soft, &streams.SoftChange{Assignment: at})
	}
}

// TopicsChanged tells that [Host.Topics] changed: groups with held members need not wait for a heartbeat to see it, nor those
// that have topics created, which might be of another size now.
func (m *Machine) TopicsChanged(now int64) {
	m.now = now
	for _, e := range m.groups {
		m.recheck(e)
	}
}

// CreationChanged tells that [Host.CreationError] says something else of topics that a group waits for.
func (m *Machine) CreationChanged(now int64, group string) {
	m.now = now
	if e := m.groups[group]; e != nil {
		m.lookAll(e)
	}
}

// awaitsTopics says that a change of topics or settings matters before the next heartbeat of the group.
func (e *group) awaitsTopics() bool { return len(e.held) > 0 || e.creating }

func (m *Machine) recheck(e *group) {
	if e.awaitsTopics() && !e.stale {
		e.stale = true
		m.kept.stale = append(m.kept.stale, e)
	}
}
