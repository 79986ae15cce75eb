package fsm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
	"github.com/zeebo/xxh3"

	"github.com/coordd/coordd/fsm/record"
)

// ErrRejected says that a record must not follow the ones before it. Kafka fails the load of a partition on such a
// record (GroupMetadataManager.java, replay).
var ErrRejected = errors.New("record rejected")

// Evolve returns the state after one more record. It fails, and the state stays as it is, for records that Kafka's
// replay rejects (ErrRejected) and for those that no log can hold (the errors of record.AppendRecord and
// record.ErrEntryTooLarge).
//
// The new state keeps the values of r and their strings, so none of these may alias a buffer that is used again; of the
// key it keeps copies.
func (s State) Evolve(r record.Record) (State, error) { return s.EvolveAll([]record.Record{r}) }

// EvolveAll returns the state after some more records, which is what Evolve gives one by one, at less cost. When one of
// the records is rejected the state stays as it was before all of them.
func (s State) EvolveAll(records []record.Record) (State, error) {
	e := evolver{State: s}
	for i := range records {
		if err := e.apply(&records[i]); err != nil {
			return s, fmt.Errorf("record %s: %w", records[i].Key, err)
		}
	}
	if err := e.commit(); err != nil {
		return s, err
	}
	return e.State, nil
}

// evolver applies records to a state of its own. Groups that records touch are open: kept aside as private copies that
// change in place, until commit puts them into the new state.
type evolver struct {
	State
	open []*openGroup // in order of first touch
	byID map[string]*openGroup
	// buf and offset hold a record while it is hashed.
	buf    []byte
	offset *record.OffsetCommit
}

// openGroup is a private copy of a group.
type openGroup struct {
	*Group
	e       *evolver
	members *iradix.Txn[*Member]
	statics *iradix.Txn[[]string]
	changes []offsetChange // not in the group yet
}

// Indexes of Group.hashes.
const (
	hashMetadata = iota
	hashTargetMeta
	hashTopology
	hashClaim
	hashMarks
	hashTopics
	hashStore
)

func (e *evolver) apply(r *record.Record) error {
	value := record.Normal(r.Value)
	hash, err := e.hash(record.Record{Key: r.Key, Value: value})
	if err != nil {
		return err
	}
	switch v := value.(type) {
	case *record.GroupMetadata:
		g := e.group(r.Key.Group)
		g.Metadata = v
		e.rehash(&g.hashes[hashMetadata], hash)
	case *record.TargetMetadata:
		g := e.group(r.Key.Group)
		g.TargetMeta = v
		e.rehash(&g.hashes[hashTargetMeta], hash)
	case *record.Topology:
		g := e.group(r.Key.Group)
		g.Topology = &v.Topology
		e.rehash(&g.hashes[hashTopology], hash)
	case *record.OffsetsClaim:
		g := e.group(r.Key.Group)
		g.OffsetsClaimed = true
		e.rehash(&g.hashes[hashClaim], hash)
	case *record.GroupMarks:
		g := e.group(r.Key.Group)
		g.Marks = v
		e.rehash(&g.hashes[hashMarks], hash)
	case *record.GroupTopics:
		g := e.group(r.Key.Group)
		g.Topics = v
		e.rehash(&g.hashes[hashTopics], hash)
	case *record.OffsetsStore:
		g := e.group(r.Key.Group)
		g.OffsetsStore = v
		e.rehash(&g.hashes[hashStore], hash)
	case *record.OffsetCommit:
		g := e.group(r.Key.Group)
		if r.Value != value {
			r = &record.Record{Key: r.Key, Value: v}
		}
		g.changes = append(g.changes, offsetChange{Record: r, hash: hash})
	case *record.TopologyVersion:
		g := e.group(r.Key.Group)
		g.versions = g.versions.with(e, r.Key.ID, v, hash)
	case *record.JournalEntry:
		g := e.group(r.Key.Group)
		if g.journal, err = g.journal.with(e, r.Key.ID, v, hash); err != nil {
			return err
		}
	case *record.MemberMetadata:
		e.group(r.Key.Group).update(r.Key.Member, func(m *Member) {
			m.Meta = v
			e.rehash(&m.metaHash, hash)
		})
	case *record.TargetMember:
		e.group(r.Key.Group).update(r.Key.Member, func(m *Member) {
			m.Target = v
			e.rehash(&m.targetHash, hash)
		})
	case *record.CurrentAssignment:
		e.group(r.Key.Group).update(r.Key.Member, func(m *Member) {
			m.Current = v
			e.rehash(&m.currentHash, hash)
		})
	case *record.Node:
		e.nodes = put(e, e.nodes, idKey(r.Key.ID), v, hash)
	case *record.BrokerSlot:
		e.slots = put(e, e.slots, idKey(r.Key.ID), v, hash)
	case *record.GroupConfig:
		e.configs = put(e, e.configs, keyOf(strings.Clone(r.Key.Group)), v, hash)
	case *record.Cluster:
		e.cluster.value = v
		e.rehash(&e.cluster.hash, hash)
	default:
		return e.tombstone(r)
	}
	return nil
}

