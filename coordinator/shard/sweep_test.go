package shard

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

const week = 7 * 24 * hour

// expiring sets the retention, which is looked at each minute.
func (r *rig) expiring(after int64) {
	r.options.RetentionMs, r.options.RetentionCheckMs = after, 60_000
	r.timers.arm(timerKey{kind: timerRetention}, r.now+60_000)
}

// commitsTo commits an offset without a member, or as a member, for partition 0 of a topic.
func (r *rig) commitsTo(group, member string, epoch int32, topic string) {
	r.t.Helper()
	request := commit(group, member, epoch)
	request.Topics[0].Name = topic
	c, a := r.send(request)
	r.commitAll()
	if !a.done || !cmp.Equal(codes(c), []coordinator.Code{0}) {
		r.t.Fatalf("commit to %s: %v %v %v", topic, a.done, c.Err, codes(c))
	}
}

// logged are the topics of which a group has offsets in the log.
func (r *rig) logged(group string) []string {
	var topics []string
	for topic := range r.committed.Group(group).OffsetTopics() {
		topics = append(topics, topic)
	}
	return topics
}

// alive lets time go by while a member sends heartbeats.
func (r *rig) alive(group, member string, ms int64) {
	r.t.Helper()
	for end := r.now + ms; r.now < end; {
		current := r.committed.Group(group).Member(member).Current
		r.send(report(group, member, current.MemberEpoch, current.Assigned.Active))
		r.commitAll()
		r.elapse(min(30_000, end-r.now))
	}
}

// What members read never expires; other topics do, the retention after their commit.
func TestOffsetsOfARunningGroupExpireForTopicsThatItDoesNotRead(t *testing.T) {
	r := newLogRig(t)
	r.expiring(hour)
	r.topics["unread"] = 1
	r.joined("g", "a")
	r.alive("g", "a", 5000)
	epoch := r.committed.Group("g").Member("a").Current.MemberEpoch
	r.commitsTo("g", "a", epoch, "in")
	r.commitsTo("g", "a", epoch, "unread")
	r.alive("g", "a", hour-60_000)
	if d := cmp.Diff([]string{"in", "unread"}, r.logged("g")); d != "" {
		t.Fatal("before the retention is over: ", d)
	}
	r.alive("g", "a", 180_000)
	if d := cmp.Diff([]string{"in"}, r.logged("g")); d != "" {
		t.Fatal("after the retention: ", d)
	}
	expired := 0
	for _, e := range r.events {
		expired += e.Offsets.Expired
	}
	if expired != 1 {
		t.Errorf("%d counted as expired", expired)
	}
	r.alive("g", "a", 48*hour)
	if d := cmp.Diff([]string{"in"}, r.logged("g")); d != "" {
		t.Error("of a running app: ", d)
	}
}

// Of an empty group the offsets stay for the retention after its last member, however old they are, and go with it.
func TestOffsetsOfAnEmptyGroupExpireWithIt(t *testing.T) {
	r := newLogRig(t)
	r.expiring(hour)
	h := r.joined("g", "a")
	r.commitsTo("g", "a", h.MemberEpoch, "in")
	r.alive("g", "a", 3*hour)
	if got := r.fetched("g"); got[0] != 7 {
		t.Fatalf("%v of a running app", got)
	}
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	r.elapse(hour - 60_000)
	if got := r.fetched("g"); got[0] != 7 {
		t.Fatalf("%v before the retention is over", got)
	}
	r.elapse(180_000)
	if r.committed.Group("g") != nil {
		t.Fatal("the group stays after the retention")
	}
	if last := r.events[len(r.events)-1]; !last.Expired {
		t.Errorf("%+v", last)
	}
	r.quiet("an expiry")
}

// What a tool commits to an empty group keeps it for the retention.
func TestACommitToAnEmptyGroupKeepsIt(t *testing.T) {
	r := newLogRig(t)
	r.expiring(hour)
	r.topics["other"] = 1
	h := r.joined("g", "a")
	r.commitsTo("g", "a", h.MemberEpoch, "in")
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	r.elapse(hour / 2)
	r.commitsTo("g", "", -1, "other")
	r.elapse(hour/2 + 180_000)
	if d := cmp.Diff([]string{"other"}, r.logged("g")); d != "" {
		t.Fatal(d)
	}
	r.elapse(hour / 2)
	if r.committed.Group("g") != nil {
		t.Error("the group stays")
	}
}

