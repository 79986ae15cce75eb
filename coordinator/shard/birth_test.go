package shard

import (
	"errors"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// said has the upstream answer the last question about a group.
func (r *rig) said(found coordinator.ForeignGroup, err error) {
	r.ForeignChecked(r.now, "g", found, err)
	r.Flush()
	r.commitAll()
}

// storedUpstream has the upstream acknowledge the last commit.
func (r *rig) storedUpstream() {
	r.StoreDone(r.now, r.ops[len(r.ops)-1], offsets.Committed(r.commits[len(r.commits)-1]))
	r.Flush()
	r.commitAll()
}

// A commit without a member is on its way upstream when a join asks what is there: the answer may not have it.
func TestAGroupIsNotMadeInTheLogWhileACommitIsUnderWayUpstream(t *testing.T) {
	for what, late := range map[string]bool{"acknowledged before the answer": false, "acknowledged after the answer": true} {
		t.Run(what, func(t *testing.T) {
			r := newLogRig(t)
			c, committed := r.send(commit("g", "", -1))
			_, joined := r.send(join("g", "a"))
			if len(r.foreign) != 1 || len(r.commits) != 1 || committed.done {
				t.Fatalf("asked %v, %d commits", r.foreign, len(r.commits))
			}
			if late {
				r.said(noForeign, nil)
			} else {
				r.storedUpstream()
			}
			if joined.done {
				t.Fatal("joined")
			}
			if late {
				r.storedUpstream()
			}
			r.said(noForeign, nil) // as of before the commit was there
			if len(r.foreign) < 2 || joined.done {
				t.Fatalf("asked %d times, joined %v", len(r.foreign), joined.done)
			}
			r.said(simple, nil)
			if !joined.done || codes(c)[0] != coordinator.None || r.committed.Group("g").Store() != record.StoreUpstream {
				t.Errorf("joined %v, %v, store %v", joined.done, codes(c), r.committed.Group("g").Store())
			}
		})
	}
}

// A question that is under way says nothing to a call that comes after something was acknowledged.
func TestAJoinGoesByAQuestionOfItsOwn(t *testing.T) {
	r := newLogRig(t)
	_, first := r.send(join("g", "a")) // one of the upstream's brokers is slow to answer
	r.send(commit("g", "", -1))
	r.storedUpstream()
	_, second := r.send(join("g", "b"))
	r.said(noForeign, nil)
	if first.done || second.done || len(r.foreign) != 2 {
		t.Fatalf("joined %v %v, asked %d times", first.done, second.done, len(r.foreign))
	}
	r.said(simple, nil)
	if !first.done || !second.done || r.committed.Group("g").Store() != record.StoreUpstream || len(r.foreign) != 2 {
		t.Errorf("joined %v %v, asked %d times", first.done, second.done, len(r.foreign))
	}
}

// Also where nothing changed that coordd knows of: who has the id upstream may have come since.
func TestCallsDoNotHangOnToAnOlderQuestion(t *testing.T) {
	r := newRig(t)
	_, before := r.send(&DescribeRequest{GroupID: "g"})
	var after [3]*answer
	for i := range after {
		_, after[i] = r.send(join("g", string(rune('a'+i))))
	}
	r.said(noForeign, nil)
	if !before.done || after[0].done || len(r.foreign) != 2 {
		t.Fatalf("%v %v, asked %d times", before.done, after[0].done, len(r.foreign))
	}
	r.said(noForeign, nil)
	for i := range after {
		if !after[i].done {
			t.Errorf("%d is not answered", i)
		}
	}
	if len(r.foreign) != 2 {
		t.Errorf("asked %d times", len(r.foreign))
	}
}

// A join that waited until offsets in the log were brought upstream asks again: it was told what was there before.
func TestAJoinThatWaitedForAVacancyFindsTheOffsets(t *testing.T) {
	r := newLogRig(t)
	h := r.joined("g", "a")
	r.commitsTo("g", "a", h.MemberEpoch, "in")
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	_, joined := r.send(join("g", "b"))
	v := r.vacated("g")
	r.said(noForeign, nil)
	if joined.done || v.done {
		t.Fatal("did not wait")
	}
	asked := len(r.foreign)
	r.storeAnswers(coordinator.None)
	r.commitAll()
	if !v.done || joined.done || len(r.foreign) != asked+1 {
		t.Fatalf("vacated %v, joined %v, asked %d times more", v.done, joined.done, len(r.foreign)-asked)
	}
	r.said(simple, nil)
	if !joined.done || r.committed.Group("g").Store() != record.StoreUpstream {
		t.Errorf("joined %v, store %v", joined.done, r.committed.Group("g").Store())
	}
}

// Where the upstream does not answer members may join a group that is there, but not make one that has gone meanwhile.
func TestAGroupThatWentIsNotMadeWithoutTheUpstreamsWord(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	c, joined := r.send(join("g", "b"))
	_, deleted := r.send(&DeleteGroupRequest{GroupID: "g"}) // the offsets upstream are being deleted
	if len(r.drops) != 1 || len(r.foreign) != 2 {
		t.Fatal("nothing is deleted, or nobody is asked")
	}
	r.said(noForeign, errors.New("away"))
	r.StoreDone(r.now, r.drops[0], nil)
	r.Flush()
	r.commitAll()
	if !deleted.done || joined.done || r.committed.Group("g") != nil {
		t.Fatalf("deleted %v, joined %v", deleted.done, joined.done)
	}
	r.said(noForeign, errors.New("away"))
	if !joined.done || c.Err != notAvailable || r.committed.Group("g") != nil {
		t.Errorf("joined %v: %v", joined.done, c.Err)
	}
}

// The same behind an entry in flight, where a call waits with what it was told.
func TestAGroupThatWentWhileAJoinQueuedIsNotMadeWithoutTheUpstreamsWord(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	r.send(join("other", "a"))
	r.ForeignChecked(r.now, "other", noForeign, nil)
	r.Flush()
	c, joined := r.send(join("g", "b"))
	_, vacated := r.send(&VacateRequest{GroupID: "g"})
	if r.inflight == nil || vacated.done {
		t.Fatal("nothing is in flight")
	}
	r.ForeignChecked(r.now, "g", noForeign, errors.New("away"))
	r.Flush()
	r.commitAll()
	if !vacated.done || r.committed.Group("g") != nil || joined.done {
		t.Fatalf("vacated %v, joined %v", vacated.done, joined.done)
	}
	r.said(noForeign, errors.New("away"))
	if !joined.done || c.Err != notAvailable || r.committed.Group("g") != nil {
		t.Errorf("joined %v: %v", joined.done, c.Err)
	}
}

// An answer to what an earlier leadership asked says nothing of what others did since.
func TestTheUpstreamsWordToAnEarlierLeadershipDoesNotCount(t *testing.T) {
	r := newLogRig(t)
	_, lost := r.send(join("g", "a"))
	r.Lost(r.now)
	r.Elected(r.now, 2, fsm.NewState())
	r.freshProof()
	_, joined := r.send(join("g", "a"))
	r.said(noForeign, nil)
	if !lost.done || joined.done || len(r.foreign) != 2 {
		t.Fatalf("%v %v, asked %d times", lost.done, joined.done, len(r.foreign))
	}
	r.said(simple, nil)
	if !joined.done || r.committed.Group("g").Store() != record.StoreUpstream {
		t.Errorf("joined %v", joined.done)
	}
}

// A leader that may have been followed by another one does not acknowledge what that one may not have seen.
func TestACommitUpstreamIsAcknowledgedUnderProofOnly(t *testing.T) {
	for what, happens := range map[string]func(r *rig){
		"lost":        func(r *rig) { r.Lost(r.now) },
		"not proven":  func(r *rig) { r.now += r.options.LeaseMs + 1 },
		"leads again": func(r *rig) { r.Lost(r.now); r.Elected(r.now, 2, fsm.NewState()); r.freshProof() },
	} {
		r := newLogRig(t)
		c, a := r.send(commit("g", "", -1))
		happens(r)
		r.storedUpstream()
		if !a.done || c.Err != notCoordinator {
			t.Errorf("%s: %v %v %v", what, a.done, c.Err, codes(c))
		}
	}
	r := newLogRig(t)
	c, a := r.send(commit("g", "", -1))
	r.storedUpstream()
	if !a.done || c.Err != nil || codes(c)[0] != coordinator.None {
		t.Errorf("%v %v %v", a.done, c.Err, codes(c))
	}
}

// What is known of changes stays bounded, and what is not known any more is asked for again.
func TestChangesOfManyIdsAreForgotten(t *testing.T) {
	r := newLogRig(t)
	_, joined := r.send(join("g", "a"))
	for i := range maxChanged + 2 {
		r.idChanged(string(rune(i+256)), false)
	}
	if len(r.changed) > maxChanged {
		t.Errorf("%d ids", len(r.changed))
	}
	r.said(noForeign, nil)
	if joined.done || len(r.foreign) != 2 {
		t.Fatalf("joined %v, asked %d times", joined.done, len(r.foreign))
	}
	r.said(noForeign, nil)
	if !joined.done || r.committed.Group("g").Store() != record.StoreRaft {
		t.Error("not joined")
	}
}
