package shard

import "testing"

// A target that waits for the assignment interval comes as soon as a shorter interval allows.
func TestShorterIntervalEndsTheWait(t *testing.T) {
	r := newRig(t)
	r.settings.AssignmentIntervalMs = 15000
	r.joined("g", "a")
	r.now += 1000
	r.freshProof()
	if h := r.joined("g", "b"); h.MemberEpoch == 0 {
		t.Fatal("no epoch")
	}
	g := r.committed.Group("g")
	if g.AssignmentEpoch() >= g.Epoch() {
		t.Fatal("the second target does not wait")
	}
	r.settings.AssignmentIntervalMs = 2000
	r.SettingsChanged(r.now, "other")
	r.SettingsChanged(r.now, "g")
	r.Flush()
	if want := r.now + 1000; r.groups["g"].soft.AssignmentDue != want {
		t.Fatalf("due at %d, want %d", r.groups["g"].soft.AssignmentDue, want)
	}
	r.now += 1000
	r.Tick(r.now)
	r.Flush()
	r.commitAll()
	g = r.committed.Group("g")
	if g.AssignmentEpoch() != g.Epoch() {
		t.Error("the target was not computed when the shorter interval was over")
	}
}

// A target that a timer computed is not lost with the entry that the log refused.
func TestATargetOfATimerIsDecidedAgainAfterARefusedProposal(t *testing.T) {
	for name, set := range map[string]func(*rig){
		"assignment interval": func(r *rig) { r.settings.AssignmentIntervalMs = 1000 },
		"initial delay":       func(r *rig) { r.settings.InitialRebalanceDelayMs = 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			set(r)
			r.joined("g", "a")
			r.joined("g", "b")
			if g := r.committed.Group("g"); g.AssignmentEpoch() >= g.Epoch() {
				t.Fatal("the target does not wait")
			}
			r.now += 1000
			r.freshProof()
			r.Tick(r.now)
			r.Flush()
			if r.inflight == nil {
				t.Fatal("the timer wrote nothing")
			}
			r.ProposalFailed(r.now, r.inflight.id, true)
			r.Flush()
			r.now += retryProposalMs
			r.Tick(r.now)
			r.Flush()
			r.commitAll()
			if g := r.committed.Group("g"); g.AssignmentEpoch() != g.Epoch() {
				t.Fatalf("assignment epoch %d, group epoch %d: nobody computes the target", g.AssignmentEpoch(), g.Epoch())
			}
		})
	}
}

// A shorter session time-out counts from the next heartbeat on, also where the longer one was armed before.
func TestAShorterSessionCountsFromTheNextHeartbeat(t *testing.T) {
	r := newRig(t)
	h := r.joined("a's", "a")
	r.joined("b's", "b")
	r.elapse(1000)
	r.settings.SessionTimeoutMs = 6000
	r.SettingsChanged(r.now, "")
	if c, a := r.send(beat("a's", "a", h.MemberEpoch)); !a.done || c.Heartbeat.Err != nil {
		t.Fatalf("%v %+v", a.done, c.Heartbeat)
	}
	members := func(group string) int { return r.committed.Group(group).NumMembers() }
	r.elapse(5999)
	if members("a's") != 1 {
		t.Fatal("removed before its session time-out")
	}
	r.elapse(1)
	if members("a's") != 0 || members("b's") != 1 {
		t.Fatal("a was silent for the new session time-out; b has had no heartbeat since it counts")
	}
	r.elapse(45_000 - 7000)
	if members("b's") != 0 {
		t.Fatal("b was silent for the old session time-out")
	}
}

// What is told of groups that are not there, or while another node leads, does nothing.
func TestSettingsOfNobody(t *testing.T) {
	r := newRig(t)
	r.SettingsChanged(r.now, "nobody")
	r.SettingsChanged(r.now, "")
	r.joined("g", "a")
	r.Lost(r.now)
	r.SettingsChanged(r.now, "g")
	r.SettingsChanged(r.now, "")
	r.Flush()
}
