package streams

import (
	"fmt"
	"math"
	"slices"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
)

// Which copies of tasks are caught up, by the offsets that members report. Only groups whose assignor uses warm-ups ask:
// there a copy that has caught up, and a state that was lost, are reasons for the next target.

// unreportedIntervals is within how many times task.offset.interval.ms it must be known how far behind a warm-up is. Later the
// warm-up counts as caught up: it may never be known, and its task must not wait for ever.
const unreportedIntervals = 2

// warmup is what only the leader knows of a warm-up of a member.
type warmup struct {
	topology.Task
	// since is since when no more is known of it: the member has acknowledged it, or reported another offset. After a failover it
	// is the election.
	since int64
	// at is the offset that was reported of it then.
	at int64
	// ready says that it counts as caught up because nothing was reported of it.
	ready bool
	// stalled says that it is known to be behind and made no progress for as long; it is kept when the member has to give the warm-up up.
	stalled bool
	// raised is the group epoch that was raised because it is caught up, or stalled; 0 when none was. Where the group's epoch is lower that one
	// is not in the log.
	raised int32
}

// restoring is an active task whose member lost its state, by its own reports.
type restoring struct {
	member string
	// had is the offset that it had reported before.
	had int64
	// raised is as of warmup.
	raised int32
}

// WarmupUnreported says that warm-ups of a member count as caught up because nothing was reported by which it is known how far behind
// they are.
type WarmupUnreported struct {
	Member string
	Tasks  topology.Tasks
	// AfterMs is for how long it was not known.
	AfterMs int64
}

func (WarmupUnreported) effect() {}

// WarmupStalled says that a warm-up of a member is known to be behind and makes no progress.
type WarmupStalled struct {
	Member string
	Task   topology.Task
	// Offset is where it is, End how far it has to come at least.
	Offset, End int64
	// AfterMs is for how long it made no progress.
	AfterMs int64
}

func (WarmupStalled) effect() {}

// copies sees what members have reported: with the lists of the one in the middle of its heartbeat.
type copies struct {
	group *fsm.Group
	soft  *Soft
	lag   int64 // up to which a copy is caught up, inclusive
	self  string
	own   memberOffsets
	// processes are the members by process, once somebody has asked.
	processes map[string][]*fsm.Member
}

// members are those of a process.
func (c *copies) members(process string) []*fsm.Member {
	if c.processes == nil && c.soft.processesOf == c.group {
		c.processes = c.soft.processes
	}
	if c.processes == nil {
		c.processes = make(map[string][]*fsm.Member, c.group.NumMembers())
		for m := range c.group.Members() {
			p := metaOf(m).ProcessID
			c.processes[p] = append(c.processes[p], m)
		}
	}
	return c.processes[process]
}

// holders are the members that have the task in any role.
func (c *copies) holders(t topology.Task) (list []*fsm.Member) {
	take := func(process string) {
		for _, m := range c.members(process) {
			if hasTask(&currentOf(m).Assigned, t) {
				list = append(list, m)
			}
		}
	}
	if owner, ok := c.group.ActiveOwner(t); ok {
		take(owner)
	}
	for process := range c.group.ReplicaHolders(t) {
		take(process)
	}
	return list
}

func (c *copies) of(member string) memberOffsets {
	if member == c.self && c.self != "" {
		return c.own
	}
	return c.soft.offsets(member)
}

// reported is what a list says of a task; false where it says nothing that can be compared.
func reported(list []TaskOffset, t topology.Task) (int64, bool) {
	i, ok := slices.BinarySearchFunc(list, t, func(o TaskOffset, t topology.Task) int { return o.Compare(t) })
	if !ok || list[i].Offset < 0 || list[i].Offset == math.MaxInt64 {
		return 0, false
	}
	return list[i].Offset, true
}

// end is the end of the task's changelog as far as it is known: the largest end offset that any member reported. A client that
// found nothing to restore may tell an end of long ago, so that it is no less than where a copy is that a member runs.
func (c *copies) end(t topology.Task) (end int64, known bool) {
	if end, known = c.reportedEnd(t); !known || !c.group.HasReplica(t) {
		return end, known
	}
	for _, m := range c.holders(t) {
		if offset, ok := reported(c.of(m.ID).tasks, t); ok {
			end = max(end, offset)
		}
	}
	return end, known
}

// holdersEnd is what end is by the reports of those that have the task alone, who are the ones to tell of it: it costs the
// same in any group.
func (c *copies) holdersEnd(t topology.Task) (end int64, known bool) {
	for _, m := range c.holders(t) {
		o := c.of(m.ID)
		if n, ok := reported(o.ends, t); ok {
			end, known = max(end, n), true
		}
		if n, ok := reported(o.tasks, t); ok {
			end = max(end, n)
		}
	}
	return end, known
}

func (c *copies) reportedEnd(t topology.Task) (end int64, known bool) {
	consider := func(list []TaskOffset) {
		if n, ok := reported(list, t); ok && (!known || n > end) {
			end, known = n, true
		}
	}
	for id, m := range c.soft.Members {
		if id != c.self {
			consider(m.TaskEndOffsets)
		}
	}
	if c.self != "" {
		consider(c.own.ends)
	}
	return end, known
}

// offset is how far the member's process is with the task: as the member says that runs it, else as others say of its folder, who
// may have looked before.
func (c *copies) offset(m *fsm.Member, t topology.Task) (offset int64, known bool) {
	if offset, known = reported(c.of(m.ID).tasks, t); known {
		return offset, true
	}
	for _, other := range c.members(metaOf(m).ProcessID) {
		if n, ok := reported(c.of(other.ID).tasks, t); ok && (!known || n > offset) {
			offset, known = n, true
		}
	}
	return offset, known
}

