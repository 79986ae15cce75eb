package topology

// Task is one unit of work: a partition of a subtopology.
type Task struct {
	Subtopology string
	Partition   int32
}

// Tasks is a set of tasks of one role in normal form: one entry for each subtopology, ids ascending as strings,
// partitions ascending and unique. A Tasks value is immutable once it is shared. In requests and responses nil
// means "absent" (null on the wire) and an empty, non-nil value means "none".
type Tasks []SubtopologyTasks

// SubtopologyTasks are the tasks of one subtopology.
type SubtopologyTasks struct {
	Subtopology string
	Partitions  []int32
	// Epochs holds, for active tasks of a current assignment, the assignment epoch at which each partition was
	// granted (same length as Partitions). It is nil for targets, replicas, requests and responses.
	Epochs []int32
}

// Assignment is what a member owns or shall own, by role.
type Assignment struct {
	Active, Standby, Warmup Tasks
}
