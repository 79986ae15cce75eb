package fsm

import (
	"iter"
	"slices"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// TopologyVersion is a topology that a group has or had, under the epoch that it had in the group.
type TopologyVersion struct {
	Epoch int32
	*record.TopologyVersion

	hash uint64
}

// versions are the topologies of a group by ascending epoch. The list is immutable.
type versions []TopologyVersion

func (v versions) find(epoch int32) (int, bool) {
	return slices.BinarySearchFunc(v, epoch, func(a TopologyVersion, epoch int32) int {
		return int(int64(a.Epoch) - int64(epoch))
	})
}

func (v versions) with(e *evolver, epoch int32, value *record.TopologyVersion, hash uint64) versions {
	entry := TopologyVersion{Epoch: epoch, TopologyVersion: value}
	i, ok := v.find(epoch)
	if ok {
		entry.hash = v[i].hash
		v = slices.Clone(v)
	} else {
		v = slices.Insert(slices.Clone(v), i, entry)
	}
	e.rehash(&entry.hash, hash)
	v[i] = entry
	return v
}

func (v versions) without(e *evolver, epoch int32) versions {
	i, ok := v.find(epoch)
	if !ok {
		return v
	}
	hash := v[i].hash // shared with older states
	e.rehash(&hash, 0)
	if len(v) == 1 {
		return nil
	}
	return slices.Delete(slices.Clone(v), i, i+1)
}

// TopologyVersions yields the topologies that the group has and had by ascending epoch; none where it never changed.
func (g *Group) TopologyVersions() iter.Seq[TopologyVersion] {
	return func(yield func(TopologyVersion) bool) {
		if g == nil {
			return
		}
		for _, v := range g.versions {
			if !yield(v) {
				return
			}
		}
	}
}

// TopologyVersion returns the topology that the group has or had under an epoch, or nil. It allocates nothing.
func (g *Group) TopologyVersion(epoch int32) *record.TopologyVersion {
	if g == nil {
		return nil
	}
	if i, ok := g.versions.find(epoch); ok {
		return g.versions[i].TopologyVersion
	}
	return nil
}

// JoinedTopology returns the topology that a member of the given topology epoch runs: the group's, one of before, or nil
// where that is not known (any more). It allocates nothing.
func (g *Group) JoinedTopology(epoch int32) *topology.Topology {
	if g == nil || g.Topology == nil {
		return nil
	}
	v := g.TopologyVersion(epoch)
	switch now := g.TopologyVersion(g.Topology.Epoch); {
	case epoch == g.Topology.Epoch:
		return g.Topology
	case v == nil || epoch > g.Topology.Epoch:
		return nil
	case now != nil && now.Root == v.Root: // current again
		return g.Topology
	}
	return v.Content
}

// ReadsTopic says whether the group's topology, or an earlier one that members still run, has the topic as a source.
func (g *Group) ReadsTopic(topic string) bool {
	if g == nil || g.Topology == nil {
		return false
	}
	if g.Topology.Reads(topic) {
		return true
	}
	for _, v := range g.versions {
		if v.Content == nil || !v.Content.Reads(topic) {
			continue
		}
		for m := range g.Members() {
			if m.Meta != nil && m.Meta.TopologyEpoch == v.Epoch {
				return true
			}
		}
	}
	return false
}
