package web

import (
	"context"
	"net/http"
	"net/url"
)

// Topologies is how the topology of a group is shown.
type Topologies interface {
	// Topology is the topology of a group from the shard's leader, or from this node's replica where the leader does not
	// answer; false when there is no such group.
	Topology(ctx context.Context, id string) (GroupTopology, bool)
	// LocalTopology is the topology of a group from this node's replica alone.
	LocalTopology(id string) (GroupTopology, bool)
}

// GroupTopology is the topology of a group, what it needs, and who runs which.
type GroupTopology struct {
	GroupSummary
	// Problem says which topics are missing or do not fit; empty when nothing is wrong.
	Problem string `json:"problem,omitempty"`
	// Subtopologies are by id; empty without a topology.
	Subtopologies []GroupSubtopology `json:"subtopologies"`
	// Missing are the topics that the topology needs and that do not exist, sources first, then by name.
	Missing []MissingTopic `json:"missing"`
	// Versions are the topologies that members run, the group's first, then the newest first.
	Versions []TopologyVersion `json:"versions"`
	RollOut  RollOut           `json:"rollOut"`
}

// GroupSubtopology is one subtopology with the partition counts that are known. Lists are by name.
type GroupSubtopology struct {
	Subtopology string `json:"subtopology"`
	// Tasks is the number of tasks, -1 while the topics do not say it.
	Tasks    int32    `json:"tasks"`
	Stateful bool     `json:"stateful"`
	Sources  []string `json:"sources"`
	// SourceRegexes are patterns of names of further source topics.
	SourceRegexes      []string        `json:"sourceRegexes"`
	RepartitionSources []InternalTopic `json:"repartitionSources"`
	RepartitionSinks   []string        `json:"repartitionSinks"`
	Changelogs         []InternalTopic `json:"changelogs"`
}

// InternalTopic is a topic that the group has or gets for itself.
type InternalTopic struct {
	Topic string `json:"topic"`
	// Partitions is what the topology needs, -1 while that is not known.
	Partitions int32 `json:"partitions"`
}

// MissingTopic is a topic that a group waits for.
type MissingTopic struct {
	Topic string `json:"topic"`
	// Kind is source, which somebody else has to create, or internal, which coordd creates.
	Kind string `json:"kind"`
	// Partitions is the number that an internal topic is created with; 0 for sources, and while it is not known.
	Partitions int32 `json:"partitions"`
	// Error is why the last attempt to create it failed; empty when none failed.
	Error string `json:"error,omitempty"`
}

// TopologyVersion is a topology and the members that run it.
type TopologyVersion struct {
	Epoch int32 `json:"epoch"`
	// Current says that it is the group's topology.
	Current bool `json:"current"`
	// Members are by id.
	Members []VersionMember `json:"members"`
}

// VersionMember is a member as far as topologies concern it.
type VersionMember struct {
	Member     string `json:"member"`
	InstanceID string `json:"instanceId,omitempty"`
	ClientID   string `json:"clientId"`
	Host       string `json:"host"`
	ProcessID  string `json:"processId"`
	// Tasks are those that the member has in any role, with those that it has not given up yet.
	Tasks int `json:"tasks"`
}

// RollOut is how far the group is with its topology.
type RollOut struct {
	// Done says that no member of an older topology is left.
	Done bool `json:"done"`
	// Current and Stale count the members that run the group's topology, and older ones.
	Current int `json:"current"`
	Stale   int `json:"stale"`
	// StaleTasks are the tasks that members of older topologies still have, in any role.
	StaleTasks int `json:"staleTasks"`
}

// Topology reads the topology of a group. It fails with an error that is ErrNoGroup where there is no such group.
func (c Client) Topology(ctx context.Context, id string) (GroupTopology, error) {
	var t GroupTopology
	err := c.get(ctx, "/v1/group/topology?id="+url.QueryEscape(id), &t)
	return t, absent(err)
}

func groupTopology(w http.ResponseWriter, r *http.Request, find func(id string) (GroupTopology, bool)) {
	id := r.URL.Query().Get("id")
	t, ok := find(id)
	if !ok {
		answer(w, http.StatusNotFound, Problem{Error: noGroup(id)})
		return
	}
	answer(w, http.StatusOK, t)
}
