package streams

import (
	"cmp"
	"slices"
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Describe shows a group as StreamsGroupDescribe does (Kafka's StreamsGroup.asDescribedGroup). soft may be nil, on a
// follower for instance: then there are no offsets, and the topology is configured against env.Metadata where that is
// known.
func Describe(g *fsm.Group, soft *Soft, env *Env, groupID string) *Description {
	if groupID == "" {
		return &Description{Err: &coordinator.Error{Code: coordinator.InvalidGroupID}}
	}
	if g == nil {
		return &Description{
			GroupID: groupID,
			Err:     coordinator.Errorf(coordinator.GroupIDNotFound, "Group %s not found.", groupID),
		}
	}
	d := &Description{
		GroupID:         g.ID,
		State:           StateOf(g),
		Epoch:           groupMetadata(g).Epoch,
		AssignmentEpoch: assignmentEpoch(g),
		Topology:        describeTopology(g, soft, env),
		Members:         make([]MemberDescription, 0, g.NumMembers()),
		AssignorName:    assignorName(env),
	}
	line := lineageOf(g)
	for m := range g.Members() {
		offsets := soft.offsets(m.ID)
		d.Members = append(d.Members, MemberDescription{
			MemberID:       m.ID,
			MemberEpoch:    currentOf(m).MemberEpoch,
			Meta:           shownMeta(&line, m),
			TaskOffsets:    offsets.tasks,
			TaskEndOffsets: offsets.ends,
			Assigned:       currentOf(m).Assigned,
			Target:         targetOf(m).Assignment,
		})
	}
	return d
}

// TopicsProblem says which topics keep the group from running, as its members are told, by the topics in env. It is empty
// when nothing is wrong, and when that is not known.
func TopicsProblem(g *fsm.Group, env *Env) string {
	if g.Topology == nil || env.Metadata == nil {
		return ""
	}
	topics, err := configured(nil, g, g.Topology, env)
	switch {
	case err != nil:
		return err.Message
	case topics.Found.Problem != nil:
		return topics.Found.Problem.Error() + creationErrors(env, topics.Found) + graceNote(g, env)
	}
	return ""
}

// shownMeta has the topology epoch that the member's topology has in the group now: an update that was taken back leaves
// members with an older one.
func shownMeta(l *lineage, m *fsm.Member) *record.MemberMetadata {
	meta := metaOf(m)
	if l.current == nil || meta.TopologyEpoch == l.current.Epoch || l.stale(meta.TopologyEpoch) {
		return meta
	}
	c := *meta
	c.TopologyEpoch = l.current.Epoch
	return &c
}

func assignorName(env *Env) string {
	switch {
	case env.Assignor != nil:
		return env.Assignor.Name()
	case env.Settings != nil:
		return env.Settings.AssignorName
	}
	return ""
}

// resolved has among the source topics those that patterns match, where the topics are known (KIP-1071, "Describing and
// listing streams groups").
func resolved(t *topology.Topology, env *Env) *topology.Topology {
	if env.Metadata == nil || !t.HasPatterns() {
		return t
	}
	return topology.Resolve(t, env.Metadata).Resolved
}

// noTopology is the epoch that is shown of a group without a topology.
const noTopology = -1

// describeTopology is the topology with the real partition counts where it is ready, else as the client sent it; ids
// and names sorted. What patterns match stands among the source topics: it is looked for only where it is not known yet.
func describeTopology(g *fsm.Group, soft *Soft, env *Env) *topology.Topology {
	if g.Topology == nil {
		return &topology.Topology{Epoch: noTopology} // Kafka's admin client fails without one, for all groups that it describes together
	}
	topics, err := configured(soft, g, g.Topology, env)
	switch {
	case err != nil || topics.Resolution == nil:
		return sortedTopology(resolved(g.Topology, env))
	case !topics.Configured.Ready():
		return sortedTopology(topics.Resolution.Resolved)
	}
	t := sortedTopology(topics.Resolution.Resolved)
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		if c := topics.Configured.Subtopology(s.ID); c != nil {
			s.StateChangelogTopics = c.Changelogs
			s.RepartitionSourceTopics = c.RepartitionSources
		}
	}
	return t
}

func sortedTopology(in *topology.Topology) *topology.Topology {
	t := &topology.Topology{Epoch: in.Epoch, Subtopologies: slices.Clone(in.Subtopologies)}
	slices.SortStableFunc(t.Subtopologies, func(a, b topology.Subtopology) int { return cmp.Compare(a.ID, b.ID) })
	byName := func(a, b topology.InternalTopic) int { return strings.Compare(a.Name, b.Name) }
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		s.SourceTopics = slices.Sorted(slices.Values(s.SourceTopics))
		s.RepartitionSinkTopics = slices.Sorted(slices.Values(s.RepartitionSinkTopics))
		s.StateChangelogTopics = slices.SortedFunc(slices.Values(s.StateChangelogTopics), byName)
		s.RepartitionSourceTopics = slices.SortedFunc(slices.Values(s.RepartitionSourceTopics), byName)
	}
	return t
}
