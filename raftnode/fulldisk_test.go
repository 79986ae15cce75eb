package raftnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/coordd/coordd/raftnode/seglog"
)

// fullFS is the real file system, until there is no room for more files.
type fullFS struct {
	seglog.FS
	full atomic.Bool
}

type fullFile struct {
	seglog.File
	fs *fullFS
}

func (f *fullFS) Open(name string, create bool) (seglog.File, error) {
	file, err := f.FS.Open(name, create)
	return &fullFile{file, f}, err
}

func (f *fullFile) Preallocate(size int64) error {
	if f.fs.full.Load() {
		return syscall.ENOSPC
	}
	return f.File.Preallocate(size)
}

// noSnapshots keeps the log growing until the disk is full.
func noSnapshots() Timing {
	t := noBalance
	t.SnapshotBytes, t.TrailingBytes = 1<<40, 1<<40
	return t
}

// fullDisks is a cluster whose disks can be filled.
func fullDisks(t *testing.T, f func(t *testing.T, c *cluster, disks []*fullFS)) {
	t.Helper()
	virtual(t, 3, 2, noSnapshots(), func(t *testing.T, c *cluster) {
		var disks []*fullFS
		for range c.nodes {
			disks = append(disks, &fullFS{FS: seglog.OS})
		}
		c.disk = func(node int) seglog.FS { return disks[node] }
		c.startAll()
		f(t, c, disks)
	})
}

// write proposes large entries to whoever leads until a condition holds and returns those that were acknowledged.
func (c *cluster) write(group uint32, what string, until func() bool) (acked []string) {
	c.t.Helper()
	for i := range 4000 {
		if until() {
			return acked
		}
		entry := fmt.Sprint(what, i, strings.Repeat(".", 30<<10))
		if l := c.serving(group); l >= 0 && c.propose(l, group, entry) == nil {
			acked = append(acked, entry)
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.t.Fatalf("never while writing %s", what)
	return nil
}

// serving is the node that serves the group, -1 when none does.
func (c *cluster) serving(group uint32) int {
	return slices.IndexFunc(c.nodes, func(n *Node) bool { return n != nil && n.Group(group).Status().Serving })
}

func (c *cluster) mustHold(group uint32, acked []string) {
	c.t.Helper()
	held := map[string]bool{}
	for _, e := range c.agree(group) {
		held[e] = true
	}
	for _, e := range acked {
		if !held[e] {
			c.t.Errorf("group %d lost the entry %.20s", group, e)
		}
	}
}

// TestAFullDiskTakesANodeOut fills the disk of the node that leads: it leaves its groups, says why, and disturbs nobody; the
// others go on; and when there is room again it is back by itself, with all that was acknowledged.
func TestAFullDiskTakesANodeOut(t *testing.T) {
	fullDisks(t, func(t *testing.T, c *cluster, disks []*fullFS) {
		var fatal atomic.Bool
		full := c.leader(0)
		c.nodes[full].cfg.Fatal = func(error) { fatal.Store(true) }
		disks[full].full.Store(true)
		n := c.nodes[full]
		acked := c.write(0, "filling", func() bool { return n.Storage() != nil })
		if err := n.Storage(); !errors.Is(err, ErrNoRoom) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), n.cfg.Dir) {
			t.Errorf("storage: %v", err)
		}
		begin := time.Now()
		l := c.leader(0, full)
		if gap := time.Since(begin); gap > time.Second {
			t.Errorf("another node leads after %v", gap)
		}
		acked = append(acked, c.write(0, "meanwhile", func() bool { return time.Since(begin) > 5*time.Second })...)
		term := c.nodes[l].Group(0).Status().Term
		time.Sleep(time.Minute)
		for g := range uint32(2) {
			if s := n.Group(g).Status(); s.Role != Follower || s.Leader < 0 || s.Leader == int32(full) {
				t.Errorf("group %d: the node whose disk is full is %v and knows %d as the leader", g, s.Role, s.Leader)
			}
		}
		if now := c.nodes[c.leader(0)].Group(0).Status().Term; now != term {
			t.Errorf("term %d became %d", term, now)
		}
		disks[full].full.Store(false)
		c.eventually("the node is back", func() bool { return n.Storage() == nil && n.Group(0).Status().Role == Follower })
		c.mustPropose(c.leader(0), 0, "after")
		c.mustHold(0, acked)
		if fatal.Load() {
			t.Error("the end of the process was asked for")
		}
	})
}

