package seglog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// small makes a log of two segments whose last frame begins at lastFrame of the second, and gives its files.
func small(t *testing.T) (dir string, files map[string][]byte, head string, lastFrame, end int64) {
	t.Helper()
	dir = t.TempDir()
	l := mustOpen(t, Options{Dir: dir, Groups: 2, SegmentSize: minSegmentSize})
	i := uint64(0)
	for len(l.segs) < 2 || l.tail.end < 1000 {
		i++
		if err := l.Group(0).StoreLog(entry(i, 1, 100)); err != nil {
			t.Fatal(err)
		}
	}
	head, lastFrame = segmentName(l.tail.seq), l.tail.end
	if err := l.Group(1).StoreLogs([]*raft.Log{entry(1, 1, 50), entry(2, 1, 50)}); err != nil {
		t.Fatal(err)
	}
	end = l.tail.end
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files = map[string][]byte{}
	names, _ := OS.List(dir)
	for _, name := range names {
		if files[name], _ = os.ReadFile(filepath.Join(dir, name)); len(files[name]) == 0 {
			t.Fatal(name)
		}
	}
	return dir, files, head, lastFrame, end
}

// memory is the files on a disk in memory.
func memory(files map[string][]byte) *memFS {
	fs := newMemFS()
	for name, b := range files {
		fs.names[filepath.Join("d", name)] = &inode{data: append([]byte(nil), b...)}
	}
	return fs
}

func reopen(fs *memFS) (a, b held, err error) {
	l, err := Open(Options{Dir: "d", Groups: 2, SegmentSize: minSegmentSize, FS: fs})
	if err != nil {
		return a, b, err
	}
	defer func() { _ = l.Close() }()
	if a, err = readAll(l.Group(0)); err == nil {
		b, err = readAll(l.Group(1))
	}
	return a, b, err
}

// TestAWriteCutAtAnyByteEndsTheLog: what was not acknowledged is gone, and everything before is there.
func TestAWriteCutAtAnyByteEndsTheLog(t *testing.T) {
	_, files, head, from, end := small(t)
	whole, _, err := reopen(memory(files))
	if err != nil {
		t.Fatal(err)
	}
	for at := from; at < end; at++ {
		fs := memory(files)
		clear(fs.names[filepath.Join("d", head)].data[at:])
		a, b, err := reopen(fs)
		// Padding at the end is zero anyway.
		if err != nil || len(a.entries) != len(whole.entries) || len(b.entries) != 0 && at < end-8 {
			t.Fatalf("cut at %d of %d to %d: %d and %d entries, %v", at, from, end, len(a.entries), len(b.entries), err)
		}
	}
}

// TestEachDamagedByteIsFound: only the last write, which a crash may have interrupted, may be missing without an error.
func TestEachDamagedByteIsFound(t *testing.T) {
	_, files, head, from, end := small(t)
	whole, second, err := reopen(memory(files))
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		for at := range b {
			fs := memory(files)
			fs.names[filepath.Join("d", name)].data[at] ^= 0x40
			a, c, err := reopen(fs)
			var damage *DamageError
			switch {
			case err != nil && (!errors.As(err, &damage) || !strings.Contains(err.Error(), name) && !strings.Contains(err.Error(), head)):
				t.Fatalf("%s, byte %d: %v", name, at, err)
			case err != nil:
			case len(a.entries) != len(whole.entries):
				t.Fatalf("%s, byte %d: %d entries of %d", name, at, len(a.entries), len(whole.entries))
			case len(c.entries) != len(second.entries) && (name != head || int64(at) < from || int64(at) >= end):
				t.Fatalf("%s, byte %d: %d entries of %d", name, at, len(c.entries), len(second.entries))
			}
		}
	}
}

func TestMissingAndForeignFilesAreToldOf(t *testing.T) {
	_, files, head, _, _ := small(t)
	first := segmentName(1)
	for what, change := range map[string]func(*memFS){
		"the head is cut": func(fs *memFS) {
			f := fs.names[filepath.Join("d", head)]
			f.data = f.data[:2000]
		},
		"the first is the head's copy": func(fs *memFS) {
			fs.names[filepath.Join("d", first)].data = append([]byte(nil), files[head]...)
		},
		"the head is missing": func(fs *memFS) { delete(fs.names, filepath.Join("d", head)) },
		"not a segment":       func(fs *memFS) { clear(fs.names[filepath.Join("d", first)].data) },
	} {
		fs := memory(files)
		change(fs)
		var damage *DamageError
		if _, _, err := reopen(fs); !errors.As(err, &damage) || !strings.Contains(err.Error(), "restore this node from its peers") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := Open(Options{Dir: "d", Groups: 1, FS: memory(files)}); err == nil {
		t.Error("a log with more groups opened")
	}
}

// TestDamageIsFoundWhenRead: what went bad after the log was opened is an error, not an entry.
func TestDamageIsFoundWhenRead(t *testing.T) {
	_, files, _, _, _ := small(t)
	fs := memory(files)
	l := mustOpen(t, Options{Dir: "d", Groups: 2, SegmentSize: minSegmentSize, FS: fs})
	defer func() { _ = l.Close() }()
	p, _ := l.index[0].at(1)
	fs.names[filepath.Join("d", segmentName(1))].data[p.off+p.size-1] ^= 1
	var damage *DamageError
	if err := l.Group(0).GetLog(1, new(raft.Log)); !errors.As(err, &damage) || damage.Offset != int64(p.off) {
		t.Error(err)
	}
}

// FuzzOpen reads bytes as a segment, without the log's goroutines, which would make coverage a matter of chance.
func FuzzOpen(f *testing.F) {
	const size = 512
	h := header{seq: 1, salt: 7, size: size}
	segment := func(frame []byte) []byte {
		b := make([]byte, size)
		copy(b, h.encode())
		copy(b[headerSize:], frame)
		return b
	}
	frame := appendEntry(make([]byte, frameHeader), kindEntry, 0, entry(5, 1, 20))
	frame = appendMark(frame, kindDrop, 1, 1<<60)
	frame = appendMark(frame, kindTruncate, 0, 0)
	frame = appendEntry(frame, kindCopy, 1, entry(1<<63, 1, 20))
	sealFrame(frame, h.salt, headerSize, 4)
	f.Add(segment(frame), false)
	f.Add(frame[frameHeader:], true)
	f.Fuzz(func(t *testing.T, b []byte, inside bool) {
		if inside { // as records of a frame whose checksum is right
			frame := append(make([]byte, frameHeader), b[:min(len(b), size-headerSize-frameHeader)]...)
			sealFrame(frame, h.salt, headerSize, 1)
			b = segment(frame)
		}
		l := newLog(Options{Dir: "d", Groups: 2, SegmentSize: minSegmentSize, FS: memory(map[string][]byte{segmentName(1): b})})
		if _, err := l.recover(); err != nil {
			return
		}
		for id := range uint32(2) {
			if _, err := readAll(l.Group(id)); err != nil && !errors.As(err, new(*DamageError)) {
				t.Fatal(err)
			}
		}
	})
}
