//go:build !linux

package seglog

// Datasync makes what was written durable.
func (f *osFile) Datasync() error { return f.Sync() }

func (f *osFile) reserve(int64) error { return nil }
