package shard

import (
	"errors"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
)

func TestForeignGroupIsRefused(t *testing.T) {
	r := newRig(t)
	for _, request := range []*streams.HeartbeatRequest{join("theirs", "a"), beat("theirs", "a", 3), beat("theirs", "a", -1)} {
		c, a := r.send(request)
		r.ForeignChecked(r.now, "theirs", consumers, nil)
		err := c.Heartbeat.Err
		if !a.done || err == nil || err.Code != coordinator.GroupIDNotFound || err.Message != "Group theirs is not a streams group." {
			t.Fatalf("epoch %d: %+v", request.MemberEpoch, err)
		}
	}
	c, a := r.send(&DescribeRequest{GroupID: "theirs"})
	r.ForeignChecked(r.now, "theirs", consumers, nil)
	d, _ := c.Response.(*streams.Description)
	if !a.done || d == nil || d.Err == nil || d.Err.Code != coordinator.GroupIDNotFound || d.Err.Message != "Group theirs is not a streams group." {
		t.Fatalf("described: %+v", d)
	}
}

// A group upstream without members is in nobody's way, but it is what a description is asked of.
func TestOffsetsWithoutAMemberAreNoStreamsGroup(t *testing.T) {
	r := newRig(t)
	c, a := r.send(&DescribeRequest{GroupID: "g"})
	r.ForeignChecked(r.now, "g", simple, nil)
	d, _ := c.Response.(*streams.Description)
	if !a.done || d == nil || d.Err == nil || d.Err.Code != coordinator.GroupIDNotFound || d.Err.Message != "Group g is not a streams group." {
		t.Fatalf("described: %+v", d)
	}
	c, a = r.send(&DescribeRequest{GroupID: "g"})
	r.ForeignChecked(r.now, "g", coordinator.ForeignGroup{Type: "streams"}, nil)
	d, _ = c.Response.(*streams.Description)
	if !a.done || d == nil || d.Err == nil || d.Err.Message != "Group g is a streams group of the Kafka cluster behind coordd." {
		t.Fatalf("described: %+v", d)
	}
	// What is left of a streams group that vanished: its members are to make it anew.
	c, a = r.send(beat("g", "a", 3))
	r.ForeignChecked(r.now, "g", simple, nil)
	if !a.done || c.Heartbeat.Err == nil || c.Heartbeat.Err.Code != coordinator.UnknownMemberID {
		t.Fatalf("%+v", c.Heartbeat)
	}
	c, a = r.send(join("g", "a"))
	r.ForeignChecked(r.now, "g", simple, nil)
	r.Flush()
	r.commitAll()
	if !a.done || c.Err != nil || c.Heartbeat.Err != nil {
		t.Fatalf("%v %+v", c.Err, c.Heartbeat)
	}
}

// What the upstream does not say keeps groups from being created; who does not create one is answered all the same.
func TestWithoutTheUpstreamsWordOnlyJoinsFail(t *testing.T) {
	r := newRig(t)
	c, a := r.send(join("unknown", "a"))
	r.ForeignChecked(r.now, "unknown", noForeign, errors.New("away"))
	if !a.done || c.Err == nil || c.Err.Code != coordinator.CoordinatorNotAvailable {
		t.Fatalf("%+v", c.Err)
	}
	c, a = r.send(beat("unknown", "a", 3))
	r.ForeignChecked(r.now, "unknown", noForeign, errors.New("away"))
	if !a.done || c.Heartbeat.Err == nil || c.Heartbeat.Err.Code != coordinator.UnknownMemberID {
		t.Fatalf("%+v", c.Heartbeat)
	}
	c, a = r.send(&DescribeRequest{GroupID: "unknown"})
	r.ForeignChecked(r.now, "unknown", noForeign, errors.New("away"))
	if d, _ := c.Response.(*streams.Description); !a.done || d == nil || d.Err == nil || d.Err.Message != "Group unknown not found." {
		t.Fatalf("%+v", d)
	}
}

// A join believes only what the upstream said on its behalf: the id may have been taken since.
func TestTheUpstreamIsAskedAgainAfterADeletion(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.send(beat("g", "a", -1))
	r.commitAll()
	c, _ := r.send(&VacateRequest{GroupID: "g"})
	r.commitAll()
	if h, _ := c.Response.(*HoldsResponse); h == nil || h.Held || r.committed.Group("g") != nil {
		t.Fatalf("%+v", c.Response)
	}
	c, a := r.send(join("g", "a"))
	r.ForeignChecked(r.now, "g", consumers, nil)
	if !a.done || c.Heartbeat.Err == nil || c.Heartbeat.Err.Code != coordinator.GroupIDNotFound {
		t.Fatalf("%v %+v", a.done, c.Heartbeat)
	}
}
