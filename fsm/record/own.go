package record

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
	w.noTags()
}

func (r *reader) node() *Node {
	v := &Node{
		RaftAddress:    r.string(),
		ClientHost:     r.string(),
		ClientPort:     r.uint16(),
		BrokerPortBase: r.uint16(),
		BrokerPortStep: r.uint16(),
		Live:           r.int8() != 0,
	}
	r.tags(nil)
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
