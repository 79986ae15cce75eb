package streams

import (
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// TopologyState is a topology that a group has or had, and who runs it.
type TopologyState struct {
	// Epoch is the topology epoch in the group; -1 stands for members whose topology the group does not know.
	Epoch int32
	// Current says that it is the group's topology.
	Current bool
	// Restores is the epoch of the same topology before an update that was taken back; -1 where it is none.
	Restores int32
	// Aborted says that the update to it was taken back.
	Aborted bool
	// Foreign says that the group never had it: members of a lower epoch came with it.
	Foreign bool
	// Declared is the epoch that apps send with it.
	Declared int32
	// Hash is [topology.Topology.ContentHash]; zero where nothing is known.
	Hash [topology.ContentHashSize]byte
	// SinceMs is when it became the group's (wall clock, ms); 0: not known.
	SinceMs int64
	// Content is nil where it is not kept any more.
	Content *topology.Topology
	// Tasks are the task counts as they were last, of earlier topologies; nil where that is not known.
	Tasks []record.TaskCount
	// Members are the ids of those that run it, ascending. Members of a topology that is current again count there.
	Members []string
}

// TopologyHistory shows the topologies of a group, the newest first: the group's is the first, and the next one with Content
// and neither Aborted nor of the same hash is what [AbortTopology] goes back to (see [AbortTarget]). It is read from hard
// state alone, so that every replica can tell it. It is empty where the group has no topology.
func TopologyHistory(g *fsm.Group) []TopologyState {
	l := lineageOf(g)
	if l.current == nil {
		return nil
	}
	now := l.now()
	list := []TopologyState{stateOfVersion(l.current.Epoch, &now)}
	list[0].Current, list[0].Content = true, l.current
	var earlier []fsm.TopologyVersion
	for v := range g.TopologyVersions() {
		if v.Epoch < l.current.Epoch {
			earlier = append(earlier, v)
		}
	}
	at := map[int32]int{l.current.Epoch: 0}
	for i := len(earlier) - 1; i >= 0; i-- {
		at[earlier[i].Epoch] = len(list)
		list = append(list, stateOfVersion(earlier[i].Epoch, earlier[i].TopologyVersion))
	}
	for i := range list {
		for k := i + 1; k < len(list) && list[i].Restores != -1; k++ {
			if v := l.version(list[k].Epoch); v != nil && v.Root == list[i].Restores {
				list[i].Restores = list[k].Epoch // the newest of the same root
				break
			}
		}
	}
	for m := range g.Members() {
		epoch := metaOf(m).TopologyEpoch
		if !l.stale(epoch) {
			epoch = l.current.Epoch
		}
		i, ok := at[epoch]
		if !ok {
			i = len(list)
			at[epoch] = i
			list = append(list, TopologyState{Epoch: epoch, Restores: -1, Declared: epoch})
		}
		list[i].Members = append(list[i].Members, m.ID)
	}
	return list
}

func stateOfVersion(epoch int32, v *record.TopologyVersion) TopologyState {
	s := TopologyState{
		Epoch: epoch, Restores: -1, Aborted: v.Aborted, Foreign: v.Foreign, Declared: v.Declared, Hash: v.Hash, SinceMs: v.SinceMs, Content: v.Content, Tasks: v.Tasks,
	}
	if v.Root != epoch {
		s.Restores = v.Root
	}
	return s
}

// AbortTarget is the topology that [AbortTopology] would go back to, under the epoch that it had; nil when there is none.
func AbortTarget(g *fsm.Group) *topology.Topology {
	l := lineageOf(g)
	if l.current == nil {
		return nil
	}
	if v := l.previous(); v != nil {
		return v.Content
	}
	return nil
}

// StaleTopology says whether a member of the topology epoch runs another topology than the group's.
func StaleTopology(g *fsm.Group, epoch int32) bool {
	l := lineageOf(g)
	return l.current != nil && l.stale(epoch)
}