// TestTwoFullDisksStopTheCluster fills two of three disks: nothing is acknowledged any more, until one of them has room
// again; then the cluster goes on by itself.
func TestTwoFullDisksStopTheCluster(t *testing.T) {
	fullDisks(t, func(t *testing.T, c *cluster, disks []*fullFS) {
		disks[0].full.Store(true)
		disks[2].full.Store(true)
		acked := c.write(0, "filling", func() bool { return c.nodes[0].Storage() != nil || c.nodes[2].Storage() != nil })
		first, second := 0, 2
		if c.nodes[2].Storage() != nil {
			first, second = 2, 0
		}
		acked = append(acked, c.write(0, "more", func() bool { return c.nodes[second].Storage() != nil })...)
		c.eventually("nobody serves", func() bool { return c.serving(0) < 0 })
		for range 300 {
			if l := c.serving(0); l >= 0 {
				t.Fatalf("node %d serves without a majority", l)
			}
			time.Sleep(100 * time.Millisecond)
		}
		terms := c.terms()
		time.Sleep(time.Minute)
		if now := c.terms(); !slices.Equal(now, terms) {
			t.Errorf("elections in vain: terms %v, a minute later %v", terms, now)
		}
		disks[first].full.Store(false)
		begin := time.Now()
		c.leader(0)
		if gap := time.Since(begin); gap > 4*time.Second {
			t.Errorf("a leader %v after there was room on a majority", gap)
		}
		acked = append(acked, c.write(0, "again", func() bool { return time.Since(begin) > 10*time.Second })...)
		disks[second].full.Store(false)
		c.eventually("all are back", func() bool { return c.nodes[second].Group(0).Status().Role != Stopped })
		c.mustHold(0, acked)
	})
}

// terms are the terms of all groups on their nodes' disks.
func (c *cluster) terms() (terms []uint64) {
	for _, n := range c.nodes {
		for _, g := range n.Groups() {
			term, err := g.disk.number(termKey)
			if err != nil {
				c.t.Error(err)
			}
			terms = append(terms, term)
		}
	}
	return terms
}

// TestOneNodeAloneOnAFullDisk: it serves nothing until there is room, without elections in vain, and then has all it had.
func TestOneNodeAloneOnAFullDisk(t *testing.T) {
	virtual(t, 1, 2, noSnapshots(), func(t *testing.T, c *cluster) {
		disk := &fullFS{FS: seglog.OS}
		c.disk = func(int) seglog.FS { return disk }
		c.startAll()
		c.leader(0)
		disk.full.Store(true)
		acked := c.write(0, "filling", func() bool { return c.nodes[0].Storage() != nil })
		time.Sleep(10 * time.Second)
		terms := c.terms()
		time.Sleep(time.Minute)
		if now := c.terms(); !slices.Equal(now, terms) || c.serving(0) >= 0 {
			t.Errorf("terms %v, a minute later %v; serves: %v", terms, now, c.serving(0) >= 0)
		}
		disk.full.Store(false)
		c.leader(0)
		c.mustPropose(0, 0, "after")
		c.mustHold(0, acked)
	})
}

// TestLeadershipIsHandedOverBeforeTheLogIsFull: no request fails where other nodes have room.
func TestLeadershipIsHandedOverBeforeTheLogIsFull(t *testing.T) {
	fullDisks(t, func(t *testing.T, c *cluster, disks []*fullFS) {
		full := c.leader(0)
		n := c.nodes[full]
		disks[full].full.Store(true)
		c.write(0, "filling", func() bool { noRoom, _ := n.entries.Room(); return noRoom != nil })
		c.eventually("another node leads", func() bool { l := c.serving(0); return l >= 0 && l != full })
		if err := n.Storage(); err != nil {
			t.Fatalf("the log is full already: %v", err)
		}
		if err := c.nodes[c.leader(0)].Group(0).Transfer(t.Context(), int32(full)); !errors.Is(err, ErrAway) {
			t.Errorf("a transfer to the node without room: %v", err)
		}
		disks[full].full.Store(false)
		c.eventually("the node may lead again", func() bool {
			return c.nodes[c.leader(0)].Group(0).Transfer(t.Context(), int32(full)) == nil
		})
	})
}

