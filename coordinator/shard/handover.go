package shard

import (
	"maps"
	"slices"

	"github.com/coordd/coordd/coordinator/streams"
)

// MaxHandover bounds what one leader hands over to the next, in bytes.
const MaxHandover = 8 << 20

// Pause stops decisions: leadership is about to be handed over, and what the next leader is told must not change behind
// that. Calls wait until [Machine.Resume], or are refused when the leadership is lost. What was decided before is still
// proposed.
func (m *Machine) Pause(now int64) {
	m.now = now
	m.paused = m.leading
}

// Resume goes on after a transfer that failed.
func (m *Machine) Resume(now int64) {
	if !m.paused {
		return
	}
	m.now, m.paused = now, false
	calls := m.pausedCalls
	m.pausedCalls = nil
	if m.inflight == nil && m.retryAt == 0 {
		m.drain()
	}
	for _, c := range calls {
		m.dispatch(c)
	}
}

// HandOver is the soft state of all groups for the next leader; nil when there is none to hand over. Where it would grow
// too large, task offsets are left out first, then groups: these start anew as after a failover.
func (m *Machine) HandOver(now int64) []byte {
	if !m.leading {
		return nil
	}
	m.now = now
	var b []byte
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		e := m.groups[id]
		if e.soft == nil || m.committed.Group(id) == nil {
			continue
		}
		soft := e.soft
		if e.computing != 0 { // the job ends with this leadership: the target is due at the next leader
			due := *soft
			due.AssignmentDue = now
			soft = &due
		}
		for _, offsets := range []bool{true, false} {
			longer := streams.AppendHandover(b, id, soft, now, offsets)
			if len(longer) <= MaxHandover {
				b = longer
				break
			}
		}
	}
	return b
}

// Inherit takes what the old leader handed over at the time at (of this node's clock). It counts for the election that
// follows. On an error nothing does.
func (m *Machine) Inherit(at int64, handover []byte) error {
	m.inherited, m.inheritedAt = nil, at
	all := map[string]*streams.Handover{}
	for len(handover) > 0 {
		h, rest, err := streams.DecodeHandover(handover)
		if err != nil {
			return err
		}
		all[h.Group], handover = h, rest
	}
	m.inherited = all
	return nil
}
