package shard

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

const hour = int64(3600 * 1000)

// emptied makes a group whose only member left.
func (r *rig) emptied(group string) {
	r.t.Helper()
	r.joined(group, "a")
	r.send(beat(group, "a", streams.LeaveEpoch))
	r.commitAll()
	if g := r.committed.Group(group); g == nil || g.NumMembers() != 0 || g.Marks == nil || g.Marks.EmptySinceMs != r.now {
		r.t.Fatalf("%s is not marked as empty", group)
	}
}

// elapse lets time go by in steps in which timers fire.
func (r *rig) elapse(ms int64) {
	for end := r.now + ms; r.now < end; {
		next := end
		if r.wakeAt > r.now && r.wakeAt < end {
			next = r.wakeAt
		}
		r.now = next
		r.freshProof()
		r.Tick(r.now)
		r.Flush()
		r.looksUp()
		r.commitAll()
	}
}

func TestEmptyGroupExpires(t *testing.T) {
	r := newRig(t)
	r.options.RetentionMs = 24 * hour
	r.emptied("g")
	r.joined("lives", "b") // it expires by its session, and stays for another day
	r.elapse(24*hour - 601_000)
	if r.committed.Group("g") == nil {
		t.Fatal("deleted before the retention was over")
	}
	drops := len(r.drops)
	r.elapse(1_200_000)
	if r.committed.Group("g") != nil {
		t.Fatal("not deleted within a check interval after the retention")
	}
	if r.committed.Group("lives") == nil {
		t.Fatal("the other group is gone, too")
	}
	if len(r.drops) != drops {
		t.Fatal("the offsets upstream were deleted")
	}
	last := r.events[len(r.events)-1]
	if !last.Expired || last.Group != "g" {
		t.Fatalf("%+v", last)
	}
}

