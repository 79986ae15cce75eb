package fsm

import (
	"cmp"
	"iter"
	"slices"

	"github.com/coordd/coordd/fsm/record"
)

// journal holds the journal entries of a group by ascending slot. It is immutable. Entries are kept as encoded, a fraction
// of their size: they are read when a rebalance begins or ends, and by people.
type journal []journalSlot

type journalSlot struct {
	slot     int32
	sequence int64
	encoded  []byte // by record.AppendValue
	hash     uint64
}

// entry decodes what [journal.with] encoded.
func (s *journalSlot) entry() *record.JournalEntry {
	v, err := record.DecodeValue(record.TypeJournalEntry, s.encoded)
	if err != nil {
		return nil
	}
	return v.(*record.JournalEntry)
}

func (j journal) find(slot int32) (int, bool) {
	return slices.BinarySearchFunc(j, slot, func(s journalSlot, slot int32) int { return int(int64(s.slot) - int64(slot)) })
}

// with returns the journal with an entry in a slot.
func (j journal) with(e *evolver, slot int32, entry *record.JournalEntry, hash uint64) (journal, error) {
	encoded, err := record.AppendValue(nil, entry)
	if err != nil {
		return j, err
	}
	s := journalSlot{slot: slot, sequence: entry.Sequence, encoded: append(make([]byte, 0, len(encoded)), encoded...)}
	i, ok := j.find(slot)
	var out journal
	if ok {
		s.hash = j[i].hash
		out = slices.Clone(j)
	} else {
		out = slices.Insert(slices.Clone(j), i, s)
	}
	e.rehash(&s.hash, hash)
	out[i] = s
	return out, nil
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
	if g == nil || len(g.journal) == 0 {
		return nil
	}
	last := &g.journal[0]
	for i := range g.journal {
		if s := &g.journal[i]; s.sequence >= last.sequence {
			last = s
		}
	}
	return last.entry()
}

// JournalExcess lists the slots of the oldest entries that have to go, the oldest first, so that the others take at most
// limit bytes, each counted with the group's id, which is part of its key. The entry in slot except does not count.
func (g *Group) JournalExcess(limit int, except int32) []int32 {
	if g == nil {
		return nil
	}
	size := func(s *journalSlot) int {
		if s.slot == except {
			return 0
		}
		return len(s.encoded) + len(g.ID)
	}
	total := 0
	for i := range g.journal {
		total += size(&g.journal[i])
	}
	if total <= limit {
		return nil
	}
	slots := slices.Clone(g.journal)
	slices.SortStableFunc(slots, func(a, b journalSlot) int { return cmp.Compare(a.sequence, b.sequence) })
	var excess []int32
	for i := range slots {
		if n := size(&slots[i]); n > 0 && total > limit {
			total -= n
			excess = append(excess, slots[i].slot)
		}
	}
	return excess
}

// Journal yields the journal entries, the newest first.
func (g *Group) Journal() iter.Seq[*record.JournalEntry] {
	return func(yield func(*record.JournalEntry) bool) {
		if g == nil {
			return
		}
		slots := slices.Clone(g.journal)
		slices.SortStableFunc(slots, func(a, b journalSlot) int { return cmp.Compare(b.sequence, a.sequence) })
		for i := range slots {
			if e := slots[i].entry(); e != nil && !yield(e) {
				return
			}
		}
	}
}
