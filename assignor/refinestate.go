package assignor

import (
	"math"

	"github.com/coordd/coordd/topology"
)

// state is what is known of the tasks' state in the processes.
type state struct {
	*problem
	// A task has the replicas from start[task] to start[task+1], by process.
	start    []int32
	replicas []replica
	// end is the largest known cumulative end offset of each task over all members, each not below what the member has itself;
	// -1 where none is known.
	end []int64
}

// role is how a replica is held.
type role uint8

const (
	dormant role = iota // on disk, by a reported offset
	warmup
	standby
	active
)

// replica is the state of a task in one process: of its members those who report the same task have it in common.
type replica struct {
	task, process int32
	// holder is the member with the highest role, -1 where all are dormant.
	holder int32
	role   role
	// offset is the largest reported cumulative changelog position, -1 where none is known.
	offset int64
	// ready says that the replica counts as caught up without any report, lost that its owner said to have lost it.
	ready, lost bool
	caughtUp    bool
}

// readState collects the replicas of all tasks. It reads each map of offsets once.
func readState(p *problem) *state {
	c := &stateReader{
		state: &state{problem: p, end: make([]int64, p.numTasks())},
		at:    make([]int32, p.numTasks()),
	}
	for t := range c.end {
		c.end[t], c.at[t] = -1, -1
	}
	for m := range p.members {
		c.read(int32(m))
	}
	c.sort()
	// A client that found nothing to restore may tell an end of long ago.
	for i := range c.replicas {
		if r := &c.replicas[i]; r.role != dormant && c.end[r.task] >= 0 {
			c.end[r.task] = max(c.end[r.task], r.offset)
		}
	}
	limit := p.spec.AcceptableRecoveryLag
	for i := range c.replicas {
		r := &c.replicas[i]
		end := c.end[r.task]
		r.caughtUp = r.role == active && !r.lost || r.ready || end >= 0 && r.offset >= 0 && end-r.offset <= limit
	}
	return c.state
}

type stateReader struct {
	*state
	// found are the replicas in the order of processes; at is the place in it of each task's last one.
	found []replica
	at    []int32
}

// of is the replica of the task in the member's process.
func (c *stateReader) of(task, member int32) *replica {
	process := c.process[member]
	if i := c.at[task]; i >= 0 && c.found[i].process == process {
		return &c.found[i]
	}
	c.at[task] = int32(len(c.found))
	c.found = append(c.found, replica{task: task, process: process, holder: -1, offset: -1})
	return &c.found[len(c.found)-1]
}

func (c *stateReader) read(m int32) {
	member := &c.spec.Members[c.members[m]]
	hold := func(set topology.Tasks, as role) {
		c.eachTask(set, func(t int32) {
			if r := c.of(t, m); as > r.role {
				r.holder, r.role = m, as
			}
		})
	}
	hold(member.Current.Active, active)
	hold(member.Current.Standby, standby)
	hold(member.Current.Warmup, warmup)
	c.eachTask(member.Ready, func(t int32) {
		if r := c.of(t, m); r.role == warmup && r.holder == m {
			r.ready = true
		}
	})
	c.eachTask(member.Restoring, func(t int32) {
		if r := c.of(t, m); r.role == active && r.holder == m {
			r.lost = true
		}
	})
	c.eachOffset(member.Offsets, func(t int32, o *TaskOffset) {
		if o.Offset >= 0 && o.Offset != math.MaxInt64 {
			r := c.of(t, m)
			r.offset = max(r.offset, o.Offset)
		}
	})
	own := member.Offsets
	c.eachOffset(member.EndOffsets, func(t int32, e *TaskOffset) {
		end := e.Offset
		if end < 0 || end == math.MaxInt64 {
			return
		}
		for len(own) > 0 && own[0].Compare(e.Task) < 0 {
			own = own[1:]
		}
		// An end below the member's own offset is of an earlier time, as a task that was active before tells it.
		if len(own) > 0 && own[0].Task == e.Task && own[0].Offset != math.MaxInt64 {
			end = max(end, own[0].Offset)
		}
		c.end[t] = max(c.end[t], end)
	})
}

// sort orders what was found by task in one pass of counting.
func (c *stateReader) sort() {
	c.start = make([]int32, c.numTasks()+1)
	for i := range c.found {
		c.start[c.found[i].task+1]++
	}
	for t := range c.numTasks() {
		c.start[t+1] += c.start[t]
	}
	c.replicas = make([]replica, len(c.found))
	next := c.at
	copy(next, c.start)
	for i := range c.found {
		t := c.found[i].task
		c.replicas[next[t]] = c.found[i]
		next[t]++
	}
}

func (s *state) replicasOf(task int32) []replica { return s.replicas[s.start[task]:s.start[task+1]] }

// in is the task's replica in the process, nil for none.
func (s *state) in(task, process int32) *replica {
	of := s.replicasOf(task)
	for i := range of {
		if of[i].process == process {
			return &of[i]
		}
	}
	return nil
}

// caughtUp is whether the state of the task is caught up in the process, in any role.
func (s *state) caughtUp(task, process int32) bool {
	r := s.in(task, process)
	return r != nil && r.caughtUp
}

// numCaughtUp is the number of processes where the task is caught up.
func (s *state) numCaughtUp(task int32) (n int) {
	for _, r := range s.replicasOf(task) {
		if r.caughtUp {
			n++
		}
	}
	return n
}
