package raftnode

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coordd/coordd/raftnode/seglog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// boltOptions are fixed in code: a file written without its free list and opened by a build that expects it has been
// a source of damage elsewhere. The free list is rebuilt when the file is opened, and saves a page in each commit.
func boltOptions() *bbolt.Options {
	return &bbolt.Options{
		Timeout:        time.Second,
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
	}
}

// store is what a group keeps on disk besides snapshots: its entries, in the log that all groups share, and its stable
// values (term and vote), in a bolt file of its own.
type store struct {
	*seglog.Group
	path string // of the file with the stable values
	bolt *raftboltdb.BoltStore

	// failed is called when entries could not be stored, fatal when a stable value could not; set before raft starts.
	failed func()
	fatal  func(error)
	// storage is why the node cannot store entries.
	storage func() error

	// cut says that the end of the entries was deleted, and stale that the library no longer knows what is in the log: it takes
	// entries for stored only together, and does not note that others went before. A stale log is not changed any more
	// until an instance reads it anew, see begin.
	cut, stale atomic.Bool
	down       <-chan struct{} // closed when the instance that uses the log handles no request any more

	mu     sync.RWMutex
	stable map[string][]byte // what the file holds, as far as asked or set
}

var (
	_ raft.LogStore    = (*store)(nil)
	_ raft.StableStore = (*store)(nil)
)

// openStore opens the file with the stable values and joins it with the group's entries.
func openStore(path string, entries *seglog.Group) (*store, error) {
	if err := makeStableFile(path); err != nil {
		return nil, fmt.Errorf("make stable values: %w", err)
	}
	b, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions()})
	if err != nil {
		return nil, fmt.Errorf("open stable values %s: %w", path, err)
	}
	return &store{Group: entries, path: path, bolt: b, stable: map[string][]byte{}}, nil
}

// stableRoom is the size of the file with the stable values, several times what they need.
const stableRoom = 64 << 10

// makeStableFile makes the file, unless it is there with all its room. The library ends the process when a term cannot be
// stored, so that the blocks for it are taken beforehand: a node whose disk is full goes on voting. And the file gets its
// name when it is whole, since bolt does not open one that a full disk cut off.
func makeStableFile(path string) error {
	b, err := os.ReadFile(filepath.Clean(path))
	there := err == nil && len(b) > 0
	switch {
	case there && len(b) >= stableRoom:
		return nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	case !there:
		if b, err = emptyStableFile(path + ".new"); err != nil {
			return err
		}
	}
	err = replaceFile(path, append(b, make([]byte, max(0, stableRoom-len(b)))...))
	if there && errors.Is(err, syscall.ENOSPC) {
		return nil // as it was, it can be used too
	}
	return err
}

// emptyStableFile is what bolt makes of a new file.
func emptyStableFile(path string) ([]byte, error) {
	_ = os.Remove(path)
	defer func() { _ = os.Remove(path) }()
	b, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions()})
	if err != nil {
		return nil, err
	}
	if err := b.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Clean(path))
}

// StoreLog appends one entry.
func (s *store) StoreLog(e *raft.Log) error { return s.StoreLogs([]*raft.Log{e}) }

// StoreLogs appends entries. After a failure that leaves the log other than the library believes it does not return before the
// instance is given up, where the library would go on with an end of the log that is gone: it would acknowledge what
// comes after entries that are not there.
func (s *store) StoreLogs(logs []*raft.Log) error {
	if s.stale.Load() {
		return errStale
	}
	before, _ := s.LastIndex()
	err := s.Group.StoreLogs(logs)
	if err == nil {
		s.cut.Store(false)
		return nil
	}
	lost := s.cut.Load() || errors.Is(err, seglog.ErrGap)
	if after, _ := s.LastIndex(); lost || after != before {
		s.stale.Store(true)
	}
	if s.failed != nil {
		s.failed()
	}
	if lost && s.down != nil {
		<-s.down
	}
	return err
}

// DeleteRange deletes the first or the last entries.
func (s *store) DeleteRange(lo, hi uint64) error {
	if s.stale.Load() {
		return errStale
	}
	err := s.Group.DeleteRange(lo, hi)
	switch {
	case err == nil && hi > s.Covered():
		s.cut.Store(true)
	case err != nil && s.failed != nil:
		s.failed()
	}
	return err
}

