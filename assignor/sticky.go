package assignor

import "errors"

// ErrNoMembers says that there is nobody to assign to.
var ErrNoMembers = errors.New("assignor: no members")

// StickyName is the name of the sticky assignor.
const StickyName = "sticky"

// Sticky returns the assignor that leaves tasks where they are, or where their state is, as far as the balance allows
// (KIP-1071 "sticky"; Kafka's StickyTaskAssignor). It never assigns warm-ups. What comes first decides:
//
//  1. Every member gets the same number of active tasks, or one more. A member with more than that gives up the rest, nobody
//     else gives up any, but by 4: no more active tasks move than must.
//  2. A member that has a warm-up of a task has a claim to it, if the owner has too many tasks.
//  3. As many tasks as possible go where their state is: those without an owner, and those that owners with too many may choose to
//     give up. What counts is a standby or warm-up in any member of a process, and what another member of the owner's own process
//     finds on their common disk; after that, offsets that members reported of tasks that they were not assigned. Among processes
//     with the same kind of state the one with the higher offset is preferred, then the one with fewer tasks for each member.
//  4. Where a task without an owner has its standbys or warm-ups in processes without room, one of these gives for it a task
//     without state, or one that has a standby or warm-up in another process, which then needs no restoring; that process has room
//     or does the same in its turn. At most three tasks move so for one that gets where its state is, and as few as possible. A copy
//     that is known to be further behind than AcceptableRecoveryLag does not take over from an owner.
//  5. Other active tasks go to who has fewest for each member of its process; owners keep those with the lowest partitions.
//  6. Standbys fill up processes until their tasks of all roles are in proportion to their numbers of members: first warm-ups of
//     tasks that are active elsewhere, then former standbys, then former owners, then reported offsets stay where they are. The
//     standbys of what a process runs are spread over many others, which can share it when it is gone: by where new ones are placed,
//     by which ones a process gives up that has too many, and by keeping the former owner of a task as standby in the place of
//     another that has one.
//
// Ties are broken by process id, then member id, both compared as strings. Computed again from its result the assignment is the
// same.
//
// Kafka's goes by quotas, task by task: it leaves tasks without their state although others could make room or exchange theirs, and two actives
// more to one member than to another. Unlike it, this one spreads the copies of a task over RackAwareTags where processes differ in
// them, and places active tasks near their partitions' leaders where LeaderRacks says where those are.
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
