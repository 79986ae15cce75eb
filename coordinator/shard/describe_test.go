package shard

import (
	"bytes"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
)

// TestGroupsLookTheSameAfterAFailover: what members and tools are shown is derived from the log, so that the next leader, a
// node that restarts from a snapshot, and a follower that never led say the same, in every state of a group.
func TestGroupsLookTheSameAfterAFailover(t *testing.T) {
	r := newRig(t)
	empty := r.joined("Empty", "a")
	r.joined("Stable", "a")
	r.joined("Reconciling", "a")
	r.joined("Reconciling", "b")
	r.send(beat("Empty", empty.MemberID, streams.LeaveEpoch))
	r.commitAll()
	r.settings.InitialRebalanceDelayMs = 3000
	r.joined("Assigning", "a")
	missing := join("NotReady", "a")
	missing.Topology = &topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"none"}}}}
	r.send(missing)
	r.ForeignChecked(r.now, "NotReady", noForeign, nil)
	r.Flush()
	r.commitAll()
	before := r.showGroups()
	for g := range r.committed.Groups() {
		if got := streams.StateOf(g); string(got) != g.ID {
			t.Errorf("%s is %s", g.ID, got)
		}
	}

	var file bytes.Buffer
	if err := fsm.WriteSnapshot(&file, r.committed); err != nil {
		t.Fatal(err)
	}
	restored, _, err := fsm.ReadSnapshot(&file)
	if err != nil {
		t.Fatal(err)
	}
	for name, state := range map[string]fsm.State{"next leader": r.committed, "restarted node": restored} {
		next := newRig(t)
		next.settings = r.settings
		next.Elected(next.now, 2, state)
		next.freshProof()
		if got := next.showGroups(); got != before {
			t.Errorf("%s:\n%s\ninstead of\n%s", name, got, before)
		}
		// The first heartbeats change nothing either.
		for _, id := range []string{"Stable", "NotReady"} {
			next.send(beat(id, "a", state.Group(id).Member("a").Current.MemberEpoch))
		}
		if len(next.proposed) > 0 || next.showGroups() != before {
			t.Errorf("%s: the first heartbeats write %d entries:\n%s", name, len(next.proposed), next.showGroups())
		}
	}
}

// TestDescribeUnknownGroup: a group that does not exist is told per group, with a message, and makes nothing.
func TestDescribeUnknownGroup(t *testing.T) {
	r := newRig(t)
	c, a := r.send(&DescribeRequest{GroupID: "nobody"})
	r.ForeignChecked(r.now, "nobody", noForeign, nil) // another node may be asked first
	d, ok := c.Response.(*streams.Description)
	if !a.done || !ok || d.GroupID != "nobody" || d.Err == nil || d.Err.Code != coordinator.GroupIDNotFound || d.Err.Message == "" {
		t.Fatalf("%+v", c.Response)
	}
	if len(r.groups) > 0 {
		t.Error("asking for a group makes it")
	}
}