// behind is by how many records the member's copy of the task is.
func (c *copies) behind(m *fsm.Member, t topology.Task) (records int64, known bool) {
	offset, ok := c.offset(m, t)
	if !ok {
		return 0, false
	}
	end, ok := c.end(t)
	if !ok {
		return 0, false
	}
	return max(0, end-offset), true
}

// far says that the member's copy is known to be behind. Of members whose clients report nothing, what others of the process
// say of the folder tells nothing.
func (c *copies) far(m *fsm.Member, t topology.Task) bool {
	offset, told := c.offset(m, t)
	if s := c.soft.Members[m.ID]; !told || s != nil && s.old {
		return false
	}
	return c.leastEnd(t)-offset > c.lag
}

// leastEnd is the end of the task's changelog; where nobody knows it, it is no less than where a copy is that a member runs.
func (c *copies) leastEnd(t topology.Task) int64 {
	end, known := c.end(t)
	if !known {
		for _, holder := range c.holders(t) {
			if n, ok := c.offset(holder, t); ok {
				end = max(end, n)
			}
		}
	}
	return end
}

// restores says whether the member restores an active task that it is far behind with: its replicas have to wait for that.
func (c *copies) restores(m *fsm.Member) bool {
	o := c.of(m.ID)
	for i := range o.ends {
		t := o.ends[i].Task
		end, ok := reported(o.ends, t)
		offset, _ := reported(o.tasks, t)
		if ok && end-offset > c.lag && currentOf(m).Assigned.Active.Contains(t) {
			return true
		}
	}
	return false
}

func (c *copies) caughtUp(m *fsm.Member, t topology.Task) bool {
	records, known := c.behind(m, t)
	return known && records <= c.lag
}

// away says that nothing can run on the member now: it has left for a while, or is not connected.
func (c *copies) away(m *fsm.Member) bool {
	return away(m) || m.ID != c.self && c.soft.Members[m.ID].disconnected()
}

// disconnected says that the connection of the member's last heartbeat ended, and that it has not come back over another one.
func (m *SoftMember) disconnected() bool { return m != nil && m.DisconnectDeadline != 0 }

// away says that a static member has left for a while.
func away(m *fsm.Member) bool { return currentOf(m).MemberEpoch == StaticLeaveEpoch }

// waits says whether the task is a warm-up of the member, and is to stay one.
func waits(m *fsm.Member, t topology.Task) bool {
	return currentOf(m).Assigned.Warmup.Contains(t) && targetOf(m).Assignment.Warmup.Contains(t)
}

// raisedBefore says whether the epoch that was raised for something is in the log.
func raisedBefore(g *fsm.Group, raised int32) bool { return raised != 0 && g.Epoch() >= raised }

func taskText(t topology.Task) string { return fmt.Sprintf("%s_%d", t.Subtopology, t.Partition) }

// usesWarmups says whether anything that is reported of copies matters to the group.
func usesWarmups(env *Env) bool {
	return env.Assignor != nil && assignor.UsesWarmups(env.Assignor)
}

// memberCopies is what is known of a member's copies beside its offsets.
type memberCopies struct {
	old, disconnected         bool
	ready, stalled, restoring []topology.Task
}

// memberCopies are those of all members of whom something is known.
func (s *Soft) memberCopies() map[string]memberCopies {
	all := map[string]memberCopies{}
	if s == nil {
		return all
	}
	for id, m := range s.Members {
		c := memberCopies{old: m.old, disconnected: m.disconnected(), ready: m.readyWarmups(), stalled: m.stalledWarmups()}
		if c.old || c.disconnected || c.ready != nil || c.stalled != nil {
			all[id] = c
		}
	}
	for t, r := range s.restoring {
		c := all[r.member]
		c.restoring = append(c.restoring, t)
		all[r.member] = c
	}
	return all
}

// readyWarmups are the warm-ups that count as caught up because nothing was reported of them.
func (m *SoftMember) readyWarmups() (list []topology.Task) {
	if m == nil {
		return nil
	}
	for i := range m.warmups {
		if m.warmups[i].ready {
			list = append(list, m.warmups[i].Task)
		}
	}
	return list
}

// stalledWarmups are the tasks of which the member's warm-ups make, or made, no progress.
func (m *SoftMember) stalledWarmups() (list []topology.Task) {
	if m == nil {
		return nil
	}
	for i := range m.warmups {
		if m.warmups[i].stalled {
			list = append(list, m.warmups[i].Task)
		}
	}
	return list
}

// tell tells an assignor of the member's copies, as far as they are of its current tasks.
func (c *memberCopies) tell(m *assignor.Member) {
	m.NoWarmups, m.Away = c.old, m.Away || c.disconnected
	if m.Ready = m.Current.Warmup; !c.old {
		m.Ready = topology.NewTasks(c.ready...).Intersect(m.Current.Warmup)
	}
	m.Stalled = topology.NewTasks(c.stalled...)
	m.Restoring = topology.NewTasks(c.restoring...).Intersect(m.Current.Active.WithoutEpochs())
}

// copiesNow is what is known of the copies of the member in the middle of its heartbeat.
func (h *heartbeat) copiesNow() memberCopies {
	c := memberCopies{old: h.req.Version < 1, ready: h.entry.readyWarmups()}
	if !h.joining() { // who begins anew may get on
		c.stalled = h.entry.stalledWarmups()
	}
	if h.soft == nil {
		return c
	}
	for t := range h.current.Assigned.Active.All() {
		r, lost := h.soft.restoring[t]
		lost = lost && r.member == h.memberID
		for _, mark := range h.restoring {
			if mark.task == t {
				lost = mark.now != nil && mark.now.member == h.memberID
			}
		}
		if lost {
			c.restoring = append(c.restoring, t)
		}
	}
	return c
}
