package shard

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/topology"
)

// TestRefusedRequestsLeaveNoTrace: what is refused changes nothing, neither in the log nor in what the leader keeps of
// groups and members, and every refusal says why.
func TestRefusedRequestsLeaveNoTrace(t *testing.T) {
	task := func(sub string, p int32) topology.Tasks {
		return topology.NewTasks(topology.Task{Subtopology: sub, Partition: p})
	}
	offset := func(p int32, at int64) streams.TaskOffset {
		return streams.TaskOffset{Task: topology.Task{Subtopology: "0", Partition: p}, Offset: at}
	}
	held, blank, unknown := "i-s", " ", "i-unknown"
	with := func(h *streams.HeartbeatRequest, f func(*streams.HeartbeatRequest)) *streams.HeartbeatRequest {
		f(h)
		return h
	}
	for name, c := range map[string]struct {
		request *streams.HeartbeatRequest
		want    coordinator.Code
	}{
		"offsets twice": {with(beat("g", "a", 2), func(h *streams.HeartbeatRequest) {
			h.TaskOffsets = []streams.TaskOffset{offset(0, 5), offset(0, 7)}
		}), coordinator.InvalidRequest},
		"end offsets twice": {with(beat("g", "a", 2), func(h *streams.HeartbeatRequest) {
			h.TaskOffsets = []streams.TaskOffset{offset(0, 5)}
			h.TaskEndOffsets = []streams.TaskOffset{offset(1, 5), offset(0, 5), offset(1, 5)}
		}), coordinator.InvalidRequest},
		"negative partition": {with(beat("g", "a", 2), func(h *streams.HeartbeatRequest) {
			h.TaskOffsets = []streams.TaskOffset{offset(-1, 5)}
		}), coordinator.InvalidRequest},
		"join with bad offsets": {with(join("g", "a"), func(h *streams.HeartbeatRequest) {
			h.TaskOffsets = []streams.TaskOffset{offset(0, 5), offset(0, 7)}
		}), coordinator.InvalidRequest},
		"first join with bad offsets": {with(join("new", "a"), func(h *streams.HeartbeatRequest) {
			h.TaskEndOffsets = []streams.TaskOffset{offset(-3, 5)}
		}), coordinator.InvalidRequest},
		"group full, with offsets and a shutdown": {with(join("g", "new"), func(h *streams.HeartbeatRequest) {
			h.TaskOffsets, h.ShutdownApplication = []streams.TaskOffset{offset(0, 5)}, true
		}), coordinator.GroupMaxSizeReached},
		"instance id taken":      {with(join("g", "new"), func(h *streams.HeartbeatRequest) { h.InstanceID = &held }), coordinator.UnreleasedInstanceID},
		"instance id of another": {with(beat("g", "a", 2), func(h *streams.HeartbeatRequest) { h.InstanceID = &held }), coordinator.FencedInstanceID},
		"unknown instance id":    {with(beat("g", "a", 2), func(h *streams.HeartbeatRequest) { h.InstanceID = &unknown }), coordinator.UnknownMemberID},
		"another topology": {with(join("g", "a"), func(h *streams.HeartbeatRequest) {
			h.Topology.Subtopologies[0].SourceTopics = []string{"other"}
		}), coordinator.StreamsInvalidTopologyEpoch},
		"a topology that is too new": {with(join("g", "a"), func(h *streams.HeartbeatRequest) {
			h.Topology.Epoch += 2
		}), coordinator.StreamsInvalidTopologyEpoch},
		"an update that cannot be": {with(join("g", "a"), func(h *streams.HeartbeatRequest) {
			h.Topology.Epoch++
			h.Topology.Subtopologies[0].SourceTopics = nil
		}), coordinator.StreamsInvalidTopology},
		"a topology that cannot be": {with(join("new", "a"), func(h *streams.HeartbeatRequest) {
			h.Topology.Subtopologies = append(h.Topology.Subtopologies, h.Topology.Subtopologies[0])
		}), coordinator.StreamsInvalidTopology},
		"unknown subtopology": {with(report("g", "a", 2, task("7", 0)), func(h *streams.HeartbeatRequest) {
			h.TaskOffsets = []streams.TaskOffset{offset(0, 5)}
		}), coordinator.InvalidRequest},
		"unknown partition":             {report("g", "a", 2, task("0", 99)), coordinator.InvalidRequest},
		"epoch of the future":           {beat("g", "a", 99), coordinator.FencedMemberEpoch},
		"epoch of the past":             {beat("g", "a", 1), coordinator.FencedMemberEpoch},
		"unknown member":                {beat("g", "x", 2), coordinator.UnknownMemberID},
		"unknown group":                 {beat("nobody", "x", 2), coordinator.UnknownMemberID},
		"leave of an unknown group":     {beat("nobody", "x", streams.LeaveEpoch), coordinator.GroupIDNotFound},
		"leave of an unknown member":    {beat("g", "x", streams.LeaveEpoch), coordinator.UnknownMemberID},
		"leave for a while, no one":     {beat("g", "a", streams.StaticLeaveEpoch), coordinator.InvalidRequest},
		"epoch that there is not":       {beat("g", "a", -3), coordinator.InvalidRequest},
		"no member id":                  {join("g", blank), coordinator.InvalidRequest},
		"no group id":                   {join("", "a"), coordinator.InvalidRequest},
		"one list of three":             {with(beat("g", "a", 2), func(h *streams.HeartbeatRequest) { h.Active = task("0", 0) }), coordinator.InvalidRequest},
		"source topics by no pattern":   {with(join("new", "a"), func(h *streams.HeartbeatRequest) { h.Topology.Subtopologies[0].SourceTopicRegex = []string{"a["} }), coordinator.StreamsInvalidTopology},
		"rebalance time-out is missing": {with(join("new", "a"), func(h *streams.HeartbeatRequest) { h.RebalanceTimeoutMs = -1 }), coordinator.InvalidRequest},
	} {
		for version := range int16(2) {
			r := refusedRig(t)
			c.request.Version = version
			digest, groups := r.committed.Digest(), slices.Sorted(maps.Keys(r.groups))
			entries, soft := len(r.proposed), *r.softOf("g").Members["a"]
			call, a := r.send(c.request)
			for len(r.foreign) > 0 {
				id := r.foreign[0]
				r.foreign = r.foreign[1:]
				r.ForeignChecked(r.now, id, noForeign, nil)
				r.Flush()
			}
			if !a.done || call.Err != nil || call.Heartbeat.Err == nil || call.Heartbeat.Err.Code != c.want || call.Heartbeat.Err.Message == "" {
				t.Errorf("%s, version %d: answered %v with %v, %v", name, version, a.done, call.Err, call.Heartbeat.Err)
			}
			if r.committed.Digest() != digest || r.open != nil || len(r.proposed) != entries || !slices.Equal(slices.Sorted(maps.Keys(r.groups)), groups) {
				t.Errorf("%s: the state changed", name)
			}
			if s := r.softOf("g"); len(s.Members) != 2 || !reflect.DeepEqual(*s.Members["a"], soft) {
				t.Errorf("%s: what the leader keeps of the group changed", name)
			}
		}
	}
}

// refusedRig has a full group of a, which runs tasks and has reported offsets, and the static member s.
func refusedRig(t *testing.T) *rig {
	r := newRig(t)
	r.settings.MaxSize = 2
	r.joined("g", "a")
	h := beat("g", "a", 2)
	h.TaskOffsets = []streams.TaskOffset{{Task: topology.Task{Subtopology: "0"}, Offset: 1}}
	h.TaskEndOffsets = []streams.TaskOffset{{Task: topology.Task{Subtopology: "0"}, Offset: 9}}
	r.send(h)
	instance := "i-s"
	static := join("g", "s")
	static.InstanceID = &instance
	r.send(static)
	r.commitAll()
	r.foreign = nil
	return r
}
