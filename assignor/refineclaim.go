package assignor

import (
	"math"
	"slices"
)

// claims says who runs each task until its desired owner is caught up, and has the desired assignment computed as if the moves
// under way were done, so that it asks for the same moves again.
type claims struct {
	*state
	// owner is by task the member that runs it now, or takes it over from one that is gone or has lost its state; -1 where
	// nobody has any state.
	owner []int32
	// owned is the number of tasks of each process by owner.
	owned []int32
}

// claim finds the owners. A task counts for the desired assignment as its owner's, but where it has a warm-up as that of the
// warm-up's holder; the owner is then the next that has the state.
func claim(s *state) *claims {
	c := &claims{state: s, owner: slices.Clone(s.prevActive), owned: make([]int32, s.numProcesses())}
	var orphans []uint64
	for t, m := range c.owner {
		t := int32(t)
		switch {
		case m >= 0 && (!s.stateful(t) || s.caughtUp(t, s.process[m])):
			c.owned[s.process[m]]++
		case s.stateful(t):
			orphans = append(orphans, fewestFirst(s.numCaughtUp(t), t))
		}
	}
	slices.Sort(orphans)
	for _, key := range orphans {
		c.takeOver(int32(uint32(key)))
	}
	if s.spec.NumWarmupReplicas > 0 {
		c.claimWarmups()
	}
	return c
}

// fewestFirst sorts tasks by the number of processes that are caught up, then by their own numbers.
func fewestFirst(caughtUp int, task int32) uint64 {
	return uint64(min(caughtUp, math.MaxInt16))<<32 | uint64(task)
}

// takeOver finds the owner of a task that has none, or one that lost its state: among the processes that are caught up who
// holds a replica, then the least loaded; else, if there is no owner, who has most of the state.
func (c *claims) takeOver(t int32) {
	best := int32(-1)
	var from *replica
	was := c.owner[t]
	of := c.replicasOf(t)
	for i := range of {
		r := &of[i]
		if !r.caughtUp && (was >= 0 || r.offset < 0 && r.role == dormant) {
			continue
		}
		if m := c.memberFor(r); m >= 0 && (from == nil || c.nearer(r, from)) {
			best, from = m, r
		}
	}
	if best < 0 {
		if was >= 0 {
			c.owned[c.process[was]]++
		}
		return
	}
	c.owner[t], c.prevActive[t] = best, best
	c.owned[c.process[best]]++
	c.replaceCandidate(t, best, was)
}

// nearer says whether a is rather to run the task than b.
func (c *claims) nearer(a, b *replica) bool {
	if a.caughtUp != b.caughtUp {
		return a.caughtUp
	}
	if !a.caughtUp && a.offset != b.offset {
		return a.offset > b.offset
	}
	if held := a.role != dormant; held != (b.role != dormant) {
		return held
	}
	return int64(c.owned[a.process])*int64(c.size(b.process)) < int64(c.owned[b.process])*int64(c.size(a.process))
}

// memberFor is the member of the replica's process that would get the task as active: who holds it, else the first that may;
// -1 for none, also where a stale member keeps its replica, and where tasks that are not caught up move without regard to state.
func (c *claims) memberFor(r *replica) int32 {
	may := func(m int32) bool { return !c.isStale(m) && (r.caughtUp || !c.noWarmups(m)) }
	if r.holder >= 0 {
		if may(r.holder) {
			return r.holder
		}
		return -1
	}
	for m := c.first[r.process]; m < c.first[r.process+1]; m++ {
		if may(m) {
			return m
		}
	}
	return -1
}

// claimWarmups gives the tasks that have a warm-up to its holder. A task that has just been taken over is not claimed: the
// reason for its warm-up has gone with its owner.
func (c *claims) claimWarmups() {
	for i := range c.replicas {
		r := &c.replicas[i]
		owner := c.owner[r.task]
		if r.role != warmup || !c.stateful(r.task) || owner < 0 || c.process[owner] == r.process || c.isStale(r.holder) {
			continue
		}
		if c.in(r.task, c.process[owner]).role == active && c.firstWarmup(r) {
			c.prevActive[r.task] = r.holder
			c.replaceCandidate(r.task, r.holder, owner)
		}
	}
}

// firstWarmup says whether no other warm-up of the task is nearer to being active.
func (c *claims) firstWarmup(r *replica) bool {
	of := c.replicasOf(r.task)
	for i := range of {
		o := &of[i]
		if o.role != warmup || o.process == r.process || c.isStale(o.holder) {
			continue
		}
		if o.caughtUp != r.caughtUp {
			if o.caughtUp {
				return false
			}
			continue
		}
		if o.offset > r.offset || o.offset == r.offset && o.process < r.process {
			return false
		}
	}
	return true
}

// replaceCandidate takes the member off the candidates of the task, since it counts as the owner, and puts another first if
// there is one.
func (p *problem) replaceCandidate(task, member, first int32) {
	of := p.candidatesOf(task)
	for i := range of {
		if of[i].member != member {
			continue
		}
		if first >= 0 {
			copy(of[1:i+1], of[:i])
			of[0] = candidate{task: task, member: first, holding: asStandby}
		} else {
			copy(of[i:], of[i+1:])
			of[len(of)-1] = candidate{task: task, member: member}
		}
		return
	}
}

func (p *problem) isStale(member int32) bool { return p.stale != nil && p.stale[member] }

func (p *problem) noWarmups(member int32) bool { return p.spec.Members[p.members[member]].NoWarmups }

// size is the number of members of a process.
func (p *problem) size(process int32) int32 { return p.first[process+1] - p.first[process] }
