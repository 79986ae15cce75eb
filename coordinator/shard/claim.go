package shard

import (
	"fmt"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// claimState is how far this leader's takeover of a group's membership upstream is.
type claimState uint8

const (
	claimNone      claimState = iota // nothing was asked for in this term
	claimWriting                     // the OffsetsClaim record is on its way into the log
	claimPending                     // the upstream was asked for the membership
	claimHeld                        // older leaders are fenced upstream
	claimReleasing                   // the upstream was asked to end the membership
	claimClearing                    // the record's tombstone is on its way into the log
)

// holdsGrants says that an earlier leader may still have commits of the group in flight: no task may move.
func (m *Machine) holdsGrants(id string) bool {
	e := m.groups[id]
	return e != nil && e.inherited
}

// TakingOver is the number of groups of which the membership upstream is still an earlier leader's: no task moves in them.
func (m *Machine) TakingOver() int { return m.takingOver }

// tookOver notes that no earlier leader holds the group's membership upstream, or that it no longer matters.
func (m *Machine) tookOver(e *group) {
	if e.inherited {
		e.inherited = false
		m.takingOver--
	}
}

// claimAfterMs is how long a group has members before its membership upstream is claimed without a commit asking for
// it: a first join takes the upstream seconds (group.initial.rebalance.delay.ms), which a first commit need not wait.
const claimAfterMs = 1000

// claimGapMs is the least time between two claims that no commit asked for, so that a crowd of new groups costs the log
// and the upstream little: the first commit of a group claims it without delay.
const claimGapMs = 200

// claimEarly arms the claim of a group that has members and no claim.
func (m *Machine) claimEarly(g *fsm.Group) {
	if g.NumMembers() == 0 || g.OffsetsClaimed || g.Store() == record.StoreRaft {
		return
	}
	if e := m.groupOf(g.ID); e.claim == claimNone && !e.early {
		e.early = true
		m.claimAt = max(m.now+claimAfterMs, m.claimAt+claimGapMs)
		m.timers.arm(timerKey{kind: timerClaim, group: g.ID}, m.claimAt)
	}
}

// resumeClaim takes the next step towards what the group needs: the membership while it has members, none without.
func (m *Machine) resumeClaim(id string) {
	g := m.committed.Group(id)
	if g == nil || !m.leading {
		return
	}
	e := m.groupOf(id)
	if e.claim != claimNone && e.claim != claimHeld {
		return
	}
	switch {
	case g.NumMembers() == 0 && g.OffsetsClaimed:
		e.claim = claimReleasing
		m.host.Release(g.ID)
	case g.NumMembers() == 0 || e.claim == claimHeld || g.Store() == record.StoreRaft && !g.OffsetsClaimed:
		m.wakeWaiting(e)
	case g.OffsetsClaimed:
		e.claim = claimPending
		m.host.Claim(g.ID)
	default:
		e.claim = claimWriting
		m.submitInternal(claimRecord(g.ID, &record.OffsetsClaim{}))
	}
}

// claimRecord writes or deletes the claim's record, then takes the next step.
func claimRecord(id string, value record.Value) task {
	return task{
		group: id,
		internal: func(m *Machine, g *fsm.Group, _ *streams.Soft) (streams.Decision, bool) {
			wanted := g != nil && (g.NumMembers() > 0) == (value != nil)
			switch {
			case wanted:
			case m.open.touches(id):
				// The change that made it pointless is not committed: what comes next is decided on when it is.
				m.enqueue(claimRecord(id, value))
				return streams.Decision{}, false
			default: // the group changed while the upstream was asked
				m.claimSettled(id)
				return streams.Decision{}, false
			}
			return streams.Decision{Records: []record.Record{{Key: record.Key{Type: record.TypeOffsetsClaim, Group: id}, Value: value}}}, true
		},
		after: func(m *Machine) { m.claimSettled(id) },
		failed: func(m *Machine) {
			if e := m.groups[id]; e != nil {
				m.retryClaim(id, e)
			}
		},
	}
}

func (m *Machine) claimSettled(id string) {
	if e := m.groups[id]; e != nil {
		e.claim = claimNone
		m.resumeClaim(id)
	}
}

// Claimed is the outcome of [Host.Claim].
func (m *Machine) Claimed(now int64, id string, err error) {
	m.now = now
	e := m.groups[id]
	if !m.leading || e == nil || e.claim != claimPending {
		return
	}
	if err != nil {
		m.claimFailed(id, e, err)
		m.retryClaim(id, e)
		return
	}
	e.claim, e.claimFailure = claimHeld, ""
	m.tookOver(e)
	m.lookAll(e) // tasks may move now
	m.resumeClaim(id)
}

// Released is the outcome of [Host.Release].
func (m *Machine) Released(now int64, id string, err error) {
	m.now = now
	e := m.groups[id]
	if !m.leading || e == nil || e.claim != claimReleasing {
		return
	}
	if err != nil {
		m.retryClaim(id, e)
		return
	}
	e.claim = claimClearing
	m.tookOver(e)
	m.submitInternal(claimRecord(id, nil))
}

// claimFailed tells why commits of the group fail, once for each reason: a claim is tried again and again.
func (m *Machine) claimFailed(id string, e *group, err error) {
	if why := err.Error(); why != e.claimFailure {
		e.claimFailure = why
		m.host.Observe(Event{Group: id, Failed: fmt.Errorf("cannot become the member that commits the group's offsets upstream: %w", err)})
	}
}

// retryClaim lets the waiting calls go with an error that clients retry, and tries again later.
func (m *Machine) retryClaim(id string, e *group) {
	e.claim = claimNone
	calls := e.waiting
	e.waiting = nil
	m.timers.arm(timerKey{kind: timerClaim, group: id}, m.now+m.options.RetryMs)
	for _, c := range calls {
		m.refuse(c, notAvailable)
	}
}

// emptied lets the membership upstream go when the last member is gone. Nobody needs the group's missing topics any more:
// who deletes them must not get them back.
func (m *Machine) emptied(id string) {
	m.host.CreateTopics(id, nil)
	if g := m.committed.Group(id); g != nil && g.OffsetsClaimed {
		m.resumeClaim(id)
	}
}

func (m *Machine) wakeWaiting(e *group) {
	calls := e.waiting
	e.waiting = nil
	for _, c := range calls {
		m.dispatch(c)
	}
}
