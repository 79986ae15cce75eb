package streams

import (
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// findStatic finds or makes the member of a heartbeat with an instance id (KIP-345 under KIP-1071).
func (h *heartbeat) findStatic(d *Decision) *coordinator.Error {
	instance := *h.req.InstanceID
	holder := holderOf(h.group, instance)
	if holder == nil {
		if !h.joining() {
			return unknownInstance(instance)
		}
		// A member that was dynamic takes the instance id with it.
		h.setMember(h.member(h.req.MemberID))
		return nil
	}
	same := holder.ID == h.req.MemberID
	switch {
	case !h.joining():
		if !same {
			return fencedInstance(h.req.MemberID, instance, holder.ID)
		}
		h.setMember(holder)
		return h.checkEpoch()
	case currentOf(holder).MemberEpoch == StaticLeaveEpoch:
		h.replace(d, holder)
		return nil
	case same:
		// The answer to the first join was lost: Kafka refuses the second one, which ends the application.
		h.setMember(holder)
		return nil
	}
	return coordinator.Errorf(coordinator.UnreleasedInstanceID, "Static member %s with instance id %s cannot join the "+
		"group because the instance id is owned by %s member.", h.req.MemberID, instance, holder.ID)
}

// holderOf returns the member that holds the instance id, or nil.
func holderOf(g *fsm.Group, instance string) *fsm.Member {
	if g == nil {
		return nil
	}
	id, ok := g.Static(instance)
	if !ok {
		return nil
	}
	return g.Member(id)
}

func unknownInstance(instance string) *coordinator.Error {
	return coordinator.Errorf(coordinator.UnknownMemberID, "Instance id %s is unknown.", instance)
}

func fencedInstance(member, instance, holder string) *coordinator.Error {
	return coordinator.Errorf(coordinator.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.",
		member, instance, holder)
}

// replace puts a new member in the place of a static member that left for a while: same tasks, same target.
func (h *heartbeat) replace(d *Decision, old *fsm.Member) {
	h.replaced = old
	h.memberID = strings.Clone(h.req.MemberID)
	h.oldMeta, h.target = metaOf(old), targetOf(old)
	c := *currentOf(old)
	c.MemberEpoch, c.PreviousEpoch = 0, 0
	h.current = &c
	h.causes |= CauseStaticReplacement
	if old.ID != h.memberID && h.group.Member(h.memberID) != nil {
		// Another member gives its own place up for this one: its tasks are to be dealt anew.
		h.causes |= CauseMemberChanged
	}
	d.Records = append(d.Records, memberTombstones(h.groupID, old.ID)...)
	d.Records = append(d.Records,
		record.Record{Key: h.memberKey(record.TypeMemberMetadata), Value: h.oldMeta},
		record.Record{Key: h.memberKey(record.TypeTargetMember), Value: h.target},
		record.Record{Key: h.memberKey(record.TypeCurrentAssignment), Value: h.current},
	)
	// What the one that was away reported of its tasks says nothing of the one that came.
	d.Soft.TaskOffsets, d.Soft.TaskEndOffsets = []TaskOffset{}, []TaskOffset{}
	if old.ID != h.memberID {
		d.Soft.Removed = old.ID
		n := d.noted()
		n.replaced, n.by, n.heir = old, h.oldMeta, h.memberID
	}
}

// staticLeave keeps a static member's place: its tasks stay reserved until it comes back or its session ends.
func (h *heartbeat) staticLeave(d *Decision, m *fsm.Member) {
	c := *currentOf(m)
	c.MemberEpoch = StaticLeaveEpoch
	c.Revoking = topology.Assignment{}
	// The one that comes back may commit with whatever epoch it is given.
	c.Assigned.Active = c.Assigned.Active.WithEpoch(0)
	d.Records = append(d.Records, record.Record{
		Key:   record.Key{Type: record.TypeCurrentAssignment, Group: h.group.ID, Member: m.ID},
		Value: &c,
	})
	d.Reply = leaveReply(m.ID, StaticLeaveEpoch)
}
