package record

import "github.com/coordd/coordd/topology"

// TopologyVersion (type 1008, keyed by group and topology epoch) is a topology that a group has or had. A group whose
// topology never changed has none. A member's topology epoch (MemberMetadata) names the version that it runs.
type TopologyVersion struct {
	// Root is the epoch under which the group had this topology first: an update that is taken back makes the topology of
	// before current again, under a new epoch.
	Root int32
	// First is the epoch of the topology with which the group was not empty any more last, where that changed its topology:
	// what the group had before that does not make a member stale.
	First int32
	// Declared is the epoch that the app sent with it, and LastDeclared the highest that apps sent up to then since
	// First: the next update by epoch has one more.
	Declared, LastDeclared int32
	// Hash is [topology.Topology.ContentHash].
	Hash [topology.ContentHashSize]byte
	// SinceMs is when it became the group's topology, the leader's wall clock in milliseconds since 1970; 0: not known.
	SinceMs int64
	// Aborted says that it was the group's topology until the update to it was taken back.
	Aborted bool
	// Foreign says that the group never had it: a member with a lower epoch came with it.
	Foreign bool
	// Content is nil for the group's topology of now, which has a record of its own (type 23), and where no member runs it
	// any more and the group could not go back to it.
	Content *topology.Topology
	// Tasks are the task counts of subtopologies as they were last, ids ascending; nil where that is not known.
	Tasks []TaskCount
}

// TaskCount is the number of tasks of a subtopology.
type TaskCount struct {
	Subtopology string
	Tasks       int32
}

const minTaskCount = 6 // id, count, tagged section

// Bits of the flags of a TopologyVersion.
const (
	versionAborted = 1 << iota
	versionContent
	versionForeign
)

func (w *writer) topologyVersion(v *TopologyVersion) {
	w.int32(v.Root)
	w.int32(v.First)
	w.int32(v.Declared)
	w.int32(v.LastDeclared)
	w.b = append(w.b, v.Hash[:]...)
	w.int64(v.SinceMs)
	var flags int8
	if v.Aborted {
		flags |= versionAborted
	}
	if v.Content != nil {
		flags |= versionContent
	}
	if v.Foreign {
		flags |= versionForeign
	}
	w.int8(flags)
	if v.Content != nil {
		w.topology(&Topology{Topology: *v.Content})
	}
	w.array(len(v.Tasks))
	for _, c := range v.Tasks {
		w.string(c.Subtopology)
		w.int32(c.Tasks)
		w.noTags()
	}
	w.noTags()
}

func (r *reader) topologyVersion() *TopologyVersion {
	v := &TopologyVersion{Root: r.int32(), First: r.int32(), Declared: r.int32(), LastDeclared: r.int32()}
	copy(v.Hash[:], r.take(len(v.Hash)))
	v.SinceMs = r.int64()
	flags := r.int8()
	v.Aborted, v.Foreign = flags&versionAborted != 0, flags&versionForeign != 0
	if flags&versionContent != 0 {
		v.Content = &r.topology().Topology
	}
	if n := r.list(minTaskCount); n > 0 {
		v.Tasks = make([]TaskCount, n)
	}
	for i := range v.Tasks {
		v.Tasks[i] = TaskCount{Subtopology: r.string(), Tasks: r.int32()}
		r.tags(nil)
	}
	r.tags(nil)
	return v
}

func (*TopologyVersion) recordType() Type { return TypeTopologyVersion }
