package seglog

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// settled waits until the log's own goroutines have nothing to do.
func settled(l *Log) (segments int, size, live int64) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segs {
		size += s.size
		live += s.bytes
	}
	return len(l.segs), size, live
}

// TestRoomIsBoundedByWhatIsLive writes for long with compaction, while one group writes nothing and another keeps what
// it has: the files are used again and again, and what is kept moves along.
func TestRoomIsBoundedByWhatIsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		o := Options{Dir: "d", Groups: 3, SegmentSize: 16 << 10, FS: fs}
		l := mustOpen(t, o)
		defer func() { _ = l.Close() }()
		quiet, slow, busy := l.Group(1), l.Group(2), l.Group(0)
		for i := range uint64(5) {
			if err := quiet.StoreLog(entry(i+1, 1, 300)); err != nil {
				t.Fatal(err)
			}
		}
		kept := uint64(0)
		for i := uint64(1); i < 4000; i++ {
			if err := busy.StoreLog(entry(i, 1, 300)); err != nil {
				t.Fatal(err)
			}
			if i%50 == 0 && i > 100 {
				first, _ := busy.FirstIndex()
				if err := busy.DeleteRange(first, i-60); err != nil {
					t.Fatal(err)
				}
			}
			if i%20 == 0 && kept < 100 {
				kept++
				if err := slow.StoreLog(entry(kept, 1, 300)); err != nil {
					t.Fatal(err)
				}
			}
			if i%10 == 0 {
				n, size, live := settled(l)
				if n > maxSegments+1 && size > 2*live+3*o.SegmentSize {
					t.Fatalf("after %d: %d segments of %d bytes for %d", i, n, size, live)
				}
				if len(fs.names) > n+1+maxFree {
					t.Fatalf("%d files for %d segments", len(fs.names), n)
				}
			}
		}
		if l.tail.seq < 50 {
			t.Errorf("only %d segments were written", l.tail.seq)
		}
		before := map[uint32]held{}
		for id := range uint32(3) {
			h, err := readAll(l.Group(id))
			if err != nil {
				t.Fatal(err)
			}
			before[id] = h
		}
		if len(before[1].entries) != 5 || len(before[2].entries) != int(kept) {
			t.Errorf("%d and %d entries", len(before[1].entries), len(before[2].entries))
		}
		if err := l.submit(&request{}); err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		l = mustOpen(t, o)
		for id := range uint32(3) {
			h, err := readAll(l.Group(id))
			k := known{must: before[id]}
			if err == nil {
				err = k.check(h)
			}
			if err != nil {
				t.Errorf("group %d after reopening: %v", id, err)
			}
		}
	})
}

// TestNothingIsWrittenAfterAFailedSync: trying again could succeed without the data being there.
func TestNothingIsWrittenAfterAFailedSync(t *testing.T) {
	fs := newMemFS()
	l := mustOpen(t, Options{Dir: "d", Groups: 2, FS: fs})
	if err := l.Group(0).StoreLog(entry(1, 1, 10)); err != nil {
		t.Fatal(err)
	}
	fs.mu.Lock()
	fs.failing = true
	fs.mu.Unlock()
	if err := l.Group(0).StoreLog(entry(2, 1, 10)); !errors.Is(err, ErrFailed) || !errors.Is(err, errSync) {
		t.Errorf("failed sync: %v", err)
	}
	fs.mu.Lock()
	fs.failing = false
	fs.mu.Unlock()
	if err := l.Group(1).StoreLog(entry(1, 1, 10)); !errors.Is(err, ErrFailed) {
		t.Errorf("after a failed sync: %v", err)
	}
	if err := l.Group(0).DeleteRange(1, 1); !errors.Is(err, ErrFailed) {
		t.Errorf("after a failed sync: %v", err)
	}
	if h, err := readAll(l.Group(0)); err != nil || len(h.entries) != 1 || l.Err() == nil {
		t.Errorf("%d entries, %v, %v", len(h.entries), err, l.Err())
	}
	_ = l.Close()
}

