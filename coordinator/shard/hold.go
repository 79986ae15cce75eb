package shard

import (
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// held is a heartbeat whose answer is held back. Only what deciding it again needs is kept of the request.
type held struct {
	call    *Call // nil: answered
	request *streams.HeartbeatRequest
	group   *group
	until   int64
	// listed says that the heartbeat is to be looked at, over that it must be answered then.
	listed, over bool
	// waits are the tasks of the member's target that others have not released; they list it in group.waits.
	waits []topology.Task
}

// holds is what a machine keeps about all held heartbeats.
type holds struct {
	byHolder map[uint64]*held
	// over are to be answered, due to be decided again: something that may concern them has changed.
	over, due []*held
	// stale are groups with held members whose topics or settings may have changed.
	stale []*group
	// pausedUntil is when a failed proof of leadership is tried again for the sake of what is due.
	pausedUntil int64
	// connections are the members by the connection of their last heartbeat, where its end matters.
	connections map[uint64]map[memberKey]struct{}
}

type memberKey struct{ group, member string }

func newHolds() holds {
	return holds{byHolder: map[uint64]*held{}, connections: map[uint64]map[memberKey]struct{}{}}
}

// heldBudget bounds the held heartbeats that are looked at before other inputs of the shard have their turn.
const heldBudget = 256

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

// noticed are the reasons for an epoch that any heartbeat may be the first to notice; they say nothing of its member.
const noticed = streams.CauseTopicChange | streams.CauseValidation | streams.CauseConfigChange

// mayHold says whether the answer of a decision may be held: it repeats what the member knows, nothing is expected from
// the member and the request changed nothing that others see of it. A heartbeat that noticed new topics is held when that is
// committed: answered, it would leave a member that waits for its first tasks out of reach until its next one.
func (m *Machine) mayHold(c *Call, r *streams.HeartbeatRequest, d *streams.Decision) bool {
	h := &d.Holding
	return c.Hold != nil && !c.answering && h.Keeps && !h.News && !h.Expects && r.MemberEpoch > streams.JoinEpoch &&
		d.Reply.Err == nil && d.Cause.Kinds&^noticed == 0 && !r.ShutdownApplication
}

// hold keeps the answer back. What it says is committed. check says that something may have changed since the decision.
// false means that it is to be answered.
func (m *Machine) hold(c *Call, check bool) bool {
	r := c.Request.(*streams.HeartbeatRequest)
	e, g := m.groups[r.GroupID], m.working.Group(r.GroupID)
	if e == nil || e.soft == nil || g == nil {
		return false
	}
	member, sm := g.Member(r.MemberID), e.soft.Members[r.MemberID]
	if member == nil || sm == nil || e.held[r.MemberID] != nil {
		return false
	}
	until := c.arrived + int64(sm.HoldMs(m.host.Settings(r.GroupID)))
	if until <= m.now || !c.Hold.Begin(c.HoldNumber) {
		return false
	}
	instance := r.InstanceID
	if instance != nil && member.Meta != nil {
		instance = member.Meta.InstanceID
	}
	*r = streams.HeartbeatRequest{
		Version: r.Version, GroupID: g.ID, MemberID: member.ID, MemberEpoch: r.MemberEpoch, EndpointEpoch: r.EndpointEpoch,
		InstanceID: instance, RebalanceTimeoutMs: -1,
	}
	c.wasHeld, c.Heartbeat, c.Response = true, streams.HeartbeatResponse{}, nil
	if k, ok := c.Done.(Keeper); ok {
		k.CallHeld(c)
	}
	if e.held == nil {
		e.held = map[string]*held{}
	}
	if len(e.held) == 0 {
		e.seen = viewOf(g, e.soft)
	}
	h := &held{call: c, request: r, group: e, until: until}
	e.held[member.ID] = h
	m.kept.byHolder[c.Hold.ID] = h
	m.timers.arm(timerKey{kind: timerHold, group: g.ID, member: member.ID}, until)
	m.await(h, g)
	if check {
		m.look(h)
	}
	return true
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

// unhold takes a heartbeat out of what is held; its call is to be answered now, and never to be held again.
func (m *Machine) unhold(h *held) *Call {
	c := h.call
	c.answering, c.holdable = true, false
	c.Hold.End(c.HoldNumber)
	m.awaitNothing(h)
	delete(h.group.held, h.request.MemberID)
	if m.kept.byHolder[c.Hold.ID] == h {
		delete(m.kept.byHolder, c.Hold.ID)
	}
	h.call = nil
	return c
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

// letGo has a held heartbeat answered: at once where that needs no entry of the log, else as soon as one may be written.
func (m *Machine) letGo(h *held) {
	h.over = true
	if m.proven() && !m.waits(h.request.GroupID) && m.decideHeld(h) {
		return
	}
	m.kept.over = append(m.kept.over, h)
}

// LetGo answers what is held for a connection, up to what its Holder was told to release.
func (m *Machine) LetGo(now int64, holder *Holder) {
	m.now = now
	if h := m.kept.byHolder[holder.ID]; h != nil && h.call.HoldNumber <= holder.released.Load() {
		m.letGo(h)
	}
}

// overtaken answers a held heartbeat of a member that has sent another one: nothing new, since what is new belongs to the
// later one.
func (m *Machine) overtaken(e *group, r *streams.HeartbeatRequest, c *Call) {
	if len(e.held) == 0 {
		return
	}
	h := e.held[r.MemberID]
	if h == nil || h.call == c {
		return
	}
	epoch, endpoints := h.request.MemberEpoch, h.request.EndpointEpoch
	d := m.heldDecision(h)
	c = m.unhold(h)
	if d.Reply.Err != nil {
		m.refuse(c, notCoordinator)
		return
	}
	c.Heartbeat = d.Reply
	c.Heartbeat.MemberEpoch, c.Heartbeat.EndpointEpoch, c.Heartbeat.Endpoints = epoch, endpoints, nil
	c.Heartbeat.Active, c.Heartbeat.Standby, c.Heartbeat.Warmup = nil, nil, nil
	m.reply(c, &c.Heartbeat)
}

// heldDecision decides what a fresh heartbeat of the member would be told now.
func (m *Machine) heldDecision(h *held) streams.Decision {
	env := m.env(h.request.GroupID)
	return streams.Heartbeat(streams.HeartbeatInput{
		Group: m.working.Group(h.request.GroupID), Soft: h.group.soft, Env: env, Client: h.call.Client, Request: h.request,
		MayHold: true, Arrived: h.call.arrived, Held: true,
	})
}

// decideHeld decides a held heartbeat again, and answers it where that says something new or must be. false means that it
// must wait for the entry in flight.
func (m *Machine) decideHeld(h *held) bool {
	c, r, e := h.call, h.request, h.group
	id := r.GroupID
	d := m.heldDecision(h)
	answer := h.over || d.Reply.Err != nil || d.Holding.News || d.Holding.Expects ||
		e.soft.Members[r.MemberID].HoldMs(m.host.Settings(id)) == 0
	if len(d.Records) == 0 {
		m.applySoft(id, e.soft, &d.Soft)
		m.softSeen(e)
		if answer {
			m.unhold(h)
			e.soft.Answered(&d)
			m.finishHeartbeat(c, r, &d)
		} else {
			m.runEffects(id, d.Effects)
		}
		return true
	}
	if m.inflight != nil || m.full(sizeOf(d.Records)) {
		return false
	}
	t := task{group: id, internal: lookAgainAt(h)}
	if answer {
		t = task{group: id, call: m.unhold(h)}
	}
	if !m.write(t, &d) {
		return true
	}
	if answer {
		e.soft.Answered(&d)
		c.Heartbeat = d.Reply
		c.Response, c.Err = &c.Heartbeat, nil
		m.open.parked = append(m.open.parked, c)
	} else {
		e.soft.Members[r.MemberID].Untold = true
		m.await(h, m.working.Group(id))
	}
	return true
}

// lookAgainAt is the task of a member that was moved on while its answer stays held: when the entry was refused, the
// heartbeat is looked at again.
func lookAgainAt(h *held) func(*Machine, *fsm.Group, *streams.Soft) (streams.Decision, bool) {
	return func(m *Machine, _ *fsm.Group, _ *streams.Soft) (streams.Decision, bool) {
		if h.call != nil {
			m.look(h)
		}
		return streams.Decision{}, false
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

// serveHeld decides again what is due, as much as others can wait for. No entry is in flight.
func (m *Machine) serveHeld() {
	k := &m.kept
	if len(k.over)+len(k.due)+len(k.stale) == 0 || m.now < k.pausedUntil {
		return
	}
	if !m.proven() {
		m.prove()
		return
	}
	for n := 0; n < heldBudget && m.mayWrite(); n++ {
		switch {
		case len(k.over) > 0:
			h := k.over[0]
			if h.call != nil && !m.decideHeld(h) {
				return
			}
			k.over = k.over[1:]
		case len(k.stale) > 0:
			e := k.stale[0]
			k.stale = k.stale[1:]
			e.stale = false
			if len(e.held) > 0 {
				m.decide(task{group: e.id, internal: decideTopics})
			}
		case len(k.due) > 0:
			h := k.due[0]
			h.listed = false // by the decision itself it may be listed again
			if h.call != nil && !m.decideHeld(h) {
				h.listed = true
				return
			}
			k.due = k.due[1:]
		default:
			k.over, k.due, k.stale = nil, nil, nil
			return
		}
	}
}

// mayWrite says that a decision may go into the open batch, and that nobody waits for a turn before it.
func (m *Machine) mayWrite() bool {
	return m.inflight == nil && m.retryAt == 0 && len(m.queue) == 0 && !m.paused
}

// heldWaits says that held heartbeats are to be looked at as soon as others had their turn.
func (m *Machine) heldWaits() bool {
	k := &m.kept
	return m.leading && !m.proving && m.mayWrite() && len(k.over)+len(k.due)+len(k.stale) > 0
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
	return streams.TopicsChanged(g, soft, &env), true
}

// TopicsChanged tells that [Host.Topics] changed: groups with held members need not wait for a heartbeat to see it.
func (m *Machine) TopicsChanged(now int64) {
	m.now = now
	for _, e := range m.groups {
		m.recheck(e)
	}
}

func (m *Machine) recheck(e *group) {
	if len(e.held) > 0 && !e.stale {
		e.stale = true
		m.kept.stale = append(m.kept.stale, e)
	}
}

// fireHold ends the hold of a member whose time is over.
func (m *Machine) fireHold(key timerKey, e *group) {
	if e == nil {
		return
	}
	h := e.held[key.member]
	switch {
	case h == nil:
	case h.until > m.now:
		m.timers.arm(key, h.until)
	case !h.over:
		h.over = true
		m.kept.over = append(m.kept.over, h)
	}
}

// refuseHeld answers what must be answered although this node's leadership could not be proven; what is due rests.
func (m *Machine) refuseHeld() {
	k := &m.kept
	over := k.over
	k.over = nil
	for _, h := range over {
		if h.call != nil {
			m.refuse(m.unhold(h), notCoordinator)
		}
	}
	if len(k.due)+len(k.stale) > 0 {
		k.pausedUntil = m.now + m.options.RetryMs
	}
}
