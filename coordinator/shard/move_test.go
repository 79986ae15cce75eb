package shard

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/fsm/record"
)

func TestOffsetsMoveToTheLogAndBack(t *testing.T) {
	s := newStoreRig(t, record.StoreUpstream)
	s.empty()
	s.committedBy(tool(0, 7))
	s.committedBy(tool(3, 9))
	want := offsets.Copy{in(0): byTool(7), in(3): byTool(9)}

	c, a := s.moves(record.StoreRaft)
	did := s.settles()
	if r := moved(t, c, a); r != (MoveOffsetsResponse{From: record.StoreUpstream, Moved: true, Offsets: 2}) || did != "fetch fetch drop" {
		t.Errorf("%+v, by %s", r, did)
	}
	if s.committed.Group("g").Store() != record.StoreRaft || !maps.Equal(s.logged(), want) || len(s.up) > 0 {
		t.Errorf("log %v, upstream %v", s.logged(), s.up)
	}
	s.committedBy(tool(3, 10))
	want[in(3)] = byTool(10)
	s.up[in(1)] = offsets.Copied{Offset: 99} // what somebody left there

	c, a = s.moves(record.StoreUpstream)
	did = s.settles()
	if r := moved(t, c, a); r != (MoveOffsetsResponse{From: record.StoreRaft, Moved: true, Offsets: 2}) || did != "drop commit fetch" {
		t.Errorf("%+v, by %s", r, did)
	}
	if s.committed.Group("g").Store() != record.StoreUpstream || !maps.Equal(s.up, want) || len(s.logged()) > 0 {
		t.Errorf("log %v, upstream %v", s.logged(), s.up)
	}
	for to, does := range map[record.Store]string{record.StoreUpstream: ""} { // it is there already
		c, a = s.moves(to)
		if did := s.settles(); moved(t, c, a) != (MoveOffsetsResponse{From: to, Moved: true}) || did != does {
			t.Errorf("to %v again: %s", to, did)
		}
	}
	var told []OffsetsMoved
	for _, e := range s.events {
		if e.Moved != nil {
			told = append(told, *e.Moved)
		}
	}
	if !slices.Equal(told, []OffsetsMoved{{record.StoreUpstream, record.StoreRaft, 2, 0}, {record.StoreRaft, record.StoreUpstream, 2, 0}}) {
		t.Errorf("told of %+v", told)
	}
}

// An offset is left out only where the upstream and the picture of the topics both say that its partition does not exist.
func TestAMoveUpstreamLeavesOutWhatIsGone(t *testing.T) {
	for _, shown := range []bool{true, false} {
		for _, unknown := range []bool{true, false} {
			s := newStoreRig(t, record.StoreRaft)
			s.empty()
			s.committedBy(tool(0, 7))
			s.committedBy(tool(3, 9))
			s.unknown = map[offsets.TopicPartition]bool{in(3): unknown}
			s.now++
			if !shown {
				s.topics["in"] = 3
			}
			s.freshProof()
			c, a := s.moves(record.StoreUpstream)
			s.settles()
			r := moved(t, c, a)
			want := offsets.Copy{in(0): byTool(7), in(3): byTool(9)}
			switch {
			case unknown && shown:
				if r.Err == nil || r.Err.Code != coordinator.CoordinatorNotAvailable || s.committed.Group("g").NumOffsets() != 2 {
					t.Errorf("one of the two lags: %+v", r)
				}
				continue
			case unknown:
				delete(want, in(3))
			}
			if r.Err != nil || r.Left != 2-len(want) || r.Offsets != len(want) || !maps.Equal(want, s.up) {
				t.Errorf("shown %v, unknown %v: %+v, upstream %v", shown, unknown, r, s.up)
			}
		}
	}
}

// Commits of a move that are too large upstream go there in halves.
func TestAMoveUpstreamOfTooMany(t *testing.T) {
	s := newStoreRig(t, record.StoreRaft)
	s.empty()
	want := offsets.Copy{}
	for p := range int32(4) {
		s.committedBy(tool(p, int64(p)))
		want[in(p)] = byTool(int64(p))
	}
	s.most = 1
	c, a := s.moves(record.StoreUpstream)
	did := s.settles()
	if r := moved(t, c, a); r.Err != nil || r.Offsets != 4 || r.Left != 0 || !maps.Equal(want, s.up) || strings.Count(did, "commit") != 7 {
		t.Errorf("%+v, upstream %v: %s", r, s.up, did)
	}
}

