package streams

import (
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Bounds of a journal entry: with those of a group's number of entries and of the moves that one lists they bound the
// journal's bytes.
const (
	maxCauses = 8
	// maxText and maxDetail bound ids and explanations in an entry, in bytes.
	maxText   = 64
	maxDetail = 128
	// maxJournal bounds the entries of a group, in bytes: the oldest go before there are as many as there may be. All of them
	// have room unless nearly every entry lists as many members with ids of 36 bytes as it can.
	maxJournal = 512 << 10
)

// note is what a decision tells the journal beside its Cause.
type note struct {
	// target and moves belong to the target that the decision computed; nil where it did not.
	moves  *targetMoves
	target int32
	// leaver held the tasks of lost, which nobody has until the next target.
	leaver string
	lost   topology.Assignment
	// replaced gave its place and its tasks to another member of the same instance id.
	replaced *fsm.Member
	by       *record.MemberMetadata
	heir     string
	// settled says that the group is Stable, or empty, with this decision, and slowest who was reconciled last.
	settled bool
	slowest string
}

func (d *Decision) noted() *note {
	if d.note == nil {
		d.note = &note{}
	}
	return d.note
}

// putJournal emits the journal entry that the decision makes or changes, as its last record: an entry must not say what
// the records before it do not. There is at most one entry for each target; bumps that wait for their target share it.
func (d *Decision) putJournal(g *fsm.Group, groupID string, now int64) {
	if d.Cause.Kinds == 0 && d.note == nil {
		return
	}
	j := journalist{last: g.LastJournal(), now: now, group: groupMetadata(g).Epoch}
	if d.Cause.Kinds != 0 {
		j.bump(&d.Cause)
	}
	if d.note != nil {
		j.take(d.note)
	}
	if j.entry == nil {
		return
	}
	r := record.Record{
		Key:   record.Key{Type: record.TypeJournalEntry, Group: groupID, ID: int32(j.entry.Sequence % record.JournalSlots)},
		Value: j.entry,
	}
	for _, slot := range g.JournalExcess(maxJournal-record.Size(r), r.Key.ID) {
		d.Records = append(d.Records, record.Record{Key: record.Key{Type: record.TypeJournalEntry, Group: groupID, ID: slot}})
	}
	d.Records = append(d.Records, r)
}

// journalist writes one entry: a new one, or the last one over again.
type journalist struct {
	last  *record.JournalEntry // nil: none
	entry *record.JournalEntry // nil: nothing to write so far
	now   int64
	group int32 // group epoch before the decision
	// handed counts the tasks that this decision gave from a static member to the one that took its place.
	handed int32
}

// begin starts a new entry.
func (j *journalist) begin(epoch int32) {
	j.entry = &record.JournalEntry{Sequence: 1, FirstEpoch: epoch, Epoch: epoch, StartedAtMs: j.now}
	if j.last != nil {
		j.entry.Sequence = j.last.Sequence + 1
	}
}

// resume writes the last entry over again.
func (j *journalist) resume() {
	if j.entry == nil {
		c := *j.last
		j.entry = &c
	}
}

func (j *journalist) bump(c *Cause) {
	if j.last == nil || j.last.TargetAtMs != 0 {
		j.begin(c.Epoch)
	} else {
		j.resume()
	}
	j.entry.Epoch = c.Epoch
	j.cause(c)
}

// cause adds a cause. The lists of an entry are shared with the one before, so that they are copied.
func (j *journalist) cause(c *Cause) {
	e := j.entry
	counts := slices.Clone(e.Counts)
	for kinds := uint(c.Kinds); kinds != 0; kinds &= kinds - 1 {
		kind := int8(bits.TrailingZeros(kinds))
		i, ok := slices.BinarySearchFunc(counts, kind, func(c record.JournalCount, kind int8) int { return int(c.Kind) - int(kind) })
		if !ok {
			counts = slices.Insert(counts, i, record.JournalCount{Kind: kind})
		}
		counts[i].Count++
	}
	e.Counts = counts
	if len(e.Causes) < maxCauses {
		e.Causes = append(slices.Clip(e.Causes), record.JournalCause{
			Kinds: uint16(c.Kinds), Epoch: c.Epoch, AtMs: j.now, Member: short(c.MemberID, maxText), Instance: short(c.InstanceID, maxText),
			Host: short(c.Host, maxText), Detail: short(c.Detail, maxDetail),
		})
	}
}

func (j *journalist) take(n *note) {
	if n.replaced != nil {
		j.replacement(n)
	}
	if n.leaver != "" {
		moves := movesOfAll(&n.lost, n.leaver, "")
		j.entry.NumMoves += int32(moves.count)
		j.addMoves(moves.list)
	}
	if n.moves != nil {
		j.target(n)
	}
	if n.settled {
		j.settle(n)
	}
}

// replacement notes that tasks went from a static member to the one that took its place. Where that raised no epoch it
// belongs to the rebalance that goes on, or is one of its own.
func (j *journalist) replacement(n *note) {
	moves := movesOfAll(&targetOf(n.replaced).Assignment, n.replaced.ID, n.heir)
	if j.entry == nil {
		if j.last == nil || j.last.SettledAtMs != 0 {
			j.begin(j.group)
			j.entry.TargetAtMs = j.now
		} else {
			j.resume()
		}
		c := Cause{Kinds: CauseStaticReplacement, Epoch: j.group, MemberID: n.heir, Host: n.by.ClientHost}
		if n.by.InstanceID != nil {
			c.InstanceID = *n.by.InstanceID
		}
		j.cause(&c)
	}
	j.handed = int32(moves.count)
	j.entry.NumMoves += j.handed
	j.addMoves(moves.list)
}

// target notes what a new target moves. Tasks of members that left meanwhile were listed and counted then, without a
// receiver; who gets them moves them no second time.
func (j *journalist) target(n *note) {
	switch {
	case j.entry != nil && j.entry.TargetAtMs == 0:
	case j.entry == nil && j.last != nil && j.last.TargetAtMs == 0:
		j.resume()
	default:
		// The change that raised the epoch is in the log, but what the journal says of it was cut off by a failover.
		j.begin(n.target)
		j.cause(&Cause{Kinds: CauseResumed, Epoch: n.target})
	}
	e := j.entry
	if n.target >= e.Epoch {
		e.Epoch, e.TargetAtMs = n.target, j.now
	} // else other bumps came while it was computed, and wait for the next target
	e.NumMoves = max(e.NumMoves, int32(n.moves.count)+j.handed)
	var fresh []record.JournalMove
	waiting := slices.Clone(e.Moves)
	for _, m := range n.moves.list {
		i := -1
		if m.From == "" {
			i = slices.IndexFunc(waiting, func(w record.JournalMove) bool { return w.To == "" && w.Task == m.Task && w.Role == m.Role })
		}
		if i >= 0 {
			waiting[i].To = short(m.To, maxText)
		} else {
			fresh = append(fresh, m)
		}
	}
	e.Moves = waiting
	j.addMoves(fresh)
}

func (j *journalist) addMoves(list []record.JournalMove) {
	e := j.entry
	e.Moves = slices.Clip(e.Moves)
	for _, m := range list[:min(len(list), maxMoves-min(maxMoves, len(e.Moves)))] {
		m.From, m.To = short(m.From, maxText), short(m.To, maxText)
		m.Task.Subtopology = short(m.Task.Subtopology, maxText)
		e.Moves = append(e.Moves, m)
	}
}

// settle notes that the rebalance is over.
func (j *journalist) settle(n *note) {
	switch {
	case j.entry != nil:
	case j.last == nil || j.last.Epoch != j.group:
		// What the journal says of the last target was cut off by a failover.
		j.begin(j.group)
		j.cause(&Cause{Kinds: CauseResumed, Epoch: j.group})
	case j.last.SettledAtMs != 0:
		return
	default:
		j.resume()
	}
	if j.entry.TargetAtMs == 0 {
		j.entry.TargetAtMs = j.now // an empty group needs none
	}
	j.entry.SettledAtMs, j.entry.Slowest = j.now, short(n.slowest, maxText)
}

// short cuts a text to a number of bytes.
func short(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const mark = "…"
	cut := limit - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}

// settles says whether the group is Stable once the member's assignment is next: then nothing is left to do for the last
// target.
func (h *heartbeat) settles(next *record.CurrentAssignment, goalEpoch int32) bool {
	if h.epoch != goalEpoch || h.topology == nil || h.topology.Epoch != h.validated || !reconciledTo(next, goalEpoch) {
		return false
	}
	others, done := numMembers(h.group), h.group.NumReconciled(goalEpoch)
	for _, m := range [...]*fsm.Member{h.group.Member(h.memberID), h.replaced} {
		if m != nil {
			others--
			if reconciledTo(currentOf(m), goalEpoch) {
				done--
			}
		}
		if h.replaced != nil && h.replaced.ID == h.memberID {
			break
		}
	}
	return others == done
}
