package shard

import (
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// Bounds of one look at the offsets of groups that keep them in the log: heartbeats and commits go on between two looks,
// which are moreExpiriesMs apart.
const (
	maxSweptGroups  = maxExpiries
	maxSweptOffsets = 20_000
	// maxDueOffsets bounds the tombstones of one group.
	maxDueOffsets = 5000
)

// sweep looks at the next of the groups that keep their offsets in the log, for offsets that are to go.
func (m *Machine) sweep() {
	for groups, visited := 0, 0; len(m.sweeps) > 0 && groups < maxSweptGroups && visited < maxSweptOffsets; groups++ {
		g := m.committed.Group(m.sweeps[0])
		m.sweeps = m.sweeps[1:]
		if g == nil || g.Store() != record.StoreRaft {
			continue
		}
		visited += g.NumOffsets()
		if g.LeftUpstream() && g.NumOffsets() == 0 && m.outlived(g) {
			m.dispatch(&Call{Request: &DeleteGroupRequest{GroupID: g.ID, expired: true}, Done: nobody{}})
			continue
		}
		s := &sweeping{}
		m.submitInternal(task{group: g.ID, internal: s.decide, after: s.committed})
	}
	if len(m.sweeps) > 0 {
		m.timers.arm(timerKey{kind: timerSweep}, m.now+moreExpiriesMs)
	} else {
		m.sweeps = nil
	}
}

// nobody waits for the answer to a call of the machine's own.
type nobody struct{}

// CallDone implements Completer.
func (nobody) CallDone(*Call) {}

// sweeping is the look at one group.
type sweeping struct {
	group   string
	deletes bool
	counts  OffsetCounts
}

// decide deletes the offsets of the group that are due, and the group with them once it has none left and has had no members
// for the retention. One that may have some upstream goes at the next look, as by a DeleteGroup.
func (s *sweeping) decide(m *Machine, g *fsm.Group, _ *streams.Soft) (streams.Decision, bool) {
	if g == nil || g.Store() != record.StoreRaft {
		return streams.Decision{}, false
	}
	if m.groupOf(g.ID).deleting > 0 {
		return streams.Decision{}, false
	}
	world := m.world()
	due := offsets.FindDue(g, &world, offsets.Retention{Ms: m.options.RetentionMs, From: m.electedAt}, m.confirmed, maxDueOffsets)
	m.suspect(g.ID, &due)
	*s = sweeping{group: g.ID, counts: OffsetCounts{Expired: len(due.Records)}}
	records := due.Records
	if due.Left == 0 && m.outlived(g) && !g.LeftUpstream() {
		s.deletes = true
		records = deletionRecords(g) // the offsets go with the group
	}
	if due.More {
		m.sweeps = append(m.sweeps, g.ID)
		m.timers.arm(timerKey{kind: timerSweep}, m.now+moreExpiriesMs)
	}
	return streams.Decision{Records: records}, len(records) > 0
}

func (s *sweeping) committed(m *Machine) {
	if s.counts.Expired > 0 {
		m.host.Observe(Event{Group: s.group, Offsets: s.counts})
	}
	if s.deletes {
		m.host.Observe(Event{Group: s.group, Expired: true})
	}
}
