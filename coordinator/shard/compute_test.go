package shard

import (
	"slices"
	"testing"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// offloading is a rig with a group of three members whose next target is computed beside the shard.
func offloading(t *testing.T) *rig {
	r := newRig(t)
	r.settings.AssignorOffload = true
	r.topics["in"] = 12
	for _, id := range []string{"a", "b", "c"} {
		r.joined("g", id)
	}
	r.options.OffloadFrom, r.options.TargetChunk = 20, 1
	return r
}

// timer fires what is due now.
func (r *rig) timer() {
	r.Tick(r.now)
	r.Flush()
}

// compute runs the next job.
func (r *rig) compute() {
	j := r.jobs[0]
	r.jobs = r.jobs[1:]
	r.Computed(r.now, j.op, j.run.Run())
	r.Flush()
}

func TestOneTargetIsComputedAtATimeAndHeartbeatsGoOn(t *testing.T) {
	r := offloading(t)
	other := r.joined("other", "x")
	c, a := r.send(join("g", "d"))
	r.commitAll()
	if !a.done || len(c.Heartbeat.Status) != 1 || c.Heartbeat.Status[0].Code != streams.StatusAssignmentDelayed {
		t.Fatalf("%v %+v", a.done, c.Heartbeat)
	}
	r.timer()
	if len(r.jobs) != 1 {
		t.Fatalf("%d jobs", len(r.jobs))
	}
	for range 3 {
		r.send(beat("g", "d", c.Heartbeat.MemberEpoch))
		r.timer()
	}
	if c, a := r.send(beat("other", "x", other.MemberEpoch)); !a.done || c.Heartbeat.Err != nil {
		t.Fatal("another group had to wait")
	}
	c, a = r.send(beat("g", "a", r.committed.Group("g").Member("a").Current.MemberEpoch))
	r.commitAll()
	if !a.done || c.Heartbeat.Err != nil || len(c.Heartbeat.Status) != 0 {
		t.Fatalf("a member with tasks was kept waiting: %+v", c.Heartbeat)
	}
	if len(r.jobs) != 1 {
		t.Fatalf("%d jobs at once", len(r.jobs))
	}
	entries := len(r.proposed)
	r.compute()
	r.commitAll()
	if g := r.committed.Group("g"); g.AssignmentEpoch() != g.Epoch() || g.Member("d").Target == nil {
		t.Fatalf("assignment epoch %d of %d", g.AssignmentEpoch(), g.Epoch())
	}
	if n := len(r.proposed) - entries; n < 2 {
		t.Fatalf("%d entries for chunks of one target", n)
	}
	r.now += 60_000
	r.timer()
	if len(r.jobs) != 0 {
		t.Fatal("computed again for nothing")
	}
}

func TestTargetForAnOldEpochIsDropped(t *testing.T) {
	r := offloading(t)
	r.send(join("g", "d"))
	r.commitAll()
	r.timer()
	r.send(join("g", "e"))
	r.commitAll()
	entries := len(r.proposed)
	r.compute()
	if len(r.proposed) != entries {
		t.Fatal("an old target was written")
	}
	r.now++
	r.timer()
	r.compute()
	r.commitAll()
	if g := r.committed.Group("g"); g.AssignmentEpoch() != g.Epoch() || g.Member("e").Target == nil {
		t.Fatalf("assignment epoch %d of %d", g.AssignmentEpoch(), g.Epoch())
	}
}

// A proposal that Raft refused is decided again, maybe in another order: the same epoch is another history then.
func TestTargetOfARefusedHistoryIsDropped(t *testing.T) {
	r := offloading(t)
	r.send(join("g", "d"))
	r.timer()
	if len(r.jobs) > 0 {
		t.Fatal("a target was computed from what is not committed")
	}
	r.ProposalFailed(r.now, r.inflight.id, true)
	r.now += retryProposalMs
	r.timer()
	r.commitAll()
	r.timer()
	r.compute()
	r.commitAll()
	if g := r.committed.Group("g"); g.AssignmentEpoch() != g.Epoch() {
		t.Fatalf("assignment epoch %d of %d", g.AssignmentEpoch(), g.Epoch())
	}
}

// Nor is it used when results have come too late for long: the group never had its epoch.
func TestTargetOfAnEpochThatWasRefusedIsNeverUsed(t *testing.T) {
	r := offloading(t)
	r.send(join("g", "d"))
	r.commitAll()
	r.timer()
	r.send(join("g", "e"))
	r.commitAll()
	r.compute() // too late: e has joined
	r.now += 2000
	r.freshProof()
	r.Submit(r.now, &Call{Client: client, Request: join("g", "f"), Done: &answer{}})
	r.Tick(r.now)
	r.Flush()
	if len(r.jobs) != 1 || r.inflight == nil {
		t.Fatalf("%d jobs", len(r.jobs))
	}
	epoch := r.committed.Group("g").Epoch()
	r.refusing(ofType(record.TypeMemberMetadata))
	r.ProposalFailed(r.now, r.inflight.id, true)
	r.passed(retryProposalMs) // f is not taken
	r.compute()
	r.commitAll()
	if g := r.committed.Group("g"); g.Epoch() != epoch || g.AssignmentEpoch() > g.Epoch() {
		t.Fatalf("assignment epoch %d of %d", g.AssignmentEpoch(), g.Epoch())
	}
	r.refusing(nil)
	r.passed(1000)
	r.compute()
	r.commitAll()
	if g := r.committed.Group("g"); g.AssignmentEpoch() != g.Epoch() {
		t.Fatalf("assignment epoch %d of %d", g.AssignmentEpoch(), g.Epoch())
	}
}

func TestLeaderLostInTheMiddleOfATarget(t *testing.T) {
	r := offloading(t)
	r.send(join("g", "d"))
	r.commitAll()
	r.timer()
	r.compute()
	r.Committed(r.now, r.inflight.id) // the first chunk
	half := r.committed
	r.Lost(r.now)
	g := half.Group("g")
	if g.AssignmentEpoch() == g.Epoch() {
		t.Fatal("the whole target was written at once")
	}
	r.jobs = nil
	r.Elected(r.now, 2, half)
	r.freshProof()
	for m := range g.Members() {
		c, a := r.send(report("g", m.ID, m.Current.MemberEpoch, m.Current.Assigned.Active))
		r.commitAll()
		if !a.done || c.Heartbeat.Err != nil {
			t.Fatalf("%s: %v %v", m.ID, c.Heartbeat.Err, c.Err)
		}
		if now := r.committed.Group("g").Member(m.ID).Current; !now.Assigned.SameTasks(m.Current.Assigned) {
			t.Fatalf("%s was moved to half a target", m.ID)
		}
	}
	r.timer()
	if len(r.jobs) != 1 {
		t.Fatalf("the new leader computes %d targets", len(r.jobs))
	}
	r.compute()
	r.commitAll()
	if g := r.committed.Group("g"); g.AssignmentEpoch() != g.Epoch() {
		t.Fatalf("assignment epoch %d of %d", g.AssignmentEpoch(), g.Epoch())
	}
}

func TestResultOfAFormerTermIsDropped(t *testing.T) {
	r := offloading(t)
	r.send(join("g", "d"))
	r.commitAll()
	r.timer()
	state := r.committed
	r.Lost(r.now)
	r.compute()
	r.Elected(r.now, 2, state)
	r.freshProof()
	r.timer()
	entries := len(r.proposed)
	late := r.jobs[0]
	r.Computed(r.now, late.op+7, late.run.Run())
	if len(r.proposed) != entries {
		t.Fatal("a result that nobody waits for was written")
	}
	r.compute()
	r.commitAll()
	if g := r.committed.Group("g"); g.AssignmentEpoch() != g.Epoch() {
		t.Fatalf("assignment epoch %d of %d", g.AssignmentEpoch(), g.Epoch())
	}
}

func TestGroupDeletedWhileItsTargetIsComputed(t *testing.T) {
	r := offloading(t)
	r.send(join("g", "d"))
	r.commitAll()
	r.timer()
	for _, id := range []string{"a", "b", "c", "d"} {
		r.send(beat("g", id, streams.LeaveEpoch))
		r.commitAll()
	}
	r.compute()
	r.commitAll()
	if g := r.committed.Group("g"); g.NumMembers() != 0 || streams.StateOf(g) != streams.StateEmpty {
		t.Fatal(streams.StateOf(g))
	}
}

func TestWithoutOffloadTargetsAreComputedInline(t *testing.T) {
	r := offloading(t)
	r.settings.AssignorOffload = false
	h := r.joined("g", "d")
	if len(h.Status) != 0 || r.committed.Group("g").AssignmentEpoch() != r.committed.Group("g").Epoch() {
		t.Fatalf("%+v", h)
	}
	r.timer()
	if len(r.jobs) != 0 {
		t.Fatal("computed beside the shard")
	}
}

// A target inline that is larger than an entry is written in several; a leader lost in between leaves nobody with half
// of it.
func TestLargeTargetInSeveralEntriesEndsWithItsEpoch(t *testing.T) {
	r := newRig(t)
	r.topics["in"] = 64
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		r.joined("g", id)
	}
	r.options.MaxBatchBytes = 512
	entries := len(r.proposed)
	r.send(join("g", "x"))
	r.commitAll()
	if len(r.proposed)-entries < 2 {
		t.Fatal("one entry")
	}
	state := fsm.NewState()
	whole := slices.IndexFunc(r.proposed[entries:], func(e record.Entry) bool {
		return slices.ContainsFunc(e.Records, func(r record.Record) bool { return r.Key.Type == record.TypeTargetMetadata })
	})
	for i, e := range r.proposed {
		next, err := state.EvolveAll(e.Records)
		if err != nil {
			t.Fatal(err)
		}
		state = next
		if g := state.Group("g"); i >= entries && i < entries+whole && g.AssignmentEpoch() == g.Epoch() {
			t.Fatalf("entry %d of %d makes half a target count", i-entries, len(r.proposed)-entries)
		}
		if i > entries+whole && slices.ContainsFunc(e.Records, func(r record.Record) bool { return r.Key.Type == record.TypeTargetMember }) {
			t.Fatalf("targets follow in entry %d of %d", i-entries, len(r.proposed)-entries)
		}
	}
}
