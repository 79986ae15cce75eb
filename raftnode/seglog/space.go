package seglog

import (
	"errors"
	"fmt"
	"time"
)

const (
	// maxFree is how many files are kept to be used again.
	maxFree = 2
	// copyBytes bounds the entries that are copied with one write, since others wait for it.
	copyBytes = 256 << 10
	// prepareRetry is the pause after a segment could not be made, warnEvery the one between two lines about that.
	prepareRetry = time.Second
	warnEvery    = time.Minute
)

// prepared is the next segment, or why there is none.
type prepared struct {
	seg *segment
	err error
}

// prepareSegments has the next segment ready before it is needed. ready are segments behind the tail that exist already.
func (l *Log) prepareSegments(ready []*segment) {
	last := l.tail
	for {
		var p prepared
		if len(ready) > 0 {
			p.seg, ready = ready[0], ready[1:]
		} else {
			p.seg, p.err = l.prepare(last.seq+1, min(max(2*last.size, firstSegmentSize), l.opt.SegmentSize))
		}
		var retry <-chan time.Time
		l.tellRoom(p.err)
		if p.err != nil {
			p.err = fmt.Errorf("%w: %w", ErrNoRoom, p.err)
			retry = time.After(prepareRetry)
		}
		select {
		case l.next <- p:
			if p.err == nil {
				last = p.seg
			}
		case <-retry:
		case <-l.stop:
			if p.seg != nil {
				ready = append(ready, p.seg)
			}
			for _, s := range ready {
				_ = s.file.Close()
			}
			return
		}
	}
}

// tellRoom notes whether the next segment could be made, and logs what an operator has to know of it.
func (l *Log) tellRoom(err error) {
	l.mu.Lock()
	lacked, full := l.noRoom != nil, l.full
	l.noRoom = err
	var say bool
	if err == nil {
		l.full, l.warned = false, time.Time{}
	} else if now := time.Now(); now.Sub(l.warned) >= warnEvery {
		say, l.warned = true, now
	}
	l.mu.Unlock()
	switch {
	case err == nil && lacked:
		l.opt.Logger.Info("there is room for the log again", "dir", l.opt.Dir)
	case !say:
	case full:
		l.opt.Logger.Error(fullMessage, "dir", l.opt.Dir, "error", err)
	default:
		l.opt.Logger.Warn(lowMessage, "dir", l.opt.Dir, "error", err)
	}
}

const (
	lowMessage = "no room for the next log segment: other nodes are to lead, and when the present segment is full this node " +
		"stores nothing any more; make room"
	fullMessage = "the log is full and there is no room for another segment: this node stores nothing and leads nothing until " +
		"there is; make room"
)

// noteFull notes that a request failed for want of room.
func (l *Log) noteFull() {
	l.mu.Lock()
	cause, first := l.noRoom, !l.full && l.noRoom != nil
	if first {
		l.full, l.warned = true, time.Now()
	}
	l.mu.Unlock()
	if first {
		l.opt.Logger.Error(fullMessage, "dir", l.opt.Dir, "error", cause)
	}
}

// prepare makes a segment, of a file that is free when there is one.
func (l *Log) prepare(seq uint64, size int64) (*segment, error) {
	l.mu.Lock()
	var old *segment
	if n := len(l.free); n > 0 {
		old, l.free = l.free[n-1], l.free[:n-1]
	}
	l.mu.Unlock()
	if old == nil {
		return l.create(seq, size)
	}
	s, err := initialize(old.file, seq, old.size)
	if err == nil {
		err = l.name(spareName(old.seq), s)
	}
	if err != nil {
		return nil, errors.Join(err, old.file.Close())
	}
	return s, nil
}

// create makes a segment of a new file.
func (l *Log) create(seq uint64, size int64) (s *segment, err error) {
	spare := fmt.Sprintf("new-%016x%s", seq, spareSuffix)
	f, err := l.opt.FS.Open(l.path(spare), true)
	if err != nil {
		return nil, err
	}
	if err = f.Preallocate(size); err == nil {
		if s, err = initialize(f, seq, size); err == nil {
			err = l.name(spare, s)
		}
	}
	if err != nil {
		_ = f.Close()
		_ = l.opt.FS.Remove(l.path(spare)) // gives the room back
		return nil, fmt.Errorf("make %s: %w", l.path(spare), err)
	}
	return s, nil
}

// name makes a spare file a part of the log.
func (l *Log) name(spare string, s *segment) error {
	if err := l.opt.FS.Rename(l.path(spare), l.path(segmentName(s.seq))); err != nil {
		return err
	}
	return l.opt.FS.SyncDir(l.opt.Dir)
}

