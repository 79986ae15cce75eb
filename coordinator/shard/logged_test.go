package shard

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm/record"
)

// newLogRig is a machine whose new groups keep their offsets in the log.
func newLogRig(t testing.TB) *rig {
	r := newRig(t)
	r.options.Store = record.StoreRaft
	return r
}

// codes are the codes of a commit's answer, in order.
func codes(c *Call) []coordinator.Code {
	var codes []coordinator.Code
	if r, ok := c.Response.(*offsets.CommitResponse); ok {
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				codes = append(codes, p.Code)
			}
		}
	}
	return codes
}

func fetch(group string, topics ...offsets.FetchTopic) *offsets.FetchRequest {
	return &offsets.FetchRequest{Version: 9, GroupID: group, MemberEpoch: -1, Topics: topics}
}

// fetched are the offsets that a fetch of partition 0 to 3 of "in" without a member is told at once.
func (r *rig) fetched(group string) [4]int64 {
	r.t.Helper()
	c, a := r.send(fetch(group, offsets.FetchTopic{Name: "in", Partitions: []int32{0, 1, 2, 3}}))
	if !a.done || c.Err != nil {
		r.t.Fatalf("answered %v, %v", a.done, c.Err)
	}
	var out [4]int64
	for _, p := range c.Response.(*offsets.FetchResponse).Topics[0].Partitions {
		out[p.Partition] = p.Offset
	}
	return out
}

func (r *rig) quiet(what string) {
	r.t.Helper()
	if len(r.ops)+len(r.commits)+len(r.claims)+len(r.releases)+len(r.drops) != 0 {
		r.t.Errorf("%s went upstream: %d operations, claims %v, releases %v", what, len(r.ops), r.claims, r.releases)
	}
}

// A commit is answered when it is committed, and read from then on; nothing of it goes upstream.
func TestACommitIsARecordOfTheLog(t *testing.T) {
	r := newLogRig(t)
	h := r.joined("g", "a")
	if s := r.committed.Group("g").Store(); s != record.StoreRaft {
		t.Fatalf("store %v", s)
	}
	c, a := r.send(commit("g", "a", h.MemberEpoch))
	if a.done {
		t.Fatal("acknowledged before it is committed")
	}
	f, read := r.send(fetch("g", offsets.FetchTopic{Name: "in", Partitions: []int32{0}}))
	if read.done {
		t.Fatal("read before it is committed")
	}
	r.commitAll()
	if !a.done || c.Err != nil || !cmp.Equal(codes(c), []coordinator.Code{0}) {
		t.Fatalf("%v %v %v", a.done, c.Err, codes(c))
	}
	if got := f.Response.(*offsets.FetchResponse).Topics[0].Partitions[0].Offset; !read.done || got != 7 {
		t.Errorf("read %v, offset %d", read.done, got)
	}
	if got := r.fetched("g"); got != [4]int64{7, -1, -1, -1} {
		t.Errorf("%v", got)
	}
	r.now += 10 * claimAfterMs // no membership is due
	r.freshProof()
	r.Tick(r.now)
	r.quiet("a commit")
}

// What takes a task from a member and a commit of that member are ordered by the log: no commit of a member that left in the same
// entry is taken after that.
func TestACommitIsJudgedByWhatTheLogSaysBeforeIt(t *testing.T) {
	r := newLogRig(t)
	h := r.joined("g", "a")
	r.joined("other", "x") // settles what is in flight
	send := func(request any) (*Call, *answer) {
		a := &answer{}
		c := &Call{Client: client, Request: request, Done: a}
		r.Submit(r.now, c)
		return c, a
	}
	before, _ := send(commit("g", "a", h.MemberEpoch))
	_, left := send(beat("g", "a", streams.LeaveEpoch))
	after, a := send(commit("g", "a", h.MemberEpoch))
	if a.done {
		t.Fatal("answered by what is not committed")
	}
	r.Flush()
	if len(r.proposed) == 0 || r.inflight == nil {
		t.Fatal("nothing proposed")
	}
	r.commitAll()
	if !left.done || !cmp.Equal(codes(before), []coordinator.Code{0}) || !cmp.Equal(codes(after), []coordinator.Code{coordinator.UnknownMemberID}) {
		t.Errorf("left %v, %v, %v", left.done, codes(before), codes(after))
	}
	if got := r.fetched("g"); got[0] != 7 {
		t.Errorf("%v", got)
	}
}

