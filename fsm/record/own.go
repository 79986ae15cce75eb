package record

import (
	"slices"

	"github.com/coordd/coordd/topology"
)

// The project's own record types, in the encoding of Kafka's: each value ends with a tagged section, so that a field
// can be added without a new version.

func (w *writer) offsetsClaim(*OffsetsClaim) { w.noTags() }

func (r *reader) offsetsClaim() *OffsetsClaim {
	r.tags(nil)
	return new(OffsetsClaim)
}

func (w *writer) node(v *Node) {
	w.string(v.RaftAddress)
	w.string(v.ClientHost)
	w.uint16(v.ClientPort)
	w.uint16(v.BrokerPortBase)
	w.uint16(v.BrokerPortStep)
	if v.Live {
		w.int8(1)
	} else {
		w.int8(0)
	}
	if v.FeatureLevel == 0 {
		w.noTags()
		return
	}
	w.uvarint(1)
	w.tag(tagFeatureLevel, 2)
	w.uint16(v.FeatureLevel)
}

// tagFeatureLevel is the tag of a node's feature level. Releases before leave it out of their state.
const tagFeatureLevel = 0

func (r *reader) node() *Node {
	v := &Node{
		RaftAddress:    r.string(),
		ClientHost:     r.string(),
		ClientPort:     r.uint16(),
		BrokerPortBase: r.uint16(),
		BrokerPortStep: r.uint16(),
		Live:           r.int8() != 0,
	}
	r.tags(func(tag int) bool {
		if tag == tagFeatureLevel {
			v.FeatureLevel = r.uint16()
		}
		return tag == tagFeatureLevel
	})
	return v
}

func (w *writer) brokerSlot(v *BrokerSlot) {
	w.int32(v.Slot)
	w.noTags()
}

func (r *reader) brokerSlot() *BrokerSlot {
	v := &BrokerSlot{Slot: r.int32()}
	r.tags(nil)
	return v
}

func (w *writer) cluster(v *Cluster) {
	w.string(v.ID)
	w.int32(v.Shards)
	w.int32(v.FeatureLevel)
	w.noTags()
}

func (r *reader) cluster() *Cluster {
	v := &Cluster{ID: r.string(), Shards: r.int32(), FeatureLevel: r.int32()}
	r.tags(nil)
	return v
}

func (w *writer) groupConfig(v *GroupConfig) {
	w.keyValues(v.Settings)
	w.noTags()
}

func (r *reader) groupConfig() *GroupConfig {
	v := &GroupConfig{Settings: r.keyValues(r.list(minKeyValue))}
	r.tags(nil)
	return v
}

func (w *writer) groupMarks(v *GroupMarks) {
	w.string(v.ShutdownBy)
	w.int64(v.DelayUntilMs)
	w.int64(v.EmptySinceMs)
	w.noTags()
}

func (r *reader) groupMarks() *GroupMarks {
	v := &GroupMarks{ShutdownBy: r.string(), DelayUntilMs: r.int64(), EmptySinceMs: r.int64()}
	r.tags(nil)
	return v
}

func (w *writer) groupTopics(v *GroupTopics) {
	w.int32(v.TopologyEpoch)
	w.int64(v.SinceMs)
	w.array(len(v.Sizes))
	for i := range v.Sizes {
		s := &v.Sizes[i]
		w.string(s.ID)
		w.int32(s.Tasks)
		w.int32s(s.Repartition)
		w.int32s(s.Changelogs)
		w.strings(s.Matched)
		w.noTags()
	}
	w.noTags()
}

// minSizes is the smallest encoding of the numbers of a subtopology.
const minSizes = 9

func (r *reader) groupTopics() *GroupTopics {
	v := &GroupTopics{TopologyEpoch: r.int32(), SinceMs: r.int64()}
	if n := r.list(minSizes); n > 0 {
		v.Sizes = make(topology.Sizes, n)
	}
	for i := range v.Sizes {
		s := &v.Sizes[i]
		s.ID, s.Tasks = r.string(), r.int32()
		s.Repartition, s.Changelogs, s.Matched = r.int32s(), r.int32s(), r.strings()
		r.tags(nil)
	}
	r.tags(nil)
	return v
}

// isNormal says whether the lists are as the decoder returns them.
func (v *GroupTopics) isNormal() bool {
	for i := range v.Sizes {
		s := &v.Sizes[i]
		if s.Repartition != nil && len(s.Repartition) == 0 || s.Changelogs != nil && len(s.Changelogs) == 0 ||
			s.Matched != nil && len(s.Matched) == 0 {
			return false
		}
	}
	return v.Sizes == nil || len(v.Sizes) > 0
}

func (v *GroupTopics) normal() *GroupTopics {
	c := *v
	c.Sizes = slices.Clone(v.Sizes)
	for i := range c.Sizes {
		s := &c.Sizes[i]
		s.Repartition, s.Changelogs, s.Matched = orNil(s.Repartition), orNil(s.Changelogs), orNil(s.Matched)
	}
	c.Sizes = orNil(c.Sizes)
	return &c
}

func orNil[S ~[]E, E any](list S) S {
	if len(list) == 0 {
		return nil
	}
	return list
}
