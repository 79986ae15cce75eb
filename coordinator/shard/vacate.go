package shard

import (
	"strings"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// vacate deletes a group without members so that a classic group may have its id, as Kafka does at the first JoinGroup
// (GroupMetadataManager.classicGroupJoinToClassicGroup). The offsets stay upstream, where the classic group finds them, or are
// brought there; our membership there must be gone before, or it would be refused.
func (m *Machine) vacate(c *Call, r *VacateRequest) {
	if m.unsettled(r.GroupID) {
		m.enqueue(task{group: strings.Clone(r.GroupID), call: c})
		return
	}
	g := m.committed.Group(r.GroupID)
	if g == nil || g.NumMembers() > 0 {
		m.reply(c, m.holding(g))
		return
	}
	if m.awaitsDeletion(c, g.ID) {
		return
	}
	if g.Store() == record.StoreRaft {
		if m.lateMs(g.ID) > 0 { // its deletion upstream would take along what is brought there
			m.refuse(c, tooSoon)
			return
		}
		if g.LeftUpstream() && !m.foreignChecked(c, g.ID) {
			return
		}
		m.handBack(c, r, g)
		return
	}
	if !m.storeReady(g, c) {
		return
	}
	m.submitInternal(task{
		group: g.ID, call: c,
		internal: func(m *Machine, g *fsm.Group, _ *streams.Soft) (streams.Decision, bool) {
			if g == nil || g.NumMembers() > 0 || g.OffsetsClaimed { // since a proposal was refused
				m.vacate(c, r)
				return streams.Decision{}, false
			}
			return streams.Decision{Records: deletionRecords(g)}, true
		},
		// A join of the same entry may have made the group anew.
		after: func(m *Machine) { m.reply(c, m.holding(m.committed.Group(r.GroupID))) },
	})
}
