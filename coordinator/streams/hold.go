package streams

import (
	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
)

// Holding says whether the answer to a heartbeat may be held back until it would say something new. It has a meaning
// for decisions of [Heartbeat] without an error and with a member epoch above 0.
type Holding struct {
	// News says that the answer tells the member something that it must know now.
	News bool
	// Expects says that the member has to acknowledge or to revoke tasks first.
	Expects bool
	// Keeps says that the member keeps the interval that it was told (its last heartbeat was at least half of it ago), or that this
	// heartbeat acknowledges what it was told: a client that sends faster is answered at once.
	Keeps bool
	// Acknowledged says that the heartbeat answers for what the member was told last.
	Acknowledged bool
	// Waits says that tasks of the member's target are not released by others yet.
	Waits bool
}

// maxHoldMs bounds the hold that the interval gives: clients give requests up after 30 s by default, but networks forget
// connections, and tools have shorter time-outs.
const maxHoldMs = 4900

// holdMarginMs is what a hold leaves of the heartbeat interval, so that members send no more heartbeats than without.
const holdMarginMs = 100

// maxHoldCuts is how often a member's connection may close while its answer is held before it is held no more.
const maxHoldCuts = 2

// HoldMs is how long an answer to the member may be held, in milliseconds; 0: not at all.
func (m *SoftMember) HoldMs(s *coordinator.GroupSettings) int32 {
	hold := s.HeartbeatIntervalMs - holdMarginMs
	if s.HeartbeatHoldMs >= 0 {
		hold = min(hold, s.HeartbeatHoldMs)
	} else {
		hold = min(hold, maxHoldMs)
	}
	if m != nil && m.HoldCuts > 0 {
		if m.HoldCuts >= maxHoldCuts {
			return 0
		}
		hold /= 2
	}
	return max(0, hold)
}

// DisconnectMs is after what time a member whose connection ended without a leave is removed; 0: its session time-out
// alone counts.
func DisconnectMs(s *coordinator.GroupSettings) int64 {
	if s.DisconnectTimeoutMs <= 0 {
		return 0
	}
	return max(int64(s.DisconnectTimeoutMs), 2*int64(s.HeartbeatIntervalMs))
}

// ConnectionsMatter says whether it matters to a group that the connections of its members end: such members are removed before their
// session time-out, or run nothing anew meanwhile.
func ConnectionsMatter(s *coordinator.GroupSettings, a assignor.Assignor) bool {
	return DisconnectMs(s) > 0 || a != nil && assignor.UsesWarmups(a)
}

// Disconnected notes that the connection of the member's last heartbeat ended.
func (m *SoftMember) Disconnected(now int64, s *coordinator.GroupSettings) {
	m.DisconnectDeadline = m.SessionDeadline
	if limit := DisconnectMs(s); limit > 0 {
		m.DisconnectDeadline = now + limit
	}
}

// told is what an answer told a member, beside its tasks.
type told struct {
	lag               int64
	heartbeat, offset int32
	epoch             int32
	status            uint8
	creation          uint32 // what of the creation of topics failed
	known             bool
	soon              bool // the heartbeat interval was shorter than the configured one
}

// waitingStatus is the bit of the statuses that let a client wait, whichever they are.
const waitingStatus = 1 << StatusMissingInternalTopics

func toldBy(r *HeartbeatResponse) told {
	t := told{
		known: true, heartbeat: r.HeartbeatIntervalMs, offset: r.TaskOffsetIntervalMs, lag: r.AcceptableRecoveryLag,
		epoch: r.MemberEpoch,
	}
	for i := range r.Status {
		switch code := r.Status[i].Code; code {
		case StatusMissingInternalTopics, StatusAssignmentDelayed:
			t.status |= waitingStatus
			if code == StatusMissingInternalTopics {
				t.creation = creationTold(r.Status[i].Detail)
			}
		default:
			t.status |= 1 << code
		}
	}
	return t
}

// interval is the heartbeat interval that the member goes by, in milliseconds.
func (t *told) interval(s *coordinator.GroupSettings) int32 {
	if t.soon {
		return min(t.heartbeat, s.HeartbeatIntervalMs)
	}
	return s.HeartbeatIntervalMs
}

