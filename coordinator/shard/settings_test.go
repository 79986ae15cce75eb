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
