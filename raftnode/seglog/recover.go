package seglog

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// recover reads the log. What it returns are segments behind the end of the log, without entries.
func (l *Log) recover() (ready []*segment, err error) {
	if err := l.opt.FS.MkdirAll(l.opt.Dir); err != nil {
		return nil, fmt.Errorf("log folder: %w", err)
	}
	seqs, err := l.list()
	if err != nil {
		return nil, err
	}
	r := recovery{log: l, groups: make([]replay, l.opt.Groups)}
	for i := range r.groups {
		r.groups[i].pos = map[uint64]position{}
	}
	for _, seq := range seqs {
		if err := r.segment(seq); err != nil {
			return r.empty, err
		}
	}
	if err := r.finish(); err != nil {
		return r.empty, err
	}
	if len(l.segs) > 0 {
		return r.empty, r.sync()
	}
	if len(r.empty) == 0 {
		first, err := l.create(1, min(firstSegmentSize, l.opt.SegmentSize))
		if err != nil {
			return nil, fmt.Errorf("first log segment: %w", err)
		}
		r.empty = []*segment{first}
	}
	l.segs = r.empty[:1:1]
	return r.empty[1:], nil
}

// list gives the numbers of the segments in the folder and removes what a crash left on its way to become one.
func (l *Log) list() (seqs []uint64, err error) {
	names, err := l.opt.FS.List(l.opt.Dir)
	if err != nil {
		return nil, fmt.Errorf("log folder: %w", err)
	}
	for _, name := range names {
		if seq, ok := parseSegmentName(name); ok {
			seqs = append(seqs, seq)
		} else if strings.HasSuffix(name, spareSuffix) {
			if err := l.opt.FS.Remove(l.path(name)); err != nil {
				return nil, fmt.Errorf("spare log segment: %w", err)
			}
		}
	}
	slices.Sort(seqs)
	for i, seq := range seqs {
		if i > 0 && seq != seqs[i-1]+1 {
			return nil, &DamageError{l.path(segmentName(seqs[i-1] + 1)), 0, "the file is missing, while the one after it is there"}
		}
	}
	return seqs, nil
}

// recovery is the state of reading a log.
type recovery struct {
	log    *Log
	groups []replay
	buf    []byte
	open   *segment   // the first that is not sealed: nothing may have been written behind it
	empty  []*segment // behind the last written
}

func (r *recovery) segment(seq uint64) error {
	l := r.log
	name := l.path(segmentName(seq))
	s, err := r.read(name, seq)
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			_ = s.file.Close()
		}
	}()
	var frames int
	s.end, frames, s.sealed, err = scan(s.header, r.buf, func(off int64, frame []byte) error {
		var bad error
		err := records(off, frame, func(rec record, off int64) {
			if int64(rec.group) >= int64(len(r.groups)) {
				bad = fmt.Errorf("a record is of group %d, but there are %d groups", rec.group, len(r.groups))
				return
			}
			r.groups[rec.group].apply(rec, position{uint32(seq), uint32(off), rec.size})
		})
		return errors.Join(err, bad)
	})
	switch {
	case r.open != nil && (frames > 0 || s.sealed):
		return &DamageError{l.path(segmentName(r.open.seq)), r.open.end, "the segment has no end, but something was written " +
			"after it to " + segmentName(seq)}
	case err != nil:
		return &DamageError{name, s.end, err.Error()}
	}
	keep = true
	if !s.sealed && r.open == nil {
		r.open = s
	}
	if frames > 0 || s.sealed {
		l.segs = append(l.segs, s)
	} else {
		r.empty = append(r.empty, s)
	}
	return nil
}

// read opens a segment and reads it into the buffer.
func (r *recovery) read(name string, seq uint64) (s *segment, err error) {
	f, err := r.log.opt.FS.Open(name, false)
	if err != nil {
		return nil, fmt.Errorf("log segment: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("log segment: %w", err)
	}
	if size > maxSegmentSize {
		return nil, &DamageError{name, 0, fmt.Sprintf("the file has %d bytes, more than a segment can have", size)}
	}
	r.buf = slices.Grow(r.buf[:0], int(size))[:size]
	if n, err := f.ReadAt(r.buf, 0); int64(n) < size {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read log segment %s: %w", name, err)
	}
	h, err := decodeHeader(r.buf)
	if err != nil {
		return nil, &DamageError{name, 0, err.Error()}
	}
	if h.seq != seq {
		return nil, &DamageError{name, 0, fmt.Sprintf("the file holds segment %s", segmentName(h.seq))}
	}
	if h.size != size {
		return nil, &DamageError{name, min(size, max(h.size, 0)), fmt.Sprintf("the file has %d bytes and was made with %d", size, h.size)}
	}
	return &segment{header: h, file: f}, nil
}

// finish builds the index and counts what is live.
func (r *recovery) finish() error {
	l := r.log
	for id := range r.groups {
		x, err := r.groups[id].index()
		if err != nil {
			last := l.segs[len(l.segs)-1]
			return &DamageError{l.path(segmentName(last.seq)), last.end, fmt.Sprintf("group %d: %v", id, err)}
		}
		l.index[id] = x
		for _, p := range x.pos {
			l.occupy(p)
		}
	}
	return nil
}

// sync makes durable what a process that was killed may have written without a sync: from now on it counts.
func (r *recovery) sync() error {
	s := r.log.segs[len(r.log.segs)-1]
	if err := s.file.Datasync(); err != nil {
		return fmt.Errorf("log segment: %w", err)
	}
	if err := r.log.opt.FS.SyncDir(r.log.opt.Dir); err != nil {
		return fmt.Errorf("log folder: %w", err)
	}
	return nil
}
