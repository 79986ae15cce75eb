package server

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/raftnode"
)

// replica is the state machine of one Raft group on this node: it evolves by committed entries, and anybody may read
// its state at any time.
type replica struct {
	state atomic.Pointer[fsm.State]
	// index is up to where state holds the log.
	index atomic.Uint64
	// changed is told after each change, on Raft's goroutine; it must not block.
	changed func()
	// level is the highest feature level of entries that this node can apply.
	level uint16
	// skipped is told how many records were left out because this release does not know their types, or nil.
	skipped func(records int)
	// applied is Parts.Applied for this group, or nil.
	applied func(index uint64, state fsm.State)
	// expected is the entry that this node proposed last, with what it makes of the state.
	expected atomic.Pointer[expectation]
}

// expectation says that the entry data makes to of from.
type expectation struct {
	data     []byte
	from, to fsm.State
}

// expect tells what an entry makes of the state, so that the leader does not evolve twice and shares the values with its
// shard's machine. It is used only for exactly these bytes on exactly that state.
func (r *replica) expect(data []byte, from, to fsm.State) {
	r.expected.Store(&expectation{data, from, to})
}

func newReplica(changed func()) *replica {
	r := &replica{changed: changed, level: record.FeatureLevel}
	s := fsm.NewState()
	r.state.Store(&s)
	return r
}

// State is what is applied on this node.
func (r *replica) State() fsm.State { return *r.state.Load() }

// Apply implements raftnode.FSM. An entry that cannot be applied is refused alike on every replica; one of a newer release stops
// this node, whose state would lack what the others have.
func (r *replica) Apply(index uint64, data []byte) error {
	if e := r.expected.Swap(nil); e != nil && e.from == r.State() && bytes.Equal(e.data, data) {
		r.store(index, e.to)
		return nil
	}
	if level := record.EntryLevel(data); level > r.level {
		return fmt.Errorf("entry %d has feature level %d, this node knows %d: %w; %s", index, level, r.level, raftnode.ErrOutdated, whatToDo)
	}
	entry, err := record.DecodeEntry(data)
	if err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	state, err := r.State().EvolveAll(entry.Records)
	if err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	r.leftOut(entry.Skipped)
	r.store(index, state)
	return nil
}

func (r *replica) leftOut(records int) {
	if records > 0 && r.skipped != nil {
		r.skipped(records)
	}
}

// Snapshot implements raftnode.FSM: a copy of pointers.
func (r *replica) Snapshot() (io.WriterTo, error) { return snapshot{r.State()}, nil }

// Restore implements raftnode.FSM.
func (r *replica) Restore(index uint64, from io.Reader) error {
	state, skipped, err := fsm.ReadSnapshot(from)
	if err != nil {
		return err
	}
	return r.restored(index, skipped, state)
}

// restored takes over a state that was read, of which records of unknown types were skipped.
func (r *replica) restored(index uint64, skipped int, state fsm.State) error {
	if skipped > 0 { // a state holds only what its release knows
		return fmt.Errorf("a snapshot has %d records of types that this node (feature level %d) does not know: %w; %s", skipped, r.level, raftnode.ErrOutdated, whatToDo)
	}
	r.take(index, state)
	r.tell(0, state)
	return nil
}

func (r *replica) store(index uint64, state fsm.State) {
	r.take(index, state)
	r.tell(index, state)
}

func (r *replica) take(index uint64, state fsm.State) {
	r.state.Store(&state)
	r.index.Store(max(r.index.Load(), index))
}

// tell tells who watches; index is 0 for a restored state.
func (r *replica) tell(index uint64, state fsm.State) {
	if r.applied != nil {
		r.applied(index, state)
	}
	if r.changed != nil {
		r.changed()
	}
}

type snapshot struct{ state fsm.State }

// WriteTo implements io.WriterTo.
func (s snapshot) WriteTo(w io.Writer) (int64, error) {
	counted := &countingWriter{w: w}
	err := fsm.WriteSnapshot(counted, s.state)
	return counted.n, err
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
