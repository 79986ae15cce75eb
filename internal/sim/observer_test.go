package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/internal/histories"
	"github.com/coordd/coordd/topology"
)

// role is one of the three roles of a task.
type role int

const (
	active role = iota
	standby
	warmup
	numRoles
)

// held are the tasks of a member by role, in order.
type held [numRoles][]topology.Task

func (h held) String() string {
	var b strings.Builder
	for r := range h {
		fmt.Fprintf(&b, "%c:", "asw"[r])
		for _, t := range h[r] {
			fmt.Fprintf(&b, " %s_%d", t.Subtopology, t.Partition)
		}
		b.WriteByte(';')
	}
	return b.String()
}

func (h held) has(r role, t topology.Task) bool { return slices.Contains(h[r], t) }

func sortTasks(ts []topology.Task) []topology.Task {
	slices.SortFunc(ts, topology.Task.Compare)
	return ts
}

func heldOf(a topology.Assignment) (h held) {
	for r, tasks := range [numRoles]topology.Tasks{a.Active, a.Standby, a.Warmup} {
		for t := range tasks.All() {
			h[r] = append(h[r], t)
		}
	}
	return h
}

// observer holds what was committed against what members were told, at every step. It fails by taking notes: it is
// called on all kinds of goroutines.
type observer struct {
	start time.Time

	mu       sync.Mutex
	failures []string
	shards   map[uint32]*shardHistory
	groups   map[string]*groupHistory
	commits  map[string]*commitNote // by metadata
	// stalledUntil is until when members may be cut off from their leader by an inner hop, for as long as a node takes to
	// see that.
	stalledUntil time.Time
	counts       struct{ entries, replies, held, grants, commits, warmups int }
}

// shardHistory is what all replicas of a Raft group have shown.
type shardHistory struct {
	digests map[uint64]uint64 // by index
	last    uint64
	state   fsm.State // at last
}

// groupHistory is the committed past of a group, and what its members think that they hold.
type groupHistory struct {
	group  *fsm.Group
	shard  int
	told   map[string]map[int32][]string // member id, epoch: the assignments that were committed
	left   map[string]bool               // members whose leave was acknowledged
	active map[topology.Task]*member
	copies map[processTask]*member
	// budget is how many warm-ups the group may have now, and budgets how many when an epoch began.
	budget  int
	budgets map[int32]int
}

type processTask struct {
	process string
	task    topology.Task
}

// commitNote follows one commit of one task.
type commitNote struct {
	member *member
	task   topology.Task
	landed bool
}

func newObserver() *observer {
	return &observer{
		start: time.Now(), shards: map[uint32]*shardHistory{}, groups: map[string]*groupHistory{},
		commits: map[string]*commitNote{},
	}
}

const maxFailures = 20

// fail notes a broken invariant. o.mu is held.
func (o *observer) fail(format string, args ...any) {
	if len(o.failures) < maxFailures {
		o.failures = append(o.failures, fmt.Sprintf("%.3fs: ", time.Since(o.start).Seconds())+fmt.Sprintf(format, args...))
	}
}

// failFor is fail with what the member lived through last. o.mu is held.
func (o *observer) failFor(m *member, format string, args ...any) {
	o.fail("%v: %s\n\t%s", m, fmt.Sprintf(format, args...), strings.Join(m.trace, "\n\t"))
}

// traced is how many lines of a member's past are kept.
const traced = 12

// note keeps a line of a member's past.
func (o *observer) note(m *member, format string, args ...any) {
	line := fmt.Sprintf("%.3fs: ", time.Since(o.start).Seconds()) + fmt.Sprintf(format, args...)
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(m.trace) == traced {
		m.trace = append(m.trace[:0], m.trace[1:]...)
	}
	m.trace = append(m.trace, line)
}

// failf is fail for those who do not hold the lock.
func (o *observer) failf(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail(format, args...)
}

func (o *observer) broken() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.failures)
}

func (o *observer) history(group string) *groupHistory {
	h := o.groups[group]
	if h == nil {
		h = &groupHistory{
			told: map[string]map[int32][]string{}, left: map[string]bool{},
			active: map[topology.Task]*member{}, copies: map[processTask]*member{}, budgets: map[int32]int{},
		}
		o.groups[group] = h
	}
	return h
}