// What a move that was cut short left upstream is deleted by the next one: a later group of that id would else take it for its own.
func TestAMoveThatWasCutShortIsCleanedUp(t *testing.T) {
	s := newStoreRig(t, record.StoreRaft)
	s.empty()
	s.committedBy(tool(0, 7))
	s.up[in(0)] = offsets.Copied{Offset: 3}
	c, a := s.moves(record.StoreRaft)
	if did := s.settles(); moved(t, c, a) != (MoveOffsetsResponse{From: record.StoreRaft, Moved: true}) || did != "drop" || len(s.up) > 0 || s.logged()[in(0)].Offset != 7 {
		t.Errorf("by %s, log %v, upstream %v", did, s.logged(), s.up)
	}

	s = newStoreRig(t, record.StoreUpstream)
	s.empty()
	s.committedBy(tool(0, 7))
	stale := s.world()
	old, err := s.durable.EvolveAll(offsets.Copy{in(2): {Offset: 1}}.Records(s.committed.Group("g"), &stale, 10)[0])
	if err != nil {
		t.Fatal(err)
	}
	s.durable = old
	s.leads()
	c, a = s.moves(record.StoreUpstream)
	if did := s.settles(); moved(t, c, a) != (MoveOffsetsResponse{From: record.StoreUpstream, Moved: true}) || did != "" || len(s.logged()) > 0 {
		t.Errorf("by %s, log %v", did, s.logged())
	}
	s.durable = old
	s.leads()
	c, a = s.moves(record.StoreRaft)
	s.settles()
	if r := moved(t, c, a); r.Err != nil || !maps.Equal(s.logged(), offsets.Copy{in(0): byTool(7)}) {
		t.Errorf("%+v, log %v", r, s.logged())
	}
}

func TestMovesThatAreRefused(t *testing.T) {
	s := newStoreRig(t, record.StoreUpstream)
	refused := func(what string, code coordinator.Code, says string) {
		t.Helper()
		c, a := s.moves(record.StoreRaft)
		s.settles()
		if r := moved(t, c, a); r.Err == nil || r.Err.Code != code || !strings.Contains(r.Err.Message, says) || r.Moved {
			t.Errorf("%s: %+v", what, r.Err)
		}
		if g := s.committed.Group("g"); g != nil && (g.Store() != record.StoreUpstream || s.groups["g"].deleting != 0) {
			t.Errorf("%s: something is left", what)
		}
	}
	refused("no group", coordinator.GroupIDNotFound, "g not found")
	s.send(join("g", "a"))
	s.settles()
	refused("a member", coordinator.NonEmptyGroup, "has members (1)")
	s.send(beat("g", "a", -1))
	s.settles()

	c, a := s.moves(record.StoreRaft)
	s.ForeignChecked(s.now, "g", consumers, nil)
	s.Flush()
	if r := moved(t, c, a); r.Err == nil || r.Err.Code != coordinator.InvalidRequest || !strings.Contains(r.Err.Message, "consumer") {
		t.Errorf("another group upstream: %+v", r)
	}
	s.unstable[in(1)] = true // a partition without an offset so far
	refused("an open transaction", coordinator.CoordinatorNotAvailable, "A transaction of the app is open on partition 1 of topic in")
	delete(s.unstable, in(1))

	s.Lost(s.now)
	s.leads()
	s.now -= moveAfterMs
	refused("soon after an election", coordinator.CoordinatorLoadInProgress, "10000 ms")
}

