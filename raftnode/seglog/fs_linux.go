package seglog

import (
	"errors"
	"os"
	"syscall"
)

// Datasync leaves out the metadata that reading does not need, such as the time of the last change.
func (f *osFile) Datasync() error {
	for {
		err := syscall.Fdatasync(int(f.fd))
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

func (f *osFile) reserve(size int64) error {
	for {
		err := syscall.Fallocate(int(f.fd), 0, 0, size)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
			return nil // writing zeros reserves too
		default:
			return os.NewSyscallError("fallocate", err)
		}
	}
}
