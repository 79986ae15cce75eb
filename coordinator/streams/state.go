package streams

import "github.com/coordd/coordd/fsm"

// StateOf derives the state of a group (KIP-1071, "Streams Group States"); nil is Dead. It costs the same for every
// size.
func StateOf(g *fsm.Group) GroupState {
	switch {
	case g == nil:
		return StateDead
	case g.NumMembers() == 0:
		return StateEmpty
	case g.Topology == nil || g.Topology.Epoch != groupMetadata(g).ValidatedTopologyEpoch:
		return StateNotReady
	case groupMetadata(g).Epoch > assignmentEpoch(g):
		return StateAssigning
	case !g.Reconciled():
		return StateReconciling
	}
	return StateStable
}
