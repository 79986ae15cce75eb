package shard

import (
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
)

// heartbeat decides a heartbeat at once where nothing of its group is uncommitted, and answers at once where the
// decision writes nothing: no Raft and no disk for nearly all heartbeats.
func (m *Machine) heartbeat(c *Call, r *streams.HeartbeatRequest) {
	c.holdable = false // it may be decided again after a refused proposal
	if err := streams.Validate(r); err != nil {
		m.finishHeartbeat(c, r, &streams.Decision{Reply: streams.HeartbeatResponse{Err: err}})
		return
	}
	if m.awaitsChange(r.GroupID) {
		m.enqueue(task{group: strings.Clone(r.GroupID), call: c})
		return
	}
	if m.waitsForCommits(c, r) {
		return
	}
	if m.withoutTopicsYet() {
		m.withoutTopics(c, r)
		return
	}
	g := m.working.Group(r.GroupID)
	if (g == nil || r.MemberEpoch == streams.JoinEpoch && g.NumMembers() == 0) && !m.foreignChecked(c, r.GroupID) {
		return
	}
	e := m.groups[r.GroupID]
	var soft *streams.Soft
	if e != nil {
		soft = e.soft
		if m.late(e, c, r) {
			m.refuse(c, cameLate)
			return
		}
		m.overtaken(e, r, c)
	}
	env := m.env(r.GroupID)
	d := streams.Heartbeat(streams.HeartbeatInput{
		Group: g, Soft: soft, Env: env, Client: c.Client, Request: r, MayHold: c.Hold != nil, Arrived: c.arrived, Held: c.wasHeld,
	})
	if m.doubtful(r.GroupID, &d) {
		m.awaitTopics(c, &d)
		return
	}
	c.unreadSince = 0
	m.lookAgain(d.Reply.Status)
	if g == nil {
		m.chooseStore(c, r.GroupID, &d)
	}
	if len(d.Records) > 0 {
		if m.write(task{group: strings.Clone(r.GroupID), call: c}, &d) {
			c.Heartbeat = d.Reply
			c.Response, c.Err = &c.Heartbeat, nil
			if d.Reply.Err != nil {
				m.host.Observe(Event{Group: r.GroupID, Member: r.MemberID, Refused: d.Reply.Err})
			}
			m.open.parked = append(m.open.parked, c)
			m.holdOrAnswer(m.groups[r.GroupID], c, r, &d, env.Settings)
		}
		return
	}
	if soft != nil {
		m.applySoft(r.GroupID, soft, &d.Soft)
	}
	m.holdOrAnswer(e, c, r, &d, env.Settings)
	if c.holdable && !m.open.changes(r.GroupID) {
		if m.hold(c, false) {
			m.runEffects(e.id, d.Effects)
			return
		}
	}
	m.finishHeartbeat(c, r, &d)
}

// holdOrAnswer notes whether the answer is to be held when what it says is committed.
func (m *Machine) holdOrAnswer(e *group, c *Call, r *streams.HeartbeatRequest, d *streams.Decision, s *coordinator.GroupSettings) {
	if d.Reply.Err != nil || e == nil || e.soft == nil {
		return
	}
	m.connected(c, r, e.soft, s)
	m.softSeen(e)
	c.acknowledged = d.Holding.Acknowledged
	if c.holdable = m.mayHold(c, r, d); !c.holdable {
		c.answering = true
		e.soft.Answered(d)
	}
}

// finishHeartbeat answers a decision without records; it waits where it saw what is not committed yet.
func (m *Machine) finishHeartbeat(c *Call, r *streams.HeartbeatRequest, d *streams.Decision) {
	c.Heartbeat = d.Reply
	c.Response, c.Err = &c.Heartbeat, nil
	if d.Reply.Err != nil {
		m.host.Observe(Event{Group: r.GroupID, Member: r.MemberID, Refused: d.Reply.Err})
	}
	if m.open.changes(r.GroupID) {
		m.open.park(c, d.Effects, r.GroupID)
		return
	}
	m.runEffects(r.GroupID, d.Effects)
	c.Done.CallDone(c)
}

// lookAgain asks for the topics anew when a source topic is missing: it may just have been created.
func (m *Machine) lookAgain(statuses []streams.Status) {
	for i := range statuses {
		if statuses[i].Code == streams.StatusMissingSourceTopics {
			m.host.RefreshNeeded()
		}
	}
}

// withoutTopics answers while nothing is known of the upstream's topics yet, or nothing that is current: deciding now would
// take topics for missing. The member is alive, which counts.
func (m *Machine) withoutTopics(c *Call, r *streams.HeartbeatRequest) {
	m.heard(r)
	m.refuse(c, loading)
}