func spareName(seq uint64) string { return fmt.Sprintf("old-%016x%s", seq, spareSuffix) }

// rotate goes on in the next segment. The end of the present one is made durable before: what is written later is then
// proof that nothing is missing.
func (l *Log) rotate() error {
	var p prepared
	select {
	case p = <-l.next:
	case <-l.stop:
		return ErrClosed
	}
	if p.err != nil {
		l.noteFull()
		return p.err
	}
	if s := l.tail; !s.sealed {
		if err := l.writeFrame(s, make([]byte, frameHeader), sealed); err != nil {
			return errors.Join(err, p.seg.file.Close())
		}
		s.sealed = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segs = append(l.segs, p.seg)
	l.tail = p.seg
	l.poke()
	return nil
}

// poke lets reclaim look again.
func (l *Log) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// reclaim frees segments when something has changed. After an error it ends: which names the folder holds is then not
// known, and freeing a later segment could leave a hole.
func (l *Log) reclaim() {
	for {
		select {
		case <-l.wake:
		case <-l.stop:
			return
		}
		for again := true; again; {
			var err error
			if again, err = l.reclaimOne(); errors.Is(err, ErrNoRoom) {
				break // told already, and something will change before there is room
			} else if err != nil {
				if l.Err() == nil {
					l.opt.Logger.Error("log segments cannot be freed any more; the log grows until this node is restarted",
						"dir", l.opt.Dir, "error", err)
				}
				return
			}
		}
	}
}

// reclaimOne makes one step towards freeing the oldest segment; again says that another may follow.
func (l *Log) reclaimOne() (again bool, err error) {
	l.mu.Lock()
	if l.err != nil || len(l.segs) < 2 {
		l.mu.Unlock()
		return false, nil
	}
	s := l.segs[0]
	switch {
	case s.live > 0:
		crowded := l.crowded()
		l.mu.Unlock()
		if !crowded {
			return false, nil
		}
		return true, l.copyForward(s)
	case len(l.drops) > 0 || l.dropping:
		// Entries that were dropped and are written elsewhere too must not be all that is left: first the drop.
		l.mu.Unlock()
		return true, l.submit(&request{})
	case s.readers > 0:
		l.mu.Unlock()
		return false, nil // the next change comes back to it
	}
	l.segs = l.segs[1:]
	l.mu.Unlock()
	return true, l.release(s)
}

// crowded says whether the oldest segment is to be freed by copying: there are more than enough, and at most half of
// their room is in use, so that copying frees at least as much as it takes. Log.mu is held.
func (l *Log) crowded() bool {
	if len(l.segs) <= maxSegments {
		return false
	}
	var size, live int64
	for _, s := range l.segs {
		size += s.size
		live += s.bytes
	}
	return 2*live <= size
}

// copyForward writes entries of the oldest segment again at the end of the log.
func (l *Log) copyForward(s *segment) error {
	l.mu.Lock()
	var all []copied
	var size uint32
	s.readers++
collect:
	for id := range l.index {
		x := &l.index[id]
		for n, p := range x.pos {
			if uint64(p.seg) != s.seq {
				continue
			}
			if size += p.size; size > copyBytes && len(all) > 0 {
				break collect
			}
			all = append(all, copied{group: uint32(id), index: x.first + uint64(n), at: p})
		}
	}
	l.mu.Unlock()
	var err error
	for i := range all {
		if err = s.copyOf(&all[i]); err != nil {
			break
		}
	}
	l.mu.Lock()
	s.readers--
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("copy entries of %s: %w", l.path(segmentName(s.seq)), err)
	}
	return l.submit(&request{copies: all})
}

func (s *segment) copyOf(c *copied) error {
	b, err := s.readRecord(c.at)
	if err != nil {
		return err
	}
	if _, err := decodeEntry(b, c.group, c.index); err != nil {
		return err
	}
	b[8] = kindCopy
	sumRecord(b)
	c.record = b
	return nil
}

// release takes a segment out of the log. The name is gone for good before the next one's: a log without a segment in
// its middle would be a damaged one.
func (l *Log) release(s *segment) error {
	if err := l.opt.FS.Rename(l.path(segmentName(s.seq)), l.path(spareName(s.seq))); err != nil {
		return errors.Join(err, s.file.Close())
	}
	if err := l.opt.FS.SyncDir(l.opt.Dir); err != nil {
		return errors.Join(err, s.file.Close())
	}
	l.mu.Lock()
	keep := s.size == l.opt.SegmentSize && len(l.free) < maxFree
	if keep {
		l.free = append(l.free, s)
	}
	l.mu.Unlock()
	if keep {
		return nil
	}
	return errors.Join(s.file.Close(), l.opt.FS.Remove(l.path(spareName(s.seq))))
}