// A leader that is none any more tells nobody that a commit succeeded: what it proposed may never be committed.
func TestACommitOfALostLeadershipIsNotAcknowledged(t *testing.T) {
	r := newLogRig(t)
	h := r.joined("g", "a")
	c, a := r.send(commit("g", "a", h.MemberEpoch))
	later, b := r.send(commit("g", "a", h.MemberEpoch))
	id := r.inflight.id
	r.Lost(r.now)
	r.Committed(r.now, id)
	if !a.done || c.Err == nil || c.Err.Code != coordinator.NotCoordinator || c.Err.NotStarted {
		t.Errorf("%v %v", a.done, c.Err)
	}
	if !b.done || later.Err == nil || !later.Err.NotStarted {
		t.Errorf("%v %v", b.done, later.Err)
	}
}

// A proposal that Raft refused is decided anew.
func TestACommitWhoseProposalIsRefusedIsDecidedAgain(t *testing.T) {
	r := newLogRig(t)
	h := r.joined("g", "a")
	c, a := r.send(commit("g", "a", h.MemberEpoch))
	r.ProposalFailed(r.now, r.inflight.id, true)
	r.now += retryProposalMs
	r.freshProof()
	r.Tick(r.now)
	r.Flush()
	r.commitAll()
	if a.n != 1 || !cmp.Equal(codes(c), []coordinator.Code{0}) || r.fetched("g")[0] != 7 {
		t.Errorf("%d answers, %v", a.n, codes(c))
	}
}

// Fencing is the same as for offsets upstream, and what does not exist is refused here: nobody else looks.
func TestCommitsToTheLogAreFenced(t *testing.T) {
	r := newLogRig(t)
	h := r.joined("g", "a")
	for what, test := range map[string]struct {
		request *offsets.CommitRequest
		want    coordinator.Code
	}{
		"a stranger":         {commit("g", "b", h.MemberEpoch), coordinator.UnknownMemberID},
		"no member":          {commit("g", "", -1), coordinator.UnknownMemberID},
		"a later epoch":      {commit("g", "a", h.MemberEpoch+1), coordinator.StaleMemberEpoch},
		"before the task":    {commit("g", "a", h.MemberEpoch-1), coordinator.StaleMemberEpoch},
		"no such partition":  {partition(commit("g", "a", h.MemberEpoch), 4), coordinator.UnknownTopicOrPartition},
		"of a stranger":      {partition(commit("g", "b", h.MemberEpoch), 4), coordinator.UnknownTopicOrPartition},
		"negative partition": {partition(commit("g", "a", h.MemberEpoch), -1), coordinator.UnknownTopicOrPartition},
	} {
		c, a := r.send(test.request)
		if !a.done || !cmp.Equal(codes(c), []coordinator.Code{test.want}) {
			t.Errorf("%s: %v, %v, want %d", what, a.done, codes(c), test.want)
		}
	}
	if r.committed.Group("g").NumOffsets() != 0 {
		t.Error("something was committed")
	}
}

func partition(r *offsets.CommitRequest, p int32) *offsets.CommitRequest {
	r.Topics[0].Partitions[0].Partition = p
	return r
}

// While nothing is known of the topics it is not known what may be committed.
func TestCommitsWaitForTheFirstPictureOfTheTopics(t *testing.T) {
	r := newLogRig(t)
	h := r.joined("g", "a")
	r.topics, r.changes = topics{}, 0
	if c, a := r.send(commit("g", "a", h.MemberEpoch)); !a.done || c.Err != loading {
		t.Errorf("%v %v", a.done, c.Err)
	}
}

