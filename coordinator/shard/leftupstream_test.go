package shard

import (
	"errors"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/fsm/record"
)

// cutShort has the group "g" in the log with 1000 for partition 0, while a move has left 7 upstream.
func cutShort(t *testing.T) *storeRig {
	t.Helper()
	s := newStoreRig(t, record.StoreUpstream)
	s.empty()
	s.committedBy(tool(0, 7))
	c, a := s.moves(record.StoreRaft)
	for !a.done {
		switch {
		case s.inflight != nil:
			s.entry()
		case len(s.waiting) > 0:
			s.happens(s.waiting[0].what == "drop")
		default:
			s.ForeignChecked(s.now, "g", coordinator.ForeignGroup{Offsets: true}, nil)
			s.Flush()
		}
	}
	if r := moved(t, c, a); !r.Moved || r.Err == nil {
		t.Fatalf("%+v", r)
	}
	s.committedBy(tool(0, 1000))
	s.Lost(s.now) // what is left must be known to the next leader
	s.leads()
	return s
}

// A group that is deleted takes along what a move that was cut short left upstream: one of that id that is made again would go on from there.
func TestDeletingAGroupCleansUpAfterAMove(t *testing.T) {
	deleted := func(s *storeRig, did string) {
		t.Helper()
		c, a := s.send(&DeleteGroupRequest{GroupID: "g"})
		if got := s.settles(); !a.done || c.Err != nil || s.committed.Group("g") != nil || len(s.up) > 0 || got != did {
			t.Errorf("%v %v, by %s, upstream %v", a.done, c.Err, got, s.up)
		}
	}
	s := cutShort(t)
	for _, fails := range []string{"nobody knows whose it is", "it cannot be deleted"} {
		c, a := s.send(&DeleteGroupRequest{GroupID: "g"})
		if fails == "it cannot be deleted" {
			s.ForeignChecked(s.now, "g", coordinator.ForeignGroup{Offsets: true}, nil)
			s.Flush()
			s.happens(true)
		} else {
			s.ForeignChecked(s.now, "g", coordinator.ForeignGroup{}, errors.New("a broker does not answer"))
			s.Flush()
		}
		if !a.done || c.Err == nil || c.Err.Code != coordinator.CoordinatorNotAvailable || s.committed.Group("g") == nil || len(s.waiting) > 0 {
			t.Errorf("%s: %v %v %v", fails, a.done, c.Err, s.waiting)
		}
	}
	deleted(s, "drop")

	s = cutShort(t) // another group has the id there by now: what it has is its own
	c, a := s.send(&DeleteGroupRequest{GroupID: "g"})
	s.ForeignChecked(s.now, "g", consumers, nil)
	s.Flush()
	if did := s.settles(); !a.done || c.Err != nil || s.committed.Group("g") != nil || did != "" {
		t.Errorf("%v %v, by %s", a.done, c.Err, did)
	}

	s = cutShort(t)
	s.moves(record.StoreRaft)
	s.settles()
	deleted(s, "") // nothing is left any more

	s = newStoreRig(t, record.StoreRaft) // on the way back
	s.empty()
	s.committedBy(tool(0, 7))
	s.moves(record.StoreUpstream)
	for len(s.up) == 0 {
		switch {
		case s.inflight != nil:
			s.entry()
		case len(s.waiting) > 0:
			s.happens(false)
		default:
			s.ForeignChecked(s.now, "g", coordinator.ForeignGroup{}, nil)
			s.Flush()
		}
	}
	s.Lost(s.now)
	s.waiting = nil
	s.leads()
	deleted(s, "drop")
}

// So does one that goes for its age.
func TestAGroupThatExpiresCleansUpAfterAMove(t *testing.T) {
	s := cutShort(t)
	looks := func() {
		s.now += s.options.RetentionMs + s.options.RetentionCheckMs
		s.freshProof()
		s.Tick(s.now)
		s.Flush()
	}
	looks() // deletes the offsets in the log
	s.settles()
	for range 3 { // the upstream is away
		looks()
		for len(s.waiting) > 0 || s.inflight != nil || len(s.Machine.foreign) > 0 {
			switch {
			case len(s.waiting) > 0:
				s.happens(true)
			case s.inflight != nil:
				s.entry()
			default:
				s.ForeignChecked(s.now, "g", coordinator.ForeignGroup{Offsets: true}, nil)
				s.Flush()
			}
		}
	}
	if s.committed.Group("g") == nil || len(s.up) == 0 {
		t.Fatalf("gone, upstream %v", s.up)
	}
	looks()
	if did := s.settles(); s.committed.Group("g") != nil || len(s.up) > 0 || did != "drop" {
		t.Errorf("by %s, upstream %v", did, s.up)
	}
}

// And one that makes room for a classic group brings there what is in the log, and nothing that was deleted since.
func TestAGroupThatMakesRoomCleansUpAfterAMove(t *testing.T) {
	s := newStoreRig(t, record.StoreRaft)
	s.empty()
	s.committedBy(tool(0, 7))
	s.committedBy(tool(1, 8))
	s.send(&VacateRequest{GroupID: "g"})
	s.entry()
	if did := s.happens(false); did != "commit" || len(s.up) != 2 || s.inflight == nil {
		t.Fatalf("%s, upstream %v", did, s.up)
	}
	s.Lost(s.now) // the deletion does not come to the log
	s.leads()
	s.send(&offsets.DeleteRequest{GroupID: "g", Topics: []offsets.FetchTopic{{Name: "in", Partitions: []int32{1}}}})
	s.settles()
	c, a := s.send(&VacateRequest{GroupID: "g"})
	did := s.settles()
	if _, left := s.up[in(1)]; !a.done || c.Err != nil || s.committed.Group("g") != nil || did != "drop commit" || left || s.up[in(0)] != byTool(7) {
		t.Errorf("%v %v, by %s, upstream %v", a.done, c.Err, did, s.up)
	}
}
