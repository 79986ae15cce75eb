package convergence

import (
	"slices"

	"github.com/coordd/coordd/topology"
)

// store is the local state of a task.
type store struct {
	pos        int64 // the changelog position that it has come to
	checkpoint int64 // what a crash leaves of it
	usedAt     int64 // when a task used it last (ms)
}

// running is a copy of a stateful task that a thread runs.
type running struct {
	task   topology.Task
	active bool
	since  int64 // when the thread began to run it in any role (ms)
	// restoring is true until the copy has come to the end of its changelog for the first time, read from when it has read any
	// record since it was opened or became a replica.
	restoring, read bool
}

// process is one instance of the app: threads over one state directory.
type process struct {
	name    string
	id      string // it is kept in the state directory
	alive   bool
	threads int
	starts  int
	members []*member
	disk    map[topology.Task]*store
	// copies are the stateful tasks that the threads run, by task.
	copies map[topology.Task]*running
}

func newProcess(name string, threads int) *process {
	return &process{name: name, id: name + "-1", threads: threads, disk: map[topology.Task]*store{}}
}

// start begins a life of the process; without its disk it is another process to the group.
func (p *process) start(now int64, withState bool) {
	p.starts++
	if !withState {
		p.disk, p.id = map[topology.Task]*store{}, processID(p.name, p.starts)
	}
	p.alive, p.members, p.copies = true, nil, map[topology.Task]*running{}
	for i := range p.threads {
		p.members = append(p.members, newMember(p, i, now))
	}
}

// end stops every thread where it is. A crash leaves what was checkpointed.
func (p *process) end(crash bool) {
	p.alive, p.members, p.copies = false, nil, nil
	for _, s := range p.disk {
		if crash {
			s.pos = s.checkpoint
		} else {
			s.checkpoint = s.pos
		}
	}
}

// sorted are the copies in order, active ones first: standbys wait while active tasks restore (DefaultStateUpdater).
func (p *process) sorted() []*running {
	list := make([]*running, 0, len(p.copies))
	for _, c := range p.copies {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *running) int {
		if a.active != b.active {
			if a.active {
				return -1
			}
			return 1
		}
		return a.task.Compare(b.task)
	})
	return list
}

// read lets the copies that are behind read their changelogs, at most budget records for the whole process in equal shares.
// It returns how many of these belong to copies that had not caught up before.
func (p *process) read(budget int64, ends map[topology.Task]int64) (restored int64) {
	list := p.sorted()
	for _, active := range [...]bool{true, false} {
		for budget > 0 {
			var behind []*running
			for _, c := range list {
				if c.active == active && p.disk[c.task].pos < ends[c.task] {
					behind = append(behind, c)
				}
			}
			if behind == nil {
				break
			}
			share := max(1, budget/int64(len(behind)))
			for _, c := range behind {
				s := p.disk[c.task]
				n := min(share, budget, ends[c.task]-s.pos)
				s.pos += n
				budget -= n
				c.read = c.read || n > 0
				if c.restoring {
					restored += n
				}
			}
		}
	}
	for _, c := range list {
		c.restoring = c.restoring && p.disk[c.task].pos < ends[c.task]
	}
	return restored
}

// clean removes the state of tasks that no thread has used for the cleanup delay, and notes which are used.
func (p *process) clean(now int64) {
	for t, s := range p.disk {
		if p.copies[t] != nil {
			s.usedAt = now
		} else if now-s.usedAt >= cleanupDelayMs {
			delete(p.disk, t)
		}
	}
}

// checkpoint writes down how far every store is.
func (p *process) checkpoint() {
	for _, s := range p.disk {
		s.checkpoint = s.pos
	}
}
