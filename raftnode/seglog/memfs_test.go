package seglog

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

var (
	errPower = errors.New("the power is off")
	errSync  = errors.New("sync failed")
	errRoom  = errors.New("no space left on device")
)

const sector = 512

// memFS is a file system in memory that forgets in a crash what was not synced: of the writes some sectors may have
// reached the disk, in any order, of one of them a part; of the names a first part of the changes.
type memFS struct {
	mu      sync.Mutex
	names   map[string]*inode
	durable map[string]*inode
	changes []func(map[string]*inode) // of names, not synced
	steps   int                       // changes until the power goes off; negative: never
	off     bool
	failing bool // Datasync fails
	full    bool // Preallocate fails
}

type inode struct {
	data, durable []byte
	writes        []write
}

type write struct {
	off  int64
	data []byte
}

func newMemFS() *memFS {
	return &memFS{names: map[string]*inode{}, durable: map[string]*inode{}, steps: -1}
}

// step is called with mu before each change.
func (m *memFS) step() error {
	if m.steps == 0 {
		m.off = true
	}
	if m.off {
		return errPower
	}
	if m.steps > 0 {
		m.steps--
	}
	return nil
}

// crash gives what is found after the power came back.
func (m *memFS) crash(r *rand.Rand) *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = true
	n := newMemFS()
	for _, c := range m.changes[:r.IntN(len(m.changes)+1)] {
		c(m.durable)
	}
	for name, f := range m.durable {
		b := slices.Clone(f.durable)
		for _, w := range f.writes {
			for off := w.off; off < w.off+int64(len(w.data)); {
				end := min(off/sector*sector+sector, w.off+int64(len(w.data)))
				switch r.IntN(5) {
				case 0, 1:
					copy(b[off:end], w.data[off-w.off:])
				case 2: // the sector is torn
					copy(b[off:off+r.Int64N(end-off+1)], w.data[off-w.off:])
				}
				off = end
			}
		}
		n.names[name] = &inode{data: b, durable: slices.Clone(b)}
	}
	n.durable = maps.Clone(n.names)
	return n
}

func (m *memFS) change(c func(map[string]*inode)) error {
	if err := m.step(); err != nil {
		return err
	}
	c(m.names)
	m.changes = append(m.changes, c)
	return nil
}

func (m *memFS) MkdirAll(string) error { return nil }

func (m *memFS) List(dir string) (names []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.names {
		if filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	return names, nil
}

func (m *memFS) Open(name string, create bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if create {
		f := &inode{}
		if err := m.change(func(n map[string]*inode) { n[name] = f }); err != nil {
			return nil, err
		}
	}
	f := m.names[name]
	if f == nil {
		return nil, os.ErrNotExist
	}
	return &memFile{m, f}, nil
}

func (m *memFS) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names[from] == nil {
		return os.ErrNotExist
	}
	return m.change(func(n map[string]*inode) {
		n[to] = n[from]
		delete(n, from)
	})
}

func (m *memFS) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.change(func(n map[string]*inode) { delete(n, name) })
}

func (m *memFS) SyncDir(string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return err
	}
	m.durable, m.changes = maps.Clone(m.names), nil
	return nil
}

type memFile struct {
	fs *memFS
	*inode
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if off > int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.step(); err != nil {
		return 0, err
	}
	if off+int64(len(b)) > int64(len(f.data)) {
		return 0, errors.New("written behind the end of the file")
	}
	copy(f.data[off:], b)
	f.writes = append(f.writes, write{off, slices.Clone(b)})
	return len(b), nil
}

func (f *memFile) Size() (int64, error) { return int64(len(f.data)), nil }

func (f *memFile) Preallocate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.full {
		return errRoom
	}
	if err := f.fs.step(); err != nil {
		return err
	}
	f.data, f.durable = make([]byte, size), make([]byte, size)
	return nil
}

func (f *memFile) Datasync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.failing {
		return errSync
	}
	if err := f.fs.step(); err != nil {
		return err
	}
	f.durable, f.writes = slices.Clone(f.data), nil
	return nil
}

func (f *memFile) Close() error { return nil }
