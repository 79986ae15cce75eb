package streams

import (
	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Why an assignment is delayed, as told to members.
const (
	delayedInitially  = "Assignment delayed due to the configured initial rebalance delay."
	delayedByInterval = "Assignment delayed due to the configured assignment interval."
	delayedByFailure  = "Assignment delayed because it could not be computed."
	delayedByOffload  = "Assignment delayed while it is computed."
)

// minFailureDelayMs is how long a failed assignor rests at least.
const minFailureDelayMs = 1000

// chooseTarget decides which target the member is reconciled to: the stored one, or a new one where the group epoch
// moved on.
func (h *heartbeat) chooseTarget(d *Decision) (epoch int32, goal topology.Assignment, err *coordinator.Error) {
	epoch = assignmentEpoch(h.group)
	if h.target != nil {
		goal = h.target.Assignment
	}
	switch {
	case h.initialDelayRuns(d):
		h.delayed = delayedInitially
		return epoch, topology.Assignment{}, nil
	case epoch >= h.epoch:
		return epoch, goal, nil
	}
	if h.soft != nil && h.soft.Torn {
		goal = h.current.Assigned
	}
	if due := assignmentDue(h.group, h.soft, &h.env); h.env.Now < due {
		why := delayedByInterval
		if h.soft != nil && h.env.Now < h.soft.failedUntil {
			why = delayedByFailure
		}
		h.delay(d, due, why, &goal)
		return epoch, goal, nil
	}
	if offloaded(h.members(), h.topics.Configured, &h.env) {
		h.delay(d, h.env.Now, delayedByOffload, &goal)
		return epoch, goal, nil
	}
	goals, failure := h.compute(d)
	if failure != nil {
		h.delay(d, assignorFailed(d, &h.env, failure), delayedByFailure, &goal)
		return epoch, goal, nil
	}
	return h.epoch, goals[h.memberID], nil
}

// members is how many members the group has with this one.
func (h *heartbeat) members() int {
	n := numMembers(h.group)
	if !h.known && h.replaced == nil {
		n++
	}
	return n
}

// compute works on a copy, so that a heartbeat that needs no new target stays off the heap.
func (h *heartbeat) compute(d *Decision) (assignor.Assignment, error) {
	self := *h
	t := targetInput{
		group: h.group, groupID: h.groupID, soft: h.soft, offsets: h.soft.offsets, env: &self.env, topics: h.topics.Configured,
		epoch: h.epoch, self: &self, line: &self.line, validated: h.validated,
	}
	if usesWarmups(t.env) {
		t.copies = h.soft.memberCopies()
	}
	return t.compute(d)
}

// delay leaves the member at the old target and has the new one computed later. Only a member without tasks is told:
// a client that sees the status stops processing until its next heartbeat, and who has tasks has no reason to.
func (h *heartbeat) delay(d *Decision, due int64, why string, goal *topology.Assignment) {
	if h.soft == nil || h.soft.AssignmentDue == 0 || due < h.soft.AssignmentDue || d.Soft.Assignment != 0 {
		d.Soft.Assignment = due
	}
	if goal.IsEmpty() && h.current.Assigned.IsEmpty() {
		h.delayed = why
	}
}

// assignmentDue is the earliest time for the next target: one assignment interval after the last, and not before a
// failed assignor has rested.
func assignmentDue(g *fsm.Group, soft *Soft, env *Env) int64 {
	var due int64
	// A timestamp of the future comes from a former leader whose clock was ahead; nobody waits for that.
	if ts, interval := targetTimestamp(g), int64(env.Settings.AssignmentIntervalMs); ts != 0 && ts <= env.Now && interval > 0 {
		due = ts + interval
	}
	if soft != nil {
		due = max(due, soft.failedUntil)
	}
	return due
}

// assignorFailed keeps the old target and returns when to try again.
func assignorFailed(d *Decision, env *Env, err error) int64 {
	d.Effects = append(d.Effects, AssignorFailed{Err: err})
	d.Soft.failedUntil = env.Now + max(minFailureDelayMs, int64(env.Settings.AssignmentIntervalMs))
	d.Soft.Assignment = d.Soft.failedUntil
	return d.Soft.failedUntil
}

// refusedTargetRestMs is how long a target rests that could not be stored: nothing but another group or other topics
// make it fit, and large ones take long to compute.
const refusedTargetRestMs = 10_000

// TargetRefused keeps the old target because the new one could not be stored, and has it computed anew later.
func TargetRefused(env *Env) SoftChange {
	until := env.Now + refusedTargetRestMs
	return SoftChange{failedUntil: until, Assignment: until}
}

// targetInput is what a target assignment is computed from.
type targetInput struct {
	group   *fsm.Group // nil: only self
	groupID string
	soft    *Soft
	offsets func(member string) memberOffsets
	env     *Env
	topics  *topology.Configured
	epoch   int32
	// line are the group's topologies, and validated the newest one whose topics were complete.
	line      *lineage
	validated int32
	self      *heartbeat // the member in the middle of its heartbeat; nil: none
	// copies is what is known of members' copies beside their offsets, where the assignor asks for it: by member id, without
	// those of whom nothing is known.
	copies map[string]memberCopies
}

// compute runs the assignor and emits the targets that changed, and last the new assignment epoch. A failure leaves d as
// it is.
func (t *targetInput) compute(d *Decision) (assignor.Assignment, error) {
	c, err := t.changes()
	if err != nil {
		return nil, err
	}
	d.Records = append(d.Records, c.records...)
	targetDone(d, t.groupID, t.epoch, t.env, &c.moves)
	return c.goals, nil
}

// targetDone emits the assignment epoch, which makes the targets count.
func targetDone(d *Decision, group string, epoch int32, env *Env, moves *targetMoves) {
	d.Records = append(d.Records, record.Record{
		Key:   record.Key{Type: record.TypeTargetMetadata, Group: group},
		Value: &record.TargetMetadata{AssignmentEpoch: epoch, TimestampMs: env.Now},
	})
	d.Soft.Assignment, d.Soft.InitialDelay, d.Soft.TargetDone = -1, -1, true
	n := d.noted()
	n.moves, n.target = moves, epoch
}

// changedTargets are the targets that an assignment changes, by member id, what that moves, and all targets.
type changedTargets struct {
	records []record.Record
	moves   targetMoves
	goals   assignor.Assignment
}

// changes runs the assignor and compares its outcome with the stored targets.
func (t *targetInput) changes() (changedTargets, error) {
	spec, stored := t.spec()
	goals, err := t.assign(&spec)
	if err != nil {
		return changedTargets{}, err
	}
	c := changedTargets{goals: goals}
	var changes []targetChange
	for i := range spec.Members {
		id, old := spec.Members[i].ID, stored[i]
		goal := goals[id]
		if old != nil && old.Assignment.SameTasks(goal) {
			continue
		}
		if err := checkStorable(t.groupID, id, goal); err != nil {
			return changedTargets{}, err
		}
		c.records = append(c.records, record.Record{
			Key:   record.Key{Type: record.TypeTargetMember, Group: t.groupID, Member: id},
			Value: &record.TargetMember{Assignment: goal},
		})
		change := targetChange{member: id, new: goal}
		if old != nil {
			change.old = old.Assignment
		}
		changes = append(changes, change)
	}
	c.moves = movesOf(changes)
	return c, nil
}

// assign runs the assignor. A topology that is not ready gives everybody nothing, unless the tasks of before go on.
func (t *targetInput) assign(spec *assignor.Spec) (assignor.Assignment, error) {
	switch _, stands := t.line.standing(t.validated, t.topics); {
	case stands:
		return assignor.Kept(spec), nil
	case t.topics.Ready():
		goals, err := t.env.Assignor.Assign(*spec)
		if err == nil {
			err = checkAssignment(spec, goals)
		}
		return goals, err
	}
	return assignor.Assignment{}, nil
}

// spec is the assignor's input, and for each member its stored target. A static member that is replaced in this
// heartbeat is left out.
func (t *targetInput) spec() (assignor.Spec, []*record.TargetMember) {
	n := numMembers(t.group) + 1
	spec := assignor.Spec{
		Members:               make([]assignor.Member, 0, n),
		NumStandbyReplicas:    int(t.env.Settings.NumStandbyReplicas),
		RackAwareTags:         t.env.Settings.RackAwareTags,
		AcceptableRecoveryLag: t.env.Settings.AcceptableRecoveryLag,
	}
	if t.copies != nil {
		spec.NumWarmupReplicas = int(t.env.Settings.NumWarmupReplicas)
	}
	stored := make([]*record.TargetMember, 0, n)
	epochs := make([]int32, 0, n)
	add := func(m assignor.Member, target *record.TargetMember, topologyEpoch int32) {
		spec.Members = append(spec.Members, m)
		stored = append(stored, target)
		epochs = append(epochs, topologyEpoch)
	}
	self := t.self
	if t.group != nil {
		for m := range t.group.Members() {
			if self != nil && m.ID >= self.memberID {
				add(t.own(), self.target, self.meta.TopologyEpoch)
				self = nil
			}
			if t.self != nil && (m.ID == t.self.memberID || t.self.replaced != nil && m.ID == t.self.replaced.ID) {
				continue
			}
			member := assignorMember(m.ID, metaOf(m), currentOf(m), t.offsets(m.ID))
			member.Away = t.copies != nil && away(m)
			if c, ok := t.copies[m.ID]; ok {
				c.tell(&member)
			}
			add(member, m.Target, metaOf(m).TopologyEpoch)
		}
	}
	if self != nil {
		add(t.own(), self.target, self.meta.TopologyEpoch)
	}
	t.limits(&spec, epochs)
	for i := range t.topics.Subtopologies {
		s := &t.topics.Subtopologies[i]
		spec.Subtopologies = append(spec.Subtopologies, assignor.Subtopology{
			ID: s.ID, Tasks: s.NumTasks, Stateful: s.Stateful, LeaderRacks: leaderRacks(t.env, s),
		})
	}
	return spec, stored
}

// own is the member in the middle of its heartbeat.
func (t *targetInput) own() assignor.Member {
	m := assignorMember(t.self.memberID, t.self.meta, t.self.current, t.self.reports())
	if t.copies != nil {
		c := t.self.copiesNow()
		c.tell(&m)
	}
	return m
}

// reports are the offsets of the member after this heartbeat.
func (h *heartbeat) reports() memberOffsets {
	offsets := h.soft.offsets(h.memberID)
	if h.offsets.tasks != nil {
		offsets.tasks = h.offsets.tasks
	}
	if h.offsets.ends != nil {
		offsets.ends = h.offsets.ends
	}
	return offsets
}

// memberOffsets are the offsets that a member reported last.
type memberOffsets struct{ tasks, ends []TaskOffset }

func (s *Soft) offsets(member string) memberOffsets {
	if s == nil {
		return memberOffsets{}
	}
	if m := s.Members[member]; m != nil {
		return memberOffsets{m.TaskOffsets, m.TaskEndOffsets}
	}
	return memberOffsets{}
}

func assignorMember(id string, meta *record.MemberMetadata, c *record.CurrentAssignment, o memberOffsets) assignor.Member {
	m := assignor.Member{
		ID: id, ProcessID: meta.ProcessID, InstanceID: meta.InstanceID, RackID: meta.RackID,
		Current: c.Assigned, Offsets: offsetsOf(o.tasks), EndOffsets: offsetsOf(o.ends),
	}
	if len(meta.ClientTags) > 0 {
		m.Tags = make(map[string]string, len(meta.ClientTags))
		for _, t := range meta.ClientTags {
			m.Tags[t.Key] = t.Value
		}
	}
	return m
}

// offsetsOf is a list of offsets, nil where it is empty: the lists are sorted and replaced, never changed.
func offsetsOf(list []TaskOffset) assignor.Offsets {
	if len(list) == 0 {
		return nil
	}
	return list
}
