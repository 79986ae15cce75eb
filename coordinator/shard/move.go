package shard

import (
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// MoveOffsetsRequest asks to keep the committed offsets of a group without members in another store.
type MoveOffsetsRequest struct {
	GroupID string
	To      record.Store
}

// MoveOffsetsResponse answers a MoveOffsetsRequest.
type MoveOffsetsResponse struct {
	// Err is nil when the offsets are in the store that was asked for and nowhere else: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP,
	// COORDINATOR_NOT_AVAILABLE where the upstream does not do its part, COORDINATOR_LOAD_IN_PROGRESS soon after an election, or
	// INVALID_REQUEST where the id is another group's upstream, or nodes of the cluster do not know of offsets in the log.
	// What was done by then counts by Moved; the same request goes on.
	Err *coordinator.Error
	// From is where the offsets were; the same as was asked for when there was nothing to move.
	From record.Store
	// Moved says that the offsets count in the store that was asked for.
	Moved bool
	// Offsets is how many were taken along, and Left how many were not, as their topics or partitions are gone.
	Offsets, Left int
}

// moveAfterMs is how long after its election a leader waits before it has offsets of a group that was there moved or deleted: what
// the one before asked the upstream for, by a proof of its leadership, has arrived by then. Nothing fences commits without a member, and
// the deletion of a group that nobody is in.
const moveAfterMs = 10_000

// lateMs is for how long requests of the leader before for a group may still arrive upstream.
func (m *Machine) lateMs(group string) int64 {
	if e := m.groups[group]; e == nil || !e.older {
		return 0
	}
	return max(0, m.electedAt+moveAfterMs-m.now)
}

// maxMoved bounds the offsets of one decision, or of one commit upstream, by which offsets come from one store to the other, and
// maxMovedBytes such a commit, which Kafka takes as one batch of records.
const (
	maxMoved      = 5000
	maxMovedBytes = offsets.MaxCommitBytes / 4
)

// moveOffsets begins to move the offsets of a group, once nothing that would change them is under way. Until it is over nobody
// may join the group or change its offsets; a new leader begins with the old place, which counts until the last step.
func (m *Machine) moveOffsets(c *Call, r *MoveOffsetsRequest) {
	if m.unsettled(r.GroupID) {
		m.enqueue(task{group: strings.Clone(r.GroupID), call: c})
		return
	}
	g := m.committed.Group(r.GroupID)
	if err := movable(g, r.GroupID); err != nil {
		m.reply(c, &MoveOffsetsResponse{Err: err})
		return
	}
	if why := m.host.OffsetsHindrance(); why != "" && g.Store() != r.To && r.To == record.StoreRaft {
		m.reply(c, &MoveOffsetsResponse{From: g.Store(), Err: coordinator.Errorf(coordinator.InvalidRequest, "Offsets cannot be moved to the log yet: %s.", why)})
		return
	}
	if m.awaitsDeletion(c, g.ID) || !m.foreignChecked(c, g.ID) {
		return
	}
	if c.found.InUse {
		m.reply(c, &MoveOffsetsResponse{From: g.Store(), Err: coordinator.Errorf(coordinator.InvalidRequest,
			"The id %s is in use upstream by a group of type %s, whose offsets they would be.", g.ID, c.found.Type)})
		return
	}
	if g.Store() == record.StoreUpstream && !m.storeReady(g, c) {
		return
	}
	if m.changesUnderWay(g.ID) { // StoreDone looks again
		e := m.groupOf(g.ID)
		e.moveWaits = true
		e.blocked = append(e.blocked, c)
		return
	}
	if left := m.electedAt + moveAfterMs - m.now; left > 0 && r.To != g.Store() {
		m.reply(c, &MoveOffsetsResponse{From: g.Store(), Err: coordinator.Errorf(coordinator.CoordinatorLoadInProgress,
			"Commits of the leader before may still be under way for %d ms.", left)})
		return
	}
	world := m.world()
	if world.Topics == nil {
		m.refuse(c, loading)
		return
	}
	v := &move{call: c, group: m.groupOf(g.ID), from: g.Store(), to: r.To, world: world}
	v.group.deleting++
	v.group.moving = true
	switch {
	case v.from != v.to && v.to == record.StoreRaft:
		v.fetch(m, nil, v.fetched)
	case v.from != v.to:
		v.commits = offsets.AsCommits(g, &v.world, maxMoved, maxMovedBytes)
		v.left = g.NumOffsets() - partitions(v.commits)
		v.copied = offsets.Copy{}
		v.note(m, true, func(m *Machine) { v.drop(m, v.commit) })
	case v.to == record.StoreUpstream: // a move that was cut short may have left what does not count
		v.moved = true
		v.clean(m)
	default:
		v.moved = true
		v.drop(m, v.dropped)
	}
}

// movable is nil for a group whose offsets may be moved.
func movable(g *fsm.Group, id string) *coordinator.Error {
	switch {
	case g == nil:
		return coordinator.Errorf(coordinator.GroupIDNotFound, "Group %s not found.", id)
	case g.NumMembers() > 0:
		return coordinator.Errorf(coordinator.NonEmptyGroup, "Group %s has members (%d); only the offsets of an empty group can be moved.", id, g.NumMembers())
	}
	return nil
}

// changesUnderWay says whether the upstream is still working on offsets of the group.
func (m *Machine) changesUnderWay(group string) bool {
	for _, op := range m.store {
		if op.group == group && op.term == m.term {
			return true
		}
	}
	return false
}

func partitions(commits []*offsets.CommitRequest) (n int) {
	for _, c := range commits {
		for i := range c.Topics {
			n += len(c.Topics[i].Partitions)
		}
	}
	return n
}

// move is a move of offsets under way. Its steps to the log: read upstream, write, read upstream again and compare with what
// is in the log, let the log count, delete upstream. And from it: delete what is upstream, commit there, read and compare, let
// the upstream count, delete in the log.
type move struct {
	call     *Call
	group    *group
	from, to record.Store
	moved    bool
	world    offsets.World
	// copied is what was read in the old place, or committed in the new one.
	copied offsets.Copy
	left   int
	// records are what is still to be written, and commits what is still to be committed upstream.
	records [][]record.Record
	commits []*offsets.CommitRequest
}

// over ends the move with an answer, and lets those go that waited.
func (v *move) over(m *Machine, err *coordinator.Error) {
	m.reply(v.call, &MoveOffsetsResponse{Err: err, From: v.from, Moved: v.moved, Offsets: len(v.copied), Left: v.left})
	v.release(m)
}

func (v *move) release(m *Machine) {
	e := v.group
	e.deleting--
	e.moving = false
	if m.groups[e.id] == e && e.deleting == 0 {
		m.unblock(e)
	}
}

func (v *move) done(m *Machine) {
	if v.from != v.to {
		m.host.Observe(Event{Group: v.group.id, Moved: &OffsetsMoved{From: v.from, To: v.to, Offsets: len(v.copied), Left: v.left}})
	}
	v.over(m, nil)
}

func unavailable(format string, args ...any) *coordinator.Error {
	return coordinator.Errorf(coordinator.CoordinatorNotAvailable, format, args...)
}

// fetch reads offsets upstream, all for no topics. Transactions that are open count as trouble: they would commit there later.
func (v *move) fetch(m *Machine, topics []offsets.FetchTopic, then func(*Machine, offsets.Copy)) {
	request := &offsets.FetchRequest{GroupID: v.group.id, MemberEpoch: -1, RequireStable: true, Topics: topics}
	m.host.Fetch(m.startStore(&storeOp{call: v.call, fetched: func(m *Machine, r *offsets.FetchResponse) {
		if r.Err != nil {
			v.over(m, unavailable("The offsets cannot be read upstream (error %d).", r.Err.Code))
			return
		}
		found, failed, code := offsets.CopyFetched(r)
		switch code {
		case coordinator.None:
			then(m, found)
		case coordinator.UnstableOffsetCommit:
			v.over(m, unavailable("A transaction of the app is open on partition %d of topic %s; it ends by itself within the app's transaction.timeout.ms.",
				failed.Partition, failed.Topic))
		default:
			v.over(m, unavailable("The offset of partition %d of topic %s cannot be read upstream (error %d).", failed.Partition, failed.Topic, code))
		}
	}}), request)
}

// fetched has what was read upstream written to the log.
func (v *move) fetched(m *Machine, found offsets.Copy) {
	v.copied = found
	g := m.committed.Group(v.group.id)
	v.records = found.Records(g, &v.world, maxMoved)
	v.write(m, v.again)
}

// again reads upstream once more, every partition by name, those of the group's topology too: of a partition that has no offset
// yet an open transaction is told only when it is named.
func (v *move) again(m *Machine) {
	g := m.committed.Group(v.group.id)
	v.fetch(m, v.copied.Topics(readPartitions(g, v.world.Topics)...), func(m *Machine, found offsets.Copy) {
		if tp, differs := offsets.CopyLogged(m.committed.Group(v.group.id)).Differs(found); differs {
			v.over(m, differing(tp))
			return
		}
		v.flip(m, func(m *Machine) { v.drop(m, v.dropped) })
	})
}

func differing(tp offsets.TopicPartition) *coordinator.Error {
	return unavailable("The copy of partition %d of topic %s differs: somebody commits directly to the cluster behind.", tp.Partition, tp.Topic)
}

// readPartitions are what the tasks of a group read.
func readPartitions(g *fsm.Group, topics topology.Metadata) (list []offsets.TopicPartition) {
	if g.Topology == nil {
		return nil
	}
	add := func(name string) {
		t, _ := topics.Topic(name)
		for p := range t.Partitions {
			list = append(list, offsets.TopicPartition{Topic: name, Partition: p})
		}
	}
	resolved := topology.Resolve(g.Topology, topics).Resolved
	for i := range resolved.Subtopologies {
		s := &resolved.Subtopologies[i]
		for _, name := range s.SourceTopics {
			add(name)
		}
		for _, t := range s.RepartitionSourceTopics {
			add(t.Name)
		}
	}
	return list
}

// commit commits the next part upstream, or reads all of it there.
func (v *move) commit(m *Machine) {
	if len(v.commits) == 0 {
		v.fetch(m, nil, func(m *Machine, found offsets.Copy) {
			if tp, differs := found.Differs(v.copied); differs {
				v.over(m, differing(tp))
				return
			}
			v.flip(m, v.clean)
		})
		return
	}
	request := v.commits[0]
	v.commits = v.commits[1:]
	m.host.Commit(m.startStore(&storeOp{call: v.call, committed: func(m *Machine, r *offsets.CommitResponse) {
		stored, left, failed, code := offsets.CopyCommitted(request, r, m.knownTopics())
		if halves, ok := offsets.Halves(request); ok && code == coordinator.InvalidCommitOffsetSize {
			v.commits = append(halves[:], v.commits...)
			v.commit(m)
			return
		}
		if code != coordinator.None {
			v.over(m, unavailable("The offset of partition %d of topic %s is not taken upstream (error %d).", failed.Partition, failed.Topic, code))
			return
		}
		for tp, o := range stored {
			v.copied[tp] = o
		}
		v.left += left
		v.commit(m)
	}}), request)
}

// drop deletes what the upstream has of the group.
func (v *move) drop(m *Machine, then func(*Machine)) {
	m.host.DropOffsets(m.startStore(&storeOp{call: v.call, after: func(m *Machine, err error) {
		if err != nil {
			v.over(m, unavailable("The offsets that are upstream cannot be deleted there: %v.", err))
			return
		}
		then(m)
	}}), v.group.id)
}

func (v *move) dropped(m *Machine) { v.note(m, false, v.done) }

// note has the log say whether there may be offsets upstream that do not count, while those in the log do: whatever ends the move,
// they go before the group does, or its offsets come there again.
func (v *move) note(m *Machine, left bool, then func(*Machine)) {
	if m.committed.Group(v.group.id).LeftUpstream() != left {
		v.records = [][]record.Record{{storeRecord(v.group.id, record.OffsetsStore{Store: record.StoreRaft, LeftUpstream: left})}}
	}
	v.write(m, then)
}

func storeRecord(group string, v record.OffsetsStore) record.Record {
	return record.Record{Key: record.Key{Type: record.TypeOffsetsStore, Group: group}, Value: &v}
}

// flip lets the new place count.
func (v *move) flip(m *Machine, then func(*Machine)) {
	v.records = [][]record.Record{{storeRecord(v.group.id, record.OffsetsStore{Store: v.to, LeftUpstream: v.to == record.StoreRaft})}}
	v.write(m, func(m *Machine) {
		v.moved = true
		then(m)
	})
}

// clean deletes what is left in the log.
func (v *move) clean(m *Machine) {
	v.records = offsets.Copy{}.Records(m.committed.Group(v.group.id), &v.world, maxMoved)
	v.write(m, v.done)
}

// write writes records one part after the other, so that others get their turn between two.
func (v *move) write(m *Machine, then func(*Machine)) {
	if len(v.records) == 0 {
		then(m)
		return
	}
	m.submitInternal(task{
		group: v.group.id, call: v.call,
		internal: func(m *Machine, g *fsm.Group, _ *streams.Soft) (streams.Decision, bool) {
			if m.groups[v.group.id] != v.group || g == nil { // who deletes it waits, but for what refused the last proposal
				v.over(m, coordinator.Errorf(coordinator.GroupIDNotFound, "Group %s was deleted meanwhile.", v.group.id))
				return streams.Decision{}, false
			}
			return streams.Decision{Records: v.records[0]}, true
		},
		after: func(m *Machine) {
			v.records = v.records[1:]
			v.write(m, then)
		},
		failed: v.release,
	})
}
