package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
	"github.com/coordd/coordd/web"
)

// Topology implements web.Topologies. As with Group, the shard's leader knows best, and this node's replica has to do where it
// does not answer.
func (n *Node) Topology(ctx context.Context, id string) (web.GroupTopology, bool) {
	leader, ok := (coordinators{n}).Leader(shardOf(id, len(n.shards)))
	if !ok || leader == n.config.NodeID {
		return n.LocalTopology(id)
	}
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	t, err := n.peer(leader).Topology(ctx, id)
	if err != nil && !errors.Is(err, web.ErrNoGroup) {
		return n.LocalTopology(id)
	}
	return t, err == nil
}

// LocalTopology implements web.Topologies.
func (n *Node) LocalTopology(id string) (web.GroupTopology, bool) {
	number := shardOf(id, len(n.shards))
	g := n.shards[number].replica.State().Group(id)
	if g == nil {
		return web.GroupTopology{}, false
	}
	view := web.GroupTopology{
		GroupSummary: n.summary(int(number), g), Subtopologies: []web.GroupSubtopology{}, Missing: []web.MissingTopic{},
		Versions: topologyVersions(g),
	}
	view.RollOut = rollOut(view.Versions)
	if g.Topology == nil {
		return view, true
	}
	var configured *topology.Configured
	if image := n.watcher.Image(); image.Version != 0 {
		configured, _ = topology.Configure(g.Topology, image) // the problem says why it cannot be
		view.Problem = streams.TopicsProblem(g, &streams.Env{Metadata: image, MetadataVersion: image.Version, CreationErrors: n.creator.Error})
		view.Missing = missingTopics(g.Topology, configured, image, n.creator.Error)
	}
	view.Subtopologies = subtopologyViews(g.Topology, configured)
	return view, true
}

// topologyVersions are the members by the topology that they joined with.
func topologyVersions(g *fsm.Group) []web.TopologyVersion {
	versions := []web.TopologyVersion{}
	if g.Topology != nil {
		versions = append(versions, web.TopologyVersion{Epoch: g.Topology.Epoch, Current: true, Members: []web.VersionMember{}})
	}
	at := map[int32]int{}
	for i := range versions {
		at[versions[i].Epoch] = i
	}
	for m := range g.Members() {
		epoch := int32(-1)
		v := web.VersionMember{Member: m.ID, Tasks: numTasks(m)}
		if meta := m.Meta; meta != nil {
			epoch, v.ClientID, v.Host, v.ProcessID = meta.TopologyEpoch, meta.ClientID, meta.ClientHost, meta.ProcessID
			if meta.InstanceID != nil {
				v.InstanceID = *meta.InstanceID
			}
		}
		i, ok := at[epoch]
		if !ok {
			i = len(versions)
			at[epoch] = i
			versions = append(versions, web.TopologyVersion{Epoch: epoch, Members: []web.VersionMember{}})
		}
		versions[i].Members = append(versions[i].Members, v)
	}
	slices.SortFunc(versions, func(a, b web.TopologyVersion) int {
		if a.Current != b.Current {
			return cmp.Compare(truth(b.Current), truth(a.Current))
		}
		return cmp.Compare(b.Epoch, a.Epoch)
	})
	return versions
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// numTasks counts what a member has: what it was told to own and what it has not given up yet.
func numTasks(m *fsm.Member) int {
	if m.Current == nil {
		return 0
	}
	n := 0
	for _, a := range [...]*topology.Assignment{&m.Current.Assigned, &m.Current.Revoking} {
		for _, tasks := range [...]topology.Tasks{a.Active, a.Standby, a.Warmup} {
			for i := range tasks {
				n += len(tasks[i].Partitions)
			}
		}
	}
	return n
}

func rollOut(versions []web.TopologyVersion) web.RollOut {
	var r web.RollOut
	for _, v := range versions {
		if v.Current {
			r.Current += len(v.Members)
			continue
		}
		r.Stale += len(v.Members)
		for _, m := range v.Members {
			r.StaleTasks += m.Tasks
		}
	}
	r.Done = r.Stale == 0
	return r
}

// missingTopics are the topics that t needs and the upstream does not have.
func missingTopics(t *topology.Topology, c *topology.Configured, m topology.Metadata, failure func(string) string) []web.MissingTopic {
	sources := map[string]bool{}
	for i := range t.Subtopologies {
		for _, name := range t.Subtopologies[i].SourceTopics {
			sources[name] = true
		}
	}
	counts := map[string]int32{}
	if c != nil {
		for _, topic := range c.Create {
			counts[topic.Name] = topic.Partitions
		}
	}
	missing := []web.MissingTopic{}
	for _, name := range t.RequiredTopics() {
		if _, ok := m.Topic(name); ok {
			continue
		}
		view := web.MissingTopic{Topic: name, Kind: "source"}
		if !sources[name] {
			view = web.MissingTopic{Topic: name, Kind: "internal", Partitions: counts[name], Error: failure(name)}
		}
		missing = append(missing, view)
	}
	slices.SortStableFunc(missing, func(a, b web.MissingTopic) int { return strings.Compare(b.Kind, a.Kind) })
	return missing
}

func subtopologyViews(t *topology.Topology, c *topology.Configured) []web.GroupSubtopology {
	views := []web.GroupSubtopology{}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		v := web.GroupSubtopology{
			Subtopology: s.ID, Tasks: -1, Stateful: s.Stateful(), Sources: sortedNames(s.SourceTopics), SourceRegexes: sortedNames(s.SourceTopicRegex),
			RepartitionSources: internalTopics(s.RepartitionSourceTopics), RepartitionSinks: sortedNames(s.RepartitionSinkTopics),
			Changelogs: internalTopics(s.StateChangelogTopics),
		}
		if known := c.Subtopology(s.ID); known != nil {
			v.Tasks = known.NumTasks
			v.RepartitionSources, v.Changelogs = internalTopics(known.RepartitionSources), internalTopics(known.Changelogs)
		}
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b web.GroupSubtopology) int { return topology.CompareIDs(a.Subtopology, b.Subtopology) })
	return views
}

func sortedNames(names []string) []string {
	if len(names) == 0 {
		return []string{}
	}
	return slices.Sorted(slices.Values(names))
}

func internalTopics(topics []topology.InternalTopic) []web.InternalTopic {
	views := []web.InternalTopic{}
	for _, topic := range topics {
		partitions := topic.Partitions
		if partitions <= 0 {
			partitions = -1
		}
		views = append(views, web.InternalTopic{Topic: topic.Name, Partitions: partitions})
	}
	slices.SortFunc(views, func(a, b web.InternalTopic) int { return strings.Compare(a.Topic, b.Topic) })
	return views
}
