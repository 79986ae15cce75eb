package assignor

import "errors"

// ErrNoMembers says that there is nobody to assign to.
var ErrNoMembers = errors.New("assignor: no members")

// StickyName is the name of the sticky assignor.
const StickyName = "sticky"

// Sticky returns the assignor that leaves tasks where they are, or where their state is, as far as the balance allows
// (KIP-1071 "sticky"; Kafka's StickyTaskAssignor). It does not look at racks and never assigns warm-ups. Where Kafka
// leaves ties open they are broken by process id, then member id.
func Sticky() Assignor { return sticky{} }

type sticky struct{}

// Name implements Assignor.
func (sticky) Name() string { return StickyName }

// Assign implements Assignor.
func (sticky) Assign(spec Spec) (Assignment, error) {
	if len(spec.Members) == 0 {
		return nil, ErrNoMembers
	}
	p := newProblem(&spec)
	if p.numStale == len(p.members) {
		return Kept(&spec), nil
	}
	return solveSticky(p).result(), nil
}

// solveSticky is the sticky assignment in dense form. At least one member of the problem is not stale.
func solveSticky(p *problem) *solution {
	s := newStickyRun(p)
	s.assignActives()
	if s.maxCopies > 1 {
		s.assignStandbys()
	}
	return s.solution
}

// stickyRun is one run of the sticky assignor.
type stickyRun struct {
	*solution
	activeQuota, totalQuota quota
}

func newStickyRun(p *problem) *stickyRun {
	standbys := max(p.spec.NumStandbyReplicas, 0)
	replicas := int64(0)
	for _, s := range p.spec.Subtopologies {
		if s.Stateful {
			replicas += int64(max(s.Tasks, 0)) * int64(standbys)
		}
	}
	s := &stickyRun{solution: newSolution(p, standbys)}
	actives := s.keepActives()
	members, tasks := int64(len(p.members)-p.numStale), int64(p.numTasks())-actives
	s.activeQuota, s.totalQuota = newQuota(tasks, members), newQuota(max(0, tasks+replicas-int64(len(p.keptStandby))), members)
	return s
}

// quota is how many tasks a member may be given for the sake of stickiness. A member that reaches it leaves the reckoning
// with its tasks, and the rest is shared by the others.
type quota struct {
	tasks, members, perMember int64
}

func newQuota(tasks, members int64) quota {
	q := quota{tasks: tasks, members: members}
	q.share()
	return q
}

func (q *quota) share() {
	q.perMember = 0
	if q.members > 0 {
		q.perMember = (q.tasks + q.members - 1) / q.members
	}
}

func (q *quota) allows(count int32) bool { return int64(count) < q.perMember }

// counted is told the new count of a member after each task it got.
func (q *quota) counted(count int32) {
	if int64(count) == q.perMember {
		q.tasks -= int64(count)
		q.members--
		q.share()
	}
}

func (s *stickyRun) giveActive(task, member int32) {
	s.give(task, member)
	s.activeGiven(member)
}

func (s *stickyRun) activeGiven(member int32) {
	s.activeQuota.counted(s.count[member])
	s.totalQuota.counted(s.count[member])
}

func (s *stickyRun) giveStandby(task, member int32) {
	s.give(task, member)
	s.totalQuota.counted(s.count[member])
}

func (s *stickyRun) assignActives() {
	// To who has it.
	for _, t := range s.byPartition {
		if m := s.prevActive[t]; m >= 0 && s.numCopies[t] == 0 && s.activeQuota.allows(s.count[m]) {
			s.giveActive(t, m)
		}
	}
	// To who has its state.
	for _, t := range s.byPartition {
		if s.numCopies[t] > 0 {
			continue
		}
		if m := s.bestCandidate(t); m >= 0 && s.activeQuota.allows(s.count[m]) {
			s.giveActive(t, m)
		}
	}
	// To who has least to do.
	q := newPool(s.solution)
	for t := range int32(s.numTasks()) {
		if s.numCopies[t] == 0 {
			s.activeGiven(q.take(t))
		}
	}
}

// bestCandidate is the first candidate whose process has no copy of the task, or a later one that has less to do itself and
// in its process; -1 when there is none.
func (s *stickyRun) bestCandidate(task int32) int32 {
	best := int32(-1)
	for _, c := range s.candidatesOf(task) {
		if s.holds(task, s.process[c.member]) {
			continue
		}
		if best < 0 || s.count[c.member] < s.count[best] && s.lighter(s.process[c.member], s.process[best]) {
			best = c.member
		}
	}
	return best
}

func (s *stickyRun) assignStandbys() {
	s.keepStandbys()
	for i := len(s.byPartition) - 1; i >= 0; i-- {
		t := s.byPartition[i]
		if !s.stateful(t) {
			continue
		}
		for int(s.numCopies[t]) < s.maxCopies && s.giveStickyStandby(t) {
		}
	}
	q := newPool(s.solution)
	for t := int32(s.numTasks()) - 1; t >= 0; t-- {
		if !s.stateful(t) {
			continue
		}
		for int(s.numCopies[t]) < s.maxCopies {
			m, ok := q.takeApart(t)
			if !ok {
				break
			}
			s.totalQuota.counted(s.count[m])
		}
	}
}

// giveStickyStandby gives a standby to a member that has the state of the task; it returns false when none may have it.
func (s *stickyRun) giveStickyStandby(t int32) bool {
	if m := s.prevActive[t]; m >= 0 && !s.holds(t, s.process[m]) && s.totalQuota.allows(s.count[m]) {
		s.giveStandby(t, m)
		return true
	}
	if m := s.bestCandidate(t); m >= 0 && s.totalQuota.allows(s.count[m]) {
		s.giveStandby(t, m)
		return true
	}
	return false
}
