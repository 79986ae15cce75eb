package streams

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/internal/topologies"
	"github.com/coordd/coordd/topology"
)

// TestMalformedTopologiesLeaveGroupsUntouched sends each malformed topology to no group, to a group with a member and to one
// without: it is refused with the reason, and nothing is written, created or remembered.
func TestMalformedTopologiesLeaveGroupsUntouched(t *testing.T) {
	for _, c := range topologies.Malformed() {
		t.Run(c.Name, func(t *testing.T) {
			w := newWorld()
			for name, n := range c.Topics {
				w.setTopic(name, n)
			}
			if err := refused(t, w, c.Topology); err.Code != coordinator.StreamsInvalidTopology {
				t.Errorf("a new group: error %d, want %d", err.Code, coordinator.StreamsInvalidTopology)
			} else if i := slices.IndexFunc(c.Says, func(part string) bool { return !strings.Contains(err.Message, part) }); i >= 0 {
				t.Errorf("%q says nothing of %q", err.Message, c.Says[i])
			}
			if w.group() != nil {
				t.Error("there is a group now")
			}
			sound := topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"in"}}}}
			if d, err := w.heartbeat(joining("first", sound), &coordinator.Client{ID: "c", Host: "/h"}); err != nil || d.Reply.Err != nil {
				t.Fatal(err, d.Reply.Err)
			}
			_ = refused(t, w, c.Topology)
			leave := &HeartbeatRequest{GroupID: testGroup, MemberID: "first", MemberEpoch: LeaveEpoch, RebalanceTimeoutMs: -1}
			if d, err := w.heartbeat(leave, &coordinator.Client{ID: "c", Host: "/h"}); err != nil || d.Reply.Err != nil {
				t.Fatal(err, d.Reply.Err)
			}
			_ = refused(t, w, c.Topology)
		})
	}
}

// refused sends a join that must change nothing.
func refused(t *testing.T, w *world, top topology.Topology) *coordinator.Error {
	t.Helper()
	before := w.state.Digest()
	d, err := w.heartbeat(joining("second", top), &coordinator.Client{ID: "c", Host: "/h"})
	if err != nil {
		t.Fatal(err)
	}
	if d.Reply.Err == nil {
		t.Fatal("the join is accepted")
	}
	if len(d.Records) > 0 || len(d.Effects) > 0 || w.state.Digest() != before {
		t.Errorf("%d records and %d effects", len(d.Records), len(d.Effects))
	}
	if !reflect.DeepEqual(d.Soft, SoftChange{}) {
		t.Errorf("soft state changes: %+v", d.Soft)
	}
	return d.Reply.Err
}

func joining(member string, top topology.Topology) *HeartbeatRequest {
	process := "p-" + member
	return &HeartbeatRequest{
		GroupID: testGroup, MemberID: member, RebalanceTimeoutMs: 60000, ProcessID: &process, Topology: &top,
		Active: []topology.SubtopologyTasks{}, Standby: []topology.SubtopologyTasks{}, Warmup: []topology.SubtopologyTasks{},
	}
}
