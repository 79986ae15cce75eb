package fsm

import (
	"iter"

	"github.com/coordd/coordd/fsm/record"
)

// Records yields the records that make up the state, by ascending key (record.Key.Compare): evolving a new state by
// them gives an equal state.
func (s State) Records() iter.Seq[record.Record] {
	return func(yield func(record.Record) bool) {
		s.walk(func(v record.OffsetCommit) *record.OffsetCommit { return &v }, yield)
	}
}

// walk yields what Records does; share gives an offset's value a place.
func (s State) walk(share func(record.OffsetCommit) *record.OffsetCommit, yield func(record.Record) bool) {
	// The records of the system shard have no group id: they come among those of a group whose id is empty.
	if !s.about("", share, yield) {
		return
	}
	for id := range s.ids() {
		if id != "" && !s.about(id, share, yield) {
			return
		}
	}
}

// ids yields the ids of all groups, and of all that have settings, in ascending order.
func (s State) ids() iter.Seq[string] {
	return func(yield func(string) bool) {
		next, stop := iter.Pull2(s.GroupConfigs())
		defer stop()
		id, _, more := next()
		for g := range s.Groups() {
			for ; more && id < g.ID; id, _, more = next() {
				if !yield(id) {
					return
				}
			}
			if more && id == g.ID {
				id, _, more = next()
			}
			if !yield(g.ID) {
				return
			}
		}
		for ; more; id, _, more = next() {
			if !yield(id) {
				return
			}
		}
	}
}

// about yields the records whose keys have a group id; it reports whether to go on.
func (s State) about(id string, share func(record.OffsetCommit) *record.OffsetCommit, yield func(record.Record) bool) bool {
	g := s.Group(id)
	if g != nil && (!g.committed(share, yield) || !g.records(yield)) || id == "" && !s.system(yield) {
		return false
	}
	if c := s.GroupConfig(id); c != nil && !yield(record.Record{Key: record.Key{Type: record.TypeGroupConfig, Group: id}, Value: c}) {
		return false
	}
	return g == nil || g.history(yield)
}

func (s State) system(yield func(record.Record) bool) bool {
	for id, v := range s.Nodes() {
		if !yield(record.Record{Key: record.Key{Type: record.TypeNode, ID: id}, Value: v}) {
			return false
		}
	}
	for id, v := range s.Slots() {
		if !yield(record.Record{Key: record.Key{Type: record.TypeBrokerSlot, ID: id}, Value: v}) {
			return false
		}
	}
	return s.cluster.value == nil || yield(record.Record{Key: record.Key{Type: record.TypeCluster}, Value: s.cluster.value})
}

// committed yields the records of a group's offsets; it reports whether to go on.
func (g *Group) committed(share func(record.OffsetCommit) *record.OffsetCommit, yield func(record.Record) bool) bool {
	for p, v := range g.Offsets() {
		if !yield(record.Record{Key: offsetKey(g.ID, p.Topic, p.Partition), Value: share(v)}) {
			return false
		}
	}
	return true
}

// records yields the other records of a group in the order of their types, up to those of the system shard; it reports whether
// to go on.
func (g *Group) records(yield func(record.Record) bool) bool {
	put := func(t record.Type, member string, v record.Value) bool {
		return yield(record.Record{Key: record.Key{Type: t, Group: g.ID, Member: member}, Value: v})
	}
	if g.Metadata != nil && !put(record.TypeGroupMetadata, "", g.Metadata) {
		return false
	}
	for m := range values(g.members) {
		if m.Meta != nil && !put(record.TypeMemberMetadata, m.ID, m.Meta) {
			return false
		}
	}
	if g.TargetMeta != nil && !put(record.TypeTargetMetadata, "", g.TargetMeta) {
		return false
	}
	for m := range values(g.members) {
		if m.Target != nil && !put(record.TypeTargetMember, m.ID, m.Target) {
			return false
		}
	}
	for m := range values(g.members) {
		if m.Current != nil && !put(record.TypeCurrentAssignment, m.ID, m.Current) {
			return false
		}
	}
	if g.Topology != nil && !put(record.TypeTopology, "", &record.Topology{Topology: *g.Topology}) {
		return false
	}
	return !g.OffsetsClaimed || put(record.TypeOffsetsClaim, "", &record.OffsetsClaim{})
}

// history yields the rest.
func (g *Group) history(yield func(record.Record) bool) bool {
	for i := range g.journal {
		k := record.Key{Type: record.TypeJournalEntry, Group: g.ID, ID: g.journal[i].slot}
		if e := g.journal[i].entry(); e != nil && !yield(record.Record{Key: k, Value: e}) {
			return false
		}
	}
	if g.Marks != nil && !yield(record.Record{Key: record.Key{Type: record.TypeGroupMarks, Group: g.ID}, Value: g.Marks}) {
		return false
	}
	if g.Topics != nil && !yield(record.Record{Key: record.Key{Type: record.TypeGroupTopics, Group: g.ID}, Value: g.Topics}) {
		return false
	}
	for i := range g.versions {
		k := record.Key{Type: record.TypeTopologyVersion, Group: g.ID, ID: g.versions[i].Epoch}
		if !yield(record.Record{Key: k, Value: g.versions[i].TopologyVersion}) {
			return false
		}
	}
	return g.OffsetsStore == nil || yield(record.Record{Key: record.Key{Type: record.TypeOffsetsStore, Group: g.ID}, Value: g.OffsetsStore})
}
