package streams

import (
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Adopt makes a group without members in place of one that another coordinator had. Its epochs go on from that one's, so that
// no member of there is ever ahead; epoch is 0 where it had none. t is the group's topology until the first member comes, which
// may bring any other one; nil where it is not known. Offsets are not looked at: they stay where they are, which is the upstream. An
// adoption that is repeated changes nothing.
func Adopt(g *fsm.Group, env *Env, groupID string, epoch int32, t *topology.Topology) (Decision, *coordinator.Error) {
	meta := *newGroupMetadata
	meta.Epoch, meta.AssignmentConfigs = max(meta.Epoch, epoch), assignmentConfigs(env.Settings)
	if g != nil {
		same := g.NumMembers() == 0 && g.Metadata != nil && g.Metadata.Epoch == meta.Epoch && sameTopology(g.Topology, t)
		if !same {
			return Decision{}, coordinator.Errorf(coordinator.InvalidRequest, "Group %s is coordd's already.", groupID)
		}
		return Decision{}, nil
	}
	var d Decision
	if t != nil {
		if err := checkTopology(t); err != nil {
			return Decision{}, err
		}
		d.Records = append(d.Records, record.Record{
			Key: record.Key{Type: record.TypeTopology, Group: groupID}, Value: &record.Topology{Topology: *t.Clone()},
		})
	}
	d.Records = append(d.Records,
		record.Record{Key: record.Key{Type: record.TypeGroupMetadata, Group: groupID}, Value: &meta},
		record.Record{Key: record.Key{Type: record.TypeTargetMetadata, Group: groupID}, Value: &record.TargetMetadata{AssignmentEpoch: meta.Epoch}})
	d.putMarks(nil, groupID, record.GroupMarks{EmptySinceMs: env.Now})
	return d, nil
}

func sameTopology(a, b *topology.Topology) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(b)
}
