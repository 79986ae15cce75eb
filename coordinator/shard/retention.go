package shard

import (
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// maxExpiries bounds the groups that one look deletes, and moreExpiriesMs is when the next ones follow: members of other
// groups do not wait for thousands of deletions.
const (
	maxExpiries    = 200
	moreExpiriesMs = 1000
)

// checkRetention deletes the groups that have been empty for the retention (KIP-1071: "the group metadata is tombstoned
// after the offsets retention"). Their offsets are not touched: since coordd left the group upstream when it became
// empty, the upstream's own retention counts from then. A group that comes back finds the offsets that are still there.
func (m *Machine) checkRetention() {
	again, found := m.options.RetentionCheckMs, 0
	idle := len(m.sweeps) == 0
	for g := range m.committed.Groups() {
		if g.Store() == record.StoreRaft {
			if idle {
				m.sweeps = append(m.sweeps, g.ID)
			}
			continue
		}
		if !m.outlived(g) {
			continue
		}
		if found++; found > maxExpiries {
			again = moreExpiriesMs
			break
		}
		m.submitInternal(task{group: g.ID, internal: expireGroup, after: func(m *Machine) {
			m.host.Observe(Event{Group: g.ID, Expired: true})
		}})
	}
	m.timers.arm(timerKey{kind: timerRetention}, m.now+again)
	if idle {
		m.sweep()
	}
}

// outlived says whether a group is to be deleted: it has been empty for the retention, its membership upstream has
// ended, and no administrator's deletion is under way. A group whose mark is missing, or of a clock that was ahead, counts
// from the election.
func (m *Machine) outlived(g *fsm.Group) bool {
	if g.NumMembers() > 0 || g.OffsetsClaimed {
		return false
	}
	if e := m.groups[g.ID]; e != nil && (e.deleting > 0 || e.claim != claimNone) {
		return false
	}
	since := m.electedAt
	if g.Marks != nil && g.Marks.EmptySinceMs > 0 && g.Marks.EmptySinceMs <= m.now {
		since = g.Marks.EmptySinceMs
	}
	return m.now-since >= m.options.RetentionMs
}

// expireGroup deletes the group unless somebody joined in the meantime: a join that was decided before is in the working
// copy, one that comes after makes the group anew.
func expireGroup(m *Machine, g *fsm.Group, _ *streams.Soft) (streams.Decision, bool) {
	if g == nil || !m.outlived(g) {
		return streams.Decision{}, false
	}
	return streams.Decision{Records: deletionRecords(g)}, true
}
