package assignor

// HighlyAvailableName is the name of the highly available assignor.
const HighlyAvailableName = "highly_available"

// HighlyAvailable returns the assignor under which a stateful task becomes active only where its state is caught up
// (KIP-1071 "highly_available"; Kafka's classic HighAvailabilityTaskAssignor). It takes the assignment of Sticky for what
// is desired, and gives out the nearest one that interrupts no task: a task whose new owner is not caught up stays with its
// owner while the new one gets a warm-up, at most NumWarmupReplicas in the group at once. What it gives out differs from
// what is desired only while there is such a warm-up; so the group gets there step by step if the assignment is computed
// anew whenever a warm-up has caught up.
//
// With NumWarmupReplicas 0, or for a member that can get no warm-ups, tasks move at once.
//
// Standbys stay where they are as long as a task waits. When none does they move at once, where that balances the group better
// or spreads it over racks, also away from one that is caught up: a warm-up does not say whether its holder shall run the task
// or have its standby, so that the next computation would take one that is for a standby for a claim to run the task.
func HighlyAvailable() Assignor { return highlyAvailable{} }

type highlyAvailable struct{}

// Name implements Assignor.
func (highlyAvailable) Name() string { return HighlyAvailableName }

// UsesWarmups is what [UsesWarmups] asks for.
func (highlyAvailable) UsesWarmups() bool { return true }

// Assign implements Assignor.
func (highlyAvailable) Assign(spec Spec) (Assignment, error) {
	if len(spec.Members) == 0 {
		return nil, ErrNoMembers
	}
	p := newProblem(&spec)
	if p.numStale == len(p.members) {
		return Kept(&spec), nil
	}
	r := desire(p)
	r.refine()
	return r.result(), nil
}

// desire computes what is desired.
func desire(p *problem) *refiner {
	c := claim(newState(p))
	return newRefiner(solveSticky(p), c)
}
