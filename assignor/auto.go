package assignor

// AutoName is the name of the choice by state.
const AutoName = "auto"

// Auto returns the assignor that works as HighlyAvailable where a subtopology has state to move, else as Sticky (the choice
// of KIP-1071, section "Assignment", for groups that name no assignor).
func Auto() Assignor { return auto{} }

type auto struct{}

// Name implements Assignor.
func (auto) Name() string { return AutoName }

// UsesWarmups is what [UsesWarmups] asks for.
func (auto) UsesWarmups() bool { return true }

// Assign implements Assignor.
func (auto) Assign(spec Spec) (Assignment, error) {
	for i := range spec.Subtopologies {
		if s := &spec.Subtopologies[i]; s.Stateful && s.Tasks > 0 {
			return HighlyAvailable().Assign(spec)
		}
	}
	return Sticky().Assign(spec)
}
