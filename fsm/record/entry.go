package record

// Entry is one entry of a shard's log: an envelope and the records that one or more decisions made.
type Entry struct {
	// FeatureLevel is the cluster's feature level when the entry was written.
	FeatureLevel uint16
	// LeaderTimeMs is the leader's wall clock in milliseconds since 1970; the only time that Evolve may see.
	LeaderTimeMs int64
	// Proposal is the leader's own number for the entry, so that it recognises its entries when they are applied.
	Proposal uint64
	Records  []Record
}