// A transaction cannot be completed here: the answer ends the producer, and the log says what to do.
func TestATransactionalCommitToTheLogIsRefused(t *testing.T) {
	r := newLogRig(t)
	h := r.joined("g", "a")
	request := commit("g", "a", h.MemberEpoch)
	request.Transactional = true
	c, a := r.send(request)
	if !a.done || !cmp.Equal(codes(c), []coordinator.Code{coordinator.UnsupportedForMessageFormat}) {
		t.Errorf("%v %v", a.done, codes(c))
	}
	if last := r.events[len(r.events)-1]; !last.Transactional || last.Group != "g" {
		t.Errorf("%+v", last)
	}
}

// Offsets that there are upstream under a new group's id stay in use.
func TestAGroupWithOffsetsUpstreamKeepsThemThere(t *testing.T) {
	r := newLogRig(t)
	_, a := r.send(join("g", "a"))
	r.ForeignChecked(r.now, "g", simple, nil)
	r.Flush()
	r.commitAll()
	if !a.done || r.committed.Group("g").Store() != record.StoreUpstream {
		t.Fatalf("joined %v, store %v", a.done, r.committed.Group("g").Store())
	}
	told := 0
	for _, e := range r.events {
		if e.Kept {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}

// The setting is for new groups only.
func TestAGroupKeepsItsStore(t *testing.T) {
	r := newRig(t)
	r.joined("old", "a")
	r.options.Store = record.StoreRaft
	r.joined("old", "b")
	r.joined("new", "a")
	r.options.Store = record.StoreUpstream
	r.joined("new", "b")
	if o, n := r.committed.Group("old").Store(), r.committed.Group("new").Store(); o != record.StoreUpstream || n != record.StoreRaft {
		t.Errorf("%v %v", o, n)
	}
}

// Offsets are deleted by tombstones, those of topics that members read are not, and a group goes with all of its own.
func TestOffsetsInTheLogAreDeleted(t *testing.T) {
	r := newLogRig(t)
	r.topics["unread"] = 1
	h := r.joined("g", "a")
	request := commit("g", "a", h.MemberEpoch)
	request.Topics = append(request.Topics, offsets.CommitTopic{Name: "unread", Partitions: []offsets.CommitPartition{{Offset: 9}}})
	r.send(request)
	r.commitAll()
	c, a := r.send(&offsets.DeleteRequest{GroupID: "g", Topics: []offsets.FetchTopic{
		{Name: "in", Partitions: []int32{0, 9}}, {Name: "unread", Partitions: []int32{0, 0}},
	}})
	if a.done {
		t.Fatal("acknowledged before it is committed")
	}
	r.commitAll()
	want := []offsets.CommitTopicResult{
		{Name: "in", Partitions: []offsets.PartitionResult{{Partition: 0, Code: 86}, {Partition: 9, Code: 3}}},
		{Name: "unread", Partitions: []offsets.PartitionResult{{Partition: 0}, {Partition: 0}}},
	}
	if d := cmp.Diff(want, c.Response.(*offsets.DeleteResponse).Topics); !a.done || d != "" {
		t.Error(a.done, d)
	}
	if n := r.committed.Group("g").NumOffsets(); n != 1 {
		t.Errorf("%d offsets left", n)
	}
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	d, deleted := r.send(&DeleteGroupRequest{GroupID: "g"})
	r.commitAll()
	if !deleted.done || d.Response.(*DeleteGroupResponse).Err != nil || r.committed.Group("g") != nil {
		t.Errorf("%v %+v", deleted.done, d.Response)
	}
	r.joined("g", "a")
	if n := r.committed.Group("g").NumOffsets(); n != 0 {
		t.Errorf("%d offsets come back", n)
	}
	r.quiet("a deletion")
}

// A static member that was moved on while its heartbeat was held fetches by the epoch that it was told last.
func TestAFetchFromTheLogIsFenced(t *testing.T) {
	r := newLogRig(t)
	h := r.joined("g", "a")
	member := "a"
	for epoch, want := range map[int32]coordinator.Code{h.MemberEpoch: 0, h.MemberEpoch - 1: coordinator.StaleMemberEpoch, h.MemberEpoch + 1: coordinator.StaleMemberEpoch} {
		request := fetch("g")
		request.MemberID, request.MemberEpoch = &member, epoch
		c, a := r.send(request)
		got := coordinator.None
		if err := c.Response.(*offsets.FetchResponse).Err; err != nil {
			got = err.Code
		}
		if !a.done || got != want {
			t.Errorf("epoch %d: %v %d", epoch, a.done, got)
		}
	}
}

// A group that commits all the time does not keep its members waiting: heartbeats without news are answered while commits are
// under way, and those that change something after the commits that came before.
func TestHeartbeatsDoNotWaitForCommits(t *testing.T) {
	r := newLogRig(t)
	h := r.joined("g", "a")
	r.send(report("g", "a", h.MemberEpoch, r.committed.Group("g").Member("a").Current.Assigned.Active))
	r.commitAll()
	_, first := r.send(commit("g", "a", h.MemberEpoch))
	_, second := r.send(commit("g", "a", h.MemberEpoch)) // waits for its turn
	for range 3 {
		if _, a := r.send(beat("g", "a", h.MemberEpoch)); !a.done || first.done || second.done {
			t.Fatalf("answered %v, commits %v %v", a.done, first.done, second.done)
		}
	}
	c, left := r.send(beat("g", "a", streams.LeaveEpoch))
	_, late := r.send(beat("g", "a", h.MemberEpoch))
	if left.done || late.done {
		t.Fatal("a change is answered before it is committed")
	}
	r.commitAll()
	if !first.done || !second.done || !left.done || c.Err != nil || r.fetched("g")[0] != 7 {
		t.Errorf("commits %v %v, left %v %v", first.done, second.done, left.done, c.Err)
	}
}

// After a refused proposal everything keeps its order.
func TestHeartbeatsDoNotOvertakeCommitsThatAreRetried(t *testing.T) {
	r := newLogRig(t)
	h := r.joined("g", "a")
	c, _ := r.send(commit("g", "a", h.MemberEpoch))
	r.ProposalFailed(r.now, r.inflight.id, true)
	_, left := r.send(beat("g", "a", streams.LeaveEpoch))
	r.now += retryProposalMs
	r.freshProof()
	r.Tick(r.now)
	r.Flush()
	r.commitAll()
	if !left.done || !cmp.Equal(codes(c), []coordinator.Code{0}) {
		t.Errorf("left %v, %v", left.done, codes(c))
	}
}

// While a node of the cluster would leave offsets out of its state, groups are made with their offsets upstream, and none moves to
// the log; the way back stays open.
func TestOffsetsStayUpstreamWhileANodeIsTooOld(t *testing.T) {
	r := newLogRig(t)
	r.hindrance = "node 3 is old"
	r.joined("old", "a")
	if s := r.committed.Group("old").Store(); s != record.StoreUpstream || r.committed.Group("old").OffsetsStore != nil {
		t.Errorf("made in store %v", s)
	}
	told := slices.ContainsFunc(r.events, func(e Event) bool { return e.Group == "old" && e.Hindered == r.hindrance })
	if !told {
		t.Error("nobody was told why")
	}
	for _, e := range r.proposed {
		if level := record.LevelOf(e.Records); level != 1 {
			t.Errorf("an entry of level %d: %v", level, e.Records)
		}
	}
	r.hindrance = ""
	r.joined("new", "b")
	if s := r.committed.Group("new").Store(); s != record.StoreRaft {
		t.Errorf("made in store %v once all nodes know of it", s)
	}
}

func TestAMoveToTheLogIsRefusedWhileANodeIsTooOld(t *testing.T) {
	s := newStoreRig(t, record.StoreUpstream)
	s.joined("g", "a")
	s.send(beat("g", "a", -1))
	s.commitAll()
	s.hindrance = "node 3 is old"
	c, a := s.send(&MoveOffsetsRequest{GroupID: "g", To: record.StoreRaft})
	m, ok := c.Response.(*MoveOffsetsResponse)
	if !a.done || !ok || m.Err == nil || m.Err.Code != coordinator.InvalidRequest || !strings.Contains(m.Err.Message, "node 3 is old") {
		t.Fatalf("done %v, %+v, %v", a.done, c.Response, c.Err)
	}
	if s.committed.Group("g").Store() != record.StoreUpstream || len(s.waiting) != 0 {
		t.Error("something was begun")
	}
}
