package raftnode

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

const (
	// The tail of the log is kept in memory so that replicators do not read back what was just written: at most this
	// many entries and bytes a group.
	tailEntries = 1024
	tailBytes   = 8 << 20
	// deleteChunk bounds the entries that one transaction deletes, so that compaction does not hold up appends.
	deleteChunk = 512
)

// boltOptions are fixed in code: a file written without its free list and opened by a build that expects it has been
// a source of damage elsewhere. The free list is rebuilt when the file is opened, which takes milliseconds for a log
// of some thousand entries, and saves pages in each commit.
func boltOptions() *bbolt.Options {
	return &bbolt.Options{
		Timeout:        time.Second,
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
	}
}

// store is the log and the stable values of one group in one bolt file.
type store struct {
	bolt *raftboltdb.BoltStore

	mu     sync.RWMutex
	tail   [tailEntries]*raft.Log // by index modulo; an entry counts only when its index matches
	first  uint64                 // no entry below is in the tail
	last   uint64                 // last index ever put into the tail
	bytes  int
	stable map[string][]byte // what the file holds, as far as asked or set
}

var (
	_ raft.LogStore    = (*store)(nil)
	_ raft.StableStore = (*store)(nil)
)

func openStore(path string) (*store, error) {
	b, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions()})
	if err != nil {
		return nil, fmt.Errorf("open raft log %s: %w", path, err)
	}
	return &store{bolt: b, stable: map[string][]byte{}}, nil
}

func (s *store) close() error { return s.bolt.Close() }

// FirstIndex is the first index in the log, 0 when it is empty.
func (s *store) FirstIndex() (uint64, error) { return s.bolt.FirstIndex() }

// LastIndex is the last index in the log, 0 when it is empty.
func (s *store) LastIndex() (uint64, error) { return s.bolt.LastIndex() }

// GetLog reads an entry.
func (s *store) GetLog(index uint64, l *raft.Log) error {
	s.mu.RLock()
	e := s.cached(index)
	s.mu.RUnlock()
	if e != nil {
		*l = *e
		return nil
	}
	return s.bolt.GetLog(index, l)
}

// StoreLog appends one entry.
func (s *store) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs appends entries durably.
func (s *store) StoreLogs(logs []*raft.Log) error {
	if err := s.bolt.StoreLogs(logs); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range logs {
		s.put(l)
	}
	return nil
}

// DeleteRange deletes the entries from min to max, from the front when the log is compacted (so that a crash between
// chunks leaves no hole), from the back when a suffix is replaced.
func (s *store) DeleteRange(lo, hi uint64) error {
	s.mu.Lock()
	for i := range s.tail {
		if e := s.tail[i]; e != nil && e.Index >= lo && e.Index <= hi {
			s.drop(i)
		}
	}
	s.mu.Unlock()
	first, err := s.bolt.FirstIndex()
	if err != nil {
		return err
	}
	if lo = max(lo, first); lo > first {
		for ; hi >= lo+deleteChunk; hi -= deleteChunk {
			if err := s.bolt.DeleteRange(hi-deleteChunk+1, hi); err != nil {
				return err
			}
		}
		return s.bolt.DeleteRange(lo, hi)
	}
	for ; lo+deleteChunk <= hi; lo += deleteChunk {
		if err := s.bolt.DeleteRange(lo, lo+deleteChunk-1); err != nil {
			return err
		}
	}
	return s.bolt.DeleteRange(lo, hi)
}

func (s *store) cached(index uint64) *raft.Log {
	if e := s.tail[index%tailEntries]; e != nil && e.Index == index {
		return e
	}
	return nil
}

func (s *store) put(l *raft.Log) {
	if s.last != 0 && l.Index > s.last+1 { // a snapshot was installed: the tail begins anew
		clear(s.tail[:])
		s.bytes, s.first = 0, l.Index
	}
	i := int(l.Index % tailEntries)
	s.drop(i)
	s.tail[i] = l
	s.bytes += len(l.Data)
	if s.first == 0 || l.Index < s.first {
		s.first = l.Index
	}
	s.last = l.Index
	for s.bytes > tailBytes && s.first < s.last {
		if s.cached(s.first) != nil {
			s.drop(int(s.first % tailEntries))
		}
		s.first++
	}
	if s.last-s.first >= tailEntries {
		s.first = s.last - tailEntries + 1
	}
}

func (s *store) drop(i int) {
	if e := s.tail[i]; e != nil {
		s.bytes -= len(e.Data)
		s.tail[i] = nil
	}
}

// isEmptyEntry says whether an entry is known to carry nothing for a state machine.
func (s *store) isEmptyEntry(index uint64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.cached(index)
	return e != nil && (e.Type == raft.LogNoop || e.Type == raft.LogBarrier)
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
