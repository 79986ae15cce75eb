package shard

import (
	"fmt"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// handback brings the offsets that a group without members has in the log upstream, where the classic group that takes its
// id looks for them, and deletes the group. Until then nobody may join or commit. It can be repeated: the offsets in the log
// count as long as the group is there.
type handback struct {
	deletion
	request *VacateRequest
	sent    *offsets.CommitRequest
	left    []*offsets.CommitRequest
}

func (m *Machine) handBack(c *Call, r *VacateRequest, g *fsm.Group) {
	world := m.world()
	h := &handback{deletion: deletion{call: c, group: m.groupOf(g.ID)}, request: r, left: offsets.AsCommits(g, &world, maxMoved, maxMovedBytes)}
	h.group.deleting++
	switch {
	case !g.LeftUpstream() && len(h.left) > 0: // from now on there may be, until the group is gone
		left := storeRecord(g.ID, record.OffsetsStore{Store: record.StoreRaft, LeftUpstream: true})
		m.submitInternal(task{group: g.ID, call: c, internal: func(m *Machine, g *fsm.Group, _ *streams.Soft) (streams.Decision, bool) {
			if h.pointless(m, g) {
				return streams.Decision{}, false
			}
			return streams.Decision{Records: []record.Record{left}}, true
		}, after: h.next, failed: h.over})
	case g.LeftUpstream() && !c.found.InUse: // what was cut short before may have brought offsets there that were deleted since
		m.host.DropOffsets(m.startStore(&storeOp{call: c, after: h.dropped}), g.ID)
	default:
		h.next(m)
	}
}

func (h *handback) dropped(m *Machine, err error) {
	if err != nil {
		m.refuse(h.call, notAvailable)
		h.over(m)
		return
	}
	h.next(m)
}

func (h *handback) next(m *Machine) {
	if len(h.left) > 0 {
		h.sent, h.left = h.left[0], h.left[1:]
		m.host.Commit(m.startStore(&storeOp{call: h.call, committed: h.stored}), h.sent)
		return
	}
	m.submitInternal(task{group: h.group.id, call: h.call, internal: h.decide, after: h.committed, failed: h.over})
}

// stored goes on when a part is upstream. Partitions that do not exist there any more need no offset.
func (h *handback) stored(m *Machine, r *offsets.CommitResponse) {
	_, _, failed, code := offsets.CopyCommitted(h.sent, r, m.knownTopics())
	if halves, ok := offsets.Halves(h.sent); ok && code == coordinator.InvalidCommitOffsetSize {
		h.left = append(halves[:], h.left...)
		h.next(m)
		return
	}
	if code != coordinator.None {
		m.host.Observe(Event{Group: h.group.id, Failed: fmt.Errorf(
			"cannot commit the offset of partition %d of topic %s upstream, where a classic group that joins under the group's id would look for it: error code %v",
			failed.Partition, failed.Topic, code)})
		m.refuse(h.call, notAvailable)
		h.over(m)
		return
	}
	h.next(m)
}

func (h *handback) decide(m *Machine, g *fsm.Group, _ *streams.Soft) (streams.Decision, bool) {
	if h.pointless(m, g) {
		return streams.Decision{}, false
	}
	h.count()
	return streams.Decision{Records: deletionRecords(g)}, true
}

// pointless says that the group is another one by now, or in use, and ends the handback then.
func (h *handback) pointless(m *Machine, g *fsm.Group) bool {
	if m.groups[h.group.id] == h.group && g != nil && g.NumMembers() == 0 {
		return false
	}
	m.answer(h.call, m.holding(g), h.group.id)
	h.over(m)
	return true
}

func (h *handback) committed(m *Machine) {
	m.reply(h.call, m.holding(m.committed.Group(h.request.GroupID))) // a join of the same entry may have made the group anew
	h.over(m)
}
