package streams

import (
	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// stalePatienceMs is for how long results are dropped because the group epoch moved on meanwhile. After that one is
// used as it is, so that a group which never comes to rest gets targets, too.
const stalePatienceMs = 1000

// maxRestMs bounds the rest between two computations of which the first came too late.
const maxRestMs = 500

// ComputeTarget asks for a target assignment to be computed beside the shard; it comes back by [TargetComputed].
type ComputeTarget struct{ Job *TargetJob }

func (ComputeTarget) effect() {}

// TargetJob is a target assignment to be computed from an immutable snapshot of a group.
type TargetJob struct {
	input     targetInput
	assignor  assignor.Assignor
	startedAt int64
}

// ComputedTarget is the outcome of a TargetJob.
type ComputedTarget struct {
	job     *TargetJob
	records []record.Record // the targets that changed, by member id
	moves   targetMoves
	err     error
}

// newTargetJob takes the snapshot. Reported offsets are values that are replaced, never changed.
func newTargetJob(t targetInput) *TargetJob {
	offsets := map[string]memberOffsets{}
	for id, m := range t.soft.Members {
		if m.TaskOffsets != nil || m.TaskEndOffsets != nil {
			offsets[id] = memberOffsets{m.TaskOffsets, m.TaskEndOffsets}
		}
	}
	env := *t.env
	job := &TargetJob{input: t, assignor: env.Assignor, startedAt: env.Now}
	job.input.env, job.input.soft = &env, nil
	job.input.offsets = func(id string) memberOffsets { return offsets[id] }
	if usesWarmups(&env) {
		job.input.copies = t.soft.memberCopies()
	}
	return job
}

// GroupID is the group that the target is for.
func (c *ComputedTarget) GroupID() string { return c.job.input.groupID }

// Run computes the target. It may be called on any goroutine and takes its time.
func (j *TargetJob) Run() *ComputedTarget {
	c, err := j.input.changes()
	return &ComputedTarget{job: j, records: c.records, moves: c.moves, err: err}
}

// offloaded says whether the target is computed beside the shard: the assignor's work grows with members and tasks.
func offloaded(members int, topics *topology.Configured, env *Env) bool {
	if env.OffloadFrom <= 0 {
		return false
	}
	tasks := 0
	for i := range topics.Subtopologies {
		tasks += int(topics.Subtopologies[i].NumTasks)
	}
	return members*max(tasks, 1) >= env.OffloadFrom
}

// TargetComputed takes the outcome of a [TargetJob]: at most limit targets of members, beginning with number from. next is
// the number to go on with once the records are committed, 0 when nothing is left. The outcome for a group epoch that is
// past is dropped, and the newest is computed anew. Of a target that was begun nobody is told before the last chunk, which
// carries the assignment epoch.
func TargetComputed(g *fsm.Group, soft *Soft, env *Env, c *ComputedTarget, from, limit int) (d Decision, next int) {
	job, end := &c.job.input, min(from+limit, len(c.records))
	switch {
	case numMembers(g) == 0 || job.epoch <= assignmentEpoch(g):
		return d, 0
	case !c.current(g, from, end) && !c.tolerable(g, soft, env) || c.promises(g, from, end):
		d.Soft.Assignment = env.Now + min(env.Now-c.job.startedAt, maxRestMs)
		if soft.staleSince == 0 {
			d.Soft.staleSince = env.Now
		}
		return d, 0
	case c.err != nil:
		assignorFailed(&d, env, c.err)
		return d, 0
	}
	for _, r := range c.records[from:end] {
		if g.Member(r.Key.Member) != nil { // else it left meanwhile
			d.Records = append(d.Records, r)
		}
	}
	if end < len(c.records) {
		d.Soft.Torn = true
		if len(d.Records) == 0 { // nothing to commit: go on with what follows
			return TargetComputed(g, soft, env, c, end, limit)
		}
		return d, end
	}
	targetDone(&d, job.groupID, job.epoch, env, &c.moves)
	d.putJournal(g, g.ID, env.Now)
	if job.epoch < g.Epoch() {
		d.Soft.Assignment = env.Now
	}
	if usesWarmups(env) && (soft.WarmupDue != 0 || len(soft.restoring) > 0) {
		d.Soft.Warmup = env.Now // for what was reported since the snapshot
	}
	return d, 0
}

// current says whether the group is still as the job saw it. The record of a group epoch is one value in memory: another
// one, even of the same epoch after a refused proposal, is another history. A static member may have been replaced
// without a new epoch: who is to get a target of this chunk must be there.
func (c *ComputedTarget) current(g *fsm.Group, from, end int) bool {
	if g.Metadata != c.job.input.group.Metadata || g.NumMembers() != c.job.input.group.NumMembers() {
		return false
	}
	for i := from; i < end; i++ {
		if g.Member(c.records[i].Key.Member) == nil {
			return false
		}
	}
	return true
}

// promises says whether a stale member would get a task that it has given up meanwhile: it gets nothing anew, and the task would
// run nowhere.
func (c *ComputedTarget) promises(g *fsm.Group, from, end int) bool {
	l := lineageOf(g)
	for i := from; i < end; i++ {
		m := g.Member(c.records[i].Key.Member)
		t, ok := c.records[i].Value.(*record.TargetMember)
		if m != nil && ok && l.current != nil && l.stale(metaOf(m).TopologyEpoch) && !within(t.Assignment, currentOf(m).Assigned) {
			return true
		}
	}
	return false
}

// tolerable says whether an outcome that came too late is better than none: results have been dropped for long enough,
// the tasks are still the same, and the epoch is one that the group has reached: what it was computed for may have been
// refused.
func (c *ComputedTarget) tolerable(g *fsm.Group, soft *Soft, env *Env) bool {
	return soft.staleSince != 0 && c.job.input.epoch <= g.Epoch() && env.Now-soft.staleSince >= stalePatienceMs && c.err == nil &&
		g.Topology == c.job.input.group.Topology && soft.Topics != nil && soft.Topics.Configured == c.job.input.topics
}
