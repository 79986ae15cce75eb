package fsm

import (
	"encoding/binary"
	"iter"
	"unsafe"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/coordd/coordd/fsm/record"
)

// State is the whole hard state of one shard. It is a value: Evolve returns another State and leaves this one as it
// is, so that a copy is a copy of pointers. Any goroutine may read it. The zero State is empty and ready.
type State struct {
	groups *iradix.Tree[*Group] // by group id; nil until the first
	// The facts of the system shard; nodes and slots are by idKey.
	nodes   *iradix.Tree[hashed[*record.Node]]
	slots   *iradix.Tree[hashed[*record.BrokerSlot]]
	cluster hashed[*record.Cluster]
	configs *iradix.Tree[hashed[*record.GroupConfig]] // by group id

	records int    // how many records Records yields
	digest  uint64 // sum of their hashes
}

// hashed is a value with the hash of its record, which is wanted again when the record is replaced.
type hashed[T any] struct {
	value T
	hash  uint64
}

// NewState returns the state before the first record.
func NewState() State { return State{} }

// Group returns the group with an id, or nil. It does not allocate or keep the id.
func (s State) Group(id string) *Group {
	g, _ := get(s.groups, id)
	return g
}

// Groups yields all groups by ascending id.
func (s State) Groups() iter.Seq[*Group] { return values(s.groups) }

// NumGroups is the number of groups.
func (s State) NumGroups() int { return size(s.groups) }

// Nodes yields the nodes of the cluster by ascending id (system shard).
func (s State) Nodes() iter.Seq2[int32, *record.Node] { return byID(s.nodes) }

// Slots yields the slots of upstream brokers by ascending broker id (system shard).
func (s State) Slots() iter.Seq2[int32, *record.BrokerSlot] { return byID(s.slots) }

// Cluster holds what was fixed when the cluster was formed, or nil (system shard).
func (s State) Cluster() *record.Cluster { return s.cluster.value }

// GroupConfig returns the settings of a group of its own, or nil (system shard). It does not allocate or keep the id.
func (s State) GroupConfig(id string) *record.GroupConfig {
	c, _ := get(s.configs, id)
	return c.value
}

// GroupConfigs yields the settings of all groups that have some by ascending group id (system shard).
func (s State) GroupConfigs() iter.Seq2[string, *record.GroupConfig] {
	return func(yield func(string, *record.GroupConfig) bool) {
		if s.configs == nil {
			return
		}
		s.configs.Root().Walk(func(k []byte, v hashed[*record.GroupConfig]) bool { return !yield(string(k), v.value) })
	}
}

// SameGroupConfigs says whether nothing was put or deleted among the groups' settings between two states of one history.
func (s State) SameGroupConfigs(o State) bool { return s.configs == o.configs }

// NumRecords is the number of records that make up the state.
func (s State) NumRecords() int { return s.records }

// Digest identifies the state: replicas that applied the same entries have the same digest. It is the sum of the hashes
// of all records, kept up to date by Evolve, and guards against faults, not against attackers.
func (s State) Digest() uint64 { return s.digest }

// keyOf returns the bytes of an id for the lookup in a radix tree without a copy. The trees never write to a key; a key
// that is inserted must be an id that the state owns, because the tree keeps it.
func keyOf(id string) []byte { return unsafe.Slice(unsafe.StringData(id), len(id)) }

// idKey is a number as a key of which the byte order is the number's order.
func idKey(id int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(id)^1<<31) }

func idOf(key []byte) int32 { return int32(binary.BigEndian.Uint32(key) ^ 1<<31) }

func get[T any](t *iradix.Tree[T], id string) (v T, ok bool) {
	if t == nil {
		return v, false
	}
	return t.Root().Get(keyOf(id))
}

func size[T any](t *iradix.Tree[T]) int {
	if t == nil {
		return 0
	}
	return t.Len()
}

func txn[T any](t *iradix.Tree[T]) *iradix.Txn[T] {
	if t == nil {
		t = iradix.New[T]()
	}
	return t.Txn()
}

// values yields the values of a tree in the order of their keys.
func values[T any](t *iradix.Tree[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		if t == nil {
			return
		}
		t.Root().Walk(func(_ []byte, v T) bool { return !yield(v) })
	}
}

func byID[T any](t *iradix.Tree[hashed[T]]) iter.Seq2[int32, T] {
	return func(yield func(int32, T) bool) {
		if t == nil {
			return
		}
		t.Root().Walk(func(k []byte, v hashed[T]) bool { return !yield(idOf(k), v.value) })
	}
}
