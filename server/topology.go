package server

import (
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
		GroupSummary: n.summary(int(number), g), Subtopologies: []web.GroupSubtopology{}, Missing: []web.MissingTopic{}, Versions: []web.TopologyVersion{},
	}
	if g.Topology == nil {
		return view, true
	}
	history := streams.TopologyHistory(g)
	var metadata topology.Metadata
	var configured *topology.Configured
	resolved := g.Topology
	if image := n.watcher.Image(); image.Version != 0 {
		metadata = image
		configured, _ = topology.Configure(g.Topology, image) // the problem says why it cannot be
		env := n.viewEnv(id, image)
		view.Problem = streams.TopicsProblem(g, &env)
		view.GraceLeftMs = streams.GraceLeft(g, &env)
		resolution := topology.Resolve(g.Topology, image)
		resolved = resolution.Resolved
		view.Missing = missingTopics(resolution, configured, image, n.creator.Error)
	}
	view.Subtopologies = subtopologyViews(resolved, configured)
	view.Versions = topologyVersions(g, history)
	view.RollOut = rollOut(g, history, configured)
	if before := previousTopology(history); before != nil {
		view.Change = changeView(before.Content, g.Topology, metadata)
	}
	if target := streams.AbortTarget(g); target != nil {
		view.Back = changeView(g.Topology, target, metadata)
	}
	return view, true
}

// previousTopology is the newest topology of which the group's is a change; nil where none is known.
func previousTopology(history []streams.TopologyState) *streams.TopologyState {
	for i := range history[1:] {
		if s := &history[1+i]; s.Content != nil && s.Hash != history[0].Hash {
			return s
		}
	}
	return nil
}

// topologyVersions are the topologies of a group with the members that run them.
func topologyVersions(g *fsm.Group, history []streams.TopologyState) []web.TopologyVersion {
	versions := make([]web.TopologyVersion, len(history))
	for i := range history {
		s := &history[i]
		versions[i] = web.TopologyVersion{
			Epoch: s.Epoch, Current: s.Current, Declared: s.Declared, Restores: s.Restores, Aborted: s.Aborted, SinceMs: s.SinceMs,
			Members: make([]web.VersionMember, len(s.Members)),
		}
		for k, id := range s.Members {
			versions[i].Members[k] = versionMember(g.Member(id))
		}
	}
	return versions
}

func versionMember(m *fsm.Member) web.VersionMember {
	v := web.VersionMember{Member: m.ID}
	if meta := m.Meta; meta != nil {
		v.ClientID, v.Host, v.ProcessID = meta.ClientID, meta.ClientHost, meta.ProcessID
		if meta.InstanceID != nil {
			v.InstanceID = *meta.InstanceID
		}
	}
	if c := m.Current; c != nil {
		for _, a := range [...]*topology.Assignment{&c.Assigned, &c.Revoking} {
			v.Tasks += numTasks(a.Active, nil) + numTasks(a.Standby, nil) + numTasks(a.Warmup, nil)
		}
	}
	return v
}

// numTasks counts tasks, those of the subtopologies that are counted.
func numTasks(tasks topology.Tasks, counted func(subtopology string) bool) int {
	n := 0
	for i := range tasks {
		if counted == nil || counted(tasks[i].Subtopology) {
			n += len(tasks[i].Partitions)
		}
	}
	return n
}

// rollOut counts who runs which topology, and where the tasks of the group's are.
func rollOut(g *fsm.Group, history []streams.TopologyState, c *topology.Configured) web.RollOut {
	r := web.RollOut{Tasks: -1}
	if c != nil && c.Subtopologies != nil {
		r.Tasks = 0
		for i := range c.Subtopologies {
			r.Tasks += c.Subtopologies[i].NumTasks
		}
	}
	for i := range history {
		s := &history[i]
		kept := map[string]bool{} // subtopologies that are the group's as these members run them
		if s.Content != nil {
			for _, id := range topology.DiffSubtopologies(s.Content, g.Topology).Kept {
				kept[id] = true
			}
		}
		has, hasNot := func(id string) bool { return kept[id] }, func(id string) bool { return !kept[id] }
		for _, id := range s.Members {
			m := g.Member(id)
			if s.Current {
				r.Current++
			} else {
				r.Stale++
			}
			if m.Current == nil {
				continue
			}
			tasks := int32(numTasks(m.Current.Assigned.Active, has))
			if s.Current {
				r.CurrentTasks += tasks
			} else {
				r.StaleTasks += tasks
			}
			r.Leaving += int32(numTasks(m.Current.Assigned.Active, hasNot) + numTasks(m.Current.Revoking.Active, hasNot))
		}
	}
	r.Done = r.Stale == 0
	if r.Tasks >= 0 {
		r.Waiting = max(0, r.Tasks-r.CurrentTasks-r.StaleTasks)
	}
	return r
}

// changeView compares two topologies; of the topics that are left over it names those that exist.
func changeView(from, to *topology.Topology, m topology.Metadata) *web.TopologyChange {
	c := topology.Diff(from, to, m)
	view := &web.TopologyChange{
		From: from.Epoch, To: to.Epoch, Kept: c.Kept, Changed: c.Changed, New: c.New, Lost: c.Lost,
		Orphaned: []web.InternalTopic{}, Counts: []web.PartitionChange{},
	}
	exists := func(name string) int32 {
		if m != nil {
			if topic, ok := m.Topic(name); ok {
				return topic.Partitions
			}
		}
		return -1
	}
	for _, name := range c.Orphaned {
		if n := exists(name); n >= 0 || m == nil {
			view.Orphaned = append(view.Orphaned, web.InternalTopic{Topic: name, Partitions: n})
		}
	}
	for _, change := range c.Counts {
		view.Counts = append(view.Counts, web.PartitionChange{Topic: change.Topic, Before: change.Old, Needed: change.New, Exists: exists(change.Topic)})
	}
	return view
}

// missingTopics are the topics that a topology needs and the upstream does not have, and the patterns that match none.
func missingTopics(r *topology.Resolution, c *topology.Configured, m topology.Metadata, failure func(string) string) []web.MissingTopic {
	t := r.Topology
	sources := map[string]bool{}
	for i := range t.Subtopologies {
		for _, name := range t.Subtopologies[i].SourceTopics {
			sources[name] = true
		}
	}
	create := map[string]topology.InternalTopic{}
	if c != nil {
		for _, topic := range c.Create {
			create[topic.Name] = topic
		}
	}
	missing := []web.MissingTopic{}
	for _, name := range t.RequiredTopics() {
		if _, ok := m.Topic(name); ok {
			continue
		}
		view := web.MissingTopic{Topic: name, Kind: "source"}
		if !sources[name] {
			topic := create[name]
			view = web.MissingTopic{Topic: name, Kind: "internal", Partitions: topic.Partitions, ReplicationFactor: topic.ReplicationFactor, Error: failure(name)}
			for _, config := range topic.Configs {
				view.Configs = append(view.Configs, config.Key+"="+config.Value)
			}
		}
		missing = append(missing, view)
	}
	for _, pattern := range r.Unmatched() {
		missing = append(missing, web.MissingTopic{Topic: pattern, Kind: "pattern"})
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
			v.Tasks, v.Sources = known.NumTasks, sortedNames(known.SourceTopics)
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