// applied is told after each entry that a replica applied. The first replica that applies an index shows what was
// committed; the others must show the same.
func (o *observer) applied(node int, raftGroup uint32, index uint64, state fsm.State) {
	if index == 0 {
		return // restored from a snapshot, whose index is not told: the next entry shows it
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.shards[raftGroup]
	if s == nil {
		s = &shardHistory{digests: map[uint64]uint64{}}
		o.shards[raftGroup] = s
	}
	if digest, known := s.digests[index]; known {
		if digest != state.Digest() {
			o.fail("node %d, raft group %d: digest %x at index %d, another replica had %x", node, raftGroup, state.Digest(), index, digest)
		}
		return
	}
	if index < s.last {
		o.fail("node %d, raft group %d: applied index %d, which no other replica applied; the last was %d", node, raftGroup, index, s.last)
	}
	s.digests[index], s.last, s.state = state.Digest(), index, state
	o.counts.entries++
	for g := range state.Groups() {
		h := o.history(g.ID)
		if h.group != g {
			o.committed(h, g)
			h.group, h.shard = g, int(raftGroup)-1
		}
	}
}

// committed checks the next committed state of a group. o.mu is held.
func (o *observer) committed(h *groupHistory, g *fsm.Group) {
	if old := h.group; old != nil && (g.Epoch() < old.Epoch() || g.AssignmentEpoch() < old.AssignmentEpoch()) {
		o.fail("group %s: epochs went back from %d/%d to %d/%d", g.ID, old.Epoch(), old.AssignmentEpoch(), g.Epoch(), g.AssignmentEpoch())
	}
	o.targeted(h, g)
	actives := map[topology.Task]string{}
	copies := map[processTask]string{}
	for m := range g.Members() {
		if h.left[m.ID] {
			o.fail("group %s: member %s is back after its leave was acknowledged", g.ID, m.ID)
		}
		if m.Current == nil {
			continue
		}
		if old := h.group.Member(m.ID); old != nil && old.Current != nil && m.Current.MemberEpoch < old.Current.MemberEpoch {
			o.fail("group %s: epoch of member %s went back from %d to %d", g.ID, m.ID, old.Current.MemberEpoch, m.Current.MemberEpoch)
		}
		assigned, revoking := heldOf(m.Current.Assigned), heldOf(m.Current.Revoking)
		h.remember(m.ID, m.Current.MemberEpoch, assigned.String())
		for _, t := range append(assigned[active], revoking[active]...) {
			if other, taken := actives[t]; taken && other != m.ID {
				o.fail("group %s: task %v is committed as active to %s and %s", g.ID, t, other, m.ID)
			}
			actives[t] = m.ID
		}
		if m.Meta != nil {
			o.oneCopy(g.ID, m.Meta.ProcessID, m.ID, assigned, revoking, copies)
		}
	}
}

// targeted checks that a target has no more warm-ups than the settings allow that it was made with: those of its epoch, or newer ones.
// It counts from when its epoch is the assignment epoch; it may have been written in parts before. o.mu is held.
func (o *observer) targeted(h *groupHistory, g *fsm.Group) {
	if g.Metadata != nil {
		h.budgets[g.Epoch()] = budgetOf(g.Metadata.AssignmentConfigs)
	}
	if g.AssignmentEpoch() == h.group.AssignmentEpoch() {
		return
	}
	warmups := 0
	for m := range g.Members() {
		if m.Target != nil {
			warmups += m.Target.Assignment.Warmup.Len()
		}
	}
	o.counts.warmups += warmups
	if budget := max(h.budget, h.budgets[g.AssignmentEpoch()]); warmups > budget {
		o.fail("group %s: the target of epoch %d has %d warm-ups, of %d", g.ID, g.AssignmentEpoch(), warmups, budget)
	}
}

// allows changes how many warm-ups a group may have.
func (o *observer) allows(group string, change func(now int) int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.history(group)
	h.budget = change(h.budget)
}

// budgetOf is the number of warm-ups that settings allow, as a group record has them.
func budgetOf(configs []record.KeyValue) int {
	for _, c := range configs {
		if c.Key == "num.warmup.replicas" {
			n, _ := strconv.Atoi(c.Value)
			return n
		}
	}
	return 2
}

// oneCopy checks that a process is given no two copies of a task. A member that changes its role of a task gives the old
// one up while it has the new one.
func (o *observer) oneCopy(group, process, id string, assigned, revoking held, copies map[processTask]string) {
	seen := map[topology.Task]bool{}
	for r := range assigned {
		for _, t := range assigned[r] {
			if seen[t] {
				o.fail("group %s: member %s has task %v in two roles", group, id, t)
			}
			seen[t] = true
		}
	}
	for _, h := range [2]held{assigned, revoking} {
		for r := range h {
			for _, t := range h[r] {
				key := processTask{process, t}
				if other, taken := copies[key]; taken && other != id {
					o.fail("group %s: process %s holds task %v by %s and %s", group, process, t, other, id)
				}
				copies[key] = id
			}
		}
	}
}

func (h *groupHistory) remember(id string, epoch int32, assigned string) {
	epochs := h.told[id]
	if epochs == nil {
		epochs = map[int32][]string{}
		h.told[id] = epochs
	}
	if !slices.Contains(epochs[epoch], assigned) {
		epochs[epoch] = append(epochs[epoch], assigned)
	}
}

// replied checks a heartbeat's answer: what it says must have been committed when it arrives. tasks is nil where the
// answer lists none.
func (o *observer) replied(m *member, epoch int32, tasks *held) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts.replies++
	if epoch < m.highest {
		o.failFor(m, "was told epoch %d after %d", epoch, m.highest)
	}
	m.highest = max(m.highest, epoch)
	assignments, known := o.history(m.group.id).told[m.id][epoch]
	switch {
	case !known:
		o.failFor(m, "was told epoch %d, which was not committed", epoch)
	case tasks != nil && !slices.Contains(assignments, tasks.String()):
		o.failFor(m, "was told %v at epoch %d, which was not committed; committed: %v", *tasks, epoch, assignments)
	}
}