// TestANodeStartsOnAFullDisk restarts the process of a node whose disk is full: it starts, or says why not, and is back when
// there is room.
func TestANodeStartsOnAFullDisk(t *testing.T) {
	fullDisks(t, func(t *testing.T, c *cluster, disks []*fullFS) {
		disks[1].full.Store(true)
		n := c.nodes[1]
		acked := c.write(0, "filling", func() bool { return n.Storage() != nil })
		c.stop(1)
		c.start(1)
		acked = append(acked, c.write(0, "more", func() bool { return c.nodes[1].Storage() != nil })...)
		disks[1].full.Store(false)
		c.eventually("the node is back", func() bool { return c.nodes[1].Group(0).Status().Role != Stopped })
		c.mustHold(0, acked)
	})
}

// TestSnapshotsMakeRoomBeforeTheLogIsFull: on a disk without room for another segment entries that a snapshot covers make
// room, so that the node goes on.
func TestSnapshotsMakeRoomBeforeTheLogIsFull(t *testing.T) {
	timing := noSnapshots()
	timing.SnapshotThreshold, timing.TrailingLogs = 1_000_000, 20
	virtual(t, 1, 1, timing, func(t *testing.T, c *cluster) {
		disk := &fullFS{FS: seglog.OS}
		c.disk = func(int) seglog.FS { return disk }
		c.startAll()
		c.leader(0)
		before := c.write(0, "before", func() bool { return c.nodes[0].Group(0).Status().LastIndex > 300 })
		disk.full.Store(true)
		for i := range 600 { // twice what is there
			entry := fmt.Sprint(i, strings.Repeat(".", 30<<10))
			c.mustPropose(0, 0, entry)
			before = append(before, entry)
			time.Sleep(time.Second)
		}
		if err := c.nodes[0].Storage(); err != nil {
			t.Error(err)
		}
		c.mustHold(0, before)
	})
}

// TestAFailedTermEndsTheProcess: the library panics over it; what the operator is told comes first.
func TestAFailedTermEndsTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), stableFile)
	s, err := openStore(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	var told error
	s.fatal = func(err error) { told = err }
	_ = s.bolt.Close()
	if err := s.SetUint64(termKey, 7); err == nil || told == nil || !strings.Contains(told.Error(), path) {
		t.Errorf("%v, told %v", err, told)
	}
}

// smallDisk is a file system of a size below the test's folder; the test is skipped where it cannot be mounted.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := mountSmall(dir, size); err != nil {
		t.Skip("no file system of a limited size: ", err)
	}
	t.Cleanup(func() { _ = unmount(dir) })
	return dir
}

// fill takes all room and returns how to give it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{64 << 10, 1} {
		for b := make([]byte, size); err == nil; {
			_, err = f.Write(b)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		err = nil
	}
	_ = f.Close()
	return func() { _ = os.Remove(path) }
}

// TestTermAndVoteNeedNoRoom: a node whose disk is full goes on voting.
func TestTermAndVoteNeedNoRoom(t *testing.T) {
	dir := smallDisk(t, "1m")
	path := filepath.Join(dir, stableFile)
	s, err := openStore(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer fill(t, dir)()
	for i := range uint64(200) {
		if err := errors.Join(s.SetUint64(termKey, i+1), s.SetUint64(voteKey, i+1), s.Set([]byte("LastVoteCand"), []byte("n2:7000"))); err != nil {
			t.Fatalf("term %d: %v", i+1, err)
		}
	}
	_ = s.close()
	if s, err = openStore(path, nil); err != nil {
		t.Fatal("opened again: ", err)
	}
	defer func() { _ = s.close() }()
	if term, err := s.GetUint64(termKey); err != nil || term != 200 {
		t.Errorf("term %d, %v", term, err)
	}
}

// TestAFolderIsFormedAfterAFullDisk: a start that finds too little room at any point is told so and leaves nothing that a
// later start with room stumbles over.
func TestAFolderIsFormedAfterAFullDisk(t *testing.T) {
	sizes := []int{4, 8, 16, 100, 1000}
	for size := 1024; size < 1500; size += 12 {
		sizes = append(sizes, size)
	}
	enough := 0
	for _, size := range sizes {
		dir := smallDisk(t, fmt.Sprint(size, "k"))
		virtual(t, 1, 2, noBalance, func(t *testing.T, c *cluster) {
			c.dir = dir
			n, err := Open(c.config(0))
			if err == nil {
				enough = size
				_ = n.Shutdown(t.Context())
				return
			}
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%d KiB: %v", size, err)
			}
			if err := resize(dir, "64m"); err != nil {
				t.Fatal(err)
			}
			c.startAll()
			c.mustPropose(c.leader(0), 0, "works")
		})
		if enough > 0 {
			break
		}
	}
	if enough < 1024+2*64 {
		t.Errorf("a folder of %d KiB was enough", enough)
	}
}

