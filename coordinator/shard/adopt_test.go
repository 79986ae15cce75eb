package shard

import (
	"errors"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/topology"
)

var brought = topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"in"}}}}

// adopted sends an AdoptRequest; found is what the upstream says if it is asked.
func (r *rig) adopted(epoch int32, t *topology.Topology, found coordinator.ForeignGroup, err error) (*Call, *answer) {
	asked := len(r.foreign)
	c, a := r.send(&AdoptRequest{GroupID: "g", Epoch: epoch, Topology: t})
	if len(r.foreign) > asked {
		r.ForeignChecked(r.now, "g", found, err)
		r.Flush()
	}
	return c, a
}

func adoption(c *Call) *coordinator.Error {
	if c.Err != nil {
		return c.Err
	}
	return c.Response.(*AdoptResponse).Err
}

// The group is there once its records are committed, without members, and goes on from the epoch of before.
func TestAGroupIsAdopted(t *testing.T) {
	r := newRig(t)
	c, a := r.adopted(7, &brought, simple, nil)
	if a.done {
		t.Fatal("told before it is committed")
	}
	r.commitAll()
	if !a.done || adoption(c) != nil {
		t.Fatalf("%v %v", a.done, adoption(c))
	}
	g := r.committed.Group("g")
	if g.NumMembers() != 0 || g.Epoch() != 7 || !g.Topology.Equal(&brought) || g.Marks == nil || g.Marks.EmptySinceMs != r.now {
		t.Fatalf("%+v", g)
	}
	written := len(r.proposed)
	if c, a := r.adopted(7, &brought, simple, nil); !a.done || adoption(c) != nil || len(r.proposed) != written {
		t.Errorf("repeated: %v %v", a.done, adoption(c))
	}
	if c, a := r.adopted(8, &brought, simple, nil); !a.done || adoption(c) == nil || adoption(c).Code != coordinator.InvalidRequest {
		t.Errorf("another one: %v %v", a.done, adoption(c))
	}
	if h := r.joined("g", "a"); h.MemberEpoch != 8 {
		t.Errorf("the first member has epoch %d, want the one after the adopted", h.MemberEpoch)
	}
	if c, a := r.adopted(7, &brought, simple, nil); !a.done || adoption(c) == nil {
		t.Errorf("with a member: %v %v", a.done, adoption(c))
	}
}

// A classic group has neither epoch nor topology: the first member brings them, as to a group that is new.
func TestAGroupWithoutATopologyIsAdopted(t *testing.T) {
	r := newRig(t)
	c, a := r.adopted(0, nil, simple, nil)
	r.commitAll()
	if g := r.committed.Group("g"); !a.done || adoption(c) != nil || g == nil || g.Topology != nil {
		t.Fatalf("%v %v", a.done, adoption(c))
	}
	fresh := newRig(t)
	if got, want := r.joined("g", "a").MemberEpoch, fresh.joined("g", "a").MemberEpoch; got != want {
		t.Errorf("the first member has epoch %d, want %d as in a new group", got, want)
	}
}

// Nothing is made while the id is in use upstream, or while that is not known.
func TestAGroupInUseIsNotAdopted(t *testing.T) {
	for _, c := range []struct {
		found coordinator.ForeignGroup
		err   error
		want  coordinator.Code
	}{
		{coordinator.ForeignGroup{Type: "consumer", InUse: true}, nil, coordinator.GroupIDNotFound},
		{coordinator.ForeignGroup{Type: "streams", InUse: true}, nil, coordinator.GroupIDNotFound},
		{noForeign, errors.New("away"), coordinator.CoordinatorNotAvailable},
	} {
		r := newRig(t)
		call, a := r.adopted(3, &brought, c.found, c.err)
		r.commitAll()
		if err := adoption(call); !a.done || err == nil || err.Code != c.want || r.committed.Group("g") != nil {
			t.Errorf("%+v: %v", c.found, err)
		}
	}
}

// An application that went back to the Kafka behind, and runs there, is not joined by instances that come here: nothing but the
// empty group of before is left of it here.
func TestTheFirstMemberOfAnEmptyGroupIsRefusedWhileItRunsUpstream(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	for _, found := range []coordinator.ForeignGroup{{Type: "consumer", InUse: true}, {Type: "streams", InUse: true}} {
		c, a := r.send(join("g", "b"))
		r.ForeignChecked(r.now, "g", found, nil)
		r.Flush()
		r.commitAll()
		if !a.done || c.Heartbeat.Err == nil || c.Heartbeat.Err.Code != coordinator.GroupIDNotFound || r.committed.Group("g").NumMembers() > 0 {
			t.Fatalf("%+v: %v %+v", found, a.done, c.Heartbeat)
		}
	}
	// A broker that does not answer keeps nobody from a group that is there.
	c, a := r.send(join("g", "b"))
	r.ForeignChecked(r.now, "g", noForeign, errors.New("away"))
	r.Flush()
	r.commitAll()
	if !a.done || c.Err != nil || c.Heartbeat.Err != nil || r.committed.Group("g").NumMembers() != 1 {
		t.Fatalf("without the upstream's word: %v %v %v", a.done, c.Err, c.Heartbeat.Err)
	}
	asked := len(r.foreign)
	r.joined("g", "c") // a group with members has its membership upstream
	if len(r.foreign) != asked {
		t.Error("the upstream is asked before every join")
	}
}
