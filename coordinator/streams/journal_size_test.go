package streams

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// rebalances puts n rebalances of a group into its journal, with names of the given length and 32 moves each.
func rebalances(t testing.TB, state fsm.State, group string, n, name int) fsm.State {
	t.Helper()
	long := func(what string, i int) string { return fmt.Sprintf("%s%0*d", what, max(1, name-1), i) }
	for i := range n {
		g := state.Group(group)
		d := Decision{Cause: Cause{Kinds: CauseJoin, Epoch: int32(i) + 2, MemberID: long("m", i), InstanceID: long("i", i),
			Host: long("h", i), Detail: long("d", i)}}
		moves := &targetMoves{count: maxMoves}
		for k := range maxMoves {
			moves.list = append(moves.list, record.JournalMove{
				Task: topology.Task{Subtopology: long("s", k), Partition: int32(k)}, From: long("a", k), To: long("b", k),
			})
		}
		note := d.noted()
		note.target, note.moves = d.Cause.Epoch, moves
		note.settled, note.slowest = true, long("m", i)
		d.putJournal(g, group, int64(i)+1)
		next, err := state.EvolveAll(d.Records)
		if err != nil {
			t.Fatal(err)
		}
		state = next
	}
	return state
}

// journalBytes is what a group's journal takes in a snapshot, and how many entries it has.
func journalBytes(t *testing.T, s fsm.State) (bytes, entries int) {
	for r := range s.Records() {
		b, err := record.AppendRecord(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		bytes += len(b)
		entries++
	}
	return bytes, entries
}

func TestTheJournalOfAGroupIsBounded(t *testing.T) {
	for _, test := range []struct {
		name              string
		group             string
		names, least, max int
	}{
		{"short names", "g", 1, record.JournalSlots, record.JournalSlots},
		{"ids of clients", strings.Repeat("g", 40), 36, record.JournalSlots, record.JournalSlots},
		{"long names", "g", 30_000, record.JournalSlots, record.JournalSlots},
		{"a long group id", strings.Repeat("g", 30_000), 30_000, 10, 17},
		{"names as long as they may be", "g", 64, 40, record.JournalSlots - 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			const n = 130
			state := rebalances(t, fsm.NewState(), test.group, n, test.names)
			bytes, entries := journalBytes(t, state)
			t.Logf("%d entries take %d bytes", entries, bytes)
			if bytes > maxJournal+entries*64 || entries < test.least || entries > test.max {
				t.Errorf("%d entries take %d bytes", entries, bytes)
			}
			sequence := int64(n)
			for e := range state.Group(test.group).Journal() {
				if e.Sequence != sequence {
					t.Fatalf("entry %d where %d is due: others than the oldest went", e.Sequence, sequence)
				}
				sequence--
			}
		})
	}
}
