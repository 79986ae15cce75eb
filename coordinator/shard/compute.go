package shard

import (
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
)

// compute has a target assignment computed beside the shard, one at a time for a group.
func (m *Machine) compute(id string, job *streams.TargetJob) {
	e := m.groups[id]
	if e == nil || e.computing != 0 {
		return
	}
	m.nextOp++
	e.computing = m.nextOp
	m.host.Compute(m.nextOp, job)
}

// Computed is the outcome of [Host.Compute].
func (m *Machine) Computed(now int64, op uint64, target *streams.ComputedTarget) {
	m.now = now
	id := target.GroupID()
	if e := m.groups[id]; m.leading && e != nil && e.computing == op {
		m.submitInternal(m.takeTarget(id, op, target, 0))
	}
}

// takeTarget writes a chunk of a computed target, and the next one when it is committed, so that a large target keeps
// nobody else waiting for long.
func (m *Machine) takeTarget(id string, op uint64, target *streams.ComputedTarget, from int) task {
	next := 0
	return task{
		group: id,
		internal: func(m *Machine, g *fsm.Group, soft *streams.Soft) (d streams.Decision, ok bool) {
			e := m.groups[id]
			if e == nil || e.computing != op {
				return streams.Decision{}, false
			}
			if g != nil && soft != nil {
				env := m.env(id)
				d, next = streams.TargetComputed(g, soft, &env, target, from, m.options.TargetChunk)
			}
			if len(d.Records) == 0 {
				m.endCompute(id, e)
			}
			return d, true
		},
		after: func(m *Machine) {
			e := m.groups[id]
			switch {
			case e == nil || e.computing != op:
			case next > 0:
				m.submitInternal(m.takeTarget(id, op, target, next))
			default:
				m.endCompute(id, e)
			}
		},
		failed: func(m *Machine) {
			if e := m.groups[id]; e != nil && e.computing == op {
				m.endCompute(id, e)
			}
		},
	}
}

// endCompute looks at the group's timers again, which rested.
func (m *Machine) endCompute(id string, e *group) {
	e.computing = 0
	if e.soft != nil {
		m.timers.arm(timerKey{kind: timerGroup, group: id}, e.soft.NextDeadline())
	}
}
