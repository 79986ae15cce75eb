package streams

import (
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Heartbeat decides a StreamsGroupHeartbeat: a join (epoch 0), a regular heartbeat (> 0) or a leave (-1, -2). The
// request must have passed [Validate]. It is the algorithm of Kafka's GroupMetadataManager.streamsGroupHeartbeat. A
// heartbeat without news costs the same in every group and allocates nothing.
func Heartbeat(in HeartbeatInput) Decision {
	h := heartbeat{group: in.Group, soft: in.Soft, env: in.Env, client: in.Client, req: in.Request,
		mayHold: in.MayHold, since: in.Arrived, held: in.Held}
	var d Decision
	var err *coordinator.Error
	if in.Request.MemberEpoch < JoinEpoch {
		err = h.leave(&d)
	} else {
		err = h.beat(&d)
	}
	if err != nil {
		refused := Decision{Reply: HeartbeatResponse{Err: err}}
		if h.doubted {
			refused.Doubt, refused.DoubtSince, refused.Sighting = d.Doubt, d.DoubtSince, d.Sighting
		}
		if in.Request.ShutdownApplication && in.Request.MemberEpoch < JoinEpoch && in.Group != nil {
			// The wish counts even if the member is not known any more, as in Kafka.
			refused.markShutdown(in.Group, strings.Clone(in.Request.MemberID))
		}
		return refused
	}
	return d
}

// heartbeat is the working state of one decision.
type heartbeat struct {
	group  *fsm.Group // nil: the request creates it
	soft   *Soft      // nil: none yet
	env    Env
	client *coordinator.Client
	req    *HeartbeatRequest
	// As in HeartbeatInput.
	mayHold bool
	since   int64 // Arrived
	held    bool

	// The member as it was (or as a default member), and what becomes of it.
	groupID  string
	memberID string
	known    bool        // the group has the member
	entry    *SoftMember // nil where not looked up or not there
	hard     *fsm.Member
	oldMeta  *record.MemberMetadata    // before the request
	meta     *record.MemberMetadata    // with the request's fields
	current  *record.CurrentAssignment // before reconciliation
	target   *record.TargetMember      // stored target; nil when there is none
	replaced *fsm.Member               // static member that this one replaces

	offsets memberOffsets // as reported now; nil lists where the request has none

	line        lineage
	joined      int32            // the member's topology epoch after the request
	newTopology *record.Topology // what becomes the group's topology; nil: it keeps its own
	history     []record.Record  // what becomes of the topologies before
	detail      string           // of the update, for people
	copyDetail  string           // of copies that are caught up or lost, for people
	restoring   []restoringMark  // what the request changes of what is restored

	topology  *topology.Topology
	topics    *ConfiguredTopics
	validated int32
	causes    CauseKind
	epoch     int32 // group epoch after this heartbeat
	goalEpoch int32 // assignment epoch after this heartbeat
	delayed   string
	stale     bool
	doubted   bool // an error comes of topics that may be too old to say so
}

// beat handles epochs of 0 and above. The order of the checks is Kafka's: it decides which of several errors is told.
func (h *heartbeat) beat(d *Decision) *coordinator.Error {
	if err := h.findMember(d); err != nil {
		return err
	}
	if err := h.joinTopology(); err != nil {
		return err
	}
	h.updateMember(d)
	h.putTopology(d)
	if err := h.configure(d); err != nil {
		return err
	}
	if err := h.checkOwned(); err != nil {
		return err
	}
	if err := h.takeOffsets(d); err != nil {
		return err
	}
	h.noticeCopies(d)
	h.bump(d)
	d.putTopics(h.group, h.groupID, h.topics, h.causes != 0, &h.env)
	h.startInitialDelay(d)
	goalEpoch, goal, err := h.chooseTarget(d)
	if err != nil {
		return err
	}
	h.goalEpoch = goalEpoch
	next, err := h.reconcile(d, goalEpoch, goal)
	if err != nil {
		return err
	}
	d.Soft.Member, d.Soft.entry = h.memberID, h.entry
	if d.Records == nil {
		d.Soft.seen, d.Soft.seenGroup = h.hard, h.group
	}
	if !h.held {
		d.Soft.arrived, d.Soft.joins = h.arrived(), h.joining()
		d.Soft.SessionDeadline = h.arrived() + int64(h.env.Settings.SessionTimeoutMs)
		d.Soft.old = h.req.Version < 1
	}
	h.noteWarmups(d, next)
	if next != h.current && h.settles(next, goalEpoch) {
		n := d.noted()
		n.settled, n.slowest = true, h.memberID
	}
	h.mark(d)
	d.putJournal(h.group, h.groupID, h.env.Now)
	h.respond(d, next)
	return nil
}

// bump raises the group epoch when anything that the target depends on has changed.
func (h *heartbeat) bump(d *Decision) {
	stored := groupMetadata(h.group)
	h.epoch = stored.Epoch
	h.causes |= inputChanges(stored, h.validated, h.env.Settings)
	if h.causes == 0 {
		return
	}
	if h.causes&CauseTopology != 0 {
		h.causes &= CauseJoin | CauseTopology // all else is new with it
	}
	h.epoch++
	d.Records = append(d.Records, record.Record{
		Key:   record.Key{Type: record.TypeGroupMetadata, Group: h.groupID},
		Value: bumped(stored, h.topics.Hash, h.validated, h.env.Settings),
	})
	d.Cause = Cause{Kinds: h.causes, Epoch: h.epoch, MemberID: h.memberID, Host: h.meta.ClientHost,
		Detail: inputDetail(h.causes, stored, h.topics.Configured, h.env.Settings)}
	if h.detail != "" {
		d.Cause.Detail = h.detail
	} else if h.copyDetail != "" {
		d.Cause.Detail = joined(d.Cause.Detail, h.copyDetail)
	}
	if h.meta.InstanceID != nil {
		d.Cause.InstanceID = *h.meta.InstanceID
	}
}

// inputChanges compares what the group record says the target was made from with what is so now.
func inputChanges(stored *record.GroupMetadata, validated int32, s *coordinator.GroupSettings) (k CauseKind) {
	if validated != stored.ValidatedTopologyEpoch {
		k |= CauseValidation
	}
	if !assignmentConfigsEqual(stored.AssignmentConfigs, s) {
		k |= CauseConfigChange
	}
	return k
}

// bumped is the group record of the next epoch.
func bumped(stored *record.GroupMetadata, hash int64, validated int32, s *coordinator.GroupSettings) *record.GroupMetadata {
	return &record.GroupMetadata{
		Epoch:                  stored.Epoch + 1,
		MetadataHash:           hash,
		ValidatedTopologyEpoch: validated,
		AssignmentConfigs:      assignmentConfigs(s),
		StoredDescriptionEpoch: stored.StoredDescriptionEpoch,
		FailedDescriptionEpoch: stored.FailedDescriptionEpoch,
	}
}

// startInitialDelay arms the initial rebalance delay when the group was empty.
func (h *heartbeat) startInitialDelay(d *Decision) {
	delay := int64(h.env.Settings.InitialRebalanceDelayMs)
	if numMembers(h.group) == 0 && delay > 0 && (h.soft == nil || h.soft.InitialDelayUntil == 0) {
		d.Soft.InitialDelay = h.env.Now + delay
	}
}

// initialDelayRuns reports whether the target has to wait for the initial rebalance delay.
func (h *heartbeat) initialDelayRuns(d *Decision) bool {
	return h.env.Now < h.delayUntil(d)
}

// delayUntil is when the initial rebalance delay ends; 0 when none runs.
func (h *heartbeat) delayUntil(d *Decision) int64 {
	if d.Soft.InitialDelay != 0 || h.soft == nil {
		return max(0, d.Soft.InitialDelay)
	}
	return h.soft.InitialDelayUntil
}

// reconcile moves the member towards its goal.
func (h *heartbeat) reconcile(d *Decision, goalEpoch int32, goal topology.Assignment) (*record.CurrentAssignment, *coordinator.Error) {
	misfit := false
	if h.joining() || !reconciledTo(h.current, goalEpoch) {
		goal, misfit = h.limit(goal)
	}
	if (reconciledTo(h.current, goalEpoch) || h.behind()) && !misfit {
		return h.current, nil
	}
	r := reconciler{
		group: h.group, process: h.meta.ProcessID, current: h.current, goal: goal, goalEpoch: goalEpoch,
		reported: h.reported(), owned: topology.Assignment{Active: h.req.Active, Standby: h.req.Standby, Warmup: h.req.Warmup},
		hold: h.env.HoldGrants, previous: h.current.MemberEpoch, redo: misfit,
	}
	switch {
	case h.held:
		r.previous = h.req.MemberEpoch // the one that the member was told last; others in between it never saw
	case h.joining() && h.current.MemberEpoch == goalEpoch:
		// The join may be a late copy of one that timed out, whose member goes on with the epoch that it was told then.
		r.previous = h.current.PreviousEpoch
	}
	next, err := r.next()
	if err != nil {
		return nil, err
	}
	if next != h.current {
		h.putCurrent(d, next)
	}
	return next, nil
}

// putCurrent emits the member's assignment and sets its rebalance timer.
func (h *heartbeat) putCurrent(d *Decision, c *record.CurrentAssignment) {
	d.Records = append(d.Records, record.Record{Key: h.memberKey(record.TypeCurrentAssignment), Value: c})
	if c.State != record.MemberUnrevokedTasks {
		d.Soft.Rebalance = RebalanceTimerCancelled
		return
	}
	d.Soft.Rebalance = RebalanceTimerStarted
	d.Soft.RebalanceDeadline = h.env.Now + max(0, int64(h.meta.RebalanceTimeoutMs))
	d.Soft.RebalanceEpoch = c.MemberEpoch
}

// reported says whether the request carries the owned tasks: all three lists or nothing counts.
func (h *heartbeat) reported() bool {
	return h.req.Active != nil && h.req.Standby != nil && h.req.Warmup != nil
}

// behind says that the member has not seen the response that told its epoch. It is told again before it is moved on: after
// another step its epoch would not be the one before any more, and it would be fenced for two lost responses.
func (h *heartbeat) behind() bool {
	return !h.joining() && !h.held && h.req.MemberEpoch != h.current.MemberEpoch
}

func (h *heartbeat) joining() bool { return h.req.MemberEpoch == JoinEpoch }

func (h *heartbeat) memberKey(t record.Type) record.Key {
	return record.Key{Type: t, Group: h.groupID, Member: h.memberID}
}