type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestAFullDiskIsToldBeforeItHurts: writes go on until the segment is full, fail, and go on when there is room again.
func TestAFullDiskIsToldBeforeItHurts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		out := &lines{}
		l := mustOpen(t, Options{
			Dir: "d", Groups: 1, SegmentSize: minSegmentSize, FS: fs, Logger: hclog.New(&hclog.LoggerOptions{Output: out}),
		})
		defer func() { _ = l.Close() }()
		synctest.Wait()
		fs.mu.Lock()
		fs.full = true
		fs.mu.Unlock()
		i := uint64(1)
		var err error
		for ; err == nil; i++ {
			err = l.Group(0).StoreLog(entry(i, 1, 500))
		}
		if !errors.Is(err, ErrNoRoom) || !errors.Is(err, errRoom) || l.Err() != nil || i < 8 {
			t.Fatalf("entry %d: %v; log: %v", i, err, l.Err())
		}
		if err := l.Group(0).StoreLog(entry(i-1, 1, 1)); !errors.Is(err, ErrNoRoom) {
			t.Errorf("a small entry in a full log: %v", err)
		}
		time.Sleep(150 * time.Second)
		if low, full := strings.Count(out.String(), "[WARN]"), strings.Count(out.String(), "[ERROR]"); low != 1 || full != 3 {
			t.Errorf("told %d times that it becomes full and %d times in 150 s that it is:\n%s", low, full, out)
		}
		if noRoom, full := l.Room(); !errors.Is(noRoom, errRoom) || !full {
			t.Errorf("room: %v, full: %v", noRoom, full)
		}
		fs.mu.Lock()
		fs.full = false
		fs.mu.Unlock()
		time.Sleep(2 * prepareRetry)
		if noRoom, full := l.Room(); noRoom != nil || full || !strings.Contains(out.String(), "room for the log again") {
			t.Errorf("with room again: %v, full: %v\n%s", noRoom, full, out)
		}
		if err := l.Group(0).StoreLog(entry(i-1, 1, 500)); err != nil {
			t.Error(err)
		}
		if h, err := readAll(l.Group(0)); err != nil || h.last() != i-1 {
			t.Errorf("%d, %v", h.last(), err)
		}
	})
}

// TestCompactionFreesAFullLog: entries that need no longer be kept make room on a disk that has none, also when the last
// segment was full before.
func TestCompactionFreesAFullLog(t *testing.T) {
	for _, size := range []int{20, 100, 500, 1500} {
		synctest.Test(t, func(t *testing.T) {
			fs := newMemFS()
			l := mustOpen(t, Options{Dir: "d", Groups: 2, SegmentSize: 2 * minSegmentSize, FS: fs})
			defer func() { _ = l.Close() }()
			synctest.Wait()
			i := uint64(1)
			for ; i < 60; i++ {
				if err := l.Group(0).StoreLog(entry(i, 1, 500)); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			fs.mu.Lock()
			fs.full = true
			fs.mu.Unlock()
			var err error
			for ; err == nil; i++ {
				err = l.Group(0).StoreLog(entry(i, 1, size))
			}
			if _, full := l.Room(); !full || !errors.Is(err, ErrNoRoom) {
				t.Fatalf("entry %d: %v; full: %v", i-1, err, full)
			}
			last, _ := l.Group(0).LastIndex()
			if err := l.Group(0).DeleteRange(1, last-1); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * prepareRetry)
			if noRoom, full := l.Room(); full {
				t.Errorf("entries of %d bytes: full after compaction: %v", size, noRoom)
			}
			if err := l.Group(0).StoreLog(entry(last+1, 1, size)); err != nil {
				t.Errorf("entries of %d bytes: %v", size, err)
			}
		})
	}
}