// holds takes over what a member runs from now on. Nobody else that is in the group may run the same.
func (o *observer) holds(m *member, now held) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.history(m.group.id)
	for t, by := range h.active {
		if by == m && !now.has(active, t) {
			delete(h.active, t)
		}
	}
	for key, by := range h.copies {
		if by == m {
			delete(h.copies, key)
		}
	}
	for _, t := range now[active] {
		if by := h.active[t]; by != m && h.lives(by) {
			o.failFor(m, "runs task %v, which %v runs too", t, by)
		} else if by != m {
			o.counts.grants++
		}
		h.active[t] = m
	}
	for r := range now {
		for _, t := range now[r] {
			key := processTask{m.process.id, t}
			if by := h.copies[key]; h.lives(by) {
				o.failFor(m, "has task %v, of which %v of the same process has a copy", t, by)
			}
			h.copies[key] = m
		}
	}
}

// lives says whether a member is in the group: neither fenced nor expired.
func (h *groupHistory) lives(m *member) bool { return m != nil && h.group.Member(m.id) != nil }

// left notes an acknowledged leave.
func (o *observer) left(m *member) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.history(m.group.id)
	if h.group.Member(m.id) != nil {
		o.failFor(m, "its leave was acknowledged, but it is in the group")
	}
	h.left[m.id] = true
}

// stalled notes that inner hops deliver late for some time.
func (o *observer) stalled(late time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if until := time.Now().Add(late + settleWithin); until.After(o.stalledUntil) {
		o.stalledUntil = until
	}
}

// settledBy is until when groups must be stable that would be by a deadline if all faults were over: a hop that delivers late
// is one that goes on.
func (o *observer) settledBy(deadline time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stalledUntil.After(deadline) {
		return o.stalledUntil
	}
	return deadline
}

// fenced notes UNKNOWN_MEMBER_ID or FENCED_MEMBER_EPOCH: only who was silent may be told that.
func (o *observer) fenced(m *member, code int16, message string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !m.mayBeFenced && (!time.Now().Before(o.stalledUntil) || time.Since(m.heardAt) <= sessionTimeout-time.Second) {
		o.failFor(m, "fenced by error %d (%s) at epoch %d; in the group: %v", code, message, m.highest, o.history(m.group.id).lives(m))
	}
}

// committing registers a commit of a task before it is sent.
func (o *observer) committing(metadata string, m *member, t topology.Task) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.commits[metadata] = &commitNote{member: m, task: t}
}

// landed is told when the upstream takes a commit: nobody else may have been given the task by then.
func (o *observer) landed(metadata string) {
	if strings.HasPrefix(metadata, histories.NotePrefix) {
		return // their checker knows what may land
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.commits[metadata]
	if c == nil {
		o.fail("the upstream got a commit with the metadata %q, which nobody sent", metadata)
		return
	}
	c.landed = true
	h := o.history(c.member.group.id)
	if by := h.active[c.task]; by != nil && by != c.member {
		o.failFor(c.member, "its commit of task %v reached the upstream when %v ran the task", c.task, by)
	}
}

// acknowledged is told when a member learns that its commit was taken.
func (o *observer) acknowledged(metadata string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts.commits++
	if c := o.commits[metadata]; !c.landed {
		o.failFor(c.member, "its commit of task %v was acknowledged and is not in the upstream", c.task)
	}
}

// group is the newest committed state of a group.
func (o *observer) groupState(id string) *fsm.Group {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.history(id).group
}

// shardOf is the shard that holds a group.
func (o *observer) shardOf(id string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.history(id).shard
}

// lastState is the newest index of a Raft group and the digest there.
func (o *observer) lastState(raftGroup uint32) (index, digest uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.shards[raftGroup]
	if s == nil {
		return 0, 0
	}
	return s.last, s.digests[s.last]
}