// TestExpiryGoesOnAfterAFailover: the time is in the log; without a mark it counts from the election.
func TestExpiryGoesOnAfterAFailover(t *testing.T) {
	r := newRig(t)
	r.options.RetentionMs = 24 * hour
	r.emptied("g")
	state := r.committed
	state, err := state.EvolveAll([]record.Record{
		{Key: record.Key{Type: record.TypeGroupMetadata, Group: "unmarked"}, Value: &record.GroupMetadata{Epoch: 5}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Lost(r.now)
	r.now += 23 * hour
	r.Elected(r.now, 2, state)
	r.Flush()
	r.elapse(2 * hour)
	if r.committed.Group("g") != nil || r.committed.Group("unmarked") == nil {
		t.Fatal("the retention must go on over a failover, and start with the election where the log does not know it")
	}
	r.elapse(23 * hour)
	if r.committed.Group("unmarked") != nil {
		t.Fatal("a group without a mark stays for ever")
	}
}

// TestJoinsAndExpiryRace lets a join come before, with and after the deletion: it is acknowledged only by a group that
// has it.
func TestJoinsAndExpiryRace(t *testing.T) {
	for _, when := range []string{"before", "with", "after"} {
		t.Run(when, func(t *testing.T) {
			r := newRig(t)
			r.options.RetentionMs = hour
			r.emptied("g")
			r.now += 2 * hour
			r.freshProof()
			r.timers.wakeAt = r.now
			a := &answer{}
			c := &Call{Client: client, Request: join("g", "b"), Done: a}
			switch when {
			case "before":
				r.Submit(r.now, c)
				r.ForeignChecked(r.now, "g", noForeign, nil)
				r.Tick(r.now)
			case "with":
				r.Tick(r.now)
				r.Submit(r.now, c)
			default:
				r.Tick(r.now)
				r.Flush()
				r.Submit(r.now, c)
			}
			for range 3 {
				r.Flush()
				r.commitAll()
				if len(r.foreign) > 1 {
					r.ForeignChecked(r.now, "g", noForeign, nil)
				}
			}
			if !a.done || c.Err != nil || c.Heartbeat.Err != nil {
				t.Fatalf("join: done %v, %v, %v", a.done, c.Err, c.Heartbeat.Err)
			}
			g := r.committed.Group("g")
			if g.Member("b") == nil || g.Marks != nil {
				t.Fatal("an acknowledged join is lost")
			}
			if fresh := g.Epoch() == 2; fresh == (when == "before") {
				t.Fatalf("epoch %d", g.Epoch())
			}
			if _, a := r.send(beat("g", "b", c.Heartbeat.MemberEpoch)); !a.done {
				t.Fatal("the member is not served")
			}
		})
	}
}

// TestManyGroupsExpireInPortions: a look deletes a bounded number.
func TestManyGroupsExpireInPortions(t *testing.T) {
	r := newRig(t)
	var records []record.Record
	for i := range 500 {
		records = append(records, record.Record{
			Key: record.Key{Type: record.TypeGroupMetadata, Group: fmt.Sprint("g", i)}, Value: &record.GroupMetadata{Epoch: 2}},
			record.Record{Key: record.Key{Type: record.TypeGroupMarks, Group: fmt.Sprint("g", i)}, Value: &record.GroupMarks{EmptySinceMs: 1}})
	}
	state, err := fsm.NewState().EvolveAll(records)
	if err != nil {
		t.Fatal(err)
	}
	r.options.RetentionMs = 1000
	r.Elected(r.now, 2, state)
	r.Flush()
	r.elapse(r.options.RetentionCheckMs)
	if n := r.committed.NumGroups(); n != 300 {
		t.Fatalf("%d groups after the first look", n)
	}
	r.elapse(3 * moreExpiriesMs)
	if n := r.committed.NumGroups(); n != 0 {
		t.Fatalf("%d groups left", n)
	}
}

// TestShutdownRequestIsAcknowledgedDurably: the answer that tells of the request waits for the log, and a new leader
// tells it, too.
func TestShutdownRequestIsAcknowledgedDurably(t *testing.T) {
	r := newRig(t)
	h := r.joined("g", "a")
	wish := beat("g", "a", h.MemberEpoch)
	wish.ShutdownApplication = true
	c, a := r.send(wish)
	if a.done {
		t.Fatal("acknowledged before the commit")
	}
	r.commitAll()
	if !a.done || len(c.Heartbeat.Status) != 1 || c.Heartbeat.Status[0].Code != streams.StatusShutdownApplication {
		t.Fatalf("%+v", c.Heartbeat)
	}
	stranger := beat("g", "x", streams.LeaveEpoch)
	stranger.ShutdownApplication = true
	c, a = r.send(stranger)
	if !a.done || c.Heartbeat.Err == nil {
		t.Fatal("a second wish needs no log")
	}
	state := r.committed
	r.Lost(r.now)
	r.Elected(r.now, 2, state)
	r.freshProof()
	c, _ = r.send(beat("g", "a", h.MemberEpoch))
	if len(c.Heartbeat.Status) != 1 || c.Heartbeat.Status[0].Code != streams.StatusShutdownApplication {
		t.Fatalf("%+v", c.Heartbeat)
	}
}

// TestCrowdWritesOneJournalEntry: joins that share an entry of the log share the journal's.
func TestCrowdWritesOneJournalEntry(t *testing.T) {
	r := newRig(t)
	r.settings.AssignmentIntervalMs = 1000
	r.joined("g", "a")
	before := len(r.proposed)
	for i := range 50 {
		r.send(join("g", fmt.Sprintf("m%02d", i)))
	}
	r.commitAll()
	for i, e := range r.proposed[before:] {
		entries := 0
		for _, rec := range e.Records {
			if rec.Key.Type == record.TypeJournalEntry {
				entries++
			}
		}
		if entries != 1 {
			t.Errorf("entry %d has %d journal records among %d", i, entries, len(e.Records))
		}
	}
	last := r.committed.Group("g").LastJournal()
	if last.Counts[0].Count != 50 || last.Epoch != r.committed.Group("g").Epoch() {
		t.Fatalf("%+v", last)
	}
}

// A group is not deleted before its membership upstream has ended: the offsets that an older leader has in flight must not
// outlive it.
func TestExpiryWaitsForTheMembershipUpstream(t *testing.T) {
	r := newRig(t)
	r.options.RetentionMs = hour
	h := r.joined("g", "a")
	r.send(commit("g", "a", h.MemberEpoch))
	r.commitAll()
	r.Claimed(r.now, "g", nil)
	r.stored()
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	if len(r.releases) != 1 {
		t.Fatalf("%d releases", len(r.releases))
	}
	r.elapse(3 * hour)
	if g := r.committed.Group("g"); g == nil || !g.OffsetsClaimed {
		t.Fatal("deleted, or not claimed any more, while the membership upstream may live")
	}
	r.Released(r.now, "g", nil)
	r.Flush()
	r.commitAll()
	r.elapse(hour)
	if r.committed.Group("g") != nil {
		t.Fatal("not deleted after the membership upstream had ended")
	}
}

// A mark of the future comes from a leader whose clock was ahead: the retention counts from the election then.
func TestExpiryDoesNotWaitForAClockThatWasAhead(t *testing.T) {
	r := newRig(t)
	r.options.RetentionMs = hour
	r.emptied("g")
	state, err := r.committed.EvolveAll([]record.Record{
		{Key: record.Key{Type: record.TypeGroupMarks, Group: "g"}, Value: &record.GroupMarks{EmptySinceMs: r.now + 1000*hour}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Lost(r.now)
	r.Elected(r.now, 2, state)
	r.Flush()
	r.elapse(hour - 601_000)
	if r.committed.Group("g") == nil {
		t.Fatal("deleted before the retention was over")
	}
	r.elapse(1_202_000)
	if r.committed.Group("g") != nil {
		t.Fatal("a group waits for a clock that was ahead")
	}
}

// While an administrator's deletion is under way the retention leaves the group alone: the deletion answers for it.
func TestExpiryLeavesADeletionUnderWayAlone(t *testing.T) {
	r := newRig(t)
	r.options.RetentionMs = hour
	r.emptied("g")
	c, a := r.send(&DeleteGroupRequest{GroupID: "g"})
	r.elapse(3 * hour)
	if r.committed.Group("g") == nil || a.done {
		t.Fatalf("the group is gone, or the deletion answered (%v) before the offsets were deleted", a.done)
	}
	r.StoreDone(r.now, r.drops[0], nil)
	r.Flush()
	r.commitAll()
	if resp, _ := c.Response.(*DeleteGroupResponse); !a.done || resp == nil || resp.Err != nil || r.committed.Group("g") != nil {
		t.Fatalf("%v %+v %+v", a.done, c.Response, c.Err)
	}
}