// errStale refuses changes by an instance that does not know what the log holds.
var errStale = errors.New("the log has to be read anew")

// begin is called before an instance reads the log. down is closed when it handles no request any more.
func (s *store) begin(down <-chan struct{}) {
	s.cut.Store(false)
	s.stale.Store(false)
	s.down = down
}

func (s *store) close() error { return s.bolt.Close() }

// termKey and voteKey are where the library keeps the current term and the term of its last vote.
var (
	termKey = []byte("CurrentTerm")
	voteKey = []byte("LastVoteTerm")
)

// check compares what the parts of a data folder say of a group: a part that was lost or replaced by an older one must
// not be mistaken for a group that has not got further, since a vote could be given twice or an entry forgotten that
// others count on. snapshot is the index of the newest snapshot, 0 when there is none.
func (s *store) check(snapshot uint64) error {
	first, err := s.FirstIndex()
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	term, err := s.number(termKey)
	if err != nil {
		return err
	}
	vote, err := s.number(voteKey)
	if err != nil {
		return err
	}
	const remedy = "a part of the data folder is missing or old; restore this node from its peers: move the folder away " +
		"and start with an empty one"
	switch {
	case last == 0 && snapshot == 0 && max(term, vote) > firstTerm:
		return fmt.Errorf("neither entries nor a snapshot, but the term is %d: %s", term, remedy)
	case last == 0:
		return nil
	case first > snapshot+1:
		return fmt.Errorf("entries begin at %d and the newest snapshot ends at %d: %s", first, snapshot, remedy)
	}
	var l raft.Log
	if err := s.GetLog(last, &l); err != nil {
		return err
	}
	if term < l.Term {
		return fmt.Errorf("the term is %d, but entry %d is of term %d: %s", term, last, l.Term, remedy)
	}
	return nil
}

// number is a stable number, 0 when it is absent.
func (s *store) number(key []byte) (uint64, error) {
	n, err := s.GetUint64(key)
	if err != nil && err.Error() == "not found" {
		return 0, nil
	}
	return n, err
}

// isEmptyEntry says whether an entry is known to carry nothing for a state machine. After a restart entries are in no
// cache, so that the log is asked.
func (s *store) isEmptyEntry(index uint64) bool {
	e := s.Cached(index)
	if e == nil {
		e = new(raft.Log)
		if err := s.GetLog(index, e); err != nil {
			return false
		}
	}
	return e.Type == raft.LogNoop || e.Type == raft.LogBarrier
}

// Set writes a stable value. What the file holds already costs no write.
func (s *store) Set(key, val []byte) error {
	s.mu.RLock()
	old, ok := s.stable[string(key)]
	s.mu.RUnlock()
	if ok && old != nil && bytes.Equal(old, val) {
		return nil
	}
	if bytes.Equal(key, voteKey) && s.stale.Load() {
		return errStale
	}
	if s.storage != nil && bytes.Equal(key, voteKey) {
		// Whoever is elected by the vote of a node that can store nothing could commit nothing.
		if err := s.storage(); err != nil {
			return err
		}
	}
	if err := s.bolt.Set(key, val); err != nil {
		s.mu.Lock()
		delete(s.stable, string(key)) // the file may hold either value
		s.mu.Unlock()
		err = fmt.Errorf("store %s in %s: %w", key, s.path, err)
		if s.fatal != nil {
			s.fatal(err)
		}
		return err
	}
	s.remember(key, val)
	return nil
}

// Get reads a stable value; the error of an absent one reads "not found", which the library compares.
func (s *store) Get(key []byte) ([]byte, error) {
	s.mu.RLock()
	val, ok := s.stable[string(key)]
	s.mu.RUnlock()
	if ok {
		return bytes.Clone(val), nil
	}
	val, err := s.bolt.Get(key)
	if err == nil {
		s.remember(key, val)
	}
	return val, err
}

func (s *store) remember(key, val []byte) {
	s.mu.Lock()
	s.stable[string(key)] = bytes.Clone(val)
	s.mu.Unlock()
}

// SetUint64 is Set with a number.
func (s *store) SetUint64(key []byte, val uint64) error { return s.Set(key, encodeTerm(val)) }

// GetUint64 is Get of a number.
func (s *store) GetUint64(key []byte) (uint64, error) {
	b, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("stable value %q has %d bytes", key, len(b))
	}
	return decodeTerm(b), nil
}
