package convergence

import (
	"maps"
	"math"
	"slices"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/topology"
)

// positions are task positions by task, as a client keeps those that it sent last.
type positions map[topology.Task]int64

// report adds to a request what the client tells of its tasks' positions: with a join, when its assignment has changed, when
// the interval is over, and with every heartbeat while a warm-up of its own is caught up; each list only where it differs from
// the one that was sent last.
func (m *member) addPositions(req *streams.HeartbeatRequest, now, intervalMs, lag int64) {
	offsets, ends := m.offsets(), m.endOffsets(now)
	if req.MemberEpoch == streams.JoinEpoch {
		req.TaskOffsets, req.TaskEndOffsets = list(offsets), list(ends)
		m.sentOffsets, m.sentEnds, m.positionsAt = offsets, ends, now
		return
	}
	if req.Active == nil && now < m.positionsAt+intervalMs && !m.hotWarmup(offsets, ends, lag) {
		return
	}
	if !maps.Equal(offsets, m.sentOffsets) {
		req.TaskOffsets = list(offsets)
		m.sentOffsets, m.positionsAt = offsets, now
	}
	if !maps.Equal(ends, m.sentEnds) {
		req.TaskEndOffsets = list(ends)
		m.sentEnds, m.positionsAt = ends, now
	}
}

// offsets are the positions of all state in the directory, whichever thread uses it or none, as checkpointed last; of the
// tasks of this thread the position of now, and nothing of the active ones that it processes (TaskManager.
// maybeUpdateTaskOffsetSumSnapshot).
func (m *member) offsets() positions {
	out := positions{}
	for t, s := range m.process.disk {
		if s.checkpoint > 0 {
			out[t] = s.checkpoint
		}
	}
	for t := range m.stateful() {
		switch c := m.process.copies[t]; {
		case c.active && !c.restoring:
			delete(out, t)
		default:
			out[t] = m.process.disk[t].pos
		}
	}
	return out
}

// endOffsets are the ends of the changelogs that the thread reads, one below the offset when all is read; the largest number where
// it has not learned one yet, as it does with the first records (DefaultStateUpdater.updateTaskEndOffsetSumSnapshot).
func (m *member) endOffsets(now int64) positions {
	out := positions{}
	for t := range m.stateful() {
		c := m.process.copies[t]
		switch {
		case c.active && !c.restoring:
		case !c.read || now-c.since < endKnownMs:
			out[t] = math.MaxInt64
		default:
			out[t] = m.world.ends[t] - 1
		}
	}
	return out
}

// hotWarmup says whether a warm-up task of the thread is within the acceptable lag.
func (m *member) hotWarmup(offsets, ends positions, lag int64) bool {
	for t := range m.running.Warmup.All() {
		at, known := offsets[t]
		end, ok := ends[t]
		if known && ok && at != math.MaxInt64 && end != math.MaxInt64 && end-at <= lag {
			return true
		}
	}
	return false
}

func list(p positions) []streams.TaskOffset {
	out := make([]streams.TaskOffset, 0, len(p))
	for t, offset := range p {
		out = append(out, streams.TaskOffset{Task: t, Offset: offset})
	}
	slices.SortFunc(out, func(a, b streams.TaskOffset) int { return a.Compare(b.Task) })
	return out
}
