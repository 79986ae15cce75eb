package topology

// Lookup is what a cluster says of a topic that it was asked for by name: that there is none of that name, or its id.
type Lookup struct {
	// Missing says UNKNOWN_TOPIC_OR_PARTITION. A topic that the asker may not describe is not answered so.
	Missing bool
	// ID is zero where the topic is missing, or the cluster has no topic ids.
	ID [16]byte
}
