package shard

import (
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
)

// connected notes over which connection a member is heard, where its end matters for the group.
func (m *Machine) connected(c *Call, r *streams.HeartbeatRequest, soft *streams.Soft, s *coordinator.GroupSettings) {
	if !m.connectionsMatter(s) || c.Hold == nil || r.MemberEpoch == streams.LeaveEpoch {
		return
	}
	sm := soft.Members[r.MemberID]
	g := m.working.Group(r.GroupID)
	if sm == nil || g == nil || g.Member(r.MemberID) == nil || sm.Connection == c.Hold.ID && !c.Hold.ended.Load() &&
		r.MemberEpoch != streams.StaticLeaveEpoch {
		return
	}
	key := memberKey{g.ID, g.Member(r.MemberID).ID}
	m.forgetConnection(key, sm)
	switch {
	case r.MemberEpoch == streams.StaticLeaveEpoch: // it said that it goes
	case c.Hold.gone.Load(): // its connection ended while the heartbeat waited for its turn
		m.startDisconnect(key, sm, s)
	case c.Hold.ended.Load(): // its end is told once
	default:
		sm.Connection = c.Hold.ID
		members := m.kept.connections[sm.Connection]
		if members == nil {
			members = map[memberKey]struct{}{}
			m.kept.connections[sm.Connection] = members
		}
		members[key] = struct{}{}
	}
}

// forgetConnection forgets over which connection a member was heard: one may live for long and be used by many members.
func (m *Machine) forgetConnection(key memberKey, sm *streams.SoftMember) {
	members := m.kept.connections[sm.Connection]
	if delete(members, key); len(members) == 0 {
		delete(m.kept.connections, sm.Connection)
	}
	sm.Connection = 0
}

func (m *Machine) connectionsMatter(s *coordinator.GroupSettings) bool {
	return streams.ConnectionsMatter(s, m.host.Assignor(s.AssignorName))
}

func (m *Machine) startDisconnect(key memberKey, sm *streams.SoftMember, s *coordinator.GroupSettings) {
	m.forgetConnection(key, sm)
	sm.Disconnected(m.now, s)
	m.timers.arm(timerKey{kind: timerMember, group: key.group, member: key.member}, sm.NextDeadline())
}

// Gone tells that a connection ended. byClient says that its client ended it, not a node of coordd or the network between
// two of them: only then members that were heard over it, and do not come back over another one, are removed before their
// session time-out, where the group wants that.
func (m *Machine) Gone(now int64, holder *Holder, byClient bool) {
	m.now = now
	if byClient {
		holder.gone.Store(true)
	}
	holder.ended.Store(true)
	members := m.kept.connections[holder.ID]
	delete(m.kept.connections, holder.ID)
	if h := m.kept.byHolder[holder.ID]; h != nil {
		if sm := h.group.soft.Members[h.request.MemberID]; byClient && sm != nil && sm.HoldCuts < 255 {
			sm.HoldCuts++
		}
		m.refuse(m.unhold(h), notCoordinator)
	}
	if !byClient {
		return
	}
	for key := range members {
		e := m.groups[key.group]
		if e == nil || e.soft == nil {
			continue
		}
		sm := e.soft.Members[key.member]
		if sm == nil || sm.Connection != holder.ID {
			continue
		}
		if s := m.host.Settings(key.group); m.connectionsMatter(s) {
			m.startDisconnect(key, sm, s)
		}
	}
}
