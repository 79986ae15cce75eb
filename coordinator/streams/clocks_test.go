package streams

import (
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
)

// A leader whose clock is behind the one before it keeps nobody waiting for what the log says of the future.
func TestClocksOfLeadersDiffer(t *testing.T) {
	const ahead = 500_000
	join := func(w *world, member string) Decision {
		req := goodJoin()
		req.MemberID = member
		d, err := w.heartbeat(req, &coordinator.Client{ID: "c", Host: "/10.0.0.1"})
		if err != nil || d.Reply.Err != nil {
			t.Fatal(err, d.Reply.Err)
		}
		return d
	}
	t.Run("assignment interval", func(t *testing.T) {
		w := newWorld()
		w.setTopic("in", 2)
		w.settings.AssignmentIntervalMs = 1000
		join(w, "A")
		w.now -= ahead
		w.failover()
		join(w, "B")
		if g := w.group(); g.AssignmentEpoch() != g.Epoch() {
			t.Errorf("the target waits until %d, it is %d", w.soft.AssignmentDue, w.now)
		}
	})
	t.Run("initial delay", func(t *testing.T) {
		w := newWorld()
		w.setTopic("in", 2)
		w.settings.InitialRebalanceDelayMs = 3000
		join(w, "A")
		w.now -= ahead
		w.failover()
		if until := w.soft.InitialDelayUntil; until != w.now+3000 {
			t.Errorf("the delay ends at %d, it is %d", until, w.now)
		}
	})
}

// What Kafka notes of descriptions of topologies (KIP-1331) stays as it is over every new epoch.
func TestDescriptionEpochsAreKept(t *testing.T) {
	w := newWorld()
	w.setTopic("in", 2)
	client := &coordinator.Client{ID: "c", Host: "/10.0.0.1"}
	if _, err := w.heartbeat(goodJoin(), client); err != nil {
		t.Fatal(err)
	}
	meta := *w.group().Metadata
	meta.StoredDescriptionEpoch, meta.FailedDescriptionEpoch = 7, 9
	var err error
	w.state, err = w.state.Evolve(record.Record{Key: record.Key{Type: record.TypeGroupMetadata, Group: testGroup}, Value: &meta})
	if err != nil {
		t.Fatal(err)
	}
	other := goodJoin()
	other.MemberID = "B"
	for _, step := range []func() (Decision, error){
		func() (Decision, error) { return w.heartbeat(other, client) },
		func() (Decision, error) { return w.heartbeat(goodHeartbeat(LeaveEpoch), client) },
		func() (Decision, error) {
			w.setTopic("in", 3)
			env := w.env()
			d := TopicsChanged(w.group(), w.soft, &env)
			return d, w.stand(&d)
		},
	} {
		epoch := w.group().Epoch()
		if _, err := step(); err != nil {
			t.Fatal(err)
		}
		if m := w.group().Metadata; m.Epoch != epoch+1 || m.StoredDescriptionEpoch != 7 || m.FailedDescriptionEpoch != 9 {
			t.Fatalf("after epoch %d: %+v", epoch, m)
		}
	}
}