// heard notes that the member is alive whose heartbeat cannot be decided yet.
func (m *Machine) heard(r *streams.HeartbeatRequest) {
	soft := m.softOf(r.GroupID)
	if soft == nil || soft.Members[r.MemberID] == nil {
		return
	}
	due := soft.NextDeadline()
	soft.Heard(r.MemberID, m.now, m.now+int64(m.host.Settings(r.GroupID).SessionTimeoutMs))
	m.armMember(r.GroupID, r.MemberID, soft.Members[r.MemberID])
	m.armSooner(r.GroupID, soft, due)
}

// waitsForCommits blocks what may take tasks from a member while commits of that member are under way, so that a task
// is handed on only after they are done, and a join while the group is being deleted.
func (m *Machine) waitsForCommits(c *Call, r *streams.HeartbeatRequest) bool {
	g := m.groups[r.GroupID]
	if g == nil || r.MemberEpoch > 0 && r.Active == nil {
		return false
	}
	if g.commits[r.MemberID] == 0 && (g.deleting == 0 || r.MemberEpoch != streams.JoinEpoch) {
		return false
	}
	if g.commits[r.MemberID] > 0 {
		g.await(r.MemberID)
	}
	if r.MemberEpoch > 0 {
		m.heard(r)
	}
	g.blocked = append(g.blocked, c)
	return true
}

// applySoft makes a soft change and keeps the timers in step with it.
func (m *Machine) applySoft(id string, soft *streams.Soft, change *streams.SoftChange) {
	sm, before := soft.Members[change.Member], int64(0)
	if sm != nil {
		before = sm.NextDeadline()
	}
	due := soft.NextDeadline()
	m.setAgainstTopics(id, soft, change)
	soft.Apply(change)
	if change.Member != "" {
		if sm == nil {
			sm = soft.Members[change.Member]
		}
		if sm != nil && (change.Rebalance != streams.RebalanceTimerKept || sm.NextDeadline() < before || before == 0) {
			m.armMember(id, change.Member, sm)
		}
	}
	if change.InitialDelay != 0 || change.Assignment != 0 || change.Grace != 0 || change.Warmup != 0 { // where one of the two is over the other may still run
		m.timers.arm(timerKey{kind: timerGroup, group: strings.Clone(id)}, soft.NextDeadline())
	} else {
		m.armSooner(id, soft, due)
	}
}

// armSooner looks at the group's deadlines when the next of them, which was before, is over sooner.
func (m *Machine) armSooner(group string, soft *streams.Soft, before int64) {
	if due := soft.NextDeadline(); due != 0 && (before == 0 || due < before) {
		m.timers.arm(timerKey{kind: timerGroup, group: strings.Clone(group)}, due)
	}
}

// setAgainstTopics follows a topology that was set against the topics anew: internal topics that exist are compared with
// what it asks for, and what was to be created is not wanted any more where it is not missing now, or where a missing
// source leaves its size open.
func (m *Machine) setAgainstTopics(id string, soft *streams.Soft, change *streams.SoftChange) {
	if change.Topics == nil {
		return
	}
	if e := m.groups[id]; e != nil {
		wanted := e.creating
		if e.creating = len(change.Topics.Missing()) > 0; wanted && !e.creating {
			m.host.CreateTopics(id, nil)
		}
	}
	if soft.Topics != nil && soft.Topics.Configured == change.Topics.Configured {
		return
	}
	if topics := streams.ExistingInternalTopics(change.Topics.Configured); len(topics) > 0 {
		m.host.CompareTopics(id, topics)
	}
}

// armMember looks at a member's deadlines when the next of them is over.
func (m *Machine) armMember(group, member string, sm *streams.SoftMember) {
	m.timers.arm(timerKey{kind: timerMember, group: strings.Clone(group), member: strings.Clone(member)}, sm.NextDeadline())
}

func (m *Machine) runEffects(id string, effects []streams.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case streams.CreateTopics:
			m.host.CreateTopics(id, e.Topics)
		case streams.GroupEmptied:
			m.emptied(id)
		case streams.ComputeTarget:
			m.compute(id, e.Job)
		case streams.AssignorFailed:
			m.host.Observe(Event{Group: id, Failed: e.Err})
			if g := m.groups[id]; g != nil {
				m.lookAll(g) // who waits for it is told
			}
		case streams.WarmupUnreported:
			m.host.Observe(Event{Group: id, Unreported: &e})
		case streams.WarmupStalled:
			m.host.Observe(Event{Group: id, Stalled: &e})
		}
	}
}
