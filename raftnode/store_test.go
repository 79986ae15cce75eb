package raftnode

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

// TestStoreAgreesWithModel runs what the library does to a log (append, cut the tail, compact the front, jump after a
// snapshot) against a map, and reopens the file now and then.
func TestStoreAgreesWithModel(t *testing.T) {
	n := 0
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		s, err := openStore(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.close() }()
		model := map[uint64]byte{}
		first, last, term := uint64(1), uint64(0), uint64(1)
		add := func(k int) {
			var logs []*raft.Log
			for range k {
				last++
				b := byte(last*7 + term)
				model[last] = b
				logs = append(logs, &raft.Log{Index: last, Term: term, Data: bytes.Repeat([]byte{b}, 10)})
			}
			if err := s.StoreLogs(logs); err != nil {
				t.Fatal(err)
			}
		}
		del := func(lo, hi uint64) {
			if err := s.DeleteRange(lo, hi); err != nil {
				t.Fatal(err)
			}
			for i := range model {
				if i >= lo && i <= hi {
					delete(model, i)
				}
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				add(rapid.IntRange(1, 1200).Draw(t, "n"))
			case 2: // a new leader replaces the suffix
				if last > first {
					from := rapid.Uint64Range(first, last).Draw(t, "from")
					del(from, last)
					last, term = from-1, term+1
				}
			case 3: // compaction
				if last > first {
					to := rapid.Uint64Range(first, last).Draw(t, "to")
					del(first, to)
					first = to + 1
				}
			case 4: // a snapshot is installed
				if last >= first {
					del(first, last)
				}
				last += rapid.Uint64Range(1, 3000).Draw(t, "jump")
				first = last + 1
			case 5:
				_ = s.close()
				if s, err = openStore(path); err != nil {
					t.Fatal(err)
				}
			}
			check(t, s, model)
		}
	})
}

func check(t *rapid.T, s *store, model map[uint64]byte) {
	var lo, hi uint64
	for i := range model {
		if lo == 0 || i < lo {
			lo = i
		}
		hi = max(hi, i)
	}
	if f, err := s.FirstIndex(); err != nil || f != lo {
		t.Fatalf("first %d, %v; want %d", f, err, lo)
	}
	if l, err := s.LastIndex(); err != nil || l != hi {
		t.Fatalf("last %d, %v; want %d", l, err, hi)
	}
	for i := max(lo, 1) - min(max(lo, 1), 3); i <= hi+3; i += 1 + (hi-lo)/50 {
		var l raft.Log
		err := s.GetLog(i, &l)
		want, ok := model[i]
		if ok != (err == nil) || !ok && !errors.Is(err, raft.ErrLogNotFound) {
			t.Fatalf("entry %d: %v; present %v", i, err, ok)
		}
		if ok && (l.Index != i || len(l.Data) != 10 || l.Data[0] != want) {
			t.Fatalf("entry %d reads %+v", i, l)
		}
	}
	if s.bytes > tailBytes {
		t.Fatalf("tail holds %d bytes", s.bytes)
	}
}

func TestTailIsBounded(t *testing.T) {
	s, err := openStore(filepath.Join(t.TempDir(), "raft.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.close() }()
	for i := range uint64(40) {
		if err := s.StoreLog(&raft.Log{Index: i + 1, Data: make([]byte, 512<<10)}); err != nil {
			t.Fatal(err)
		}
		if s.bytes > tailBytes {
			t.Fatalf("tail holds %d bytes", s.bytes)
		}
	}
	var l raft.Log
	if err := s.GetLog(1, &l); err != nil || len(l.Data) != 512<<10 {
		t.Errorf("an entry that left the tail: %v", err)
	}
}

func TestStableValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	s, err := openStore(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get([]byte("x")); err == nil || err.Error() != "not found" {
		t.Errorf("absent value: %v", err)
	}
	if _, err := s.GetUint64([]byte("x")); err == nil || err.Error() != "not found" {
		t.Errorf("absent number: %v", err)
	}
	for _, v := range []uint64{5, 5, 6} {
		if err := s.SetUint64([]byte("x"), v); err != nil {
			t.Fatal(err)
		}
		if got, err := s.GetUint64([]byte("x")); err != nil || got != v {
			t.Errorf("%d, %v", got, err)
		}
	}
	_ = s.Set([]byte("empty"), nil)
	_ = s.close()
	if s, err = openStore(path); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.close() }()
	if got, err := s.GetUint64([]byte("x")); err != nil || got != 6 {
		t.Errorf("after reopening: %d, %v", got, err)
	}
}
