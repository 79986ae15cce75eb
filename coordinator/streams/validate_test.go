package streams

import (
	"strconv"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
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
		}), coordinator.None},
		{"no regex", with(goodJoin(), func(r *HeartbeatRequest) {
			r.Topology.Subtopologies[0].SourceTopicRegex = []string{"in.*", "in("}
		}), coordinator.StreamsInvalidTopology},
		{"regex that is too complex", with(goodJoin(), func(r *HeartbeatRequest) {
			r.Topology.Subtopologies[0].SourceTopicRegex = []string{"(a|b)*a(a|b){99}"}
		}), coordinator.StreamsInvalidTopology},
		{"copartition group with a regex that is not there", with(goodJoin(), func(r *HeartbeatRequest) {
			s := &r.Topology.Subtopologies[0]
			s.SourceTopicRegex = []string{"in.*"}
			s.CopartitionGroups = []topology.CopartitionGroup{{SourceTopicRegex: []int16{1}}}
		}), coordinator.StreamsInvalidTopology},
		{"topology epoch", with(goodJoin(), func(r *HeartbeatRequest) { r.Topology.Epoch = -1 }), coordinator.StreamsInvalidTopology},
		{"changelog with a count", with(goodJoin(), func(r *HeartbeatRequest) {
			r.Topology.Subtopologies[0].StateChangelogTopics = []topology.InternalTopic{{Name: "c", Partitions: 3}}
		}), coordinator.StreamsInvalidTopology},
		{"member id", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.MemberID = space }), coordinator.InvalidRequest},
		{"member id of control characters", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.MemberID = "\x00\t\x1f" }), coordinator.InvalidRequest},
		{"member id of a space that Java does not trim", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.MemberID = "\u00a0" }), coordinator.None},
		{"group id", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.GroupID = "" }), coordinator.InvalidRequest},
		{"instance id", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.InstanceID = &space }), coordinator.InvalidRequest},
		{"rack id", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.RackID = &space }), coordinator.InvalidRequest},
		{"no rebalance time-out", with(goodJoin(), func(r *HeartbeatRequest) { r.RebalanceTimeoutMs = -1 }), coordinator.InvalidRequest},
		{"rebalance time-out of 0", with(goodJoin(), func(r *HeartbeatRequest) { r.RebalanceTimeoutMs = 0 }), coordinator.InvalidRequest},
		{"rebalance time-out of 1", with(goodJoin(), func(r *HeartbeatRequest) { r.RebalanceTimeoutMs = 1 }), coordinator.None},
		{"rebalance time-out of 0 later", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.RebalanceTimeoutMs = 0 }), coordinator.InvalidRequest},
		{"join with tasks", with(goodJoin(), func(r *HeartbeatRequest) { r.Active = task }), coordinator.InvalidRequest},
		{"join with standbys", with(goodJoin(), func(r *HeartbeatRequest) { r.Standby = task }), coordinator.InvalidRequest},
		{"join without warm-ups", with(goodJoin(), func(r *HeartbeatRequest) { r.Warmup = nil }), coordinator.InvalidRequest},
		{"join without topology", with(goodJoin(), func(r *HeartbeatRequest) { r.Topology = nil }), coordinator.InvalidRequest},
		{"static leave without instance", goodHeartbeat(StaticLeaveEpoch), coordinator.InvalidRequest},
		{"epoch", goodHeartbeat(-3), coordinator.InvalidRequest},
		{"some lists", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.Active = task }), coordinator.InvalidRequest},
		{"repeated task", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.DuplicateTasks = "ActiveTasks" }), coordinator.InvalidRequest},
		{"task in two roles", with(goodHeartbeat(3), func(r *HeartbeatRequest) {
			r.Active, r.Standby, r.Warmup = task, topology.Tasks{}, task
		}), coordinator.InvalidRequest},
		{"negative rebalance time-out", with(goodHeartbeat(3), func(r *HeartbeatRequest) { r.RebalanceTimeoutMs = -2 }), coordinator.InvalidRequest},
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