// TestGroupsWriteAtTheSameTime is for the race detector: writers, readers and compaction of several groups, and Close in
// between.
func TestGroupsWriteAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, Groups: 8, SegmentSize: 32 << 10, CacheSize: 2000}
	l := mustOpen(t, o)
	var wg sync.WaitGroup
	stored := make([]uint64, o.Groups)
	for id := range o.Groups {
		g := l.Group(uint32(id))
		wg.Go(func() {
			for i := uint64(1); ; i++ {
				if err := g.StoreLog(entry(i, 1, 200)); err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
				stored[id] = i
				if i == 600 && id == 0 {
					_ = l.Close()
				}
				if i%100 == 0 {
					wg.Go(func() {
						first, _ := g.FirstIndex()
						if err := g.DeleteRange(first, i-50); err != nil && !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
					})
				}
			}
		})
		wg.Go(func() {
			var e raft.Log
			for range 2000 {
				last, _ := g.LastIndex()
				err := g.GetLog(max(last, 10)-9, &e)
				if err != nil && !errors.Is(err, raft.ErrLogNotFound) && l.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	_ = l.Close()
	l = mustOpen(t, o)
	defer func() { _ = l.Close() }()
	for id := range o.Groups {
		if last, _ := l.Group(uint32(id)).LastIndex(); last < stored[id] {
			t.Errorf("group %d ends at %d, %d was acknowledged", id, last, stored[id])
		}
		if _, err := readAll(l.Group(uint32(id))); err != nil {
			t.Error(err)
		}
	}
}

func TestLargeEntriesAndManyAtOnce(t *testing.T) {
	o := Options{Dir: t.TempDir(), Groups: 1}
	l := mustOpen(t, o)
	g, m := l.Group(0), newModel()
	var logs []*raft.Log
	for i := range uint64(12) {
		logs = append(logs, entry(i+1, 1, 512<<10))
	}
	logs = append(logs, entry(13, 1, int(capacity(DefaultSegmentSize))-recordHeader), entry(14, 2, 0))
	logs[13].AppendedAt, logs[13].Extensions, logs[13].Type = time.Unix(5, 6), []byte("ext"), raft.LogNoop
	if err := g.StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
	m.store(logs)
	mustEqual(t, g, m)
	if g.cache.bytes > DefaultCacheSize {
		t.Errorf("%d bytes in the cache", g.cache.bytes)
	}
	if err := g.StoreLog(entry(15, 2, DefaultSegmentSize)); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if err := g.DeleteRange(5, 6); !errors.Is(err, errMiddle) {
		t.Error(err)
	}
	_ = l.Close()
	l = mustOpen(t, o)
	defer func() { _ = l.Close() }()
	mustEqual(t, l.Group(0), m)
	if err := l.Group(0).StoreLog(entry(15, 2, 1)); err != nil {
		t.Error(err)
	}
}

func TestLeftOversOfACrashAreRemoved(t *testing.T) {
	fs := newMemFS()
	fs.names[filepath.Join("d", "new-0000000000000002"+spareSuffix)] = &inode{}
	l := mustOpen(t, Options{Dir: "d", Groups: 1, FS: fs})
	_ = l.Close()
	for name := range fs.names {
		if strings.HasSuffix(name, spareSuffix) {
			t.Error(name)
		}
	}
}

// TestACopyOfWhatWasReplacedIsNotWritten: between reading an old entry and writing it again the group may have replaced or
// removed it.
func TestACopyOfWhatWasReplacedIsNotWritten(t *testing.T) {
	o := Options{Dir: "d", Groups: 1, FS: newMemFS()}
	l := mustOpen(t, o)
	g, m := l.Group(0), newModel()
	var logs []*raft.Log
	for i := range uint64(6) {
		logs = append(logs, entry(i+1, 1, 10))
	}
	if err := g.StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
	m.store(logs)
	var stale []copied
	for i := uint64(1); i <= 6; i++ {
		p, _ := l.index[0].at(i)
		c := copied{index: i, at: p}
		if err := l.tail.copyOf(&c); err != nil {
			t.Fatal(err)
		}
		stale = append(stale, c)
	}
	if err := errors.Join(g.DeleteRange(1, 1), g.DeleteRange(5, 6), g.StoreLog(entry(4, 2, 10))); err != nil {
		t.Fatal(err)
	}
	_, _ = m.DeleteRange(1, 1), m.DeleteRange(5, 6)
	m.store([]*raft.Log{entry(4, 2, 10)})
	if err := l.submit(&request{copies: stale}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		mustEqual(t, l.Group(0), m)
		if p, _ := l.index[0].at(2); p == stale[1].at {
			t.Error("nothing was copied")
		}
		_ = l.Close()
		l = mustOpen(t, o)
	}
	_ = l.Close()
}
