package raftnode

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// fsmAdapter is the library's view of an [FSM]. It outlives a raft instance that is restarted in place: what the
// state machine holds already is then passed over, since a committed prefix is the same for all time.
//
// It implements BatchingFSM because the library counts configuration entries towards a snapshot's index only then.
type fsmAdapter struct {
	fsm     FSM
	log     hclog.Logger
	applied atomic.Uint64 // last index whose effect the state machine holds
	// grown is the size in bytes of the entries since the last snapshot was begun.
	grown atomic.Uint64
	// captured is told with each snapshot how many entries came since the last one, and their size.
	captured func(entries, bytes uint64)
	// tooOld is told of what the state machine cannot apply although others can. halted says that there was such a thing: from
	// then on nothing is applied.
	tooOld func(error)
	halted atomic.Bool
	// entries is how many entries grown counts; only used by the FSM's goroutine.
	entries uint64
	// seen is the last index that the current instance has shown; only used by its FSM goroutine.
	seen uint64
}

var _ raft.BatchingFSM = (*fsmAdapter)(nil)

// errCatchingUp refuses a snapshot while a restarted instance has not reached the state machine yet: the snapshot
// would carry an index below what it holds.
var errCatchingUp = errors.New("the state is ahead of the restarted log")

// Apply applies one entry.
func (a *fsmAdapter) Apply(l *raft.Log) any {
	if a.halted.Load() {
		return ErrOutdated
	}
	a.seen = l.Index
	a.entries++
	a.grown.Add(uint64(len(l.Data)))
	if l.Index <= a.applied.Load() {
		return nil
	}
	var result any
	if l.Type == raft.LogCommand {
		if result = a.command(l); a.halted.Load() {
			return result
		}
	}
	a.applied.Store(l.Index)
	return result
}

func (a *fsmAdapter) command(l *raft.Log) any {
	if staleTerm(l) {
		return ErrStaleTerm
	}
	err := a.fsm.Apply(l.Index, l.Data)
	if a.halts(err) {
		return err
	}
	if err != nil {
		a.log.Error("entry rejected", "index", l.Index, "error", err)
		return fmt.Errorf("%w: %w", ErrRejected, err)
	}
	return nil
}

// halts says whether err ends the application of entries for as long as the process lives.
func (a *fsmAdapter) halts(err error) bool {
	if !errors.Is(err, ErrOutdated) {
		return false
	}
	a.halted.Store(true)
	if a.tooOld != nil {
		a.tooOld(err)
	}
	return true
}

// ApplyBatch applies entries in order.
func (a *fsmAdapter) ApplyBatch(logs []*raft.Log) []any {
	results := make([]any, len(logs))
	for i, l := range logs {
		results[i] = a.Apply(l)
	}
	return results
}

// Snapshot captures the state.
func (a *fsmAdapter) Snapshot() (raft.FSMSnapshot, error) {
	if a.halted.Load() {
		return nil, ErrOutdated
	}
	if a.seen < a.applied.Load() {
		return nil, errCatchingUp
	}
	w, err := a.fsm.Snapshot()
	if err != nil {
		return nil, err
	}
	if a.captured != nil {
		a.captured(a.entries, a.grown.Load())
	}
	a.entries = 0
	a.grown.Store(0)
	return capture{w}, nil
}

// Restore replaces the state.
func (a *fsmAdapter) Restore(rc io.ReadCloser) error {
	index := snapshotIndex(rc)
	a.seen = index
	a.entries = 0
	a.grown.Store(0)
	if index != 0 && index <= a.applied.Load() {
		return nil
	}
	if err := a.fsm.Restore(index, rc); err != nil {
		a.halts(err)
		return err
	}
	a.applied.Store(index)
	return nil
}

// capture is a captured state on its way to a file.
type capture struct{ w io.WriterTo }

// Persist writes the state; a failure leaves no snapshot behind.
func (c capture) Persist(sink raft.SnapshotSink) error {
	if _, err := c.w.WriteTo(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// Release does nothing: a captured state is freed by the garbage collector.
func (c capture) Release() {}
