package convergence

import (
	"fmt"
	"iter"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// member is a stream thread: a client of the group.
type member struct {
	id      string
	process *process
	world   *world

	epoch         int32
	endpointEpoch int32
	goal, running topology.Assignment // what it was told last, what it runs
	// report says that the next heartbeat carries the tasks, applyAt when the thread has done what it was told; 0: nothing to do.
	report  bool
	applyAt int64
	beatAt  int64

	sentOffsets, sentEnds positions
	positionsAt           int64
}

func newMember(p *process, thread int, now int64) *member {
	return &member{
		id: fmt.Sprintf("%s.%d-%d", p.name, p.starts, thread+1), process: p, endpointEpoch: -1,
		beatAt: now + int64(thread)*threadStartMs,
	}
}

func processID(name string, starts int) string { return fmt.Sprintf("%s-%d", name, starts) }

// stateful are the tasks with state that the thread runs.
func (m *member) stateful() iter.Seq[topology.Task] {
	return func(yield func(topology.Task) bool) {
		for _, role := range roles(m.running) {
			for t := range role.All() {
				if t.Subtopology == stateful && !yield(t) {
					return
				}
			}
		}
	}
}

func roles(a topology.Assignment) [3]topology.Tasks {
	return [3]topology.Tasks{a.Active, a.Standby, a.Warmup}
}

// step does what the thread does at a moment: apply what it was told, send a heartbeat.
func (m *member) step(now int64) error {
	if m.applyAt != 0 && now >= m.applyAt {
		m.apply(now)
	}
	if now < m.beatAt {
		return nil
	}
	w := m.world
	r, err := w.group.heartbeat(now, m.request(now))
	if err != nil {
		return err
	}
	if r.Err != nil {
		return fmt.Errorf("%s would die or lose its tasks: %w", m.id, r.Err)
	}
	m.told(r, now)
	return nil
}

func (m *member) request(now int64) *streams.HeartbeatRequest {
	req := &streams.HeartbeatRequest{
		Version: 1, GroupID: groupID, MemberID: m.id, MemberEpoch: m.epoch, EndpointEpoch: m.endpointEpoch, RebalanceTimeoutMs: -1,
	}
	s := &m.world.group.settings
	switch {
	case m.epoch == streams.JoinEpoch:
		req.RebalanceTimeoutMs, req.Topology, req.ProcessID = rebalanceTimeoutMs, m.world.group.topology, &m.process.id
		req.ClientTags = []record.KeyValue{}
		req.Active, req.Standby, req.Warmup = topology.Tasks{}, topology.Tasks{}, topology.Tasks{}
	case m.report:
		req.Active, req.Standby, req.Warmup = m.running.Active.NonNil(), m.running.Standby.NonNil(), m.running.Warmup.NonNil()
	}
	m.addPositions(req, now, int64(s.TaskOffsetIntervalMs), s.AcceptableRecoveryLag)
	m.report = false
	return req
}

// told takes an answer. Tasks that are no more the thread's stop at once and take a while to be closed.
func (m *member) told(r *streams.HeartbeatResponse, now int64) {
	joining := m.epoch == streams.JoinEpoch
	m.epoch, m.endpointEpoch = r.MemberEpoch, r.EndpointEpoch
	m.beatAt = now + int64(r.HeartbeatIntervalMs)
	if r.Active == nil {
		return
	}
	goal := topology.Assignment{Active: r.Active, Standby: r.Standby, Warmup: r.Warmup}
	if !joining && m.goal.SameTasks(goal) {
		return
	}
	m.goal = goal
	takes := applyMs
	if !m.running.Active.SubsetOf(goal.Active) {
		takes = revokeMs
	}
	m.applyAt = max(m.applyAt, now+takes)
}

// apply makes the thread run what it was told; it sends a heartbeat at once.
func (m *member) apply(now int64) {
	p := m.process
	for t := range m.stateful() {
		if !inAny(t, m.goal) {
			delete(p.copies, t)
			p.disk[t].checkpoint = p.disk[t].pos
		}
	}
	m.running, m.applyAt, m.report, m.beatAt, m.world.changed = m.goal, 0, true, now, true
	for t := range m.stateful() {
		c := p.copies[t]
		if c == nil {
			s := p.disk[t]
			if s == nil {
				s = &store{}
				p.disk[t] = s
			}
			if s.pos == 0 && m.world.ends[t] > 0 {
				m.world.measured.fresh++
			}
			c = &running{task: t, since: now, restoring: s.pos < m.world.ends[t]}
			p.copies[t] = c
		}
		active := m.running.Active.Contains(t)
		c.read = c.read && (active || !c.active)
		c.active = active
	}
}

func inAny(t topology.Task, a topology.Assignment) bool {
	return a.Active.Contains(t) || a.Standby.Contains(t) || a.Warmup.Contains(t)
}

// processes says whether the thread processes a task with state: it has restored it, and is not giving it up.
func (m *member) processes(t topology.Task) bool {
	c := m.process.copies[t]
	return m.running.Active.Contains(t) && m.goal.Active.Contains(t) && c != nil && m.process.disk[t].pos >= m.world.ends[t]
}
