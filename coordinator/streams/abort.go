package streams

import (
	"fmt"
	"math"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// AbortTopology takes the last topology update of a group back: the topology of before is the group's again, under a new
// epoch, and restored is the epoch that it had. Its members are not stale any more, and those of the topology that was given
// up are. epoch is the topology epoch that is given up: where the group has another one the request is refused, and where that
// one was given up just before, since a request is repeated, nothing is left to do. soft may be nil. The outcome is told by the
// records; the reply has no meaning. A refusal changes nothing.
func AbortTopology(g *fsm.Group, soft *Soft, env *Env, groupID string, epoch int32) (d Decision, restored int32, err *coordinator.Error) {
	if g == nil {
		return d, 0, coordinator.Errorf(coordinator.GroupIDNotFound, "Group %s not found.", groupID)
	}
	l := lineageOf(g)
	if l.current == nil {
		return d, 0, coordinator.Errorf(coordinator.InvalidRequest, "Group %s has no topology.", groupID)
	}
	if l.current.Epoch != epoch {
		if history := TopologyHistory(g); history[0].Epoch == epoch+1 && history[0].Restores >= 0 && history[1].Aborted {
			return d, history[0].Restores, nil
		}
		return d, 0, coordinator.Errorf(coordinator.InvalidRequest, "Group %s has the topology epoch %d now, not %d: look at it again.",
			groupID, l.current.Epoch, epoch)
	}
	previous := l.previous()
	switch {
	case previous == nil:
		return d, 0, coordinator.Errorf(coordinator.InvalidRequest, "Group %s has no topology before that of epoch %d to go back to. "+
			"An app with another topology can take its place by an update, or when all its members have left.", groupID, l.current.Epoch)
	case l.current.Epoch == math.MaxInt32:
		return d, 0, coordinator.Errorf(coordinator.InvalidRequest, "Group %s has the topology epoch %d, after which there is none.",
			groupID, l.current.Epoch)
	}
	from, was := l.current, l.now()
	next := &topology.Topology{Epoch: from.Epoch + 1, Subtopologies: previous.Content.Subtopologies}
	topics, err := configured(soft, g, next, env)
	if err != nil {
		return d, 0, err
	}
	d.firstSet(next, topics.Configured.Problem, env)
	d.Records = l.replace(next, record.TopologyVersion{
		Root: previous.Root, First: was.First, Declared: previous.Declared, LastDeclared: was.LastDeclared, Hash: previous.Hash, SinceMs: env.Now,
	}, taskCounts(soft, from), runningEpochs(g))
	for i := range l.changed {
		if v := &l.changed[i]; v.Epoch == from.Epoch {
			v.Aborted = true
		}
	}
	stored := groupMetadata(g)
	validated := l.validated(stored.ValidatedTopologyEpoch, topics.Configured)
	topics.restored(&l, validated, env)
	d.armGrace(soft, topics, env.Now)
	meta := bumped(stored, topics.Hash, validated, env.Settings)
	d.Records = append(d.Records,
		record.Record{Key: record.Key{Type: record.TypeTopology, Group: g.ID}, Value: &record.Topology{Topology: *next}},
		record.Record{Key: record.Key{Type: record.TypeGroupMetadata, Group: g.ID}, Value: meta})
	d.putTopics(g, g.ID, topics, true, env)
	d.Cause = Cause{Kinds: CauseTopology, Epoch: meta.Epoch,
		Detail: fmt.Sprintf("the update to topology epoch %d was taken back: epoch %d is epoch %d again", from.Epoch, next.Epoch, previous.Epoch)}
	if g.NumMembers() > 0 {
		d.Soft.Assignment = env.Now // the target is computed by the group's timer
	} else {
		d.Records = append(d.Records, record.Record{
			Key:   record.Key{Type: record.TypeTargetMetadata, Group: g.ID},
			Value: &record.TargetMetadata{AssignmentEpoch: meta.Epoch},
		})
	}
	d.putJournal(g, g.ID, env.Now)
	return d, previous.Epoch, nil
}
