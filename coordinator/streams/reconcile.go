package streams

import (
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// reconciler moves one member towards its goal in steps that keep every task on one owner (KIP-1071, "Reconciliation of
// the group"; Kafka's CurrentAssignmentBuilder). Tasks that the goal no longer has are revoked first and given away
// only when the member has reported that it released them.
type reconciler struct {
	group *fsm.Group // whose indexes say who holds what, as of before this heartbeat; nil for a new group
	// process is the member's process id.
	process string
	current *record.CurrentAssignment
	// goal is what the member shall own at goalEpoch.
	goal      topology.Assignment
	goalEpoch int32
	// reported says whether the request carried the owned tasks, and owned what it said.
	reported bool
	owned    topology.Assignment
	// hold withholds every new active task.
	hold bool
	// previous is the member epoch that the member knows.
	previous int32
	// redo moves the member although it is at goalEpoch already.
	redo bool
}

// next returns the member's next assignment, the current one itself where nothing changes.
func (r *reconciler) next() (*record.CurrentAssignment, *coordinator.Error) {
	c := r.current
	if reconciledTo(c, r.goalEpoch) && !r.redo {
		return c, nil
	}
	switch c.State {
	case record.MemberStable, record.MemberUnreleasedTasks:
		if c.State == record.MemberStable && c.MemberEpoch == r.goalEpoch && !r.redo {
			return c, nil
		}
		return r.step(c.MemberEpoch), nil
	case record.MemberUnrevokedTasks:
		if !r.released(c.Revoking) {
			return c, nil
		}
		// Never above the goal's, where more is to be revoked at the same goal: a topology update shrinks it before the next one
		// is computed, and the member would go back from there.
		return r.step(max(c.MemberEpoch, min(c.MemberEpoch+1, r.goalEpoch))), nil
	}
	// A state that a newer version wrote: only a member that owns nothing can start over.
	if !r.reported || !r.owned.IsEmpty() {
		return nil, coordinator.Errorf(coordinator.FencedMemberEpoch,
			"The streams group member is in an unknown state. The member must abandon all its tasks and rejoin.")
	}
	return r.step(r.goalEpoch), nil
}

// released reports whether the member said that it owns none of the tasks, each in its role.
func (r *reconciler) released(tasks topology.Assignment) bool {
	return r.reported && !r.owned.Active.Intersects(tasks.Active) &&
		!r.owned.Standby.Intersects(tasks.Standby) && !r.owned.Warmup.Intersects(tasks.Warmup)
}

// step computes the next assignment; epoch is the member epoch that stays while tasks are to be revoked.
//
// As in Kafka, tasks that the report lacks are taken away at once: asking for a release that the member has nothing to
// do for would never be answered. The report must therefore be final: a client must not start a task that it was given
// before and did not report, until it is told again.
func (r *reconciler) step(epoch int32) *record.CurrentAssignment {
	had, goal := r.current.Assigned, r.goal
	kept := intersect(had, goal)
	revoke := minus(had, kept)
	want := minus(goal, kept)
	grant := topology.Assignment{
		Active:  want.Active.Filter(r.activeFree),
		Standby: want.Standby.Filter(r.standbyFree),
		Warmup:  want.Warmup.Filter(r.warmupFree),
	}
	unreleased := grant.Len() < want.Len()

	// Role changes of tasks that the member holds itself happen in place. Active to standby: the replica is granted at
	// once, but the group must see the release of the active role.
	demoted := grant.Standby.Intersect(had.Active)
	kept.Standby, grant.Standby = kept.Standby.Union(demoted), grant.Standby.Minus(demoted)
	// Between standby and warm-up no acknowledgement is needed: clients run both alike.
	warmed := grant.Warmup.Intersect(had.Standby)
	kept.Warmup, grant.Warmup = kept.Warmup.Union(warmed), grant.Warmup.Minus(warmed)
	revoke.Standby = revoke.Standby.Minus(warmed)
	cooled := grant.Standby.Intersect(had.Warmup)
	kept.Standby, grant.Standby = kept.Standby.Union(cooled), grant.Standby.Minus(cooled)
	revoke.Warmup = revoke.Warmup.Minus(cooled)
	// Replica to active: the replica stays until the active role is granted, so that its state is not lost.
	promoted := topology.Assignment{
		Standby: revoke.Standby.Intersect(want.Active),
		Warmup:  revoke.Warmup.Intersect(want.Active),
	}
	revoke = minus(revoke, promoted)

	next := &record.CurrentAssignment{PreviousEpoch: r.previous}
	if !revoke.IsEmpty() && !r.released(revoke) {
		next.State, next.MemberEpoch = record.MemberUnrevokedTasks, epoch
		next.Assigned, next.Revoking = union(kept, promoted), revoke
	} else {
		promoted.Standby = promoted.Standby.Minus(grant.Active)
		promoted.Warmup = promoted.Warmup.Minus(grant.Active)
		grant.Active = grant.Active.WithEpoch(r.goalEpoch)
		next.State, next.MemberEpoch = record.MemberStable, r.goalEpoch
		if unreleased {
			next.State = record.MemberUnreleasedTasks
		}
		next.Assigned = union(union(kept, promoted), grant)
	}
	if sameAssignment(next, r.current) {
		return r.current
	}
	return next
}

// activeFree, standbyFree and warmupFree report whether the member may be given a role of a task now: active tasks are
// exclusive in the group, all copies of a task are exclusive within a process (CurrentAssignmentBuilder). What the member
// was told to revoke and lets go with this report is nobody's: a target that gives it back needs no further heartbeat, as
// Kafka does, where the member waits for itself.
func (r *reconciler) activeFree(t topology.Task) bool {
	if r.hold {
		return false
	}
	if r.group == nil {
		return true
	}
	own, freed := &r.current.Assigned, &r.current.Revoking
	if _, owned := r.group.ActiveOwner(t); owned && !freed.Active.Contains(t) {
		return false
	}
	return (!r.group.StandbyHeldBy(t, r.process) || own.Standby.Contains(t) || freed.Standby.Contains(t)) &&
		(!r.group.WarmupHeldBy(t, r.process) || own.Warmup.Contains(t) || freed.Warmup.Contains(t))
}

func (r *reconciler) standbyFree(t topology.Task) bool {
	if r.group == nil {
		return true
	}
	own, freed := &r.current.Assigned, &r.current.Revoking
	if p, owned := r.group.ActiveOwner(t); owned && p == r.process && !own.Active.Contains(t) && !freed.Active.Contains(t) {
		return false
	}
	return (!r.group.StandbyHeldBy(t, r.process) || freed.Standby.Contains(t)) &&
		(!r.group.WarmupHeldBy(t, r.process) || own.Warmup.Contains(t) || freed.Warmup.Contains(t))
}

func (r *reconciler) warmupFree(t topology.Task) bool {
	if r.group == nil {
		return true
	}
	own, freed := &r.current.Assigned, &r.current.Revoking
	if p, owned := r.group.ActiveOwner(t); owned && p == r.process && !freed.Active.Contains(t) {
		return false
	}
	return (!r.group.WarmupHeldBy(t, r.process) || freed.Warmup.Contains(t)) &&
		(!r.group.StandbyHeldBy(t, r.process) || own.Standby.Contains(t) || freed.Standby.Contains(t))
}

func intersect(a, b topology.Assignment) topology.Assignment {
	return topology.Assignment{
		Active:  a.Active.Intersect(b.Active),
		Standby: a.Standby.Intersect(b.Standby),
		Warmup:  a.Warmup.Intersect(b.Warmup),
	}
}

func minus(a, b topology.Assignment) topology.Assignment {
	return topology.Assignment{
		Active:  a.Active.Minus(b.Active),
		Standby: a.Standby.Minus(b.Standby),
		Warmup:  a.Warmup.Minus(b.Warmup),
	}
}

func union(a, b topology.Assignment) topology.Assignment {
	return topology.Assignment{
		Active:  a.Active.Union(b.Active),
		Standby: a.Standby.Union(b.Standby),
		Warmup:  a.Warmup.Union(b.Warmup),
	}
}

func sameAssignment(a, b *record.CurrentAssignment) bool {
	return a == b || a.State == b.State && a.MemberEpoch == b.MemberEpoch && a.PreviousEpoch == b.PreviousEpoch &&
		a.Assigned.Equal(b.Assigned) && a.Revoking.Equal(b.Revoking)
}
