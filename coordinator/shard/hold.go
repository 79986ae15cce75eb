package shard

import (
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
)

// held is a heartbeat whose answer is held back. Only what deciding it again needs is kept of the request.
type held struct {
	call    *Call // nil: answered
	request *streams.HeartbeatRequest
	group   *group
	until   int64
	// listed says that the heartbeat is to be looked at, over that it must be answered then, cut that it must be so before
	// its time.
	listed, over, cut bool
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

// heldBudget bounds the held heartbeats that are looked at before other inputs of the shard have their turn. While others
// queue, an entry of the log has room for a heldShare-th of its decisions for those that are held.
const (
	heldBudget = 256
	heldShare  = 4
)

// noticed are the reasons for an epoch that any heartbeat may be the first to notice; they say nothing of its member.
const noticed = streams.CauseTopicChange | streams.CauseValidation | streams.CauseConfigChange |
	streams.CauseWarmup | streams.CauseStateLost | streams.CauseStalled

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
	instance := r.InstanceID // the request is used again with this room, which the state must not share
	switch {
	case instance == nil:
	case member.Meta == nil || member.Meta.InstanceID == nil:
		instance = nil
	default:
		*instance = *member.Meta.InstanceID
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

// letGo has a held heartbeat answered: at once where that needs no entry of the log, else as soon as one may be written.
// While leadership is being handed over it waits, as calls do.
func (m *Machine) letGo(h *held) {
	listed := h.over
	h.over, h.cut = true, true
	if !m.paused && m.proven() && !m.awaitsChange(h.request.GroupID) && m.decideHeld(h) || listed {
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
// later one. It tells what is committed, so that it need not wait for the open batch.
func (m *Machine) overtaken(e *group, r *streams.HeartbeatRequest, c *Call) {
	if len(e.held) == 0 {
		return
	}
	h := e.held[r.MemberID]
	if h == nil || h.call == c {
		return
	}
	epoch, endpoints := h.request.MemberEpoch, h.request.EndpointEpoch
	d := m.decisionOn(m.committed, h)
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

// decisionOn decides what a fresh heartbeat of the member would be told in a state.
func (m *Machine) decisionOn(s fsm.State, h *held) streams.Decision {
	env := m.env(h.request.GroupID)
	return streams.Heartbeat(streams.HeartbeatInput{
		Group: s.Group(h.request.GroupID), Soft: h.group.soft, Env: env, Client: h.call.Client, Request: h.request,
		MayHold: true, Arrived: h.call.arrived, Held: true,
	})
}

// decideHeld decides a held heartbeat again, and answers it where that says something new or must be. false means that it
// must wait for the entry in flight.
func (m *Machine) decideHeld(h *held) bool {
	c, r, e := h.call, h.request, h.group
	id := r.GroupID
	d := m.decisionOn(m.working, h)
	if m.doubtful(id, &d) {
		if h.over {
			m.awaitTopics(m.unhold(h), &d)
		}
		return true
	}
	if h.cut {
		d.LetGo(m.now, h.until-m.now, c.acknowledged)
	}
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

// serveHeld decides again what is due, as much as others can wait for. No entry is in flight. What must be answered and
// what may have news take turns, so that neither waits for the end of the other.
func (m *Machine) serveHeld(budget int) {
	k := &m.kept
	if len(k.over)+len(k.due)+len(k.stale) == 0 || m.now < k.pausedUntil {
		return
	}
	if !m.proven() {
		m.prove()
		return
	}
	for n := 0; n < budget && m.mayWrite(); n++ {
		switch {
		case len(k.over) > 0 && (n%2 == 0 || len(k.due)+len(k.stale) == 0):
			h := k.over[0]
			if h.call != nil && !m.decideHeld(h) {
				return
			}
			k.over = k.over[1:]
		case len(k.stale) > 0:
			e := k.stale[0]
			k.stale = k.stale[1:]
			e.stale = false
			if e.awaitsTopics() {
				m.decide(task{group: e.id, internal: decideTopics, failed: e.lookLater})
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

// Held is the number of heartbeats whose answers are held back.
func (m *Machine) Held() int { return len(m.kept.byHolder) }

// heldWaits says that held heartbeats are to be looked at as soon as others had their turn.
func (m *Machine) heldWaits() bool {
	k := &m.kept
	return m.leading && !m.proving && m.mayWrite() && len(k.over)+len(k.due)+len(k.stale) > 0
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