// What a leader before asked the upstream for may arrive after what the next one has done there: it waits until that is over. The deletion
// of a move that began in the other direction would take along what was just brought there.
func TestOffsetsAreNotMovedOrDeletedSoonAfterAnElection(t *testing.T) {
	for from, to := range map[record.Store]record.Store{record.StoreRaft: record.StoreUpstream, record.StoreUpstream: record.StoreRaft} {
		s := newStoreRig(t, from)
		s.empty()
		s.committedBy(tool(0, 7))
		s.Lost(s.now)
		s.leads()
		s.now -= 1
		s.freshProof()
		c, a := s.moves(to)
		did := s.settles()
		if r := moved(t, c, a); r.Err == nil || r.Err.Code != coordinator.CoordinatorLoadInProgress || r.Moved || did != "" {
			t.Errorf("to %v: %+v, by %s", to, r, did)
		}
		request := any(&VacateRequest{GroupID: "g"})
		if from == record.StoreUpstream {
			request = &DeleteGroupRequest{GroupID: "g"}
		}
		c, a = s.send(request)
		if did := s.settles(); !a.done || c.Err == nil || c.Err.Code != coordinator.CoordinatorNotAvailable || did != "" {
			t.Errorf("%T in store %v: %v %v, by %s", request, from, a.done, c.Err, did)
		}
		s.now++
		s.freshProof()
		if c, a = s.send(request); s.settles() == "" || !a.done || c.Err != nil || s.committed.Group("g") != nil {
			t.Errorf("%T in store %v: %v %v", request, from, a.done, c.Err)
		}
	}
	s := newStoreRig(t, record.StoreUpstream)
	s.now -= moveAfterMs
	s.freshProof()
	s.empty()
	if c, a := s.send(&DeleteGroupRequest{GroupID: "g"}); s.settles() != "drop" || !a.done || c.Err != nil {
		t.Errorf("a group that no leader before had: %v %v", a.done, c.Err)
	}
}

// The next leader may have moved the offsets to the log while the one before was away: what the upstream says to that one counts no more.
func TestALeadershipThatIsOverTellsNothingOfTheUpstream(t *testing.T) {
	for _, request := range []any{tool(0, 8), fetch("g", offsets.FetchTopic{Name: "in", Partitions: []int32{0}}), &DeleteGroupRequest{GroupID: "g"},
		&offsets.DeleteRequest{GroupID: "g", Topics: []offsets.FetchTopic{{Name: "in", Partitions: []int32{0}}}}} {
		for _, again := range []bool{false, true} {
			s := newStoreRig(t, record.StoreUpstream)
			s.empty()
			s.committedBy(tool(0, 7))
			c, a := s.send(request)
			if len(s.waiting) != 1 || a.done {
				t.Fatalf("%T: %v", request, s.waiting)
			}
			s.Lost(s.now)
			if again {
				s.leads()
			}
			s.happens(false)
			if a.n != 1 || c.Err == nil || c.Err.Code != coordinator.NotCoordinator {
				t.Errorf("%T, leads again: %v: %d answers, %v %v", request, again, a.n, c.Err, c.Response)
			}
		}
	}
}

// Where a broker does not answer nobody knows whose the id is upstream: a consumer group without members would lose its offsets.
func TestAMoveNeedsTheUpstreamsWord(t *testing.T) {
	for from, to := range map[record.Store]record.Store{record.StoreRaft: record.StoreUpstream, record.StoreUpstream: record.StoreRaft} {
		s := newStoreRig(t, from)
		s.empty()
		s.committedBy(tool(0, 7))
		for _, to := range []record.Store{to, from} { // to clean up there is also to delete
			c, a := s.moves(to)
			s.ForeignChecked(s.now, "g", coordinator.ForeignGroup{}, errors.New("a broker does not answer"))
			s.Flush()
			if !a.done || c.Err == nil || c.Err.Code != coordinator.CoordinatorNotAvailable || len(s.waiting) > 0 || s.inflight != nil {
				t.Errorf("from %v to %v: %v %v, the upstream is asked to %v", from, to, a.done, c.Err, s.waiting)
			}
		}
		c, a := s.moves(to)
		s.settles()
		if r := moved(t, c, a); r.Err != nil || !r.Moved || r.Offsets != 1 {
			t.Errorf("again: %+v", r)
		}
	}
}

