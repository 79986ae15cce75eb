package seglog

import (
	"os"
	"path/filepath"
)

// FS is the file system below a log. [OS] is the real one; tests have one that forgets what was not synced.
type FS interface {
	// MkdirAll makes a folder.
	MkdirAll(dir string) error
	// List gives the names of the files in a folder.
	List(dir string) ([]string, error)
	// Open opens a file for reading and writing; create makes an empty one.
	Open(name string, create bool) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes the names in a folder durable.
	SyncDir(dir string) error
}

// File is an open file.
type File interface {
	ReadAt(b []byte, off int64) (int, error)
	WriteAt(b []byte, off int64) (int, error)
	Size() (int64, error)
	// Preallocate fills an empty file with size zero bytes and makes them durable, so that later writes change no
	// metadata.
	Preallocate(size int64) error
	// Datasync makes what was written durable.
	Datasync() error
	Close() error
}

// OS is the operating system's file system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o700) }

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (osFS) Open(name string, create bool) (File, error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(filepath.Clean(name), flags, 0o600)
	if err != nil {
		return nil, err
	}
	return &osFile{f, f.Fd()}, nil
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	return err
}

type osFile struct {
	*os.File
	fd uintptr
}

// Size is the file's size.
func (f *osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// Preallocate reserves the room first, which tells at once that there is none, and then writes zeros: blocks that were
// only reserved are converted at the first write, and that is a change of metadata in each sync.
func (f *osFile) Preallocate(size int64) error {
	if err := f.reserve(size); err != nil {
		return err
	}
	zeros := make([]byte, 256<<10)
	for off := int64(0); off < size; off += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-off)], off); err != nil {
			return err
		}
	}
	return f.Sync()
}
