package shard

import (
	"slices"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
)

// Elected starts the leadership of a term. state is what this node's replica holds after the barrier of that term.
// Members get full session time-outs, or what the old leader handed over; epochs and assignments stay as they are.
func (m *Machine) Elected(now int64, term uint64, state fsm.State) {
	if m.leading {
		m.Lost(now)
	}
	m.now = now
	m.leading, m.term = true, term
	m.proofAt = 0
	m.committed, m.working = state, state
	m.timers = newTimers()
	m.electedAt = now
	m.timers.arm(timerKey{kind: timerRetention}, now+m.options.RetentionCheckMs)
	for g := range state.Groups() {
		env := m.env(g.ID)
		e := m.groupOf(g.ID)
		e.older = true
		e.soft = streams.NewSoftOnElection(g, &env)
		if h := m.inherited[g.ID]; h != nil {
			e.soft.Inherit(h, g, m.inheritedAt, now)
		}
		for id, sm := range e.soft.Members {
			m.timers.arm(timerKey{kind: timerMember, group: g.ID, member: id}, sm.NextDeadline())
		}
		m.timers.arm(timerKey{kind: timerGroup, group: g.ID}, e.soft.NextDeadline())
		if g.OffsetsClaimed {
			e.inherited = true
			m.takingOver++
			m.resumeClaim(g.ID)
		}
		m.claimEarly(g)
	}
	m.inherited = nil
}

// Lost ends the leadership: whoever waits is told to look for the coordinator again, and soft state ends.
func (m *Machine) Lost(now int64) {
	m.now = now
	if m.leading {
		m.resign()
	}
}

// resign drops the working copy and all soft state. What was decided and may be in the log is told apart from what never
// will be.
func (m *Machine) resign() {
	m.leading, m.paused = false, false
	calls := m.pausedCalls
	m.pausedCalls = nil
	var unknown []*Call
	collect := func(tasks []task, proposed bool) {
		for _, t := range tasks {
			switch {
			case t.call == nil:
			case proposed && t.wrote || t.internal != nil: // a deletion has dropped offsets before it writes
				unknown = append(unknown, t.call)
			default:
				calls = append(calls, t.call)
			}
		}
	}
	if m.inflight != nil {
		collect(m.inflight.tasks, true)
	}
	if m.open != nil {
		collect(m.open.tasks, false)
	}
	collect(m.queue, false)
	calls = append(calls, m.unproven...)
	for _, q := range m.foreign { // the answer comes all the same, and is too old for a later leadership
		calls = slices.Concat(calls, q.calls, q.next)
		q.calls, q.next = nil, nil
	}
	for id, g := range m.groups {
		calls = append(calls, g.waiting...)
		calls = append(calls, g.blocked...)
		calls = append(calls, g.unread...)
		for _, h := range g.held { // what they reported has been taken
			unknown = append(unknown, m.unhold(h))
		}
		m.host.Forget(id) // whatever the claim: the store may be about to make a lost one anew
		m.host.CreateTopics(id, nil)
	}
	for _, op := range m.store {
		op.term = 0 // what it was counted for is gone, also when this node leads on in the same term
	}
	m.inflight, m.open, m.queue, m.unproven, m.retryAt = nil, nil, nil, nil, 0
	clear(m.queued)
	clear(m.queuedOffsets)
	clear(m.changed)
	m.groups, m.takingOver, m.sweeps = map[string]*group{}, 0, nil
	m.suspects, m.lookup = nil, lookup{}
	m.timers, m.kept = newTimers(), newHolds()
	m.committed, m.working = fsm.State{}, fsm.State{}
	for _, c := range calls {
		m.refuse(c, notTaken)
	}
	for _, c := range unknown {
		m.refuse(c, notCoordinator)
	}
}

// dropGroup forgets what belongs to a group that is gone from the log.
func (m *Machine) dropGroup(id string) {
	g := m.groups[id]
	if g == nil {
		return
	}
	delete(m.groups, id)
	m.tookOver(g)
	m.host.CreateTopics(id, nil)
	for _, h := range g.held {
		g.waiting = append(g.waiting, m.unhold(h))
	}
	for _, c := range slices.Concat(g.waiting, g.blocked, g.unread) {
		m.dispatch(c)
	}
}
