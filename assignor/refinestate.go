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
	// away are the members that are away, nil where none is, and present is how many members of a process could run a task now.
	away    []bool
	present []int32
	// stalled are the tasks that make no progress in a process, which stands for the member; nil for none.
	stalled map[kept]bool
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
	// away says that the process cannot run the task now: the holder is away, or everybody is.
	away bool
	// offset is the cumulative changelog position that the member reported which runs the task (own), else the largest that any did,
	// -1 where none is known: what others of the process report of its folder may be of before.
	offset int64
	own    bool
}

func newState(p *problem) *state {
	s := &state{problem: p, owner: slices.Clone(p.prevActive), known: slices.Clone(p.candidates)}
	for m, i := range p.members {
		if member := &p.spec.Members[i]; len(member.Ready)+len(member.Restoring)+len(member.Stalled) > 0 {
			s.mark(&s.ready, member.Ready, int32(m))
			s.mark(&s.lost, member.Restoring, int32(m))
			s.mark(&s.stalled, member.Stalled, s.process[m])
		}
	}
	s.readAway()
	return s
}

func (s *state) readAway() {
	for m, i := range s.members {
		if s.spec.Members[i].Away {
			if s.away == nil {
				s.away, s.present = make([]bool, len(s.members)), slices.Clone(s.fresh)
			}
			s.away[m] = true
			if !s.isStale(int32(m)) {
				s.present[s.process[m]]--
			}
		}
	}
}

func (s *state) isAway(m int32) bool { return s.away != nil && s.away[m] }

// isPresent says whether the member can run a task that it gets now.
func (s *state) isPresent(m int32) bool { return !s.isAway(m) && !s.isStale(m) }

// replicaAway says whether the process of a replica cannot run it now.
func (s *state) replicaAway(r *replica) bool {
	switch {
	case s.away == nil:
		return false
	case r.holder >= 0:
		return s.away[r.holder]
	}
	return s.present[r.process] == 0
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
		switch r.away = s.replicaAway(r); {
		case r.caughtUp, r.away:
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
	if s.isAway(c.member) && s.present[s.process[c.member]] > 0 {
		// Who is there knows better what is left of the process's state.
		if as == dormant {
			return
		}
		c.offset = -1
	}
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
