package fsm

import (
	"iter"
	"slices"

	"github.com/coordd/coordd/fsm/record"
)

// journal holds the journal entries of a group by ascending slot. It is immutable.
type journal []journalSlot

type journalSlot struct {
	slot  int32
	entry *record.JournalEntry
	hash  uint64
}

func (j journal) find(slot int32) (int, bool) {
	return slices.BinarySearchFunc(j, slot, func(s journalSlot, slot int32) int { return int(int64(s.slot) - int64(slot)) })
}

// with returns the journal with an entry in a slot.
func (j journal) with(e *evolver, slot int32, entry *record.JournalEntry, hash uint64) journal {
	i, ok := j.find(slot)
	s := journalSlot{slot: slot, entry: entry}
	var out journal
	if ok {
		s.hash = j[i].hash
		out = slices.Clone(j)
	} else {
		out = slices.Insert(slices.Clone(j), i, s)
	}
	e.rehash(&s.hash, hash)
	out[i] = s
	return out
}

// without returns the journal without the entry of a slot.
func (j journal) without(e *evolver, slot int32) journal {
	i, ok := j.find(slot)
	if !ok {
		return j
	}
	hash := j[i].hash
	e.rehash(&hash, 0)
	return append(slices.Clone(j[:i]), j[i+1:]...)
}

// LastJournal is the newest journal entry, the one with the highest sequence number; nil when there is none.
func (g *Group) LastJournal() *record.JournalEntry {
	if g == nil {
		return nil
	}
	var last *record.JournalEntry
	for i := range g.journal {
		if e := g.journal[i].entry; last == nil || e.Sequence >= last.Sequence {
			last = e
		}
	}
	return last
}

// Journal yields the journal entries, the newest first.
func (g *Group) Journal() iter.Seq[*record.JournalEntry] {
	return func(yield func(*record.JournalEntry) bool) {
		if g == nil {
			return
		}
		slots := slices.Clone(g.journal)
		slices.SortStableFunc(slots, func(a, b journalSlot) int {
			switch x, y := a.entry.Sequence, b.entry.Sequence; {
			case x > y:
				return -1
			case x < y:
				return 1
			}
			return 0
		})
		for i := range slots {
			if !yield(slots[i].entry) {
				return
			}
		}
	}
}
