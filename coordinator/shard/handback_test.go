package shard

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
)

// leftBehind is an empty group with offset 7 in the log for partition 0 of "in", of which a classic group wants the id.
func leftBehind(t *testing.T) (*rig, vacation) {
	t.Helper()
	r := newLogRig(t)
	h := r.joined("g", "a")
	r.commitsTo("g", "a", h.MemberEpoch, "in")
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	v := r.vacated("g")
	r.commitAll()
	if v.done || len(r.commits) != 1 {
		t.Fatalf("answered %v, %d commits upstream", v.done, len(r.commits))
	}
	return r, v
}

func (r *rig) storeAnswers(code coordinator.Code) {
	r.StoreDone(r.now, r.ops[len(r.ops)-1], offsets.CommitFailed(r.commits[len(r.commits)-1], code))
	r.Flush()
	r.commitAll()
}

// A classic group finds upstream what was committed; until it is there the group stays as it is.
func TestAGroupThatMakesRoomBringsItsOffsetsUpstream(t *testing.T) {
	r, v := leftBehind(t)
	empty := ""
	want := &offsets.CommitRequest{Version: 9, GroupID: "g", MemberEpoch: -1, Topics: []offsets.CommitTopic{
		{Name: "in", Partitions: []offsets.CommitPartition{{Partition: 0, Offset: 7, LeaderEpoch: -1, Metadata: &empty}}}}}
	if d := cmp.Diff(want, r.commits[0]); d != "" {
		t.Error(d)
	}
	if r.committed.Group("g") == nil {
		t.Fatal("deleted before its offsets are upstream")
	}
	_, joined := r.send(join("g", "b"))
	_, reset := r.send(commit("g", "", -1))
	if joined.done || reset.done {
		t.Fatal("a join or a commit does not wait")
	}
	r.storeAnswers(coordinator.None)
	if h := v.says(t); h.Held {
		t.Errorf("%+v", h)
	}
	if len(r.drops) != 0 {
		t.Error("the offsets upstream were dropped")
	}
	// The join makes the group anew, which finds its offsets upstream.
	r.ForeignChecked(r.now, "g", simple, nil)
	r.Flush()
	r.commitAll()
	if !joined.done || r.committed.Group("g").Store() != 0 {
		t.Errorf("joined %v, store %v", joined.done, r.committed.Group("g").Store())
	}
}

// Without the upstream the group stays, with its offsets, and the classic member may try again.
func TestAGroupWhoseOffsetsCannotGoUpstreamStays(t *testing.T) {
	r, v := leftBehind(t)
	c, joined := r.send(join("g", "b"))
	r.storeAnswers(coordinator.CoordinatorNotAvailable)
	if !v.done || v.Err == nil || v.Err.Code != coordinator.CoordinatorNotAvailable {
		t.Errorf("%v %v", v.done, v.Err)
	}
	r.ForeignChecked(r.now, "g", noForeign, errors.New("away")) // which keeps nobody from a group that is there
	r.Flush()
	r.commitAll()
	if !joined.done || c.Err != nil || r.fetched("g")[0] != 7 {
		t.Errorf("joined %v %v, offsets %v", joined.done, c.Err, r.fetched("g"))
	}
}

// Offsets of topics that do not exist upstream any more need no place there.
func TestOffsetsOfDeletedTopicsAreNotInTheWay(t *testing.T) {
	r, v := leftBehind(t)
	delete(r.topics, "in")
	r.topics["other"] = 1
	r.storeAnswers(coordinator.UnknownTopicOrPartition)
	if h := v.says(t); h.Held {
		t.Errorf("%+v", h)
	}
}

// The broker that says so may lag behind the one that shows the topics.
func TestATopicThatOnlyOneBrokerMissesKeepsItsOffsets(t *testing.T) {
	r, v := leftBehind(t)
	r.storeAnswers(coordinator.UnknownTopicOrPartition)
	if !v.done || v.Err == nil || v.Err.Code != coordinator.CoordinatorNotAvailable {
		t.Errorf("%v %v", v.done, v.Err)
	}
	if r.fetched("g")[0] != 7 {
		t.Error("the offset is gone")
	}
}

