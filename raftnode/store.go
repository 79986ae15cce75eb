package raftnode

import (
	"bytes"
	"fmt"
	"sync"
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
	bolt *raftboltdb.BoltStore

	mu     sync.RWMutex
	stable map[string][]byte // what the file holds, as far as asked or set
}

var (
	_ raft.LogStore    = (*store)(nil)
	_ raft.StableStore = (*store)(nil)
)

// openStore opens the file with the stable values and joins it with the group's entries.
func openStore(path string, entries *seglog.Group) (*store, error) {
	b, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions()})
	if err != nil {
		return nil, fmt.Errorf("open stable values %s: %w", path, err)
	}
	return &store{Group: entries, bolt: b, stable: map[string][]byte{}}, nil
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
	if err := s.bolt.Set(key, val); err != nil {
		s.mu.Lock()
		delete(s.stable, string(key)) // the file may hold either value
		s.mu.Unlock()
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
