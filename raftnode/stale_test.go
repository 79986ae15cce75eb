package raftnode

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coordd/coordd/raftnode/seglog"
)

// TestAFullNodeWithATailOfItsOwnCatchesUp: the disk of a leader becomes full while it has entries that no other node has. As a
// follower it drops them and can store only a part of what comes instead. It follows on, knows what it has, and catches
// up when there is room.
func TestAFullNodeWithATailOfItsOwnCatchesUp(t *testing.T) {
	fullDisks(t, func(t *testing.T, c *cluster, disks []*fullFS) {
		l := c.leader(0)
		n := c.nodes[l]
		acked := c.write(0, "before", func() bool { return len(c.fsms[l][0].all()) > 3 })
		propose := func(what string, count int) {
			for i := range count {
				n.Group(0).Propose([]byte(fmt.Sprint(what, i, strings.Repeat(".", 30<<10))), func(error) {})
			}
		}
		disks[l].full.Store(true)
		for range 4000 {
			if low, _ := n.entries.Room(); low != nil {
				break
			}
			propose("filling", 4)
			time.Sleep(2 * time.Millisecond)
		}
		c.net.Isolate(host(l))
		propose("own", 30)
		time.Sleep(time.Millisecond)
		propose("own", 150)
		time.Sleep(100 * time.Millisecond)
		other := c.leader(0, l)
		for i := range 30 {
			e := fmt.Sprint("new", i, strings.Repeat(".", 30<<10))
			if c.propose(other, 0, e) == nil {
				acked = append(acked, e)
			}
		}
		c.net.Rejoin(host(l))
		time.Sleep(10 * time.Second)
		s := n.Group(0).Status()
		if last, _ := n.Group(0).disk.LastIndex(); s.Role != Follower || s.Leader != int32(other) || s.LastIndex != last {
			t.Errorf("the full node is %v of %d and ends at %d, on disk at %d", s.Role, s.Leader, s.LastIndex, last)
		}
		disks[l].full.Store(false)
		c.eventually("the node has caught up", func() bool { return slices.Equal(c.fsms[other][0].all(), c.fsms[l][0].all()) })
		c.mustHold(0, acked)
	})
}

// TestALogOfWhichTheEndWentIsReadAnew: where entries were deleted and those in their place cannot be stored, the library would
// go on with an end of the log that is gone. It changes nothing any more before another instance has read the log.
func TestALogOfWhichTheEndWentIsReadAnew(t *testing.T) {
	disk := &fullFS{FS: seglog.OS}
	log, err := seglog.Open(seglog.Options{Dir: t.TempDir(), Groups: 1, SegmentSize: 64 << 10, FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	s, err := openStore(filepath.Join(t.TempDir(), stableFile), log.Group(0))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.close() }()
	failed := make(chan struct{}, 1)
	s.failed = func() { failed <- struct{}{} }
	entries := func(from, to, term uint64) (logs []*raft.Log) {
		for i := from; i <= to; i++ {
			logs = append(logs, &raft.Log{Index: i, Term: term, Data: make([]byte, 10<<10)})
		}
		return logs
	}
	down := make(chan struct{})
	s.begin(down)
	disk.full.Store(true)
	if err := s.StoreLogs(entries(1, 4, 2)); err != nil {
		t.Fatal(err)
	}
	for low, _ := log.Room(); low == nil; low, _ = log.Room() { // one segment may be ready
		if err := s.StoreLogs(entries(5, 8, 2)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if err := s.DeleteRange(3, 8); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.StoreLogs(entries(3, 22, 3)) }()
	<-failed
	last, _ := s.LastIndex()
	select {
	case err := <-done:
		t.Errorf("returned to the library: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(down)
	if err := <-done; !errors.Is(err, ErrNoRoom) {
		t.Error(err)
	}
	disk.full.Store(false)
	for _, err := range []error{s.StoreLogs(entries(last+1, last+1, 4)), s.StoreLogs(entries(9, 9, 4)), s.DeleteRange(1, 2), s.SetUint64(voteKey, 4)} {
		if !errors.Is(err, errStale) {
			t.Errorf("with a log that was not read anew: %v", err)
		}
	}
	s.begin(down)
	if err := s.StoreLogs(entries(last+1, last+1, 4)); errors.Is(err, errStale) {
		t.Error(err)
	}
}
