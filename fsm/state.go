package fsm

import (
	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// State is the whole hard state of one shard. It is a value: Evolve returns another State and leaves this one as it
// is, so that a copy is a copy of pointers. Any goroutine may read it.
type State struct {
	groups *iradix.Tree[*Group]
	// system-shard facts
	nodes   *iradix.Tree[*record.Node]
	slots   *iradix.Tree[*record.BrokerSlot]
	cluster *record.Cluster
}

// Group is the hard state of one streams group (semantics.md §1.1). It is immutable.
type Group struct {
	ID string
	// Metadata, TargetMeta and Topology are nil until their first record.
	Metadata   *record.GroupMetadata
	TargetMeta *record.TargetMetadata
	Topology   *topology.Topology
	// OffsetsClaimed says whether an OffsetsClaim record exists.
	OffsetsClaimed bool

	members *iradix.Tree[*Member] // by member id
	statics *iradix.Tree[string]  // instance id -> member id
	owners  owners
}

// Member is the hard state of one member. It is immutable; parts are nil until their first record.
type Member struct {
	ID      string
	Meta    *record.MemberMetadata
	Current *record.CurrentAssignment
	Target  *record.TargetMember
}

// owners are the group-wide indexes of who holds a task, over assigned tasks and tasks pending revocation.
type owners struct {
	active  *iradix.Tree[string]         // task -> process id
	standby *iradix.Tree[map[string]int] // task -> process id -> members
	warmup  *iradix.Tree[map[string]int] // task -> process id -> members
}
