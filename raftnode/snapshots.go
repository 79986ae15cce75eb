package raftnode

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// retainSnapshots is how many snapshots are kept: one more than needed, for the case that the last is damaged.
const retainSnapshots = 2

// snapshots is the library's file store that also tells the index of a snapshot to whoever restores from it.
type snapshots struct {
	raft.SnapshotStore
	last atomic.Uint64 // index of the newest snapshot known
}

// openSnapshots opens the store below dir and removes what a crash left half written.
func openSnapshots(dir string, log hclog.Logger) (*snapshots, error) {
	half, err := filepath.Glob(filepath.Join(dir, "snapshots", "*.tmp"))
	if err != nil {
		return nil, err
	}
	for _, d := range half {
		log.Info("removing a half-written snapshot", "path", d)
		if err := os.RemoveAll(d); err != nil {
			return nil, fmt.Errorf("remove half-written snapshot: %w", err)
		}
	}
	files, err := raft.NewFileSnapshotStoreWithLogger(dir, retainSnapshots, log)
	if err != nil {
		return nil, err
	}
	s := &snapshots{SnapshotStore: files}
	list, err := files.List()
	if err != nil {
		return nil, err
	}
	if len(list) > 0 {
		s.last.Store(list[0].Index)
	}
	return s, nil
}

// Create starts a snapshot.
func (s *snapshots) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64,
	t raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(v, index, term, c, ci, t)
	if err != nil {
		return nil, err
	}
	return &sinkWithIndex{sink, s, index}, nil
}

type sinkWithIndex struct {
	raft.SnapshotSink
	store *snapshots
	index uint64
}

func (s *sinkWithIndex) Close() error {
	err := s.SnapshotSink.Close()
	if err == nil {
		s.store.last.Store(s.index)
	}
	return err
}

// Open opens a snapshot for reading.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, rc, err := s.SnapshotStore.Open(id)
	if err != nil {
		return nil, nil, err
	}
	return meta, readerWithIndex{rc, meta.Index}, nil
}

type readerWithIndex struct {
	io.ReadCloser
	index uint64
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
