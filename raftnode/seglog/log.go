package seglog

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// DefaultSegmentSize is the size of a segment in a log that has grown; the first are smaller.
	DefaultSegmentSize = 16 << 20
	// DefaultCacheSize bounds the data of the last entries that are kept in memory for each group.
	DefaultCacheSize = 1 << 20
	// firstSegmentSize is the size of a log's first segment; each is twice as large as the one before until
	// SegmentSize is reached, so that a node that writes little begins quickly and needs little room.
	firstSegmentSize = 1 << 20
	minSegmentSize   = 4 << 10
	// maxSegments is how many segments there are before entries of the oldest are copied to make it free.
	maxSegments = 8
)

var (
	// ErrClosed: the log is closed.
	ErrClosed = errors.New("the log is closed")
	// ErrFailed: a write failed before; what the files hold is unknown until the log is opened again.
	ErrFailed = errors.New("the log failed and must be opened again: restart this node")
	// ErrTooLarge: an entry does not fit into a segment. Nothing was written.
	ErrTooLarge = errors.New("the entry is too large for the log")
	// ErrGap: entries are missing before the first one that is to be stored. Nothing was written.
	ErrGap = errors.New("entries are missing")
	// ErrNoRoom: there is no room for another segment. Requests may succeed later.
	ErrNoRoom = errors.New("no room for another log segment")
)

// Options say where a log is. Dir and Groups have no default.
type Options struct {
	// Dir is the folder of the log; nothing else may be in it. One process at a time may have it open.
	Dir string
	// Groups is the number of groups, numbered from 0.
	Groups int
	// SegmentSize is the size of a segment in bytes, and with it of the largest entry; 16 MiB when 0.
	SegmentSize int64
	// CacheSize bounds the data of entries that each group keeps in memory; 1 MiB when 0.
	CacheSize int
	// Logger may be nil.
	Logger hclog.Logger
	// FS is the operating system's when nil.
	FS FS
}

// Log is an open log.
type Log struct {
	opt    Options
	groups []*Group

	next  chan prepared // the segment after the head, when it is ready
	wake  chan struct{} // something may be freed
	stop  chan struct{}
	tasks sync.WaitGroup // the goroutines of this log

	// Only whoever writes (see submit) uses these.
	buf  []byte
	tail *segment // the last of segs

	mu      sync.Mutex
	queue   []*request
	writing bool          // somebody writes
	idle    chan struct{} // closed when nobody writes any more; set by Close
	closed  bool
	err     error // why nothing is written any more
	noRoom  error // why the next segment cannot be made, nil while it can
	full    bool  // a request needed the next segment while there was no room for it
	warned  time.Time
	index   []index
	segs    []*segment // by number, without gaps
	free    []*segment // to be used again
	drops   map[uint32]uint64
	// dropping says that drops taken from the map above are not durable yet.
	dropping bool
}

// Open opens a log, or makes an empty one. A *DamageError says that a file is not what it was when it was written.
func Open(opt Options) (*Log, error) {
	switch {
	case opt.Dir == "":
		return nil, errors.New("log: no folder given")
	case opt.Groups < 1:
		return nil, fmt.Errorf("log: %d groups", opt.Groups)
	case opt.SegmentSize == 0:
		opt.SegmentSize = DefaultSegmentSize
	}
	if opt.SegmentSize < minSegmentSize || opt.SegmentSize > maxSegmentSize {
		return nil, fmt.Errorf("log: segments of %d bytes; %d to %d are possible", opt.SegmentSize, minSegmentSize, maxSegmentSize)
	}
	if opt.CacheSize == 0 {
		opt.CacheSize = DefaultCacheSize
	}
	if opt.Logger == nil {
		opt.Logger = hclog.NewNullLogger()
	}
	if opt.FS == nil {
		opt.FS = OS
	}
	l := newLog(opt)
	ready, err := l.recover()
	if err != nil {
		for _, s := range append(l.segs, ready...) {
			err = errors.Join(err, s.file.Close())
		}
		return nil, err
	}
	l.tail = l.segs[len(l.segs)-1]
	l.tasks.Go(func() { l.prepareSegments(ready) })
	l.tasks.Go(l.reclaim)
	return l, nil
}

func newLog(opt Options) *Log {
	l := &Log{
		opt: opt, next: make(chan prepared), wake: make(chan struct{}, 1), stop: make(chan struct{}),
		index: make([]index, opt.Groups), drops: map[uint32]uint64{},
	}
	for id := range opt.Groups {
		l.groups = append(l.groups, newGroup(l, uint32(id)))
	}
	return l
}

// Group is a group's part of the log. It panics for a number that is not below Options.Groups.
func (l *Log) Group(id uint32) *Group { return l.groups[id] }

// Err is why the log accepts no more writes, nil while it does.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Room says whether the log can grow. noRoom is why there is no room for the next segment, nil while there is; full says that a
// request failed for that.
func (l *Log) Room() (noRoom error, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.noRoom, l.full
}

// Close waits for the write that is under way, refuses those that wait, and closes the files.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	if l.err == nil {
		l.err = ErrClosed
	}
	var idle chan struct{}
	if l.writing {
		idle = make(chan struct{})
		l.idle = idle
	}
	l.mu.Unlock()
	close(l.stop)
	if idle != nil {
		<-idle
	}
	l.tasks.Wait()
	var errs []error
	for _, s := range append(l.segs, l.free...) {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(errs...)
}

func (l *Log) path(name string) string { return filepath.Join(l.opt.Dir, name) }