// tombstone deletes a key. What concerns a missing group or member is ignored.
func (e *evolver) tombstone(r *record.Record) error {
	k := r.Key
	switch k.Type {
	case record.TypeNode:
		e.nodes = remove(e, e.nodes, idKey(k.ID))
		return nil
	case record.TypeBrokerSlot:
		e.slots = remove(e, e.slots, idKey(k.ID))
		return nil
	case record.TypeGroupConfig:
		e.configs = remove(e, e.configs, keyOf(k.Group))
		return nil
	case record.TypeCluster:
		e.cluster.value = nil
		e.rehash(&e.cluster.hash, 0)
		return nil
	}
	g := e.existing(k.Group)
	if g == nil {
		return nil
	}
	switch k.Type {
	case record.TypeGroupMetadata:
		return g.removeGroup()
	case record.TypeTargetMetadata:
		if g.numTargets > 0 {
			return fmt.Errorf("%w: %d members still have a target assignment", ErrRejected, g.numTargets)
		}
		g.TargetMeta = nil
		e.rehash(&g.hashes[hashTargetMeta], 0)
	case record.TypeTopology:
		g.Topology = nil
		e.rehash(&g.hashes[hashTopology], 0)
	case record.TypeOffsetsClaim:
		g.OffsetsClaimed = false
		e.rehash(&g.hashes[hashClaim], 0)
	case record.TypeGroupMarks:
		g.Marks = nil
		e.rehash(&g.hashes[hashMarks], 0)
	case record.TypeGroupTopics:
		g.Topics = nil
		e.rehash(&g.hashes[hashTopics], 0)
	case record.TypeOffsetsStore:
		g.OffsetsStore = nil
		e.rehash(&g.hashes[hashStore], 0)
	case record.TypeOffsetCommit:
		g.changes = append(g.changes, offsetChange{Record: r})
	case record.TypeJournalEntry:
		g.journal = g.journal.without(e, k.ID)
	case record.TypeTopologyVersion:
		g.versions = g.versions.without(e, k.ID)
	case record.TypeMemberMetadata:
		return g.removeMember(k.Member)
	case record.TypeTargetMember:
		g.updateExisting(k.Member, func(m *Member) {
			m.Target = nil
			e.rehash(&m.targetHash, 0)
		})
	case record.TypeCurrentAssignment:
		g.updateExisting(k.Member, func(m *Member) {
			m.Current = nil
			e.rehash(&m.currentHash, 0)
		})
	}
	return nil
}

