package streams

import (
	"fmt"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// A group whose topics were right and do not fit any more goes on with the partition counts of before for the grace
// (group.streams.topology.grace.ms): copartitioned topics are grown one after the other, and a topic that is made anew is
// gone for a while. All that decisions look at are the topics that the group goes by, so that nothing changes for its
// members; only missing internal topics are asked for meanwhile. Where the topology is replaced or taken back meanwhile and the
// topics do not fit the new one either, the grace runs on: the tasks go on as they are, and until its end nobody is told what
// would end applications. The end is by the wall clock of the leader of then: one
// that is ahead ends the grace sooner by as much, and one that is behind gives a whole grace at most.
//
// What ends applications is told only after the topics have been read again, by a question that was asked after the
// problem was seen first.

// maxMatchedBytes bounds the numbers that are kept for a new leader, in bytes of topic names that patterns matched. Beyond
// it the grace ends with the leadership.
const maxMatchedBytes = 64 << 10

// confirmMs is when a grace that is over is looked at again while the topics have not been read again.
const confirmMs = 1000

// GraceChange says that a group began or ended to go on although its topics do not fit.
type GraceChange struct {
	// Problem is what is wrong with the topics, "" where nothing is any more.
	Problem string
	// Began is false at the end, and Ready says whether the topology is ready then. LengthMs is how long the grace lasts, or
	// has lasted.
	Began, Ready bool
	LengthMs     int64
}

// unconfirmed says that the group goes by a problem that ends applications, and that the topics have not been read again
// since it was seen.
func (c *ConfiguredTopics) unconfirmed(env *Env) bool {
	return endsApps(c.Configured.Problem) && !c.confirmed(env)
}

func (c *ConfiguredTopics) confirmed(env *Env) bool { return env.MetadataAsOf > c.Sighted }

// graceOver says that the group may not go on any more.
func (c *ConfiguredTopics) graceOver(env *Env) bool {
	return c.Since != 0 && env.Now >= c.Until && c.confirmed(env)
}

// sight notes since when the problem of the topics has been seen: by old, what is known of the topology, by an earlier
// request with the same content, or from now on.
func (c *ConfiguredTopics) sight(old *ConfiguredTopics, env *Env) {
	c.Sighted = env.Now
	switch p := c.Found.Problem; {
	case old != nil && old.Found.Problem != nil && *old.Found.Problem == *p:
		c.Sighted = old.Sighted
	case endsApps(p) && len(env.Sightings) > 0:
		s := env.Sightings.of(c.Topology, p, env.Now)
		c.Sighted = s.problemSince
	}
}

// goOn has a group that was right go by its last right configuration while its grace lasts. old is what it went by so far,
// nil when that is not known. A group without members does not begin a grace: nothing runs. inherited is since when the grace
// of another topology runs on (inheritedGrace): then there is no configuration to go by.
func (c *ConfiguredTopics) goOn(old *ConfiguredTopics, g *fsm.Group, inherited int64, env *Env) {
	if env.Settings == nil || env.Settings.TopologyGraceMs <= 0 {
		return
	}
	right, since := wasRight(g, c.Topology), graceSince(g)
	switch {
	case !right && inherited == 0:
		return
	case old != nil && old.Since != 0:
		since = old.Since
	case !right:
		since = min(inherited, env.Now)
	case since == 0 && g.NumMembers() == 0:
		return
	case since == 0 || since > env.Now: // the clock of the leader who wrote it was ahead
		since = env.Now
	}
	until := since + int64(env.Settings.TopologyGraceMs)
	if env.Now >= until && c.confirmed(env) {
		return
	}
	if !right {
		c.Since, c.Until = since, until
		return
	}
	hash := groupMetadata(g).MetadataHash
	var good *topology.Configured
	if old != nil && old.Configured.Ready() {
		good = old.Configured
	} else if t := g.Topics; t != nil && t.TopologyEpoch == c.Topology.Epoch {
		good = t.Sizes.Configured(c.Topology, hash)
	}
	if good != nil {
		c.Configured, c.Hash, c.Since, c.Until = good, hash, since, until
	}
}

// inheritedGrace is since when the group has been in a grace that began with another topology than t, which was not right yet;
// 0 for none. It may be that nobody has seen yet that the topics do not fit the topology that t replaces.
func inheritedGrace(soft *Soft, g *fsm.Group, t *topology.Topology, env *Env) int64 {
	if g == nil || wasRight(g, t) {
		return 0
	}
	since := graceSince(g)
	if since == 0 && g.Topology != nil && g.Topology != t {
		if topics, err := configured(soft, g, g.Topology, env); err == nil {
			since = topics.Since
		}
	}
	return since
}

// restored begins a grace for a topology that an abort brings back, when its topics were right and changed while another one
// took its place.
func (c *ConfiguredTopics) restored(l *lineage, validated int32, env *Env) {
	if c.Configured.Ready() || c.Since != 0 || validated < 0 || l.stale(validated) || l.group.NumMembers() == 0 {
		return
	}
	if env.Settings != nil && env.Settings.TopologyGraceMs > 0 {
		c.Since, c.Until = env.Now, env.Now+int64(env.Settings.TopologyGraceMs)
	}
}

// wasRight says whether the topology is the group's and its topics were complete and well partitioned when the group was
// decided on last.
func wasRight(g *fsm.Group, t *topology.Topology) bool {
	return g != nil && g.Topology == t && groupMetadata(g).ValidatedTopologyEpoch == t.Epoch
}

// graceSince is since when the group goes on although its topics do not fit, as the log says; 0 when it does not.
func graceSince(g *fsm.Group) int64 {
	if g == nil || g.Topics == nil {
		return 0
	}
	return g.Topics.SinceMs
}

// InGrace says whether the members of the group go on although its topics do not fit.
func InGrace(g *fsm.Group) bool { return graceSince(g) != 0 && g.NumMembers() > 0 }

// GraceLeft is how long the group may still go on although its topics do not fit, in milliseconds; 0 when it does not.
func GraceLeft(g *fsm.Group, env *Env) int64 {
	if !InGrace(g) || env.Settings == nil {
		return 0
	}
	return max(1, min(graceSince(g), env.Now)+int64(env.Settings.TopologyGraceMs)-env.Now)
}

// graceNote tells people that the group goes on.
func graceNote(g *fsm.Group, env *Env) string {
	left := GraceLeft(g, env)
	if left == 0 {
		return ""
	}
	return fmt.Sprintf(" The group goes on with the partition counts of before, for up to %d s more (group.streams.topology.grace.ms).", (left+999)/1000)
}

// armGrace keeps the timer of the grace in step with the topics that the group goes by.
func (d *Decision) armGrace(soft *Soft, topics *ConfiguredTopics, now int64) {
	var armed int64
	if soft != nil {
		armed = soft.GraceUntil
	}
	switch {
	case topics.Since == 0 && armed == 0 && d.Soft.Grace == 0:
	case topics.Since == 0:
		d.Soft.Grace = -1
	case topics.Until > now && armed != topics.Until:
		d.Soft.Grace = topics.Until
	case topics.Until <= now && (armed <= now || d.Soft.Grace < 0):
		d.Soft.Grace = now + confirmMs
	}
}

// putTopics keeps the record of the topics that the group goes by: with each group epoch, and where a grace begins or
// ends. A group that is not ready has none, but for the time of a grace that runs on.
func (d *Decision) putTopics(g *fsm.Group, groupID string, topics *ConfiguredTopics, bumped bool, env *Env) {
	began := graceSince(g)
	if (began != 0) == (topics.Since != 0) && !bumped {
		return
	}
	var want *record.GroupTopics
	if (topics.Configured.Ready() || topics.Since != 0) && env.Settings.TopologyGraceMs > 0 {
		want = &record.GroupTopics{TopologyEpoch: topics.Topology.Epoch, SinceMs: topics.Since, Sizes: sizesOf(topics)}
		if began != 0 && topics.Since != 0 {
			want.SinceMs = began
		}
	}
	d.changeTopics(g, groupID, want)
	switch {
	case began == 0 && topics.Since != 0:
		d.Grace = &GraceChange{Began: true, Problem: topics.Found.Problem.Error(), LengthMs: topics.Until - topics.Since}
	case began != 0 && topics.Since == 0:
		d.Grace = &GraceChange{Ready: topics.Configured.Ready(), LengthMs: max(0, env.Now-began)}
		if p := topics.Found.Problem; p != nil {
			d.Grace.Problem = p.Error()
		}
	}
}

// changeTopics emits the record where it changes.
func (d *Decision) changeTopics(g *fsm.Group, groupID string, want *record.GroupTopics) {
	var stored *record.GroupTopics
	if g != nil {
		stored = g.Topics
	}
	r := record.Record{Key: record.Key{Type: record.TypeGroupTopics, Group: groupID}}
	switch {
	case want == nil && stored == nil:
		return
	case want == nil:
	case stored != nil && want.TopologyEpoch == stored.TopologyEpoch && want.SinceMs == stored.SinceMs && want.Sizes.Equal(stored.Sizes):
		return
	default:
		r.Value = want
	}
	d.Records = append(d.Records, r)
}

// sizesOf are the numbers to keep; nil where they are too many.
func sizesOf(topics *ConfiguredTopics) topology.Sizes {
	sizes := topology.SizesOf(topics.Topology, topics.Configured)
	bytes := 0
	for i := range sizes {
		for _, name := range sizes[i].Matched {
			bytes += len(name)
		}
	}
	if bytes > maxMatchedBytes {
		return nil
	}
	return sizes
}

// endEmptyGrace forgets the grace of a group without members when its time is over: who joins then is told what is wrong.
func endEmptyGrace(g *fsm.Group, soft *Soft, env *Env, d *Decision) {
	if soft.GraceUntil == 0 || env.Now < soft.GraceUntil || g.NumMembers() > 0 {
		return
	}
	d.Soft.Grace = -1
	if began := graceSince(g); began != 0 {
		d.changeTopics(g, g.ID, nil)
		d.Grace = &GraceChange{LengthMs: max(0, env.Now-began)}
	}
}

// delayedByDoubt is told instead of a problem that ends applications until the topics have been read again.
const delayedByDoubt = "Assignment delayed until the topics have been read again."

// delayedByGrace is told instead of such a problem, which follows, in a grace that another topology began.
const delayedByGrace = "Assignment delayed until the topics fit, or until group.streams.topology.grace.ms is over. "

// problemStatus is what is told of the topics that the group goes by; false for nothing.
func (h *heartbeat) problemStatus() (Status, bool) {
	p := h.topics.Configured.Problem
	switch {
	case p == nil || !h.told(p.Kind):
		return Status{}, false
	case h.topics.Since != 0 && p.Kind != topology.MissingInternalTopics:
		// Who has tasks goes on with them, and would stop for the status.
		return Status{StatusAssignmentDelayed, delayedByGrace + p.Detail}, h.current.Assigned.IsEmpty()
	case h.topics.unconfirmed(&h.env):
		return Status{StatusAssignmentDelayed, delayedByDoubt}, true
	}
	return Status{StatusCode(p.Kind), p.Detail + creationErrors(&h.env, h.topics.Configured)}, true
}

// notFitting makes a problem of a topology that the topics make impossible, for a group that ran with other counts: an error
// would end its members at once.
func notFitting(t *topology.Topology, env *Env, err *coordinator.Error) *topology.Configured {
	return &topology.Configured{
		Epoch: t.Epoch, Hash: topology.MetadataHash(t, env.Metadata),
		Problem: &topology.Problem{Kind: topology.IncorrectlyPartitionedTopics, Detail: err.Message},
	}
}
