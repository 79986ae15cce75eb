package seglog

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// Group is one group's part of the log. Its methods may be called at any time from any goroutine.
type Group struct {
	log   *Log
	id    uint32
	cache cache
	// change holds one token: who has it may change the group.
	change chan struct{}
	// covered is up to where entries are not needed; nil for none.
	covered func() uint64
}

var _ raft.LogStore = (*Group)(nil)

func newGroup(l *Log, id uint32) *Group {
	g := &Group{log: l, id: id, change: make(chan struct{}, 1)}
	g.cache.limit = l.opt.CacheSize
	return g
}

// FirstIndex is the index of the first entry, 0 when there is none.
func (g *Group) FirstIndex() (uint64, error) {
	first, _ := g.bounds()
	return first, nil
}

// LastIndex is the index of the last entry, 0 when there is none.
func (g *Group) LastIndex() (uint64, error) {
	_, last := g.bounds()
	return last, nil
}

func (g *Group) bounds() (first, last uint64) {
	g.log.mu.Lock()
	defer g.log.mu.Unlock()
	return g.log.index[g.id].bounds()
}

// CoveredBy sets what tells the index up to which a snapshot holds what the entries did: only those may be missing. It must be
// set before entries are stored or deleted.
func (g *Group) CoveredBy(snapshot func() uint64) { g.covered = snapshot }

// Covered is the index up to which entries may be missing.
func (g *Group) Covered() uint64 {
	if g.covered == nil {
		return 0
	}
	return g.covered()
}

// Cached is an entry that is held in memory, nil when it is not; it must not be changed.
func (g *Group) Cached(index uint64) *raft.Log { return g.cache.get(index) }

// GetLog reads an entry. raft.ErrLogNotFound says that there is none; a *DamageError that it cannot be read.
func (g *Group) GetLog(index uint64, out *raft.Log) error {
	if e := g.cache.get(index); e != nil {
		*out = *e
		return nil
	}
	l := g.log
	l.mu.Lock()
	p, ok := l.index[g.id].at(index)
	if !ok {
		l.mu.Unlock()
		return raft.ErrLogNotFound
	}
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	s := l.segmentOf(p)
	s.readers++
	l.mu.Unlock()
	b, err := s.readRecord(p)
	l.mu.Lock()
	s.readers--
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("read log segment %s: %w", l.path(segmentName(s.seq)), err)
	}
	if *out, err = decodeEntry(b, g.id, index); err != nil {
		return &DamageError{l.path(segmentName(s.seq)), int64(p.off), err.Error()}
	}
	return nil
}

// StoreLog appends one entry.
func (g *Group) StoreLog(e *raft.Log) error { return g.StoreLogs([]*raft.Log{e}) }

// StoreLogs appends entries and returns when they are durable. An entry replaces what the group has from its index on;
// one that leaves a gap removes what is before the gap, which a snapshot must cover (see [Group.CoveredBy]). After an error a part
// of the entries, from the first on, may be in the log; none is after ErrTooLarge and ErrGap. While the log is full (see [Log.Room]) it
// stores none, also such as would fit. The entries must not be changed any more.
func (g *Group) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	limit, size := capacity(g.log.opt.SegmentSize), 0
	for _, e := range logs {
		n := recordSize(e)
		if int64(n) > limit {
			return fmt.Errorf("%w: index %d has %d bytes, and %d are possible", ErrTooLarge, e.Index, n, limit)
		}
		size += n
	}
	if noRoom, full := g.log.Room(); full {
		return fmt.Errorf("%w: %w", ErrNoRoom, noRoom)
	}
	g.change <- struct{}{}
	defer func() { <-g.change }()
	_, last := g.bounds()
	b := make([]byte, 0, size+recordHeader)
	covered := g.Covered()
	for _, e := range logs {
		if e.Index > last+1 && e.Index > covered+1 {
			return fmt.Errorf("%w: entry %d would come after entry %d, and a snapshot covers those up to %d", ErrGap, e.Index, last, covered)
		}
		if last != 0 && e.Index > last+1 {
			b = appendMark(b, kindDrop, g.id, e.Index-1)
		}
		b = appendEntry(b, kindEntry, g.id, e)
		last = e.Index
	}
	if err := g.log.submit(&request{records: b}); err != nil {
		g.cache.remove(0, ^uint64(0))
		return err
	}
	g.cache.put(logs)
	return nil
}

var errMiddle = errors.New("log: only the beginning or the end of a group's entries can be deleted")

// DeleteRange deletes the entries from lo to hi, which must be the first or the last ones. The last ones are gone for
// good when it returns; while the log is full they are not deleted, unless a snapshot covers them, since nothing could
// be stored in their place. The first ones may come back when the node crashes soon after: they are written off with what
// is written next.
func (g *Group) DeleteRange(lo, hi uint64) error {
	if lo > hi {
		return nil
	}
	g.change <- struct{}{}
	defer func() { <-g.change }()
	first, last := g.bounds()
	switch {
	case last == 0 || hi < first || lo > last:
		return nil
	case lo > first && hi < last:
		return errMiddle
	case hi < last:
		g.cache.remove(lo, hi)
		return g.log.dropFirst(g.id, hi)
	}
	if noRoom, full := g.log.Room(); full && hi > g.Covered() {
		return fmt.Errorf("%w: %w", ErrNoRoom, noRoom)
	}
	g.cache.remove(max(lo, first), hi)
	return g.log.submit(&request{records: appendMark(nil, kindTruncate, g.id, lo)})
}
