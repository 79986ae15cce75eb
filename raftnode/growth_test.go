package raftnode

import (
	"strings"
	"testing"
	"time"
)

// sized is a timing with which size alone brings snapshots about.
var sized = Timing{
	Balance: -1, SnapshotInterval: time.Hour, SnapshotThreshold: 1 << 40, TrailingLogs: 1000, SnapshotBytes: 100_000, TrailingBytes: 200_000,
}

// TestLargeEntriesAreSnapshotBySize bounds in bytes what a start reads again, and what stays in the log.
func TestLargeEntriesAreSnapshotBySize(t *testing.T) {
	virtual(t, 3, 2, sized, func(t *testing.T, c *cluster) {
		c.startAll()
		l := c.leader(0)
		for range 50 { // 500,000 bytes
			c.mustPropose(l, 0, strings.Repeat("x", 10_000))
		}
		c.eventually("every node takes a snapshot", func() bool {
			for _, n := range c.nodes {
				if n.Group(0).Status().SnapshotIndex == 0 {
					return false
				}
			}
			return true
		})
		if i := c.nodes[l].Group(1).Status().SnapshotIndex; i != 0 {
			t.Errorf("the other group has a snapshot of %d", i)
		}
		g := c.nodes[l].Group(0)
		before := g.Status().SnapshotIndex
		size := g.snap.size.Load()
		if size < 400_000 {
			t.Fatalf("the snapshot has %d bytes", size)
		}
		// Half of that is what the log may grow by before the next one.
		c.mustPropose(l, 0, strings.Repeat("y", int(size/2-150_000)))
		time.Sleep(5 * time.Second)
		if i := g.Status().SnapshotIndex; i != before {
			t.Errorf("a snapshot of %d after few bytes", i)
		}
		for range 20 {
			c.mustPropose(l, 0, strings.Repeat("z", 20_000))
		}
		c.eventually("the next snapshot", func() bool { return g.Status().SnapshotIndex > before })
		c.stopAll()
		c.startAll()
		if n := len(c.agree(0)); n != 71 {
			t.Errorf("%d entries", n)
		}
	})
}

// TestLargeEntriesLeaveTheLog keeps fewer entries behind a snapshot when they are large, and the usual number again when they
// are small.
func TestLargeEntriesLeaveTheLog(t *testing.T) {
	virtual(t, 1, 1, sized, func(t *testing.T, c *cluster) {
		c.startAll()
		c.leader(0)
		g := c.nodes[0].Group(0)
		snapshot := func() {
			before := g.Status().SnapshotIndex
			c.eventually("a snapshot", func() bool { return g.Status().SnapshotIndex > before })
		}
		kept := func() uint64 {
			first, err := g.disk.FirstIndex()
			if err != nil {
				t.Fatal(err)
			}
			return g.Status().LastIndex - first + 1
		}
		for range 300 {
			c.mustPropose(0, 0, strings.Repeat("x", 1000))
		}
		snapshot()
		c.eventually("large ones leave", func() bool { n := kept(); return n >= 190 && n <= 210 })
		for range 2000 {
			c.mustPropose(0, 0, strings.Repeat("x", 100))
		}
		snapshot()
		c.eventually("small ones stay", func() bool { n := kept(); return n >= 950 && n <= 1050 })
		for range 4 {
			c.mustPropose(0, 0, strings.Repeat("x", 200_000))
		}
		snapshot()
		c.eventually("some stay however large", func() bool { n := kept(); return n >= 60 && n <= 70 })
	})
}
