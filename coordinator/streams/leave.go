package streams

import (
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// leave handles epochs -1 and -2. It does not look at epochs.
func (h *heartbeat) leave(d *Decision) *coordinator.Error {
	if h.group == nil {
		return coordinator.Errorf(coordinator.GroupIDNotFound, "Group %s not found.", h.req.GroupID)
	}
	h.groupID = h.group.ID
	m, err := h.leaver()
	if err != nil {
		return err
	}
	if h.req.MemberEpoch == StaticLeaveEpoch && h.req.InstanceID != nil {
		h.staticLeave(d, m)
		h.leaveMark(d, m.ID)
		return nil
	}
	remove(d, h.group, m, CauseLeave, h.env.Now)
	d.Reply = leaveReply(m.ID, LeaveEpoch)
	if h.group.NumMembers() > 1 {
		h.leaveMark(d, m.ID)
	}
	d.putJournal(h.group, h.groupID, h.env.Now)
	return nil
}

// leaveMark keeps the leaver's wish to shut the application down.
func (h *heartbeat) leaveMark(d *Decision, member string) {
	if h.req.ShutdownApplication {
		d.markShutdown(h.group, member)
	}
}

// leaver finds who leaves.
func (h *heartbeat) leaver() (*fsm.Member, *coordinator.Error) {
	if h.req.InstanceID == nil {
		if m := h.group.Member(h.req.MemberID); m != nil {
			return m, nil
		}
		return nil, unknownMember(h.req.MemberID, h.groupID)
	}
	holder := holderOf(h.group, *h.req.InstanceID)
	if holder == nil {
		return nil, unknownInstance(*h.req.InstanceID)
	}
	if holder.ID != h.req.MemberID {
		return nil, fencedInstance(h.req.MemberID, *h.req.InstanceID, holder.ID)
	}
	return holder, nil
}

func leaveReply(member string, epoch int32) HeartbeatResponse {
	return HeartbeatResponse{MemberID: member, MemberEpoch: epoch, AcceptableRecoveryLag: -1, Status: noStatus}
}

// memberTombstones delete a member; replay refuses any other order.
func memberTombstones(group, member string) []record.Record {
	return []record.Record{
		{Key: record.Key{Type: record.TypeCurrentAssignment, Group: group, Member: member}},
		{Key: record.Key{Type: record.TypeTargetMember, Group: group, Member: member}},
		{Key: record.Key{Type: record.TypeMemberMetadata, Group: group, Member: member}},
	}
}

// remove takes a member out of its group. The next heartbeat of another member computes the new target; where nobody
// is left the assignment epoch follows at once and without a time, so that the next first member need not wait for the
// assignment interval.
func remove(d *Decision, g *fsm.Group, m *fsm.Member, why CauseKind, now int64) {
	meta := *groupMetadata(g)
	meta.Epoch++
	d.Records = append(memberTombstones(g.ID, m.ID),
		record.Record{Key: record.Key{Type: record.TypeGroupMetadata, Group: g.ID}, Value: &meta})
	d.Soft.Removed = m.ID
	if g.NumMembers() == 1 {
		d.Records = append(d.Records, record.Record{
			Key:   record.Key{Type: record.TypeTargetMetadata, Group: g.ID},
			Value: &record.TargetMetadata{AssignmentEpoch: meta.Epoch},
		})
		d.Soft.Emptied = true
		d.markEmpty(g, now)
		d.Effects = append(d.Effects, GroupEmptied{})
	}
	d.Soft.EndpointsStale = metaOf(m).UserEndpoint != nil
	d.Cause = causeOf(m, why, meta.Epoch)
	d.note = &note{leaver: m.ID, lost: targetOf(m).Assignment, settled: g.NumMembers() == 1}
}

func causeOf(m *fsm.Member, why CauseKind, epoch int32) Cause {
	c := Cause{Kinds: why, Epoch: epoch, MemberID: m.ID, Host: metaOf(m).ClientHost}
	if id := metaOf(m).InstanceID; id != nil {
		c.InstanceID = *id
	}
	return c
}
