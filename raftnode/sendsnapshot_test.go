package raftnode

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// TestADamagedSnapshotIsNotPassedOn damages the snapshot of the leader that a follower needs: the follower keeps none of it, the
// leader takes another one, and the follower catches up with that.
func TestADamagedSnapshotIsNotPassedOn(t *testing.T) {
	timing := noBalance
	timing.SnapshotInterval, timing.SnapshotThreshold, timing.TrailingLogs = time.Second, 50, 10
	virtual(t, 3, 1, timing, func(t *testing.T, c *cluster) {
		c.startAll()
		l := c.leader(0)
		down := (l + 1) % 3
		c.mustPropose(l, 0, "first")
		c.crash(down)
		for k := range 300 {
			c.mustPropose(l, 0, fmt.Sprint(k))
		}
		c.eventually("a snapshot is taken", func() bool { return c.nodes[l].Group(0).Status().SnapshotIndex > 250 })
		time.Sleep(5 * time.Second)
		damage(t, filepath.Join(c.dir, host(l), "group-000", "snapshots"))
		c.start(down)
		if got := c.agree(0); len(got) != 301 {
			t.Errorf("%d entries", len(got))
		}
		c.stopAll()
		s, err := openSnapshots(filepath.Join(c.dir, host(down), "group-000"), hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		list, err := s.List()
		if err != nil || len(list) == 0 {
			t.Fatalf("snapshots of the follower: %v, %v", list, err)
		}
		for _, m := range list {
			_, r, err := s.SnapshotStore.Open(m.ID)
			if err != nil {
				t.Fatal(err)
			}
			_ = r.Close()
		}
		c.startAll()
		if got := c.agree(0); len(got) != 301 {
			t.Errorf("after a restart: %d entries", len(got))
		}
	})
}

// damage changes a byte of each snapshot.
func damage(t *testing.T, dir string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "*", stateFile))
	if len(files) == 0 {
		t.Fatal("no snapshot in ", dir)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		b[4] ^= 1 // of the first entry
		if err := os.WriteFile(f, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
