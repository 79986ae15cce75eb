package record

import "github.com/coordd/coordd/topology"

// JournalSlots is how many journal entries a group keeps: the entry with sequence number n is in slot n mod JournalSlots.
const JournalSlots = 100

// JournalEntry (type 1005) says why a group rebalanced: the causes that raised the group epoch, the target that was made for
// them, and when all members had it. Bumps that follow each other without a target between share an entry. Times are
// leaders' wall clocks in milliseconds since 1970, 0 where it has not come to that.
type JournalEntry struct {
	// Sequence numbers the entries of a group, from 1.
	Sequence int64
	// FirstEpoch and Epoch are the first and the last group epoch that the entry explains.
	FirstEpoch, Epoch int32
	// StartedAtMs is when FirstEpoch began.
	StartedAtMs int64
	// TargetAtMs is when the target of Epoch was computed.
	TargetAtMs int64
	// SettledAtMs is when the last member was reconciled to Epoch. It stays 0 when another change came before.
	SettledAtMs int64
	// Slowest is the member that was reconciled last.
	Slowest string
	// Counts says how often each kind of cause was there, by ascending kind.
	Counts []JournalCount
	// Causes are the first causes, oldest first; Counts has all.
	Causes []JournalCause
	// NumMoves counts the tasks that got another holder, or lost theirs, with that target.
	NumMoves int32
	// Moves are some of them.
	Moves []JournalMove
}

// JournalCount is how often a kind of cause (a bit number of streams.CauseKind) was there.
type JournalCount struct {
	Kind  int8
	Count int32
}

// JournalCause is why a group epoch was raised.
type JournalCause struct {
	// Kinds is a streams.CauseKind.
	Kinds uint16
	// Epoch is the group epoch that it led to.
	Epoch int32
	AtMs  int64
	// Member, Instance and Host belong to the member behind it; empty where there is none.
	Member, Instance, Host string
	Detail                 string
}

// JournalMove is one task in one role that went from a member to another; "" stands for nobody.
type JournalMove struct {
	Task     topology.Task
	Role     TaskRole
	From, To string
}

// TaskRole is what a member does with a task.
type TaskRole int8

// Roles of a task.
const (
	RoleActive  TaskRole = 0
	RoleStandby TaskRole = 1
	RoleWarmup  TaskRole = 2
)

// isNormal says whether the lists are as the decoder returns them.
func (v *JournalEntry) isNormal() bool {
	return (v.Counts == nil || len(v.Counts) > 0) && (v.Causes == nil || len(v.Causes) > 0) && (v.Moves == nil || len(v.Moves) > 0)
}

func (v *JournalEntry) normal() *JournalEntry {
	c := *v
	if len(c.Counts) == 0 {
		c.Counts = nil
	}
	if len(c.Causes) == 0 {
		c.Causes = nil
	}
	if len(c.Moves) == 0 {
		c.Moves = nil
	}
	return &c
}

// Smallest encodings of the elements of a journal entry's lists.
const (
	minJournalCount = 6
	minJournalCause = 19
	minJournalMove  = 9
)

func (w *writer) journalEntry(v *JournalEntry) {
	w.int64(v.Sequence)
	w.int32(v.FirstEpoch)
	w.int32(v.Epoch)
	w.int64(v.StartedAtMs)
	w.int64(v.TargetAtMs)
	w.int64(v.SettledAtMs)
	w.string(v.Slowest)
	w.array(len(v.Counts))
	for _, c := range v.Counts {
		w.int8(c.Kind)
		w.int32(c.Count)
		w.noTags()
	}
	w.array(len(v.Causes))
	for i := range v.Causes {
		c := &v.Causes[i]
		w.uint16(c.Kinds)
		w.int32(c.Epoch)
		w.int64(c.AtMs)
		w.string(c.Member)
		w.string(c.Instance)
		w.string(c.Host)
		w.string(c.Detail)
		w.noTags()
	}
	w.int32(v.NumMoves)
	w.journalMoves(v.Moves)
	w.noTags()
}

// journalMoves writes the member ids once, in the order in which the moves name them first.
func (w *writer) journalMoves(moves []JournalMove) {
	var names []string
	index := func(name string) int {
		for i := range names {
			if names[i] == name {
				return i
			}
		}
		names = append(names, name)
		return len(names) - 1
	}
	for i := range moves {
		index(moves[i].From)
		index(moves[i].To)
	}
	w.strings(names)
	w.array(len(moves))
	for i := range moves {
		m := &moves[i]
		w.string(m.Task.Subtopology)
		w.int32(m.Task.Partition)
		w.int8(int8(m.Role))
		w.uvarint(index(m.From))
		w.uvarint(index(m.To))
		w.noTags()
	}
}

func (r *reader) journalEntry() *JournalEntry {
	v := &JournalEntry{
		Sequence: r.int64(), FirstEpoch: r.int32(), Epoch: r.int32(),
		StartedAtMs: r.int64(), TargetAtMs: r.int64(), SettledAtMs: r.int64(), Slowest: r.string(),
	}
	if n := r.list(minJournalCount); n > 0 {
		v.Counts = make([]JournalCount, n)
		for i := range v.Counts {
			v.Counts[i] = JournalCount{Kind: r.int8(), Count: r.int32()}
			r.tags(nil)
		}
	}
	if n := r.list(minJournalCause); n > 0 {
		v.Causes = make([]JournalCause, n)
		for i := range v.Causes {
			v.Causes[i] = JournalCause{
				Kinds: r.uint16(), Epoch: r.int32(), AtMs: r.int64(),
				Member: r.string(), Instance: r.string(), Host: r.string(), Detail: r.string(),
			}
			r.tags(nil)
		}
	}
	v.NumMoves = r.int32()
	v.Moves = r.journalMoves()
	r.tags(nil)
	return v
}

func (r *reader) journalMoves() []JournalMove {
	names := r.strings()
	name := func() string {
		i := r.uvarint()
		if r.err == nil && i >= len(names) {
			r.fail("member %d of %d", i, len(names))
		}
		if r.err != nil {
			return ""
		}
		return names[i]
	}
	n := r.list(minJournalMove)
	if n == 0 {
		return nil
	}
	moves := make([]JournalMove, n)
	for i := range moves {
		m := &moves[i]
		m.Task.Subtopology = r.string()
		m.Task.Partition = r.int32()
		m.Role = TaskRole(r.int8())
		m.From, m.To = name(), name()
		r.tags(nil)
	}
	return moves
}