// removeGroup removes a group with all that is left of it: its topology, whose tombstone follows, what is coordd's own, and
// its offsets, which no tombstones need precede.
func (g *openGroup) removeGroup() error {
	switch {
	case g.numMembers > 0:
		return fmt.Errorf("%w: the group has %d members", ErrRejected, g.numMembers)
	case g.TargetMeta != nil && g.TargetMeta.AssignmentEpoch != -1:
		return fmt.Errorf("%w: the group has assignment epoch %d", ErrRejected, g.TargetMeta.AssignmentEpoch)
	}
	if err := g.dropOffsets(); err != nil {
		return err
	}
	for i := range g.hashes {
		g.e.rehash(&g.hashes[i], 0)
	}
	for i := range g.journal {
		hash := g.journal[i].hash // shared with older states
		g.e.rehash(&hash, 0)
	}
	for i := range g.versions {
		hash := g.versions[i].hash // shared with older states
		g.e.rehash(&hash, 0)
	}
	for m := range values(g.members.CommitOnly()) { // targets without a member
		hash := m.targetHash // m is shared with older states
		g.e.rehash(&hash, 0)
	}
	*g.Group = Group{ID: g.ID}
	g.members, g.statics = txn[*Member](nil), nil
	return nil
}

// removeMember handles the tombstone of a member's metadata, which comes after those of its target and its current
// assignment. A member that never had a current assignment may go, too; Kafka cannot meet it.
func (g *openGroup) removeMember(id string) error {
	m, ok := g.members.Get(keyOf(id))
	switch {
	case !ok || !m.exists():
		return nil
	case m.Current != nil && m.Current.MemberEpoch != -1:
		return fmt.Errorf("%w: the member has epoch %d", ErrRejected, m.Current.MemberEpoch)
	case m.Target != nil:
		return fmt.Errorf("%w: the member has a target assignment", ErrRejected)
	}
	g.updateExisting(id, func(m *Member) {
		m.Meta, m.Current = nil, nil
		g.e.rehash(&m.metaHash, 0)
		g.e.rehash(&m.currentHash, 0)
	})
	return nil
}

func (g *openGroup) updateExisting(id string, edit func(*Member)) {
	if _, ok := g.members.Get(keyOf(id)); ok {
		g.update(id, edit)
	}
}

// update edits a copy of a member and brings the group's counters and indexes up to date.
func (g *openGroup) update(id string, edit func(*Member)) {
	old, known := g.members.Get(keyOf(id))
	m := &Member{ID: id}
	if known {
		*m = *old
	} else {
		old = &Member{}
		m.ID = strings.Clone(id)
	}
	edit(m)
	g.count(old, -1)
	g.count(m, 1)
	g.register(old, m)
	g.own(old, m)
	if m.exists() || m.Target != nil {
		g.members.Insert(keyOf(m.ID), m)
	} else {
		g.members.Delete(keyOf(m.ID))
	}
}

// count adds n times what a member counts for.
func (g *openGroup) count(m *Member, n int) {
	if m.exists() {
		g.numMembers += n
	}
	if m.Target != nil {
		g.numTargets += n
	}
	if m.Current != nil && m.Current.State == record.MemberStable {
		g.stable = countEpoch(g.stable, m.Current.MemberEpoch, int32(n))
	}
}

// register keeps the index of static members.
func (g *openGroup) register(old, m *Member) {
	from, to := old.instance(), m.instance()
	if from == to || from != nil && to != nil && *from == *to {
		return
	}
	if g.statics == nil {
		g.statics = txn(g.Group.statics)
	}
	if from != nil {
		ids, _ := g.statics.Get(keyOf(*from))
		if i, ok := slices.BinarySearch(ids, m.ID); ok {
			ids = append(slices.Clone(ids[:i]), ids[i+1:]...)
		}
		g.setStatic(*from, ids)
	}
	if to != nil {
		ids, _ := g.statics.Get(keyOf(*to))
		i, _ := slices.BinarySearch(ids, m.ID)
		g.setStatic(*to, append(append(slices.Clone(ids[:i]), m.ID), ids[i:]...))
	}
}

func (g *openGroup) setStatic(instance string, ids []string) {
	if len(ids) == 0 {
		g.statics.Delete(keyOf(instance))
		return
	}
	g.statics.Insert(keyOf(instance), ids)
}