// TestASnapshotWithoutRoomLeavesNothing: what was written of it is gone at once, and so is an older snapshot that took the
// room; then the next one fits.
func TestASnapshotWithoutRoomLeavesNothing(t *testing.T) {
	dir := smallDisk(t, "1m")
	s, err := openSnapshots(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	take := func(index uint64, size int) error {
		sink, err := s.Create(1, index, 1, raft.Configuration{}, 1, nil)
		if err != nil {
			return err
		}
		return capture{recorded{strings.Repeat("x", size)}}.Persist(sink)
	}
	for i := range uint64(2) {
		if err := take(i+1, 300<<10); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(3) { // the state does not fit, neither beside two older snapshots nor beside one
		if err := take(3+i, 800<<10); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("with too little room: %v", err)
		}
	}
	free := fill(t, dir)
	for i := range uint64(3) { // not even the description does
		if err := take(6+i, 1); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("on a full disk: %v", err)
		}
	}
	free()
	if half, _ := filepath.Glob(filepath.Join(dir, "snapshots", "*.tmp")); len(half) > 0 {
		t.Errorf("left over: %v", half)
	}
	if list, err := s.List(); err != nil || len(list) != 1 || list[0].Index != 2 {
		t.Errorf("the newest one alone should be there: %v, %v", list, err)
	}
	if err := take(9, 600<<10); err != nil {
		t.Errorf("with the room of the older one: %v", err)
	}
	if list, err := s.List(); err != nil || len(list) != 2 || list[0].Index != 9 || s.last.Load() != 9 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestASnapshotIsInstalledWhenThereIsRoom: a node that was away for long gets a snapshot for which its disk has no room. It goes
// on trying, leaves nothing of the attempts, and is up to date once there is room.
func TestASnapshotIsInstalledWhenThereIsRoom(t *testing.T) {
	timing := noSnapshots()
	timing.SnapshotInterval, timing.SnapshotThreshold, timing.TrailingLogs = 5*time.Second, 20, 5
	virtual(t, 3, 1, timing, func(t *testing.T, c *cluster) {
		dir := filepath.Join(c.dir, host(1))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := mountSmall(dir, "6m"); err != nil {
			t.Skip("no file system of a limited size: ", err)
		}
		defer func() { _ = unmount(dir) }()
		defer c.stopAll()
		c.startAll()
		c.mustPropose(c.leader(0), 0, "before")
		c.stop(1)
		begin := time.Now()
		acked := c.write(0, "meanwhile", func() bool { return time.Since(begin) > 5*time.Second })
		time.Sleep(30 * time.Second) // for snapshots
		if first, _ := c.nodes[c.leader(0)].Group(0).disk.FirstIndex(); first < 100 {
			t.Fatalf("the log of the leader begins at %d", first)
		}
		c.start(1)
		time.Sleep(time.Minute)
		if n := len(c.fsms[1][0].all()); n >= len(acked) {
			t.Errorf("%d entries came through although there is no room for a snapshot", n)
		}
		half, _ := filepath.Glob(filepath.Join(dir, "group-000", "snapshots", "*.tmp", "*"))
		if len(half) > 2 { // one attempt may be under way
			t.Errorf("left over: %v", half)
		}
		if err := resize(dir, "64m"); err != nil {
			t.Fatal(err)
		}
		c.mustHold(0, acked)
	})
}