// A topic that is not shown for a moment, or that coordd may not describe, is the upstream's to know.
func TestOffsetsOfATopicThatIsNotShownGoUpstream(t *testing.T) {
	for what, code := range map[string]coordinator.Code{"it is there": coordinator.None, "no right": coordinator.CoordinatorNotAvailable} {
		r := newLogRig(t)
		h := r.joined("g", "a")
		r.commitsTo("g", "a", h.MemberEpoch, "in")
		r.send(beat("g", "a", streams.LeaveEpoch))
		r.commitAll()
		r.now += 1000
		delete(r.topics, "in")
		r.topics["other"] = 1
		r.changes++
		r.freshProof()
		v := r.vacated("g")
		r.commitAll()
		if v.done || len(r.commits) != 1 || r.commits[0].Topics[0].Partitions[0].Offset != 7 {
			t.Fatalf("%s: answered %v, %d commits upstream", what, v.done, len(r.commits))
		}
		r.storeAnswers(code)
		if !v.done || (r.committed.Group("g") == nil) != (code == coordinator.None) {
			t.Errorf("%s: answered %v, group %v", what, v.done, r.committed.Group("g"))
		}
	}
}

// A commit that is too large upstream goes there in halves, down to one partition.
func TestAGroupWhoseOffsetsAreTooManyUpstream(t *testing.T) {
	r := newLogRig(t)
	h := r.joined("g", "a")
	request := commit("g", "a", h.MemberEpoch)
	request.Topics[0].Partitions = []offsets.CommitPartition{{Partition: 0, Offset: 5}, {Partition: 1, Offset: 6}, {Partition: 2, Offset: 7}}
	r.send(request)
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	v := r.vacated("g")
	r.commitAll()
	for n, code := range []coordinator.Code{28, 0, 28, 0, 0} {
		if len(r.commits) != n+1 || v.done {
			t.Fatalf("%d commits, answered %v, before answer %d", len(r.commits), v.done, n)
		}
		r.storeAnswers(code)
	}
	var sizes []int
	for _, c := range r.commits {
		sizes = append(sizes, len(c.Topics[0].Partitions))
	}
	if d := cmp.Diff([]int{3, 1, 2, 1, 1}, sizes); d != "" || v.says(t).Held {
		t.Error(d)
	}
	r, v = leftBehind(t)
	r.storeAnswers(28)
	if !v.done || v.Err == nil || r.fetched("g")[0] != 7 {
		t.Errorf("one partition: answered %v, %v", v.done, v.Err)
	}
}

func TestAGroupWithoutOffsetsMakesRoomAtOnce(t *testing.T) {
	r := newLogRig(t)
	r.emptied("g")
	v := r.vacated("g")
	r.commitAll()
	if h := v.says(t); h.Held || len(r.commits) != 0 {
		t.Errorf("%+v, %d commits", h, len(r.commits))
	}
}

// Whatever came of the commit upstream, a new leader finds the group as it was.
func TestALeaderThatIsLostWhileOffsetsGoUpstream(t *testing.T) {
	r, v := leftBehind(t)
	state := r.committed
	r.Lost(r.now)
	if v.done {
		t.Fatal("answered while the outcome is open")
	}
	r.Elected(r.now, 2, state)
	r.freshProof()
	r.StoreDone(r.now, r.ops[0], offsets.CommitFailed(r.commits[0], coordinator.None))
	if !v.done || v.Err == nil || v.Err.Code != coordinator.NotCoordinator {
		t.Errorf("%v %v", v.done, v.Err)
	}
	if r.fetched("g")[0] != 7 {
		t.Error("the offset is gone")
	}
}
