package assignor

import (
	"slices"

	"github.com/coordd/coordd/topology"
)

// state is what is known of the tasks' state in the processes. Stale members do not count: theirs serves nobody else.
type state struct {
	*problem
	// owner is the member that runs a task, -1 for none, and known are the candidates: as they were read, whoever counts as
	// owner or candidate for the desired assignment.
	owner []int32
	known []candidate
	// end is the largest reported cumulative end offset of each task over all members, -1 where none is known; nil until asked.
	end []int64
	// ready and lost are what the members say of warm-ups and active tasks; nil for none.
	ready, lost map[kept]bool
	// scratch is what replicasOf returned last.
	scratch []replica
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
	process int32
	// holder is the member with the highest role, -1 where all are dormant.
	holder int32
	role   role
	// caughtUp says that the task can become active here at once.
	caughtUp bool
	// offset is the cumulative changelog position that the member reported which runs the task (own), else the largest that any did,
	// -1 where none is known: what others of the process report of its folder may be of before.
	offset int64
	own    bool
}

func newState(p *problem) *state {
	s := &state{problem: p, owner: slices.Clone(p.prevActive), known: slices.Clone(p.candidates)}
	for m, i := range p.members {
		if member := &p.spec.Members[i]; len(member.Ready)+len(member.Restoring) > 0 {
			s.mark(&s.ready, member.Ready, int32(m))
			s.mark(&s.lost, member.Restoring, int32(m))
		}
	}
	return s
}

func (s *state) mark(said *map[kept]bool, tasks topology.Tasks, m int32) {
	s.eachTask(tasks, func(t int32) {
		if *said == nil {
			*said = map[kept]bool{}
		}
		(*said)[kept{t, m}] = true
	})
}

func (s *state) readEnds() {
	s.end = make([]int64, s.numTasks())
	for t := range s.end {
		s.end[t] = -1
	}
	for m := range s.spec.Members {
		s.eachOffset(s.spec.Members[m].EndOffsets, func(t int32, end *TaskOffset) {
			s.end[t] = max(s.end[t], knownOffset(end.Offset))
		})
	}
}

// endOf is the end of a task as far as it is known, -1 where nothing is. A client that found nothing to restore, or had the task
// as active before, may tell an end of long ago: it is no less than where a copy is that a member runs.
func (s *state) endOf(t int32) int64 {
	if s.end == nil {
		s.readEnds()
	}
	end := s.end[t]
	if end < 0 {
		return end
	}
	for _, c := range s.knownOf(t) {
		if c.held != reported || c.member == s.owner[t] {
			end = max(end, c.offset)
		}
	}
	return end
}

// runs says whether the owner of a task has its state.
func (s *state) runs(t int32) bool {
	return s.owner[t] >= 0 && (s.lost == nil || !s.lost[kept{t, s.owner[t]}])
}

// replicasOf are the replicas of a task, one for each process. They are valid until the next call.
func (s *state) replicasOf(t int32) []replica {
	s.scratch = s.scratch[:0]
	if m := s.owner[t]; m >= 0 {
		s.scratch = append(s.scratch, replica{process: s.process[m], holder: m, role: active, caughtUp: s.runs(t), offset: -1})
	}
	for _, c := range s.knownOf(t) {
		s.add(t, c)
	}
	end := int64(-2)
	for i := range s.scratch {
		r := &s.scratch[i]
		switch {
		case r.caughtUp:
		case r.role == warmup && s.ready != nil && s.ready[kept{t, r.holder}]:
			r.caughtUp = true
		case r.offset >= 0:
			if end == -2 {
				end = s.endOf(t)
			}
			r.caughtUp = end >= 0 && end-r.offset <= s.spec.AcceptableRecoveryLag
		}
	}
	return s.scratch
}

func (s *state) knownOf(t int32) []candidate {
	return s.known[s.candidateStart[t]:s.candidateStart[t+1]]
}

func (s *state) add(t int32, c candidate) {
	as := [...]role{reported: dormant, asStandby: standby, asWarmup: warmup}[c.held]
	at := slices.IndexFunc(s.scratch, func(r replica) bool { return r.process == s.process[c.member] })
	if at < 0 {
		at = len(s.scratch)
		s.scratch = append(s.scratch, replica{process: s.process[c.member], holder: -1, offset: -1})
	}
	r := &s.scratch[at]
	switch own := as != dormant || c.member == s.owner[t]; {
	case own && !r.own && c.offset >= 0:
		r.offset, r.own = c.offset, true
	case own || !r.own:
		r.offset = max(r.offset, c.offset)
	}
	if as > r.role || as == r.role && as != dormant && c.member < r.holder {
		r.role, r.holder = as, c.member
	}
}

// in is the task's replica in the process, without a role where there is none.
func (s *state) in(task, process int32) replica {
	for _, r := range s.replicasOf(task) {
		if r.process == process {
			return r
		}
	}
	return replica{process: process, holder: -1, offset: -1}
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
