package web

import (
	"context"
	"net/http"
	"net/url"
)

// Topologies is how the topology of a group is shown, and how operators take an update of it back.
type Topologies interface {
	// Topology is the topology of a group from the shard's leader, or from this node's replica where the leader does not
	// answer; false when there is no such group.
	Topology(ctx context.Context, id string) (GroupTopology, bool)
	// LocalTopology is the topology of a group from this node's replica alone.
	LocalTopology(id string) (GroupTopology, bool)
	// AbortTopology takes the last update of a group's topology back. Errors are a [Refusal] wherever it is known what to do.
	AbortTopology(ctx context.Context, r AbortRequest) (Aborted, error)
	// LocalAbortTopology is AbortTopology where this node leads the group's shard; else it refuses as [Elsewhere].
	LocalAbortTopology(ctx context.Context, r AbortRequest) (Aborted, error)
}

// GroupTopology is the topology of a group, what it needs, and who runs which.
type GroupTopology struct {
	GroupSummary
	// Problem says which topics are missing or do not fit; empty when nothing is wrong.
	Problem string `json:"problem,omitempty"`
	// GraceLeftMs is how long the group goes on with the partition counts of before although its topics do not fit; 0 when
	// it does not.
	GraceLeftMs int64 `json:"graceLeftMs,omitempty"`
	// Subtopologies are by id; empty without a topology.
	Subtopologies []GroupSubtopology `json:"subtopologies"`
	// Missing are the topics that the topology needs and that do not exist, sources first, then patterns, by name.
	Missing []MissingTopic `json:"missing"`
	// Versions are the topologies that the group has and had, the newest first, and who runs them.
	Versions []TopologyVersion `json:"versions"`
	RollOut  RollOut           `json:"rollOut"`
	// Change is how the group's topology differs from the one before; nil where there was none, or it is not known any more.
	Change *TopologyChange `json:"change,omitempty"`
	// Back is what it would change to take the last update back; nil where there is nothing to go back to.
	Back *TopologyChange `json:"back,omitempty"`
}

// GroupSubtopology is one subtopology with the partition counts that are known. Lists are by name.
type GroupSubtopology struct {
	Subtopology string `json:"subtopology"`
	// Tasks is the number of tasks, -1 while the topics do not say it.
	Tasks    int32    `json:"tasks"`
	Stateful bool     `json:"stateful"`
	Sources  []string `json:"sources"`
	// SourceRegexes are patterns of names; the topics that they match are among Sources.
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
	// Kind is source, which somebody else has to create, pattern, which no topic matches, or internal, which coordd creates.
	Kind string `json:"kind"`
	// Partitions is the number that an internal topic is created with; 0 for sources, and while it is not known.
	Partitions int32 `json:"partitions"`
	// ReplicationFactor (-1: the default of the Kafka behind) and Configs (name=value) are those that an internal topic is created
	// with; empty for others.
	ReplicationFactor int16    `json:"replicationFactor,omitempty"`
	Configs           []string `json:"configs,omitempty"`
	// Error is why the last attempt to create it failed; empty when none failed.
	Error string `json:"error,omitempty"`
}

// TopologyVersion is a topology that the group has or had, and the members that run it.
type TopologyVersion struct {
	// Epoch is its topology epoch in the group; -1 stands for members whose topology is not known.
	Epoch int32 `json:"epoch"`
	// Current says that it is the group's topology.
	Current bool `json:"current"`
	// Declared is the epoch that apps send with it.
	Declared int32 `json:"declared"`
	// Restores is the epoch of the topology that it is again, after an update was taken back; -1 where it is none.
	Restores int32 `json:"restores"`
	// Aborted says that the update to it was taken back.
	Aborted bool `json:"aborted"`
	// SinceMs is when it became the group's topology, in milliseconds since 1970; 0 where that is not known.
	SinceMs int64 `json:"sinceMs"`
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
	// Tasks is the number of tasks that the member has in any role, with those that it has not given up yet.
	Tasks int `json:"tasks"`
}

// RollOut is how far the group is with its topology. Tasks are counted as active.
type RollOut struct {
	// Done says that no member of another topology is left.
	Done bool `json:"done"`
	// Current and Stale count the members that run the group's topology, and others.
	Current int `json:"current"`
	Stale   int `json:"stale"`
	// Tasks is the number of tasks of the group's topology, -1 while the topics do not say it. CurrentTasks are with members that
	// run it, StaleTasks with others, and Waiting with nobody yet.
	Tasks        int32 `json:"tasks"`
	CurrentTasks int32 `json:"currentTasks"`
	StaleTasks   int32 `json:"staleTasks"`
	Waiting      int32 `json:"waiting"`
	// Leaving are tasks that the group's topology does not have and that members have not given up yet.
	Leaving int32 `json:"leaving"`
}

// TopologyChange is what differs between two topologies of a group. Subtopologies stand in the order of their ids, topics by name.
type TopologyChange struct {
	// From and To are topology epochs.
	From int32 `json:"from"`
	To   int32 `json:"to"`
	// Kept are the subtopologies with the same id and content, Changed have the same id and other content.
	Kept    []string `json:"kept"`
	Changed []string `json:"changed"`
	New     []string `json:"new"`
	Lost    []string `json:"lost"`
	// Orphaned are internal topics that exist and that the group has no use for any more; nobody deletes them.
	Orphaned []InternalTopic `json:"orphaned"`
	// Counts are the internal topics that need another number of partitions than before.
	Counts []PartitionChange `json:"counts"`
}

// PartitionChange is an internal topic that needs another number of partitions than before.
type PartitionChange struct {
	Topic string `json:"topic"`
	// Before and Needed are the numbers that the two topologies need; Exists is the number that the topic has, -1 where there is
	// none.
	Before int32 `json:"before"`
	Needed int32 `json:"needed"`
	Exists int32 `json:"exists"`
}

// AbortRequest asks for the change to a topology to be taken back.
type AbortRequest struct {
	Group string `json:"group"`
	// Epoch is the topology epoch that is taken back; it is refused where the group has another one by now.
	Epoch int32 `json:"epoch"`
}

// Aborted is what came of an AbortRequest.
type Aborted struct {
	Group string `json:"group"`
	// Aborted is the topology epoch that was taken back, Restored the one of the topology that is the group's again, and Epoch
	// the epoch that it has now.
	Aborted  int32 `json:"aborted"`
	Restored int32 `json:"restored"`
	Epoch    int32 `json:"epoch"`
}

// Topology reads the topology of a group. It fails with an error that is ErrNoGroup where there is no such group.
func (c Client) Topology(ctx context.Context, id string) (GroupTopology, error) {
	var t GroupTopology
	err := c.get(ctx, "/v1/group/topology?id="+url.QueryEscape(id), &t)
	return t, absent(err)
}

// AbortTopology takes the last update of a group's topology back.
func (c Client) AbortTopology(ctx context.Context, r AbortRequest) (Aborted, error) {
	var a Aborted
	return a, c.post(ctx, "/v1/group/topology/abort", r, &a)
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
