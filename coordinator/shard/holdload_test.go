package shard

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/coordinator/streams"
)

// flooded is a rig with held members of group g, and joins of another group that fill more log entries than the test looks
// at, so that there is always a queue.
func flooded(t *testing.T, members ...string) (r *rig, calls []*Call, answers []*answer) {
	r = hanging(t)
	r.options.MaxBatchDecisions = 8
	_, calls, answers = r.stable("g", members...)
	r.joined("flood", "m")
	for i := range 400 {
		r.Submit(r.now, &Call{Client: client, Request: join("flood", fmt.Sprint("m", i)), Done: &answer{}})
	}
	r.Flush()
	return r, calls, answers
}

// entries commits entries until all are answered, at most so many.
func (r *rig) entries(most int, answers []*answer) {
	r.t.Helper()
	for n := 0; ; n++ {
		left := 0
		for _, a := range answers {
			if !a.done {
				left++
			}
		}
		switch {
		case left == 0 && len(r.queue) == 0:
			r.t.Fatal("nobody else was waiting any more")
		case left == 0:
			return
		case n == most:
			r.t.Fatalf("%d of %d held members are not answered after %d entries", left, len(answers), n)
		}
		r.freshProof()
		r.Committed(r.now, r.inflight.id)
		r.Flush()
	}
}

// What concerns held members is told them in a bounded number of log entries, however many others queue.
func TestHeldMembersAreToldNewsUnderLoad(t *testing.T) {
	r, calls, answers := flooded(t, "a", "b", "c", "d")
	r.topics["in"] = 12
	r.changes++
	r.TopicsChanged(r.now)
	r.Flush()
	r.entries(8, answers) // one for the epoch and the target, two decisions in each of the next
	for i, c := range calls {
		if c.Err != nil || c.Heartbeat.Err != nil || c.Heartbeat.Active == nil {
			t.Errorf("member %d: %v, %+v", i, c.Err, c.Heartbeat)
		}
	}
}

func TestHoldsEndUnderLoad(t *testing.T) {
	r, calls, answers := flooded(t, "a", "b", "c", "d")
	r.now += 4900
	r.timers.wakeAt = r.now
	r.freshProof()
	r.Tick(r.now)
	r.Flush()
	r.entries(4, answers)
	for i, c := range calls {
		if c.Err != nil || c.Heartbeat.Err != nil {
			t.Errorf("member %d: %v, %+v", i, c.Err, c.Heartbeat)
		}
	}
}

// Those whose hold is over and those with news take turns: neither waits for all of the others.
func TestNewsDoNotWaitForTheEndOfHolds(t *testing.T) {
	r, _, answers := flooded(t, "a", "b", "c", "d")
	many := &group{id: "gone", soft: streams.NewSoft()}
	for range 100 { // answered already, still listed
		r.kept.over = append(r.kept.over, &held{group: many})
	}
	r.topics["in"] = 12
	r.changes++
	r.TopicsChanged(r.now)
	r.Flush()
	r.entries(10, answers)
}
