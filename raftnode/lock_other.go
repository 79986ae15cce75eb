//go:build !(unix && !solaris && !illumos && !aix)

package raftnode

// dirLock does nothing on systems without flock: there the lock of each group's bolt file keeps a second process out.
type dirLock struct{}

func lockDir(string) (*dirLock, error) { return &dirLock{}, nil }

func (l *dirLock) release() error { return nil }
