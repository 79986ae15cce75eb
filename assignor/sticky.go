package assignor

import "errors"

// ErrNoMembers says that there is nobody to assign to.
var ErrNoMembers = errors.New("assignor: no members")

// StickyName is the name of the sticky assignor.
const StickyName = "sticky"

// Sticky returns the assignor that leaves tasks where they are, or where their state is, as far as the balance allows
// (KIP-1071 "sticky"; Kafka's StickyTaskAssignor). It never assigns warm-ups. Where Kafka leaves ties open they
// are broken by process id, then member id.
//
// Unlike Kafka's it spreads the copies of a task over RackAwareTags where processes differ in them, and places active tasks
// near their partitions' leaders where LeaderRacks says where those are.
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
	s := &stickyRun{newSolution(p, p.spec.NumStandbyReplicas)}
	s.assignActives(s.keepActives())
	if s.maxCopies > 1 && !s.spreadStandbys() {
		s.assignStandbys()
	}
	return s.solution
}

// stickyRun is one run of the sticky assignor.
type stickyRun struct{ *solution }