// A group of this kind that never committed goes as others do.
func TestAnEmptyGroupWithoutOffsetsExpires(t *testing.T) {
	r := newLogRig(t)
	r.expiring(hour)
	r.emptied("g")
	r.elapse(hour - 60_000)
	if r.committed.Group("g") == nil {
		t.Fatal("deleted before the retention was over")
	}
	r.elapse(180_000)
	if r.committed.Group("g") != nil {
		t.Error("not deleted")
	}
}

// Offsets of a topic that was made anew are hidden at once, those of one that is gone or made anew are deleted when the upstream
// has said so for a while.
func TestOffsetsGoWithTheirTopic(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprint("made again ", again), func(t *testing.T) {
			r := newLogRig(t)
			r.expiring(week)
			r.topics["other"] = 1
			h := r.joined("g", "a")
			r.commitsTo("g", "a", h.MemberEpoch, "in")
			r.commitsTo("g", "a", h.MemberEpoch, "other")
			r.now += 1000
			r.freshProof()
			shown, listed := int64(7), []string{"in", "other"}
			if again {
				r.topicID = [16]byte{2}
				shown, listed = -1, []string{"other"}
			} else {
				delete(r.topics, "in")
			}
			r.TopicsChanged(r.now)
			if got := r.fetched("g"); got[0] != shown {
				t.Fatalf("%v", got)
			}
			c, _ := r.send(fetch("g"))
			var names []string
			for _, topic := range c.Response.(*offsets.FetchResponse).Topics {
				names = append(names, topic.Name)
			}
			if d := cmp.Diff(listed, names); d != "" {
				t.Fatal(d)
			}
			r.alive("g", "a", 115_000) // the first check is after a minute at the latest
			if n := r.committed.Group("g").NumOffsets(); n != 2 {
				t.Fatalf("%d offsets before a minute is over", n)
			}
			r.alive("g", "a", 30_000)
			if d := cmp.Diff([]string{"other"}, r.logged("g")); d != "" {
				t.Error(d)
			}
			if len(r.suspects) != 0 {
				t.Errorf("%d topics are still asked for", len(r.suspects))
			}
		})
	}
}

// rightsTaken is a member with an offset for a topic that coordd is not shown any more.
func rightsTaken(t *testing.T) *rig {
	t.Helper()
	r := newLogRig(t)
	r.expiring(week)
	r.topics["other"] = 1
	h := r.joined("g", "a")
	r.commitsTo("g", "a", h.MemberEpoch, "in")
	r.now += 1000
	r.freshProof()
	delete(r.topics, "in")
	r.TopicsChanged(r.now)
	return r
}

// A topic that coordd may not describe is missing among all topics, and not known by name: the app, which may read it, keeps its
// place.
func TestATopicThatIsNotShownKeepsItsOffsets(t *testing.T) {
	r := rightsTaken(t)
	r.unclear = map[string]bool{"in": true}
	for range 20 {
		if got := r.fetched("g"); got[0] != 7 {
			t.Fatalf("a fetch of a running member: %v", got)
		}
		r.alive("g", "a", 61_000)
	}
}

// Only what the upstream says each time counts: what it said before a question that it did not answer, or answered otherwise,
// does not.
func TestADeletionIsConfirmedWithoutABreak(t *testing.T) {
	for what, breaks := range map[string]func(*rig){
		"there again":  func(r *rig) { r.topics["in"] = 4 },
		"not told":     func(r *rig) { r.unclear = map[string]bool{"in": true} },
		"made anew":    func(r *rig) { r.topics["in"], r.topicID = 4, [16]byte{2} },
		"not answered": func(r *rig) { r.silent = true },
	} {
		t.Run(what, func(t *testing.T) {
			r := rightsTaken(t)
			for range 20 {
				r.alive("g", "a", 50_000)
				breaks(r)
				r.alive("g", "a", 12_000)
				delete(r.topics, "in")
				r.topicID, r.unclear, r.silent = [16]byte{}, nil, false
			}
			if got := r.fetched("g"); got[0] != 7 {
				t.Fatalf("%v", got)
			}
			r.alive("g", "a", 240_000)
			if got := r.logged("g"); len(got) != 0 {
				t.Errorf("%v without a break", got)
			}
		})
	}
}