// own keeps the owner indexes.
func (g *openGroup) own(old, m *Member) {
	from, to := old.process(), m.process()
	if from != to || m.holder == nil {
		m.holder = &holder{process: to, members: 1}
	}
	if from == to && old.Current == m.Current {
		return
	}
	for r := range numRoles {
		lost, gained := old.held(r), m.held(r)
		if from == to {
			lost, gained = lost.Minus(gained), gained.Minus(lost)
		}
		g.owners[r] = g.owners[r].with(lost, change{process: from, n: -1}).with(gained, change{process: to, n: 1, sole: m.holder})
	}
}

// group opens a group, a new one if need be.
func (e *evolver) group(id string) *openGroup {
	if g := e.existing(id); g != nil {
		return g
	}
	return e.openCopy(&Group{ID: strings.Clone(id)})
}

// existing opens a group if there is one. A group that was removed counts as a new one.
func (e *evolver) existing(id string) *openGroup {
	if n := len(e.open); n > 0 && e.open[n-1].ID == id {
		return e.open[n-1]
	}
	if g := e.byID[id]; g != nil {
		return g
	}
	g, ok := get(e.groups, id)
	if !ok {
		return nil
	}
	c := *g
	return e.openCopy(&c)
}

func (e *evolver) openCopy(g *Group) *openGroup {
	o := &openGroup{Group: g, e: e, members: txn(g.members)}
	e.open = append(e.open, o)
	if len(e.open) > 1 { // the last one needs no map
		if e.byID == nil {
			e.byID = map[string]*openGroup{}
		}
		for _, g := range e.open[len(e.open)-2:] {
			e.byID[g.ID] = g
		}
	}
	return o
}

// commit closes all groups.
func (e *evolver) commit() error {
	if len(e.open) == 0 {
		return nil
	}
	groups := txn(e.groups)
	for _, o := range e.open {
		if err := o.applyOffsets(); err != nil {
			return err
		}
		o.Group.members = o.members.CommitOnly()
		if o.statics != nil {
			o.Group.statics = o.statics.CommitOnly()
		}
		if o.empty() {
			groups.Delete(keyOf(o.ID))
		} else {
			groups.Insert(keyOf(o.ID), o.Group)
		}
	}
	e.groups = groups.CommitOnly()
	e.open, e.byID = nil, nil
	return nil
}

// hash is the hash of a record, never 0, which stands for no record.
func (e *evolver) hash(r record.Record) (uint64, error) {
	if e.buf == nil {
		e.buf = make([]byte, 0, 512) // enough for most records
	}
	b, err := record.AppendRecord(e.buf[:0], r)
	if err != nil {
		return 0, err
	}
	if len(b) > record.MaxRecordSize {
		return 0, record.ErrEntryTooLarge
	}
	e.buf = b
	return hashOf(b), nil
}

func hashOf(encoded []byte) uint64 { return max(xxh3.Hash(encoded), 1) }

// rehash replaces the hash of a record in the digest.
func (e *evolver) rehash(old *uint64, hash uint64) {
	if *old != 0 {
		e.records--
	}
	if hash != 0 {
		e.records++
	}
	e.digest += hash - *old
	*old = hash
}

// put keeps the key.
func put[T any](e *evolver, t *iradix.Tree[hashed[T]], key []byte, v T, hash uint64) *iradix.Tree[hashed[T]] {
	x := txn(t)
	old, _ := x.Get(key)
	e.rehash(&old.hash, hash)
	x.Insert(key, hashed[T]{value: v, hash: hash})
	return x.CommitOnly()
}

func remove[T any](e *evolver, t *iradix.Tree[hashed[T]], key []byte) *iradix.Tree[hashed[T]] {
	x := txn(t)
	if old, ok := x.Delete(key); ok {
		e.rehash(&old.hash, 0)
	}
	return x.CommitOnly()
}
