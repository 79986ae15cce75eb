package streams

import (
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/topology"
)

func goodJoin() *HeartbeatRequest {
	process := "P"
	return &HeartbeatRequest{
		Version: 1, GroupID: testGroup, MemberID: "A", RebalanceTimeoutMs: 1000, EndpointEpoch: -1, ProcessID: &process,
		Topology: &topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"in"}}}},
		Active:   topology.Tasks{}, Standby: topology.Tasks{}, Warmup: topology.Tasks{},
	}
}

func goodHeartbeat(epoch int32) *HeartbeatRequest {
	return &HeartbeatRequest{Version: 1, GroupID: testGroup, MemberID: "A", MemberEpoch: epoch, RebalanceTimeoutMs: -1}
}

// TestValidate goes through the rows of what a request alone can be refused for.
func TestValidate(t *testing.T) {
	space := " "
	task := topology.NewTasks(topology.Task{Subtopology: "0"})
	with := func(r *HeartbeatRequest, f func(*HeartbeatRequest)) *HeartbeatRequest { f(r); return r }
	for _, c := range []struct {
		name string
		req  *HeartbeatRequest
		want coordinator.Code
	}{
		{"join", goodJoin(), coordinator.None},
		{"regular", goodHeartbeat(3), coordinator.None},
		{"leave", goodHeartbeat(LeaveEpoch), coordinator.None},
		{"topic of the broker", with(goodJoin(), func(r *HeartbeatRequest) {
			r.Topology.Subtopologies[0].SourceTopics = []string{"__consumer_offsets"}
		}), coordinator.StreamsInvalidTopology},
		{"topic name", with(goodJoin(), func(r *HeartbeatRequest) {
			r.Topology.Subtopologies[0].SourceTopics = []string{"a b"}
		}), coordinator.StreamsInvalidTopology},
		{"regex", with(goodJoin(), func(r *HeartbeatRequest) {
			r.Topology.Subtopologies[0].SourceTopicRegex = []string{"in.*"}
		}), coordinator.InvalidRequest},
		{"topology epoch", with(goodJoin(), func(r *HeartbeatRequest) { r.Topology.Epoch = -1 }), coordinator.StreamsInvalidTopology},
		{"changelog with a count", with(goodJoin(), func(r *HeartbeatRequest) {
			r.Topology.Subtopologies[0].StateChangelogTopics = []topology.InternalTopic{{Name: "c", Partitions: 3}}
		}), coordinator.StreamsInvalidTopology},
		{"member id", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.MemberID = space }), coordinator.InvalidRequest},
		{"group id", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.GroupID = "" }), coordinator.InvalidRequest},
		{"instance id", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.InstanceID = &space }), coordinator.InvalidRequest},
		{"rack id", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.RackID = &space }), coordinator.InvalidRequest},
		{"no rebalance time-out", with(goodJoin(), func(r *HeartbeatRequest) { r.RebalanceTimeoutMs = -1 }), coordinator.InvalidRequest},
		{"join with tasks", with(goodJoin(), func(r *HeartbeatRequest) { r.Active = task }), coordinator.InvalidRequest},
		{"join with standbys", with(goodJoin(), func(r *HeartbeatRequest) { r.Standby = task }), coordinator.InvalidRequest},
		{"join without warm-ups", with(goodJoin(), func(r *HeartbeatRequest) { r.Warmup = nil }), coordinator.InvalidRequest},
		{"join without topology", with(goodJoin(), func(r *HeartbeatRequest) { r.Topology = nil }), coordinator.InvalidRequest},
		{"static leave without instance", goodHeartbeat(StaticLeaveEpoch), coordinator.InvalidRequest},
		{"epoch", goodHeartbeat(-3), coordinator.InvalidRequest},
		{"some lists", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.Active = task }), coordinator.InvalidRequest},
		{"repeated task", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.DuplicateTasks = "ActiveTasks" }), coordinator.InvalidRequest},
		{"topology later", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.Topology = goodJoin().Topology }), coordinator.InvalidRequest},
	} {
		got := coordinator.None
		if err := Validate(c.req); err != nil {
			got = err.Code
		}
		if got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
