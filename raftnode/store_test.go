package raftnode

import (
	"path/filepath"
	"testing"
)

func TestStableValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), stableFile)
	s, err := openStore(path, nil)
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
	if s, err = openStore(path, nil); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.close() }()
	if got, err := s.GetUint64([]byte("x")); err != nil || got != 6 {
		t.Errorf("after reopening: %d, %v", got, err)
	}
}
