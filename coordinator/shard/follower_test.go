package shard

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/topology"
)

// everyRequest has one request of each kind that a machine takes.
func everyRequest(group, member string) []any {
	return []any{
		join(group, member), beat(group, member, 2), beat(group, member, streams.LeaveEpoch), report(group, member, 2, nil),
		&DescribeRequest{GroupID: group}, &HoldsRequest{GroupID: group}, &DeleteGroupRequest{GroupID: group},
		commit(group, member, 2), commit(group, "", -1),
		&offsets.FetchRequest{Version: 9, GroupID: group, MemberID: &member, MemberEpoch: 2},
		&offsets.DeleteRequest{GroupID: group, Topics: []offsets.FetchTopic{{Name: "in", Partitions: []int32{0}}}},
	}
}

// TestFollowersKnowNothing: who does not lead, or led, answers NOT_COORDINATOR to everything, never that a group or member
// is unknown, which ends applications, and never that a group is empty.
func TestFollowersKnowNothing(t *testing.T) {
	follower := newRig(t)
	follower.Machine = New(follower, DefaultOptions())
	former := newRig(t)
	former.joined("g", "a")
	former.Lost(former.now)
	for name, r := range map[string]*rig{"follower": follower, "former leader": former} {
		for _, request := range everyRequest("g", "a") {
			if c, a := r.send(request); a.n != 1 || c.Err == nil || c.Err.Code != coordinator.NotCoordinator {
				t.Errorf("%s: %T is answered %d times, %v", name, request, a.n, c.Err)
			}
		}
		if len(r.proposed) > 1 || len(r.ops) > 0 || len(r.claims) > 0 {
			t.Errorf("%s: does something: %d entries, %d commits, %d claims", name, len(r.proposed), len(r.ops), len(r.claims))
		}
	}
}

// TestCallsMayBeRepeatedAfterAnUnknownOutcome: a client whose call ended in NOT_COORDINATOR repeats it at the next leader,
// and cannot know whether it was applied before. What the group becomes is the same.
func TestCallsMayBeRepeatedAfterAnUnknownOutcome(t *testing.T) {
	instance := "i-s"
	for name, request := range map[string]func() *streams.HeartbeatRequest{
		"join": func() *streams.HeartbeatRequest { return join("g", "new") },
		"static join": func() *streams.HeartbeatRequest {
			h := join("g", "new")
			h.InstanceID = &instance
			return h
		},
		"join of a known member": func() *streams.HeartbeatRequest { return join("g", "a") },
		"leave":                  func() *streams.HeartbeatRequest { return beat("g", "a", streams.LeaveEpoch) },
		"leave of the last":      func() *streams.HeartbeatRequest { return beat("one", "x", streams.LeaveEpoch) },
		"static leave": func() *streams.HeartbeatRequest {
			h := beat("g", "s", streams.StaticLeaveEpoch)
			other := "i-other"
			h.InstanceID = &other
			return h
		},
		"release": func() *streams.HeartbeatRequest {
			return report("g", "a", 2, topology.NewTasks(
				topology.Task{Subtopology: "0", Partition: 0}, topology.Task{Subtopology: "0", Partition: 1}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := ""
			for _, applied := range []bool{false, true} {
				r := repeatRig(t)
				state := r.committed
				c, a := r.send(request())
				if a.done {
					t.Fatalf("answered before the commit: %v %v", c.Err, c.Heartbeat.Err)
				}
				if applied {
					state = r.working
				}
				r.Lost(r.now)
				if !a.done || c.Err == nil || c.Err.Code != coordinator.NotCoordinator {
					t.Fatalf("the outcome is unknown, the answer is %v", c.Err)
				}
				r.Elected(r.now, 2, state)
				r.freshProof()
				c, a = r.send(request())
				r.commitAll()
				if !a.done || c.Err != nil {
					t.Fatalf("repeated: %v %v", a.done, c.Err)
				}
				if err := c.Heartbeat.Err; err != nil && (!applied || err.Code != coordinator.UnknownMemberID) {
					t.Fatalf("repeated, applied %v: %v", applied, err)
				}
				if got := r.showGroups(); want == "" {
					want = got
				} else if got != want {
					t.Errorf("not applied before:\n%s\napplied before:\n%s", want, got)
				}
			}
		})
	}
}

// repeatRig has a group of a, which is to give two of its four tasks to the static member s, and one of x alone.
func repeatRig(t *testing.T) *rig {
	r := newRig(t)
	r.joined("g", "a")
	other := "i-other"
	h := join("g", "s")
	h.InstanceID = &other
	r.send(h)
	r.commitAll()
	r.send(beat("g", "a", 2))
	r.commitAll()
	r.joined("one", "x")
	return r
}

// showGroups prints what members and tools see of the groups.
func (r *rig) showGroups() (out string) {
	for g := range r.committed.Groups() {
		env := r.env(g.ID)
		d := streams.Describe(g, r.softOf(g.ID), &env, g.ID)
		out += fmt.Sprintf("%s %s epoch %d assignment epoch %d\n", d.GroupID, d.State, d.Epoch, d.AssignmentEpoch)
		for _, m := range d.Members {
			out += fmt.Sprintf("  %s epoch %d has %v target %v\n", m.MemberID, m.MemberEpoch, m.Assigned, m.Target)
		}
	}
	return out
}