// What somebody commits directly to the cluster behind while offsets are copied ends the move: the copy is not what was there.
func TestACopyThatDiffersDoesNotCount(t *testing.T) {
	for _, to := range []record.Store{record.StoreRaft, record.StoreUpstream} {
		from := record.StoreRaft + record.StoreUpstream - to
		s := newStoreRig(t, from)
		s.empty()
		s.committedBy(tool(0, 7))
		c, a := s.moves(to)
		for !a.done {
			switch {
			case len(s.waiting) > 0 && s.waiting[0].what == "fetch" && (to == record.StoreUpstream || len(s.logged()) > 0):
				s.up[in(0)] = offsets.Copied{Offset: 8}
				s.settles()
			case len(s.waiting) > 0:
				s.happens(false)
			case s.inflight != nil:
				s.entry()
			default:
				s.ForeignChecked(s.now, "g", noForeign, nil)
				s.Flush()
			}
		}
		if r := moved(t, c, a); r.Err == nil || r.Moved || !strings.Contains(r.Err.Message, "The copy of partition 0 of topic in differs") {
			t.Errorf("to %v: %+v", to, r)
		}
		if s.committed.Group("g").Store() != from {
			t.Errorf("to %v: the copy counts", to)
		}
		c, a = s.moves(to)
		s.settles()
		want := map[record.Store]int64{record.StoreRaft: 8, record.StoreUpstream: 7}[to] // of what counts, in its place
		kept := s.up
		if to == record.StoreRaft {
			kept = s.logged()
		}
		if r := moved(t, c, a); r.Err != nil || kept[in(0)].Offset != want {
			t.Errorf("to %v again: %+v, %v", to, r, kept)
		}
	}
}

// Nobody joins or commits between two places, and what is under way is waited for.
func TestWhoComesDuringAMoveWaits(t *testing.T) {
	s := newStoreRig(t, record.StoreUpstream)
	s.empty()
	s.committedBy(tool(0, 7))
	early, earlyAnswer := s.send(tool(0, 8))
	c, a := s.moves(record.StoreRaft)
	if len(s.Machine.foreign) > 0 {
		s.ForeignChecked(s.now, "g", noForeign, nil)
		s.Flush()
	}
	if len(s.waiting) != 1 || s.waiting[0].what != "commit" {
		t.Fatalf("%+v", s.waiting)
	}
	s.happens(false)
	if !earlyAnswer.done || codes(early)[0] != coordinator.None || len(s.waiting) != 1 || s.waiting[0].what != "fetch" {
		t.Fatalf("%v %+v", earlyAnswer.done, s.waiting)
	}
	late, lateAnswer := s.send(tool(1, 5))
	second, secondAnswer := s.moves(record.StoreRaft)
	gone, goneAnswer := s.send(&DeleteGroupRequest{GroupID: "g"})
	joiner, joined := s.send(join("g", "b"))
	if lateAnswer.done || joined.done || secondAnswer.done || goneAnswer.done {
		t.Fatal("decided between two places")
	}
	s.settles()
	if r := moved(t, c, a); r.Err != nil || r.Offsets != 1 {
		t.Errorf("%+v", r)
	}
	if !lateAnswer.done || !joined.done || joiner.Heartbeat.Err != nil || late.Err != nil || codes(late)[0] != coordinator.None {
		t.Errorf("%v %v %v", lateAnswer.done, joined.done, codes(late))
	}
	if r := moved(t, second, secondAnswer); r.Err != nil && r.Err.Code != coordinator.NonEmptyGroup && r.Err.Code != coordinator.GroupIDNotFound {
		t.Errorf("%+v", r)
	}
	if !goneAnswer.done || gone.Err != nil {
		t.Errorf("%v %v", goneAnswer.done, gone.Err)
	}
}

