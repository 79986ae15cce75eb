package shard

import (
	"errors"
	"testing"

	"github.com/coordd/coordd/coordinator/streams"
)

// A join that comes while the offsets of the empty group are being deleted waits: else it would keep the group alive
// without its offsets, and the deletion would be refused although it had happened.
func TestJoinWaitsForADeletionUnderWay(t *testing.T) {
	for _, refused := range []bool{false, true} {
		r := newRig(t)
		r.joined("g", "a")
		r.send(beat("g", "a", streams.LeaveEpoch))
		r.commitAll()
		epoch := r.committed.Group("g").Metadata.Epoch
		deletion, deleted := r.send(&DeleteGroupRequest{GroupID: "g"})
		if len(r.drops) != 1 {
			t.Fatal("the offsets must go first")
		}
		c, joined := r.send(join("g", "b"))
		r.commitAll()
		if joined.done {
			t.Fatalf("joined a group whose offsets are being deleted: %+v", c.Heartbeat)
		}
		var outcome error
		if refused {
			outcome = errors.New("the upstream is away")
		}
		r.StoreDone(r.now, r.drops[0], outcome)
		r.Flush()
		r.commitAll()
		for _, group := range r.foreign {
			r.ForeignChecked(r.now, group, noForeign, nil)
			r.Flush()
			r.commitAll()
		}
		if !deleted.done || !joined.done || joined.n != 1 || c.Err != nil || c.Heartbeat.Err != nil {
			t.Fatalf("refused %t: deletion answered %t, join answered %t, %+v %+v", refused, deleted.done, joined.done, c.Err, c.Heartbeat)
		}
		if refused != (deletion.Err != nil) {
			t.Errorf("refused %t, but the deletion was told %v", refused, deletion.Err)
		}
		if now := r.committed.Group("g").Metadata.Epoch; refused != (now > epoch) {
			t.Errorf("refused %t: group epoch %d before, %d after the join", refused, epoch, now)
		}
	}
}

// A join that waits for a deletion goes on, too, when another join made the group anew in the same log entry.
func TestJoinsGoOnWhenADeletedGroupIsMadeAnewAtOnce(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	r.send(beat("g", "a", streams.LeaveEpoch))
	r.commitAll()
	_, deleted := r.send(&DeleteGroupRequest{GroupID: "g"})
	c, waits := r.send(join("g", "b"))
	r.send(join("other", "x"))
	r.ForeignChecked(r.now, "other", noForeign, nil)
	r.Flush() // an entry is in flight: what follows shares the next one
	r.StoreDone(r.now, r.drops[0], nil)
	_, joined := r.send(join("g", "c"))
	r.Committed(r.now, r.inflight.id) // decides on both
	r.ForeignChecked(r.now, "g", noForeign, nil)
	r.Flush()
	r.commitAll()
	if !deleted.done || !joined.done || waits.n != 1 || c.Err != nil || c.Heartbeat.Err != nil {
		t.Fatalf("deletion %v, join %v, waiting join %d, %v %v", deleted.done, joined.done, waits.n, c.Err, c.Heartbeat.Err)
	}
	if n := r.committed.Group("g").NumMembers(); n != 2 {
		t.Fatalf("%d members", n)
	}
}
