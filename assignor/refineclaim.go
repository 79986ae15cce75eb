package assignor

import "slices"

// claim has the desired assignment computed as if the moves under way were done, so that it asks for the same moves again: a
// task with a warm-up counts as its holder's, as long as its owner is there, and one whose owner has lost its state counts as
// that of a replica which is caught up. The true owner is the next that may have the state. claim returns the true owners
// by task, -1 for none.
func (p *problem) claim(s *state) []int32 {
	owner := slices.Clone(p.prevActive)
	for t := range int32(p.numTasks()) {
		if owner[t] < 0 || !p.stateful(t) {
			continue
		}
		if m := s.claimant(t, p.process[owner[t]]); m >= 0 {
			p.prevActive[t] = m
			p.replaceCandidate(t, m, owner[t])
		}
	}
	return owner
}

// claimant is the member to which the task of the owner is on its way, -1 for none.
func (s *state) claimant(task, owner int32) int32 {
	of := s.replicasOf(task)
	lost := !s.caughtUp(task, owner)
	best := -1
	for i := range of {
		r := &of[i]
		if r.process == owner || r.holder < 0 || s.stale != nil && s.stale[r.holder] {
			continue
		}
		moves := r.role == warmup && s.spec.NumWarmupReplicas > 0 || lost && r.caughtUp && r.role != active
		if moves && (best < 0 || r.ahead(&of[best])) {
			best = i
		}
	}
	if best < 0 {
		return -1
	}
	return of[best].holder
}

// ahead says whether a is nearer to being active than b.
func (a *replica) ahead(b *replica) bool {
	if a.caughtUp != b.caughtUp {
		return a.caughtUp
	}
	if a.role != b.role {
		return a.role == warmup
	}
	return a.offset > b.offset
}

// replaceCandidate takes the member off the candidates of the task, since it counts as the owner, and puts another first.
func (p *problem) replaceCandidate(task, member, first int32) {
	of := p.candidatesOf(task)
	for i := range of {
		if of[i].member == member {
			copy(of[1:i+1], of[:i])
			of[0] = candidate{task: task, member: first, holding: asStandby}
			return
		}
	}
}
