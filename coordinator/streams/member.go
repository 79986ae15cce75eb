package streams

import (
	"cmp"
	"slices"
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// findMember finds or makes the member of the heartbeat.
func (h *heartbeat) findMember(d *Decision) *coordinator.Error {
	if h.group == nil {
		if !h.joining() {
			// Kafka answers GROUP_ID_NOT_FOUND, which ends the application; a member told that it is unknown
			// joins anew and so makes the group again.
			return coordinator.Errorf(coordinator.UnknownMemberID, "Streams group %s not found.", h.req.GroupID)
		}
		h.groupID = strings.Clone(h.req.GroupID)
	} else {
		h.groupID = h.group.ID
	}
	if h.joining() {
		if err := h.checkSize(); err != nil {
			return err
		}
	}
	if h.req.InstanceID != nil {
		return h.findStatic(d)
	}
	m := h.member(h.req.MemberID)
	if m == nil && !h.joining() {
		return unknownMember(h.req.MemberID, h.groupID)
	}
	h.setMember(m)
	return h.checkEpoch()
}

func (h *heartbeat) member(id string) *fsm.Member {
	if h.group == nil || h.soft == nil {
		return memberOf(h.group, id)
	}
	h.entry = h.soft.Members[id]
	if e := h.entry; e != nil && h.soft.seenGroup == h.group && e.seenIn == h.soft.generation {
		return e.seen
	}
	return h.group.Member(id)
}

// setMember takes an existing member, or a new one for nil.
func (h *heartbeat) setMember(m *fsm.Member) {
	h.oldMeta, h.current = metaOf(m), currentOf(m)
	if m == nil {
		h.memberID = strings.Clone(h.req.MemberID)
		h.causes |= CauseJoin
		return
	}
	h.memberID, h.known, h.target, h.hard = m.ID, true, m.Target, m
	if h.entry == nil && h.soft != nil {
		h.entry = h.soft.Members[m.ID]
	}
}

func unknownMember(member, group string) *coordinator.Error {
	return coordinator.Errorf(coordinator.UnknownMemberID, "Member %s is not a member of group %s.", member, group)
}

// checkSize refuses a new member of a full group; a known instance id takes its own place.
func (h *heartbeat) checkSize() *coordinator.Error {
	limit := h.env.Settings.MaxSize
	if h.group == nil || limit <= 0 || h.group.NumMembers() < int(limit) || h.group.Member(h.req.MemberID) != nil {
		return nil
	}
	if h.req.InstanceID != nil {
		if _, known := h.group.Static(*h.req.InstanceID); known {
			return nil
		}
	}
	return coordinator.Errorf(coordinator.GroupMaxSizeReached,
		"The streams group has reached its maximum capacity of %d members.", limit)
}

// checkEpoch fences members whose epoch the group does not expect (Kafka's
// GroupMetadataManager.throwIfStreamsGroupMemberEpochIsInvalid).
func (h *heartbeat) checkEpoch() *coordinator.Error {
	got, c := h.req.MemberEpoch, h.current
	switch {
	case got == JoinEpoch || got == c.MemberEpoch || h.held && got < c.MemberEpoch:
		return nil
	case got > c.MemberEpoch:
		return coordinator.Errorf(coordinator.FencedMemberEpoch, "The streams group member has a greater member epoch "+
			"(%d) than the one known by the group coordinator (%d). The member must abandon all its partitions and rejoin.",
			got, c.MemberEpoch)
	case got == c.PreviousEpoch && (!h.reported() || h.ownsOnlyAssigned()):
		// The response that told the new epoch was lost. Kafka fences a member that does not report its tasks here. But
		// the lost response may have been to a request that the client had given up, so that it does not know of it: its
		// report was overtaken. The epoch moved only because that report released what was revoked, so the member owns
		// nothing else than what it is told again now.
		return nil
	}
	return coordinator.Errorf(coordinator.FencedMemberEpoch, "The streams group member has a smaller member epoch "+
		"(%d) than the one known by the group coordinator (%d). The member must abandon all its partitions and rejoin.",
		got, c.MemberEpoch)
}

// ownsOnlyAssigned says whether the member reports nothing but what it was given and has not confirmed to have given up.
// A replica that is still reported may have another role by now: becoming active, or a replica of the other kind, needs
// no release.
func (h *heartbeat) ownsOnlyAssigned() bool {
	own := func(t topology.Task) bool {
		return h.current.Assigned.Active.Contains(t) || h.current.Revoking.Active.Contains(t)
	}
	known := func(t topology.Task) bool { return holds(h.current, t) }
	return all(h.req.Active, own) && all(h.req.Standby, known) && all(h.req.Warmup, known)
}

func all(tasks topology.Tasks, ok func(topology.Task) bool) bool {
	for t := range tasks.All() {
		if !ok(t) {
			return false
		}
	}
	return true
}

// updateMember applies the request's fields and emits the member where that changes it.
func (h *heartbeat) updateMember(d *Decision) {
	h.meta = h.oldMeta
	changed := h.metaChanges()
	if changed {
		h.meta = h.newMeta()
		d.Records = append(d.Records, record.Record{Key: h.memberKey(record.TypeMemberMetadata), Value: h.meta})
	}
	switch {
	case h.req.InstanceID != nil && !demandsRebalance(h.oldMeta, h.meta):
		// A static member keeps its tasks over a restart and a change of its address or time-outs.
		h.causes &^= CauseStaticReplacement
	case changed && h.causes == 0:
		h.causes |= CauseMemberChanged
	}
}

// demandsRebalance says whether a static member's change matters to the assignment.
func demandsRebalance(a, b *record.MemberMetadata) bool {
	return a.TopologyEpoch != b.TopologyEpoch || a.ProcessID != b.ProcessID ||
		!equalPtr(a.RackID, b.RackID) || !slices.Equal(a.ClientTags, b.ClientTags)
}

// metaChanges reports whether the request changes any field of the member; it allocates nothing.
func (h *heartbeat) metaChanges() bool {
	r, m := h.req, h.oldMeta
	return !h.known && h.replaced == nil ||
		m.ClientID != h.client.ID || m.ClientHost != h.client.Host ||
		r.InstanceID != nil && !equalPtr(r.InstanceID, m.InstanceID) ||
		r.RackID != nil && !equalPtr(r.RackID, m.RackID) ||
		r.RebalanceTimeoutMs != -1 && r.RebalanceTimeoutMs != m.RebalanceTimeoutMs ||
		r.Topology != nil && h.joined != m.TopologyEpoch ||
		r.ProcessID != nil && *r.ProcessID != m.ProcessID ||
		(r.UserEndpoint != nil || h.joining()) && !equalPtr(r.UserEndpoint, m.UserEndpoint) ||
		r.ClientTags != nil && !tagsEqual(r.ClientTags, m.ClientTags)
}

// newMeta is the member with the request's fields; what it keeps is cloned, for requests alias their buffer.
func (h *heartbeat) newMeta() *record.MemberMetadata {
	r := h.req
	m := *h.oldMeta
	m.ClientID, m.ClientHost = strings.Clone(h.client.ID), strings.Clone(h.client.Host)
	m.InstanceID = override(m.InstanceID, r.InstanceID)
	m.RackID = override(m.RackID, r.RackID)
	if r.RebalanceTimeoutMs != -1 {
		m.RebalanceTimeoutMs = r.RebalanceTimeoutMs
	}
	if r.Topology != nil {
		m.TopologyEpoch = h.joined
	}
	if r.ProcessID != nil {
		m.ProcessID = strings.Clone(*r.ProcessID)
	}
	switch {
	case r.UserEndpoint != nil:
		m.UserEndpoint = &record.Endpoint{Host: strings.Clone(r.UserEndpoint.Host), Port: r.UserEndpoint.Port}
	case h.joining():
		m.UserEndpoint = nil
	}
	if r.ClientTags != nil {
		m.ClientTags = sortedTags(r.ClientTags)
	}
	return &m
}

func override(old, new *string) *string {
	if new == nil {
		return old
	}
	s := strings.Clone(*new)
	return &s
}

// sortedTags is the map that the list stands for: keys ascending, the last value of a key wins.
func sortedTags(tags []record.KeyValue) []record.KeyValue {
	out := make([]record.KeyValue, 0, len(tags))
	for _, t := range tags {
		out = append(out, record.KeyValue{Key: strings.Clone(t.Key), Value: strings.Clone(t.Value)})
	}
	slices.SortStableFunc(out, func(a, b record.KeyValue) int { return cmp.Compare(a.Key, b.Key) })
	n := 0
	for i := range out {
		if i+1 < len(out) && out[i+1].Key == out[i].Key {
			continue
		}
		out[n] = out[i]
		n++
	}
	return out[:n]
}

func tagsEqual(got, stored []record.KeyValue) bool {
	return slices.Equal(got, stored) || slices.Equal(sortedTags(got), stored)
}

func equalPtr[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