// A topic that is missing whenever the retention looks, and there in between, keeps its offsets.
func TestATopicThatIsMissingAtEachCheckKeepsItsOffsets(t *testing.T) {
	r := rightsTaken(t)
	r.topics["in"] = 4
	for range 40 {
		r.alive("g", "a", 1000)
		until := r.timers.scheduled[timerKey{kind: timerRetention}] - r.now
		r.alive("g", "a", until-1000)
		delete(r.topics, "in")
		r.elapse(2000)
		r.topics["in"] = 4
	}
	if got := r.fetched("g"); got[0] != 7 {
		t.Errorf("%v", got)
	}
}

// What an answer says that was asked for by an earlier leadership counts for nothing, and each begins anew.
func TestALeaderConfirmsDeletionsItself(t *testing.T) {
	r := rightsTaken(t)
	r.alive("g", "a", 115_000)
	r.silent = true
	r.elapse(10_000)
	if len(r.lookups) != 1 {
		t.Fatalf("%d questions", len(r.lookups))
	}
	state := r.committed
	r.Lost(r.now)
	r.Elected(r.now, 2, state)
	r.freshProof()
	r.silent = false
	r.looksUp()
	r.expiring(week)
	r.alive("g", "a", 115_000)
	if got := r.fetched("g"); got[0] != 7 {
		t.Fatalf("%v", got)
	}
	r.alive("g", "a", 30_000)
	if got := r.logged("g"); len(got) != 0 {
		t.Error(got)
	}
}

// The picture of a new leader may be older than what its predecessor saw: it hides and deletes nothing before it is current.
func TestAnOldPictureOfTheTopicsHidesNothing(t *testing.T) {
	r := newLogRig(t)
	h := r.joined("g", "a")
	r.commitsTo("g", "a", h.MemberEpoch, "in")
	state := r.committed
	r.Lost(r.now)
	r.now += 1000
	r.topicID, r.oldTopics = [16]byte{2}, true
	r.Elected(r.now, 2, state)
	r.freshProof()
	if got := r.fetched("g"); got[0] != 7 {
		t.Errorf("%v by an old picture", got)
	}
	r.oldTopics = false
	if got := r.fetched("g"); got[0] != -1 {
		t.Errorf("%v by a current picture", got)
	}
	// What was committed after the picture was asked for is of the topic that there is.
	r.topicsAsOf = r.now
	r.commitsTo("g", "a", h.MemberEpoch, "in")
	r.topicID = [16]byte{3}
	if got := r.fetched("g"); got[0] != 7 {
		t.Errorf("%v right after the commit", got)
	}
}

// Thousands of groups and offsets are looked at in turns: nobody waits for all of them.
func TestTheCheckOfTheRetentionIsDoneInTurns(t *testing.T) {
	r := newLogRig(t)
	r.expiring(100_000)
	state := fsm.NewState()
	const groups, partitions = 3, 8000
	for g := range groups {
		id := fmt.Sprint("g", g)
		records := []record.Record{
			{Key: record.Key{Type: record.TypeGroupMetadata, Group: id}, Value: &record.GroupMetadata{Epoch: 1}},
			{Key: record.Key{Type: record.TypeOffsetsStore, Group: id}, Value: &record.OffsetsStore{Store: record.StoreRaft}},
		}
		for p := range int32(partitions) {
			records = append(records, record.Record{
				Key:   record.Key{Type: record.TypeOffsetCommit, Group: id, Topic: "in", ID: p},
				Value: &record.OffsetCommit{CommitTimestampMs: r.now, LeaderEpoch: -1, ExpireTimestampMs: -1},
			})
		}
		var err error
		if state, err = state.EvolveAll(records); err != nil {
			t.Fatal(err)
		}
	}
	r.Lost(r.now)
	r.Elected(r.now, 2, state)
	r.elapse(115_000)
	r.proposed = nil
	for range 100 {
		r.elapse(1000)
	}
	if n := r.committed.NumGroups(); n != 0 {
		t.Fatalf("%d groups left", n)
	}
	for _, e := range r.proposed {
		if len(e.Records) > 2*maxDueOffsets {
			t.Errorf("%d records in an entry", len(e.Records))
		}
	}
}
