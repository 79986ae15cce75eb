package streams

import (
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// Tick decides what the group's own timers do at env.Now: it ends the initial rebalance delay and computes a target
// that had to wait. Members learn of it at their next heartbeats. The reply has no meaning.
func Tick(g *fsm.Group, soft *Soft, env *Env) Decision {
	var d Decision
	if soft.InitialDelayUntil != 0 && env.Now >= soft.InitialDelayUntil {
		d.Soft.InitialDelay = -1
	}
	if soft.AssignmentDue != 0 && env.Now >= soft.AssignmentDue {
		d.Soft.Assignment = -1
	}
	if soft.GraceUntil != 0 && env.Now >= soft.GraceUntil {
		d.Soft.Grace = -1
	}
	news := &copyNews{}
	if soft.WarmupDue != 0 && env.Now >= soft.WarmupDue {
		news = tickWarmups(g, soft, env, &d)
	}
	if d.Soft.InitialDelay == 0 && d.Soft.Assignment == 0 && d.Soft.Grace == 0 && news.causes == 0 {
		return d
	}
	endEmptyGrace(g, soft, env, &d)
	advance(g, soft, env, &d, news)
	d.putJournal(g, groupIDOf(g), env.Now)
	return d
}

// TopicsChanged looks at a group again after topics or settings changed, as a heartbeat of any member would.
func TopicsChanged(g *fsm.Group, soft *Soft, env *Env) Decision {
	var d Decision
	advance(g, soft, env, &d, &copyNews{})
	d.putJournal(g, groupIDOf(g), env.Now)
	return d
}

// advance does for the group what a heartbeat does beside looking at its member: it raises the group epoch where topics
// or settings changed, and computes the target where the assignment epoch is behind. Trouble with the topology is left
// to the next heartbeat, which has somebody to tell.
func advance(g *fsm.Group, soft *Soft, env *Env, d *Decision, news *copyNews) {
	if numMembers(g) == 0 || g.Topology == nil {
		return
	}
	topics, err := configured(soft, g, g.Topology, env)
	if err != nil {
		return
	}
	d.takeTopics(soft, topics, env)
	line := lineageOf(g)
	validated := line.validated(groupMetadata(g).ValidatedTopologyEpoch, topics.Configured)
	epoch := advanceEpoch(g, topics, validated, env.Settings, d, news)
	d.putTopics(g, g.ID, topics, epoch != g.Epoch(), env)
	if epoch <= assignmentEpoch(g) || d.Soft.InitialDelay == 0 && env.Now < soft.InitialDelayUntil {
		return
	}
	if due := assignmentDue(g, soft, env); env.Now < due {
		d.Soft.Assignment = due
		return
	}
	if news.causes != 0 { // what was noted of the copies is looked at when it counts
		d.Soft.Assignment = env.Now
		return
	}
	t := targetInput{group: g, groupID: g.ID, soft: soft, offsets: soft.offsets, env: env, topics: topics.Configured, epoch: epoch,
		line: &line, validated: validated}
	switch {
	case !offloaded(g.NumMembers(), topics.Configured, env):
	case len(d.Records) > 0: // the snapshot must be of the new epoch
		d.Soft.Assignment = env.Now
		return
	default:
		d.Effects = append(d.Effects, ComputeTarget{newTargetJob(t)})
		return
	}
	if usesWarmups(env) {
		t.copies = soft.memberCopies()
	}
	if _, failure := t.compute(d); failure != nil {
		assignorFailed(d, env, failure)
	}
}

func advanceEpoch(
	g *fsm.Group, topics *ConfiguredTopics, validated int32, s *coordinator.GroupSettings, d *Decision, news *copyNews,
) int32 {
	stored := groupMetadata(g)
	causes := inputChanges(stored, validated, s) | news.causes
	if topics.Hash != stored.MetadataHash {
		causes |= CauseTopicChange
	}
	if causes == 0 {
		return stored.Epoch
	}
	meta := bumped(stored, topics.Hash, validated, s)
	d.Records = append(d.Records, record.Record{
		Key: record.Key{Type: record.TypeGroupMetadata, Group: g.ID}, Value: meta,
	})
	d.Cause = Cause{Kinds: causes, Epoch: meta.Epoch, Detail: joined(inputDetail(causes, stored, topics.Configured, s), news.explained())}
	return meta.Epoch
}