// TestValidateOrder checks what a request with two faults is told: the one that Kafka looks for first. Each row's fault stands
// before those of all rows below it.
func TestValidateOrder(t *testing.T) {
	empty := ""
	rows := []orderRow{
		{"topic of the broker", coordinator.StreamsInvalidTopology, "Use of Kafka internal topics __consumer_offsets in", func(r *HeartbeatRequest) {
			r.Topology.Subtopologies[0].SourceTopics = append(r.Topology.Subtopologies[0].SourceTopics, "__consumer_offsets")
		}},
		{"topic name", coordinator.StreamsInvalidTopology, "Topic names a b are not valid", func(r *HeartbeatRequest) {
			r.Topology.Subtopologies[0].SourceTopics = append(r.Topology.Subtopologies[0].SourceTopics, "a b")
		}},
		{"member id", coordinator.InvalidRequest, "MemberId can't be empty.", func(r *HeartbeatRequest) { r.MemberID = empty }},
		{"group id", coordinator.InvalidRequest, "GroupId can't be empty.", func(r *HeartbeatRequest) { r.GroupID = empty }},
		{"instance id", coordinator.InvalidRequest, "InstanceId can't be empty.", func(r *HeartbeatRequest) { r.InstanceID = &empty }},
		{"rack id", coordinator.InvalidRequest, "RackId can't be empty.", func(r *HeartbeatRequest) { r.RackID = &empty }},
		{"rebalance time-out", coordinator.InvalidRequest, "RebalanceTimeoutMs must be provided", func(r *HeartbeatRequest) { r.RebalanceTimeoutMs = -1 }},
		{"active tasks", coordinator.InvalidRequest, "ActiveTasks must be empty when (re-)joining. It is null.", func(r *HeartbeatRequest) { r.Active = nil }},
		{"standby tasks", coordinator.InvalidRequest, "StandbyTasks must be empty when (re-)joining. It names 1 tasks.", func(r *HeartbeatRequest) {
			r.Standby = topology.NewTasks(topology.Task{Subtopology: "0"})
		}},
		{"warm-up tasks", coordinator.InvalidRequest, "WarmupTasks must be empty", func(r *HeartbeatRequest) { r.Warmup = nil }},
		{"regex", coordinator.StreamsInvalidTopology, "Pattern in( in SourceTopicRegex of subtopology 0 cannot be used: it is no regular " +
			"expression of RE2: missing closing ).", func(r *HeartbeatRequest) {
			r.Topology.Subtopologies[0].SourceTopicRegex = []string{"in("}
		}},
		{"changelog count", coordinator.StreamsInvalidTopology, "Changelog topic c must have an undefined", func(r *HeartbeatRequest) {
			r.Topology.Subtopologies[0].StateChangelogTopics = []topology.InternalTopic{{Name: "c", Partitions: 3}}
		}},
	}
	for i, first := range rows {
		for _, second := range rows[i:] {
			req := goodJoin()
			second.spoil(req)
			first.spoil(req)
			first.check(t, second.name, Validate(req))
		}
	}
	later := []orderRow{
		{"one list", coordinator.InvalidRequest, "If one task-type is non-null, all must be non-null. WarmupTasks is null and StandbyTasks is not.",
			func(r *HeartbeatRequest) { r.Active, r.Standby = topology.Tasks{}, topology.Tasks{} }},
		{"topology", coordinator.InvalidRequest, "Topology can only be provided when (re-)joining. MemberEpoch is 3", func(r *HeartbeatRequest) {
			r.Topology = goodJoin().Topology
			r.Topology.Subtopologies = append(r.Topology.Subtopologies, r.Topology.Subtopologies[0])
		}},
	}
	for i, first := range later {
		for _, second := range later[i:] {
			req := goodHeartbeat(3)
			second.spoil(req)
			first.spoil(req)
			first.check(t, second.name, Validate(req))
		}
	}
	for epoch, message := range map[int32]string{
		-2: "InstanceId can't be null.", -3: "MemberEpoch is -3, but must be greater than or equal to -2.",
	} {
		req := goodHeartbeat(epoch)
		req.Topology, req.Active = goodJoin().Topology, topology.Tasks{}
		orderRow{message, coordinator.InvalidRequest, message, nil}.check(t, "a topology and one list", Validate(req))
	}
}

// orderRow is a fault of a request and what is told of it.
type orderRow struct {
	name    string
	code    coordinator.Code
	message string
	spoil   func(*HeartbeatRequest)
}

func (r orderRow) check(t *testing.T, beside string, err *coordinator.Error) {
	t.Helper()
	if err == nil || err.Code != r.code || !strings.HasPrefix(err.Message, r.message) {
		t.Errorf("%s beside %s: %v, want %d: %s…", r.name, beside, err, r.code, r.message)
	}
}

// TestATopologyThatNoRecordHoldsIsRefusedAtOnce: before its names are looked at, whatever is wrong with them.
func TestATopologyThatNoRecordHoldsIsRefusedAtOnce(t *testing.T) {
	req := goodJoin()
	for i := range 60_000 {
		req.Topology.Subtopologies = append(req.Topology.Subtopologies, topology.Subtopology{ID: strconv.Itoa(i), SourceTopics: []string{"not a name"}})
	}
	err := Validate(req)
	if err == nil || err.Code != coordinator.StreamsInvalidTopology || !strings.Contains(err.Message, strconv.Itoa(record.MaxRecordSize)) {
		t.Errorf("%v", err)
	}
}
