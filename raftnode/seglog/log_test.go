package seglog

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

func mustOpen(t interface{ Fatal(...any) }, o Options) *Log {
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	coverAll(l)
	return l
}

// coverAll lets entries be missing anywhere, as behind snapshots.
func coverAll(l *Log) {
	for _, g := range l.groups {
		g.CoveredBy(func() uint64 { return 1 << 62 })
	}
}

// TestOnlyWhatASnapshotCoversMayBeMissing: a gap that none covers is refused, and what is before it stays.
func TestOnlyWhatASnapshotCoversMayBeMissing(t *testing.T) {
	l := mustOpen(t, Options{Dir: t.TempDir(), Groups: 1})
	defer func() { _ = l.Close() }()
	g, covered := l.Group(0), uint64(0)
	g.CoveredBy(func() uint64 { return covered })
	want := func(err error, fails bool, first, last uint64) {
		t.Helper()
		f, _ := g.FirstIndex()
		l, _ := g.LastIndex()
		if errors.Is(err, ErrGap) != fails || !fails && err != nil || f != first || l != last {
			t.Errorf("%v; holds %d to %d, want %d to %d", err, f, l, first, last)
		}
	}
	want(g.StoreLog(entry(2, 1, 10)), true, 0, 0)
	want(g.StoreLogs([]*raft.Log{entry(1, 1, 10), entry(2, 1, 10)}), false, 1, 2)
	want(g.StoreLog(entry(4, 1, 10)), true, 1, 2)
	want(g.StoreLogs([]*raft.Log{entry(3, 1, 10), entry(5, 1, 10)}), true, 1, 2)
	covered = 3
	want(g.StoreLog(entry(5, 1, 10)), true, 1, 2)
	want(g.StoreLog(entry(4, 1, 10)), false, 4, 4)
}

// model is what a group must hold: the library's own store in memory, with the entries before a gap removed.
type model struct {
	*raft.InmemStore
}

func newModel() *model { return &model{raft.NewInmemStore()} }

func (m *model) bounds() (first, last uint64) {
	first, _ = m.FirstIndex()
	last, _ = m.LastIndex()
	return first, last
}

func (m *model) store(logs []*raft.Log) {
	for _, l := range logs {
		first, last := m.bounds()
		switch {
		case last == 0:
		case l.Index > last+1:
			_ = m.DeleteRange(first, last)
		case l.Index <= last:
			_ = m.DeleteRange(l.Index, last)
		}
		_ = m.StoreLog(l)
	}
}

func entry(index, term uint64, size int) *raft.Log {
	return &raft.Log{Index: index, Term: term, Data: bytes.Repeat([]byte{byte(index*7 + term)}, size)}
}

func mustEqual(t interface{ Fatalf(string, ...any) }, g raft.LogStore, m *model) {
	first, last := m.bounds()
	f, _ := g.FirstIndex()
	l, _ := g.LastIndex()
	if f != first || l != last {
		t.Fatalf("holds %d to %d, want %d to %d", f, l, first, last)
	}
	for i := max(first, 2) - 2; i <= last+2; i++ {
		var got, want raft.Log
		err, wantErr := g.GetLog(i, &got), m.GetLog(i, &want)
		if !errors.Is(err, wantErr) || err == nil != (wantErr == nil) {
			t.Fatalf("entry %d: %v, want %v", i, err, wantErr)
		}
		if got.Index != want.Index || got.Term != want.Term || got.Type != want.Type || !bytes.Equal(got.Data, want.Data) ||
			!bytes.Equal(got.Extensions, want.Extensions) || !got.AppendedAt.Equal(want.AppendedAt) {
			t.Fatalf("entry %d reads %+v, want %+v", i, got, want)
		}
	}
}

// step does to a group and its model what the library does: append, replace the end, compact the front, go on behind a
// snapshot.
func step(t *rapid.T, g *Group, m *model, term *uint64, size *rapid.Generator[int]) {
	first, last := m.bounds()
	var logs []*raft.Log
	add := func(from uint64) {
		for i := range uint64(rapid.IntRange(1, 20).Draw(t, "n")) {
			logs = append(logs, entry(from+i, *term, size.Draw(t, "size")))
		}
	}
	var err error
	what := rapid.SampledFrom([]string{"add", "add", "add", "replace", "overwrite", "compact", "all", "jump"}).Draw(t, "step")
	switch {
	case what == "add" || last == 0:
		add(max(last, 0) + 1)
	case what == "jump":
		add(last + 1 + rapid.Uint64Range(1, 1000).Draw(t, "jump"))
	case what == "overwrite":
		*term++
		add(rapid.Uint64Range(first, last).Draw(t, "from"))
	case what == "replace":
		*term++
		from := rapid.Uint64Range(first, last).Draw(t, "from")
		err = g.DeleteRange(from, last)
		_ = m.DeleteRange(from, last)
	case what == "compact":
		upto := rapid.Uint64Range(first, last).Draw(t, "upto")
		err = g.DeleteRange(first, upto)
		_ = m.DeleteRange(first, upto)
	case what == "all":
		err = g.DeleteRange(first, last)
		_ = m.DeleteRange(first, last)
	}
	if logs != nil {
		err = g.StoreLogs(logs)
		m.store(logs)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAgreesWithTheStoreInMemory(t *testing.T) {
	n := 0
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		n++
		o := Options{Dir: fmt.Sprint(dir, "/", n), Groups: 3, SegmentSize: 8 << 10, CacheSize: 2000}
		l := mustOpen(t, o)
		defer func() { _ = l.Close() }()
		models := []*model{newModel(), newModel(), newModel()}
		terms := make([]uint64, 3)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			g := rapid.IntRange(0, 2).Draw(t, "group")
			step(t, l.Group(uint32(g)), models[g], &terms[g], rapid.IntRange(0, 1500))
			if rapid.IntRange(0, 9).Draw(t, "reopen") == 0 {
				flush(t, l)
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				l = mustOpen(t, o)
			}
			for g, m := range models {
				mustEqual(t, l.Group(uint32(g)), m)
			}
		}
	})
}

// flush writes what compaction left to be written later.
func flush(t *rapid.T, l *Log) {
	if err := l.submit(&request{}); err != nil {
		t.Fatal(err)
	}
}
