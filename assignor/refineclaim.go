package assignor

import (
	"math"
	"slices"
)

// claims says who runs each task until its desired owner is caught up, and has the desired assignment computed as if the moves
// under way were done, so that it asks for the same moves again.
type claims struct {
	*state
	// runner is by task its owner, or the member that takes it over from one that is gone or has lost its state; -1 where nobody
	// has any state. tookOver says that some task has changed hands so.
	runner   []int32
	tookOver bool
	// running is the number of tasks of each process by runner.
	running []int32
}

// claim finds the runners. A task counts for the desired assignment as its runner's, but where it has a warm-up as that of the
// warm-up's holder; the runner is then the next that has the state.
func claim(s *state) *claims {
	c := &claims{state: s, runner: slices.Clone(s.owner), running: make([]int32, s.numProcesses())}
	var orphans []uint64
	for t, m := range c.runner {
		t := int32(t)
		switch {
		case s.runs(t) || m >= 0 && !s.stateful(t):
			c.running[s.process[m]]++
		case s.stateful(t):
			orphans = append(orphans, fewestFirst(s.numCaughtUp(t), t))
		}
	}
	slices.Sort(orphans)
	for _, key := range orphans {
		c.takeOver(int32(uint32(key)))
	}
	if s.spec.NumWarmupReplicas > 0 && s.hasWarmups {
		c.claimWarmups()
	}
	return c
}

// fewestFirst sorts tasks by the number of processes that are caught up, then by their own numbers.
func fewestFirst(caughtUp int, task int32) uint64 {
	return uint64(min(caughtUp, math.MaxInt16))<<32 | uint64(task)
}

// takeOver finds the runner of a task that has no owner, or one that lost its state: among the processes that are caught up who
// holds a replica, then the least loaded; else, if there is no owner, who has most of the state. Who is away takes over only where
// nobody else can: the task would run nowhere.
func (c *claims) takeOver(t int32) {
	best, was := int32(-1), c.owner[t]
	var from replica
	for _, r := range c.replicasOf(t) {
		if !r.caughtUp && (was >= 0 || r.offset < 0 && r.role == dormant) {
			continue
		}
		if m := c.memberFor(&r); m >= 0 && (best < 0 || c.nearer(&r, &from)) {
			best, from = m, r
		}
	}
	if best < 0 {
		best = was
	}
	if c.away != nil && (best < 0 || was < 0 && from.away) {
		if m := c.anyPresent(t); m >= 0 {
			best = m
		}
	}
	if best < 0 {
		return
	}
	c.running[c.process[best]]++
	if best != was {
		c.tookOver = true
		c.runner[t], c.prevActive[t] = best, best
		c.replaceCandidate(t, best, was)
	}
}

// anyPresent is a member of the least loaded process that can run the task now, whatever its state: rather one that needs not wait
// for a member of its process which is away to let go of its copy; -1 for none.
func (c *claims) anyPresent(t int32) int32 {
	best, bestWaits := int32(-1), false
	blocked := map[int32]bool{}
	for _, r := range c.replicasOf(t) {
		if r.away && r.holder >= 0 {
			blocked[r.process] = true
		}
	}
	for p := range int32(c.numProcesses()) {
		if c.present[p] == 0 {
			continue
		}
		if waits := blocked[p]; best < 0 || waits != bestWaits && bestWaits || waits == bestWaits && c.lessLoaded(p, best) {
			best, bestWaits = p, waits
		}
	}
	if best < 0 {
		return -1
	}
	for m := c.first[best]; ; m++ {
		if c.isPresent(m) {
			return m
		}
	}
}

// lessLoaded says whether process a runs fewer tasks for its size than b.
func (c *claims) lessLoaded(a, b int32) bool {
	return int64(c.running[a])*int64(c.size(b)) < int64(c.running[b])*int64(c.size(a))
}

// nearer says whether a is rather to run the task than b.
func (c *claims) nearer(a, b *replica) bool {
	if a.away != b.away {
		return b.away
	}
	if a.caughtUp != b.caughtUp {
		return a.caughtUp
	}
	if !a.caughtUp && a.offset != b.offset {
		return a.offset > b.offset
	}
	if held := a.role != dormant; held != (b.role != dormant) {
		return held
	}
	return c.lessLoaded(a.process, b.process) || !c.lessLoaded(b.process, a.process) && a.process < b.process
}

// memberFor is the member of the replica's process that would get the task as active: who holds it, else the first that may;
// -1 for none, also where tasks that are not caught up move without regard to state.
func (c *claims) memberFor(r *replica) int32 {
	may := func(m int32) bool { return !c.isStale(m) && (r.caughtUp || !c.noWarmups(m)) }
	if r.holder >= 0 {
		if may(r.holder) {
			return r.holder
		}
		return -1
	}
	for m := c.first[r.process]; m < c.first[r.process+1]; m++ {
		if may(m) && (r.away || !c.isAway(m)) {
			return m
		}
	}
	return -1
}

// claimWarmups gives the tasks that have a warm-up to its holder. A task that has just been taken over is not claimed: the
// reason for its warm-up has gone with its owner.
func (c *claims) claimWarmups() {
	for i, k := range c.known {
		if k.held != asWarmup || i > 0 && c.known[i-1].held == asWarmup && c.known[i-1].task == k.task {
			continue
		}
		if owner := c.owner[k.task]; owner >= 0 && owner == c.runner[k.task] && !c.isOnWay(k.task) {
			if m := c.warmupOf(k.task, c.process[owner]); m >= 0 {
				c.prevActive[k.task] = m
				c.replaceCandidate(k.task, m, owner)
				if c.onWay == nil {
					c.onWay, c.receiving = make([]bool, c.numTasks()), make([]int32, len(c.members))
				}
				c.onWay[k.task] = true
				c.receiving[m]++
			}
		}
	}
}

// warmupOf is who has the warm-up of the task that is nearest to being active, -1 for none.
func (c *claims) warmupOf(t, owner int32) int32 {
	best := replica{holder: -1}
	for _, r := range c.replicasOf(t) {
		if r.role != warmup || r.process == owner {
			continue
		}
		switch {
		case best.holder < 0, r.caughtUp && !best.caughtUp:
			best = r
		case r.caughtUp == best.caughtUp && (r.offset > best.offset || r.offset == best.offset && r.process < best.process):
			best = r
		}
	}
	return best.holder
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
			of[0] = candidate{task: task, member: first, holding: asStandby, offset: -1}
		} else {
			copy(of[i:], of[i+1:])
			of[len(of)-1] = candidate{task: task, member: member, offset: -1}
		}
		return
	}
}

func (p *problem) noWarmups(member int32) bool { return p.spec.Members[p.members[member]].NoWarmups }

func (p *problem) isStale(member int32) bool { return p.stale != nil && p.stale[member] }

// size is the number of members of a process.
func (p *problem) size(process int32) int32 { return p.first[process+1] - p.first[process] }
