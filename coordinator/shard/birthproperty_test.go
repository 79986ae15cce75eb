package shard

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
)

// birth lets groups come and go beside commits of tools. What the upstream is asked takes time: a list is made at some moment and comes back
// at a later one, a commit arrives at some moment and is answered at a later one.
type birth struct {
	*storeRig
	listed  *coordinator.ForeignGroup
	commits map[*Call]int32 // and the partition of each
	next    int32
	raft    bool // the group was in the log
}

func (b *birth) lists() {
	b.listed = &coordinator.ForeignGroup{Offsets: len(b.up) > 0}
	if b.listed.Offsets {
		b.listed.Type = "classic"
	}
}

func (b *birth) told() {
	found := *b.listed
	b.listed = nil
	b.ForeignChecked(b.now, "g", found, nil)
	b.Flush()
}

// arrives lets an operation happen whose answer is still on its way.
func (b *birth) arrives(i int) {
	answer := b.waiting[i].do()
	b.waiting[i].do = func() any { return answer }
}

func (b *birth) step(t *rapid.T) {
	switch rapid.IntRange(0, 12).Draw(t, "step") {
	case 0, 10:
		b.send(join("g", rapid.SampledFrom([]string{"a", "b"}).Draw(t, "joins")))
	case 1:
		b.send(beat("g", rapid.SampledFrom([]string{"a", "b"}).Draw(t, "leaves"), -1))
	case 2:
		c, _ := b.send(tool(b.next, int64(b.next)+100))
		b.commits[c] = b.next
		b.next++
	case 4:
		b.send(&VacateRequest{GroupID: "g"})
	case 3, 5, 11:
		if len(b.Machine.foreign) > 0 && b.listed == nil {
			b.lists()
		}
	case 6, 12:
		if b.listed != nil {
			b.told()
		}
	case 7:
		if n := len(b.waiting); n > 0 {
			b.arrives(rapid.IntRange(0, n-1).Draw(t, "arrives"))
		}
	case 8:
		if n := len(b.waiting); n > 0 {
			b.happensAt(rapid.IntRange(0, n-1).Draw(t, "answered"), false)
		}
	case 9:
		if rapid.IntRange(0, 4).Draw(t, "leads") == 0 {
			b.Lost(b.now)
			b.term++
			b.Elected(b.now, b.term, b.durable)
			b.freshProof()
		}
	}
	if b.inflight != nil && rapid.IntRange(0, 2).Draw(t, "logged") > 0 {
		b.entry()
	}
	if g := b.committed.Group("g"); g != nil && g.Store() == record.StoreRaft {
		b.raft = true
	}
}

// Wherever a group comes to be while offsets are committed under its id, what was acknowledged is found there.
func TestNothingAcknowledgedIsHiddenByANewGroup(t *testing.T) {
	raft := 0
	rapid.Check(t, func(t2 *rapid.T) {
		b := &birth{storeRig: newStoreRig(t, record.StoreRaft), commits: map[*Call]int32{}}
		b.topics["in"] = 100
		for range rapid.IntRange(10, 80).Draw(t2, "steps") {
			b.step(t2)
		}
		if b.listed != nil {
			b.told()
		}
		b.settles()
		b.send(join("g", "a"))
		b.settles()
		if b.raft {
			raft++
		}
		g := b.committed.Group("g")
		found := b.up
		if g.Store() == record.StoreRaft {
			found = b.logged()
		}
		for c, p := range b.commits {
			if got := codes(c); c.Err == nil && got[0] == coordinator.None && found[in(p)].Offset != int64(p)+100 {
				t2.Fatalf("partition %d was acknowledged; the group has %v in store %v, upstream is %v", p, found, g.Store(), b.up)
			}
		}
	})
	if raft == 0 {
		t.Error("no group was made in the log")
	}
}
