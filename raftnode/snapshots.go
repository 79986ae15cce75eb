package raftnode

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// retainSnapshots is how many snapshots are kept: one more than needed, for the case that the last is damaged.
const retainSnapshots = 2

// snapshots is the library's file store that also tells the index of a snapshot to whoever restores from it, and leaves
// nothing behind of a snapshot that could not be written.
type snapshots struct {
	raft.SnapshotStore
	dir  string // of the snapshots
	log  hclog.Logger
	last atomic.Uint64 // index of the newest snapshot known
	size atomic.Uint64 // its size in bytes

	mu   sync.Mutex
	open map[string]bool // ids of the snapshots that are being written
}

// openSnapshots opens the store below dir and removes what a crash left half written.
func openSnapshots(dir string, log hclog.Logger) (*snapshots, error) {
	s := &snapshots{dir: filepath.Join(dir, "snapshots"), log: log, open: map[string]bool{}}
	if err := s.sweep(); err != nil {
		return nil, fmt.Errorf("remove half-written snapshot: %w", err)
	}
	files, err := raft.NewFileSnapshotStoreWithLogger(dir, retainSnapshots, log)
	if err != nil {
		return nil, fmt.Errorf("folder of snapshots: %w", err)
	}
	s.SnapshotStore = files
	list, err := files.List()
	if err != nil {
		return nil, err
	}
	if len(list) > 0 {
		s.last.Store(list[0].Index)
		s.size.Store(uint64(max(list[0].Size, 0)))
	}
	return s, nil
}

// Create starts a snapshot.
func (s *snapshots) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64,
	t raft.Transport) (raft.SnapshotSink, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sink, err := s.SnapshotStore.Create(v, index, term, c, ci, t)
	if err != nil {
		s.failed(err)
		return nil, err
	}
	s.open[sink.ID()] = true
	return &sinkWithIndex{SnapshotSink: sink, store: s, index: index}, nil
}

const halfWritten = ".tmp" // the library's end of the name of a snapshot's folder while it is written

// sweep removes what is left of snapshots that nobody writes. s.mu is held, but for the first time.
func (s *snapshots) sweep() error {
	half, err := filepath.Glob(filepath.Join(s.dir, "*"+halfWritten))
	if err != nil {
		return err
	}
	for _, d := range half {
		if s.open[strings.TrimSuffix(filepath.Base(d), halfWritten)] {
			continue
		}
		s.log.Info("removing a half-written snapshot", "path", d)
		// The library may not have closed its files, and what is open keeps its blocks.
		files, _ := filepath.Glob(filepath.Join(d, "*"))
		for _, f := range files {
			_ = os.Truncate(f, 0)
		}
		if err := os.RemoveAll(d); err != nil {
			return err
		}
	}
	return nil
}

// failed cleans up after a snapshot that could not be written: the library leaves it there when the disk is full, and
// writes another one half a minute later. If there was no room, the next one gets that of the older of the snapshots, which
// are more than needed. s.mu is held.
func (s *snapshots) failed(cause error) {
	if err := s.sweep(); err != nil {
		s.log.Warn("a half-written snapshot cannot be removed", "error", err)
	}
	if !errors.Is(cause, syscall.ENOSPC) {
		return
	}
	list, err := s.List()
	if err != nil || len(list) < 2 {
		return
	}
	_, newest, err := s.SnapshotStore.Open(list[0].ID)
	if err != nil {
		return // it is damaged: what is older is needed
	}
	_ = newest.Close()
	for _, old := range list[1:] {
		s.log.Info("no room for a snapshot: removing an older one", "id", old.ID)
		if err := os.RemoveAll(filepath.Join(s.dir, old.ID)); err != nil {
			s.log.Warn("an old snapshot cannot be removed", "error", err)
		}
	}
}

// ended is told how the writing of a snapshot ended; nil for well.
func (s *snapshots) ended(id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open[id] {
		return
	}
	delete(s.open, id)
	if err != nil {
		s.failed(err)
	}
}

type sinkWithIndex struct {
	raft.SnapshotSink
	store *snapshots
	index uint64
	size  uint64 // written so far
	wrong error  // of Write
}

func (s *sinkWithIndex) Write(b []byte) (int, error) {
	n, err := s.SnapshotSink.Write(b)
	s.size += uint64(n)
	if err != nil {
		s.wrong = err
	}
	return n, err
}

var errCancelled = errors.New("cancelled")

// Cancel gives the snapshot up.
func (s *sinkWithIndex) Cancel() error {
	err := s.SnapshotSink.Cancel()
	s.store.ended(s.ID(), errors.Join(errCancelled, s.wrong, err))
	return err
}

// Close makes the snapshot the newest one.
func (s *sinkWithIndex) Close() error {
	err := s.SnapshotSink.Close()
	if err == nil {
		s.store.last.Store(s.index)
		s.store.size.Store(s.size)
	}
	s.store.ended(s.ID(), err)
	return err
}

// stateFile is the library's name for what a snapshot holds.
const stateFile = "state.bin"

// Open opens a snapshot for reading. Unlike the library's store it does not read all of it first for a checksum: an FSM
// notices damage itself, and with much state a start waits for it. What is sent to others is checked on the way, see InstallSnapshot.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	list, err := s.List()
	if err != nil {
		return nil, nil, err
	}
	for _, meta := range list {
		if meta.ID == id {
			f, err := os.Open(filepath.Join(s.dir, id, stateFile))
			if err != nil {
				return nil, nil, err
			}
			return meta, readerWithIndex{f, meta.Index, filepath.Join(s.dir, id)}, nil
		}
	}
	return nil, nil, fmt.Errorf("no snapshot %s", id)
}

type readerWithIndex struct {
	io.ReadCloser
	index uint64
	dir   string // of the snapshot
}

// snapshotIndex is the index of a snapshot that the library hands to an FSM, 0 when it is not one of ours.
func snapshotIndex(rc io.ReadCloser) uint64 {
	for {
		switch r := rc.(type) {
		case readerWithIndex:
			return r.index
		case raft.ReadCloserWrapper:
			rc = r.WrappedReadCloser()
		default:
			return 0
		}
	}
}

// empty says whether there is no complete snapshot.
func (s *snapshots) empty() (bool, error) {
	list, err := s.List()
	return len(list) == 0, err
}
