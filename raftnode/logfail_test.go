package raftnode

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/raftnode/seglog"
)

// brokenFS is the real file system until its syncs fail.
type brokenFS struct {
	seglog.FS
	broken atomic.Bool
}

type brokenFile struct {
	seglog.File
	fs *brokenFS
}

func (f *brokenFS) Open(name string, create bool) (seglog.File, error) {
	file, err := f.FS.Open(name, create)
	return &brokenFile{file, f}, err
}

func (f *brokenFile) Datasync() error {
	if f.fs.broken.Load() {
		return errors.New("input/output error")
	}
	return f.File.Datasync()
}

// TestANodeWhoseLogFailedLeavesTheOthersAlone breaks the leader's disk: another node leads within the usual time, nobody
// is disturbed by elections that the broken node starts, and a restart brings it back with all it had.
func TestANodeWhoseLogFailedLeavesTheOthersAlone(t *testing.T) {
	virtual(t, 3, 2, noBalance, func(t *testing.T, c *cluster) {
		fs := &brokenFS{FS: seglog.OS}
		c.disk = func(int) seglog.FS { return fs }
		c.start(0)
		c.disk = nil
		c.start(1)
		c.start(2)
		for g := range uint32(2) {
			l := c.leader(g)
			if l != 0 {
				if err := c.nodes[l].Group(g).Transfer(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
			}
			for c.leader(g) != 0 {
				time.Sleep(10 * time.Millisecond)
			}
			c.mustPropose(0, g, "before")
		}
		fs.broken.Store(true)
		done := make(chan error, 1)
		c.nodes[0].Group(0).Propose([]byte("lost?"), func(err error) { done <- err })
		if err := <-done; !errors.Is(err, ErrUnknown) {
			t.Errorf("on a broken disk: %v", err)
		}
		time.Sleep(5 * time.Second)
		var terms [2]uint64
		for g := range uint32(2) {
			l := c.leader(g)
			if l == 0 {
				t.Fatal("the broken node leads")
			}
			c.mustPropose(l, g, "after")
			terms[g] = c.nodes[l].Group(g).Status().Term
		}
		time.Sleep(time.Minute)
		for g := range uint32(2) {
			if term := c.nodes[c.leader(g)].Group(g).Status().Term; term != terms[g] {
				t.Errorf("group %d: term %d became %d", g, terms[g], term)
			}
		}
		c.stop(0)
		c.start(0)
		time.Sleep(5 * time.Second)
		for g := range uint32(2) {
			c.agree(g)
		}
	})
}
