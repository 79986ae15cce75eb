package sim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/topology"
)

const (
	// acceptableLag is acceptable.recovery.lag of groups with warm-ups, and offsetInterval their task.offset.interval.ms.
	acceptableLag  = 100
	offsetInterval = time.Second
	// restoreWithin is how long a copy takes to restore the whole changelog.
	restoreWithin = 3 * time.Second
)

// positions are places in changelogs.
type positions map[topology.Task]int64

// appState is the state of an app's tasks: how long the changelogs are, and how much of them the processes have on disk.
type appState struct {
	subtopology string

	mu    sync.Mutex
	ends  positions
	disks map[*process]positions
}

func newAppState(subtopology string) *appState {
	return &appState{subtopology: subtopology, ends: positions{}, disks: map[*process]positions{}}
}

// end is the length of a task's changelog: some are long, one is empty. s.mu is held.
func (s *appState) end(t topology.Task) int64 {
	if _, known := s.ends[t]; !known {
		s.ends[t] = [...]int64{6000, 2000, 0, 8000, 4000}[t.Partition%5]
	}
	return s.ends[t]
}

// growth is how many records a task writes in a second; some write none.
func growth(t topology.Task) int64 { return [...]int64{50, 0, 0, 20, 500}[t.Partition%5] }

func (s *appState) disk(p *process) positions {
	if s.disks[p] == nil {
		s.disks[p] = positions{}
	}
	return s.disks[p]
}

// storeCopy is a task with state that a member runs.
type storeCopy struct {
	active bool
	// running says that an active copy has restored its state and processes.
	running bool
	// read says that it has restored records since it was opened, or became a replica: its end is known.
	read bool
}

// reporter is what a member knows of its tasks' positions, and what it told of them last. Only run uses it.
type reporter struct {
	copies               map[topology.Task]*storeCopy
	until                time.Time // when the copies are as they are
	interval             time.Duration
	lag                  int64
	sentOffsets, sentEnd positions
	sentAt               time.Time
}

func seconds(rate int64, d time.Duration) int64 { return int64(float64(rate) * d.Seconds()) }

// passTime restores, tails and processes what the member runs until now.
func (m *member) passTime() {
	s, r := m.group.state, &m.reports
	since := time.Since(r.until)
	r.until = time.Now()
	disk := s.disk(m.process)
	for t, c := range r.copies {
		if c.running {
			s.ends[t] = s.end(t) + seconds(growth(t), since)
			disk[t] = s.ends[t]
			continue
		}
		next := min(s.end(t), disk[t]+seconds(s.end(t), since)/int64(restoreWithin.Seconds()))
		c.read = c.read || next > disk[t]
		disk[t] = max(disk[t], next)
		c.running = c.active && disk[t] == s.ends[t]
	}
}

// runs has the member open, recycle and close copies.
func (m *member) runs(now held) {
	s := m.group.state
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.passTime()
	next := map[topology.Task]*storeCopy{}
	for r := range now {
		for _, t := range now[r] {
			if t.Subtopology != s.subtopology {
				continue
			}
			isActive := role(r) == active
			c := m.reports.copies[t]
			if c == nil || c.active != isActive {
				disk := s.disk(m.process)
				disk[t] += 0 // the folder is there from now on
				c = &storeCopy{active: isActive, running: isActive && disk[t] == s.end(t)}
			}
			next[t] = c
		}
	}
	m.reports.copies = next
}

// loses has the state go of what the member processed, as it does with exactly-once when it is not closed in peace.
func (m *member) loses() {
	s := m.group.state
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, c := range m.reports.copies {
		if c.active && m.process.exactlyOnce {
			delete(s.disk(m.process), t)
		}
	}
	m.reports.copies = nil
}

// reportPositions adds to a request what a client tells of its tasks. A task that it processes is in no list; what its process has on
// disk besides is in that of the offsets, whoever runs it.
func (m *member) reportPositions(req *kmsg.StreamsGroupHeartbeatRequest) {
	s, r := m.group.state, &m.reports
	if s == nil || req.Version < 1 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.passTime()
	offsets, ends := maps.Clone(s.disk(m.process)), positions{}
	for t, c := range r.copies {
		switch {
		case c.running:
			delete(offsets, t)
		case c.read:
			ends[t] = s.ends[t] - 1
		default:
			ends[t] = math.MaxInt64
		}
	}
	if m.epoch == 0 {
		ends = positions{}
	}
	all := m.epoch == 0 || m.full
	if !all && req.ActiveTasks == nil && time.Since(r.sentAt) < r.interval && !m.hotWarmup(offsets, ends) {
		return
	}
	if all || !maps.Equal(offsets, r.sentOffsets) {
		req.TaskOffsets = wirePositions(offsets)
		r.sentOffsets, r.sentAt = offsets, time.Now()
	}
	if all || !maps.Equal(ends, r.sentEnd) {
		req.TaskEndOffsets = wirePositions(ends)
		r.sentEnd, r.sentAt = ends, time.Now()
	}
}

// hotWarmup says whether a warm-up is within the lag up to which the client tells of it with each heartbeat.
func (m *member) hotWarmup(offsets, ends positions) bool {
	return slices.ContainsFunc(m.owned[warmup], func(t topology.Task) bool {
		end, known := ends[t]
		return known && end != math.MaxInt64 && end-offsets[t] <= m.reports.lag
	})
}

func wirePositions(p positions) []kmsg.TaskOffset {
	list := []kmsg.TaskOffset{}
	for _, t := range slices.SortedFunc(maps.Keys(p), topology.Task.Compare) {
		at := kmsg.NewTaskOffset()
		at.SubtopologyID, at.Partition, at.Offset = t.Subtopology, t.Partition, p[t]
		list = append(list, at)
	}
	return list
}

// toldPositions are the positions of a request, for a trace.
func toldPositions(req *kmsg.StreamsGroupHeartbeatRequest) string {
	if req.TaskOffsets == nil && req.TaskEndOffsets == nil {
		return ""
	}
	var b strings.Builder
	for i, list := range [...][]kmsg.TaskOffset{req.TaskOffsets, req.TaskEndOffsets} {
		b.WriteString([...]string{"; offsets", "; ends"}[i])
		for _, at := range list {
			fmt.Fprintf(&b, " %s_%d:%d", at.SubtopologyID, at.Partition, at.Offset)
		}
	}
	return b.String()
}
