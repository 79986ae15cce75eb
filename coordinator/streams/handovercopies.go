package streams

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
)

// copiesHandover is what a leader tells the next one of a member's copies of tasks, beside their offsets.
type copiesHandover struct {
	id       string
	old      bool
	warmups  []warmup // since is relative to the hand-over
	restores []restoreHandover
}

type restoreHandover struct {
	topology.Task
	had int64
}

// toldCopies are the members of whose copies there is something to tell, by id.
func (s *Soft) toldCopies() []string {
	ids := map[string]bool{}
	for id, m := range s.Members {
		if m.old || len(m.warmups) > 0 {
			ids[id] = true
		}
	}
	for _, r := range s.restoring {
		if s.Members[r.member] != nil {
			ids[r.member] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

func (s *Soft) appendCopies(b []byte, ids []string, now int64) []byte {
	lost := map[string][]topology.Task{}
	for _, t := range slices.SortedFunc(maps.Keys(s.restoring), topology.Task.Compare) {
		lost[s.restoring[t].member] = append(lost[s.restoring[t].member], t)
	}
	b = binary.AppendUvarint(b, uint64(len(ids)))
	for _, id := range ids {
		m := s.Members[id]
		b = append(appendString(b, id), bit(m.old))
		b = binary.AppendUvarint(b, uint64(len(m.warmups)))
		for _, w := range m.warmups {
			b = append(appendPassed(appendTask(b, w.Task), w.since, now), bit(w.ready)|bit(w.stalled)<<1)
			b = binary.AppendUvarint(b, uint64(max(0, w.at)))
		}
		b = binary.AppendUvarint(b, uint64(len(lost[id])))
		for _, t := range lost[id] {
			b = binary.AppendUvarint(appendTask(b, t), uint64(max(0, s.restoring[t].had)))
		}
	}
	return b
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func appendTask(b []byte, t topology.Task) []byte {
	return binary.AppendUvarint(appendString(b, t.Subtopology), uint64(uint32(t.Partition)))
}

// Smallest encodings of a member's copies, of a warm-up and of a task to restore.
const (
	minCopiesHandover  = 4
	minWarmupHandover  = 5
	minRestoreHandover = 3
)

func (r *handoverReader) copies() []copiesHandover {
	list := make([]copiesHandover, r.count(minCopiesHandover))
	for i := range list {
		c := &list[i]
		c.id, c.old = r.string(), r.uvarint() == 1
		c.warmups = make([]warmup, r.count(minWarmupHandover))
		for k := range c.warmups {
			w := warmup{Task: r.task(), since: r.ms()}
			is := r.uvarint()
			w.ready, w.stalled, w.at = is&1 != 0, is&2 != 0, r.offset()
			c.warmups[k] = w
		}
		c.restores = make([]restoreHandover, r.count(minRestoreHandover))
		for k := range c.restores {
			c.restores[k] = restoreHandover{r.task(), r.offset()}
		}
	}
	return list
}

// offset reads an offset that is not below 0.
func (r *handoverReader) offset() int64 { return int64(min(r.uvarint(), math.MaxInt64)) }

func (r *handoverReader) task() topology.Task {
	return topology.Task{Subtopology: r.string(), Partition: r.int32()}
}

// inheritCopies lets what is known of copies go on: of warm-ups that the members still have.
func (s *Soft) inheritCopies(h *Handover, g *fsm.Group, since func(passed int64) int64) {
	patience := s.WarmupDue - s.electedAt
	for i := range h.copies {
		from := &h.copies[i]
		m, hard := s.Members[from.id], g.Member(from.id)
		if m == nil || hard == nil {
			continue
		}
		m.old = from.old
		assigned := &currentOf(hard).Assigned
		for k, w := range m.warmups {
			at := slices.IndexFunc(from.warmups, func(o warmup) bool { return o.Task == w.Task })
			if at >= 0 && from.warmups[at].since != 0 {
				w := from.warmups[at]
				m.warmups[k].since, m.warmups[k].at, m.warmups[k].ready = since(w.since), w.at, w.ready
				if w.stalled {
					m.warmups[k].stalled, m.warmups[k].raised = true, g.Epoch()
				}
				s.WarmupDue = earlier(s.WarmupDue, max(1, m.warmups[k].since+patience))
			}
		}
		for _, r := range from.restores {
			if assigned.Active.Contains(r.Task) {
				s.applyCopies(&SoftChange{restoring: []restoringMark{{r.Task, &restoring{member: from.id, had: r.had}}}})
			}
		}
	}
}