// TestMovesLoseNoOffset moves offsets back and forth while operations fail, leaders change and tools commit and delete. At
// the end the offsets of the store that counts are those that were acknowledged last.
func TestMovesLoseNoOffset(t *testing.T) {
	test := t
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.SampledFrom([]record.Store{record.StoreUpstream, record.StoreRaft}).Draw(t, "store")
		s := newStoreRig(test, start)
		s.empty()
		possible := map[int32]map[int64]bool{} // by partition; -1: none
		for p := range int32(4) {
			possible[p] = map[int64]bool{-1: true}
		}
		type change struct {
			c         *Call
			a         *answer
			partition int32
			offset    int64
		}
		var open []change
		heard := func() {
			open = slices.DeleteFunc(open, func(ch change) bool {
				if !ch.a.done {
					return false
				}
				done := ch.c.Err == nil
				switch r := ch.c.Response.(type) {
				case *offsets.CommitResponse:
					done = done && codes(ch.c)[0] == coordinator.None
				case *offsets.DeleteResponse:
					done = done && r.Err == nil
				}
				if done {
					clear(possible[ch.partition])
				}
				possible[ch.partition][ch.offset] = true
				return true
			})
		}
		next := int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
			case step <= 1:
				s.moves(rapid.SampledFrom([]record.Store{record.StoreUpstream, record.StoreRaft}).Draw(t, "to"))
			case step == 2 && len(open) == 0: // one at a time: it is clear which one is the last
				p := rapid.Int32Range(0, 3).Draw(t, "partition")
				next++
				c, a := s.send(tool(p, next))
				open = append(open, change{c, a, p, next})
			case step == 3 && len(open) == 0:
				p := rapid.Int32Range(0, 3).Draw(t, "partition")
				c, a := s.send(&offsets.DeleteRequest{GroupID: "g", Topics: []offsets.FetchTopic{{Name: "in", Partitions: []int32{p}}}})
				open = append(open, change{c, a, p, -1})
			case step <= 5 && s.inflight != nil:
				s.entry()
			case step <= 7 && len(s.waiting) > 0:
				i := rapid.IntRange(0, len(s.waiting)-1).Draw(t, "which")
				if s.waiting[i].what != "fetch" { // what changes offsets keeps its order; reads overtake it
					i = slices.IndexFunc(s.waiting, func(op upstreamOp) bool { return op.what != "fetch" })
				}
				s.happensAt(i, rapid.IntRange(0, 4).Draw(t, "fails") == 0)
			case step == 8:
				s.changeLeader(t)
			case len(s.Machine.foreign) > 0:
				s.ForeignChecked(s.now, "g", coordinator.ForeignGroup{Offsets: len(s.up) > 0}, nil)
				s.Flush()
			}
			heard()
		}
		s.settles()
		heard()
		if len(open) > 0 {
			t.Fatalf("no answer to %+v", open)
		}
		s.check(t, possible, "as it is")
		if rapid.Bool().Draw(t, "deleted") {
			c, a := s.send(&DeleteGroupRequest{GroupID: "g"})
			s.settles()
			if !a.done || c.Err != nil || s.committed.Group("g") != nil || len(s.up) > 0 {
				t.Fatalf("deleted: %v %v, left upstream: %v", a.done, c.Err, s.up)
			}
			return
		}
		for _, to := range []record.Store{record.StoreRaft, record.StoreUpstream} {
			c, a := s.moves(to)
			s.settles()
			if r, _ := c.Response.(*MoveOffsetsResponse); !a.done || r == nil || r.Err != nil {
				t.Fatalf("to %v: %v %v %+v", to, a.done, c.Err, r)
			}
			s.check(t, possible, "moved to "+to.String())
			if left := map[record.Store]int{record.StoreRaft: len(s.up), record.StoreUpstream: len(s.logged())}[to]; left > 0 {
				t.Fatalf("%d offsets are left in the old place", left)
			}
		}
	})
}

// changeLeader ends the leadership and begins the next. What the log had in flight is there or not, and what the upstream works on
// happens late, is lost, or was done and not answered.
func (s *storeRig) changeLeader(t *rapid.T) {
	if s.inflight != nil && rapid.Bool().Draw(t, "logged") {
		var err error
		if s.durable, err = s.durable.EvolveAll(s.proposed[len(s.proposed)-1].Records); err != nil {
			t.Fatal(err)
		}
	}
	s.Lost(s.now)
	for len(s.waiting) > 0 {
		if rapid.Bool().Draw(t, "arrives") {
			s.happens(false)
		} else {
			s.happens(true)
		}
	}
	s.releases, s.claims = nil, nil
	s.leads()
}

func (s *storeRig) check(t *rapid.T, possible map[int32]map[int64]bool, what string) {
	g := s.committed.Group("g")
	kept := s.up
	if g.Store() == record.StoreRaft {
		kept = s.logged()
	}
	for p, values := range possible {
		offset := int64(-1)
		if o, ok := kept[in(p)]; ok {
			offset = o.Offset
		}
		if !values[offset] {
			t.Fatalf("%s, in store %v: partition %d has the offset %d, possible are %v", what, g.Store(), p, offset, values)
		}
	}
}
