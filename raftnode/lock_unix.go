//go:build unix && !solaris && !illumos && !aix

package raftnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// dirLock is the right of one process to a data folder. The system drops it when the process ends, however it ends.
type dirLock struct{ f *os.File }

func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, "LOCK")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer func() { _ = f.Close() }()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("data folder: lock %s: %w", path, err)
		}
		owner := ""
		if b, err := os.ReadFile(path); err == nil && len(b) > 0 {
			owner = " (process " + strings.TrimSpace(string(b)) + ")"
		}
		return nil, fmt.Errorf("%w: %s is held by another coordd%s; stop that one, or set data.dir to another folder",
			ErrDataDirInUse, dir, owner)
	}
	// Only a hint for people; that it is written or not decides nothing.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintln(f, os.Getpid())
	}
	return &dirLock{f}, nil
}

func (l *dirLock) release() error { return l.f.Close() }