// holding compares the answer with what the member was told last. What a member can wait for without harm is not told
// while its group is being rebalanced: an answer that asks for no acknowledgement leaves the coordinator without a
// heartbeat of that member until its interval is over, and so without a way to tell it its next tasks.
func (h *heartbeat) holding(d *Decision, next *record.CurrentAssignment, acknowledged bool) {
	r, now := &d.Reply, toldBy(&d.Reply)
	now.soon = now.heartbeat < h.env.Settings.HeartbeatIntervalMs
	d.told = now
	if h.joining() {
		return
	}
	var last told
	pending := r.Active != nil
	if h.entry != nil {
		last = h.entry.told
		pending = pending || d.Soft.told == 0 && h.entry.toldAt != 0
	}
	d.Holding.Waits = next.State == record.MemberUnreleasedTasks
	d.Holding.Expects = pending || next.State != record.MemberStable && !d.Holding.Waits
	d.Holding.Acknowledged = acknowledged || h.entry != nil && h.entry.unheard && h.req.MemberEpoch == last.epoch
	d.Holding.Keeps = d.Holding.Acknowledged || h.entry == nil || h.entry.soon != 0 && h.arrived() >= h.entry.soon ||
		h.arrived()-h.entry.lastBeat >= int64(last.interval(h.env.Settings))/2
	// That members need not come so soon any more can wait: told now, it would put the member out of reach for an interval.
	relaxed := last.soon && now.heartbeat > last.heartbeat
	switch {
	case r.Active != nil || !last.known || now.heartbeat != last.heartbeat && !relaxed || now.offset != last.offset || now.lag != last.lag:
		d.Holding.News = true
	case now.status != last.status:
		released := now.status == last.status&^waitingStatus
		d.Holding.News = !released || !d.Holding.Waits || !next.Assigned.IsEmpty()
	case now.creation != 0 && now.creation != last.creation:
		d.Holding.News = true
	case r.Endpoints != nil || r.MemberEpoch != h.req.MemberEpoch:
		d.Holding.News = d.Records == nil && StateOf(h.group) == StateStable
	}
}

// arrived is when the request came.
func (h *heartbeat) arrived() int64 {
	if h.since != 0 {
		return h.since
	}
	return h.env.Now
}

// Answered tells that the reply of a decision goes to its member now.
func (s *Soft) Answered(d *Decision) {
	if d.Soft.Member == "" {
		return
	}
	m := d.Soft.entry
	if m == nil {
		if m = s.Members[d.Soft.Member]; m == nil {
			return
		}
	}
	m.unheard = d.told.epoch != m.told.epoch || d.Reply.Active != nil
	m.told, m.soon = d.told, d.soon
}

// soonMs is the least interval that a member is told whose held answer had to go before its time.
const soonMs = 500

// LetGo makes the decision on a held heartbeat one whose answer goes before its time, because the client sent something
// else: until its next heartbeat the member cannot be told anything. That is to come when the hold would have ended, left ms
// after now, and soon when the heartbeat was an acknowledgement: the member asks for offsets then, once for each assignment.
func (d *Decision) LetGo(now, left int64, acknowledged bool) {
	r := &d.Reply
	next := max(left, soonMs)
	if acknowledged {
		next = soonMs
	}
	if r.Err != nil || d.Holding.News || len(r.Status) > 0 || next >= int64(r.HeartbeatIntervalMs) {
		return
	}
	r.HeartbeatIntervalMs, d.soon = int32(next), now+next/2
}

// maxFastMs is how long members are told the shorter interval for one group epoch.
const maxFastMs = 30_000

// interval is the heartbeat interval that the member is told. One that cannot be held comes more often while it waits for
// tasks, or others wait for it. It is never told so together with a status that the client measures its patience by (it
// waits twice the interval before it gives missing source topics up).
func (h *heartbeat) interval(d *Decision, next *record.CurrentAssignment) int32 {
	s := h.env.Settings
	fast := s.RebalanceHeartbeatIntervalMs
	if fast <= 0 || fast >= s.HeartbeatIntervalMs || h.mayHold && h.entry.HoldMs(s) > 0 {
		return s.HeartbeatIntervalMs
	}
	if h.topology == nil || h.validated != h.topology.Epoch {
		return s.HeartbeatIntervalMs
	}
	assigning := h.epoch > h.goalEpoch
	if !assigning && next.State == record.MemberStable && next.MemberEpoch == h.goalEpoch {
		return s.HeartbeatIntervalMs
	}
	since := h.env.Now
	if h.soft != nil && h.soft.fastEpoch == h.epoch {
		since = h.soft.fastSince
	} else {
		d.Soft.fastEpoch, d.Soft.fastSince = h.epoch, since
	}
	if h.env.Now-since >= maxFastMs {
		return s.HeartbeatIntervalMs
	}
	return fast
}
