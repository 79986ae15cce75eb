package seglog

import "fmt"

const (
	// maxFrame bounds what one write and one sync take on, so that memory is bounded and nobody waits long. A record
	// that is larger goes alone.
	maxFrame = 4 << 20
	// keepBuffer is the largest buffer that is kept from one write to the next.
	keepBuffer = 1 << 20
)

// request is something to be written.
type request struct {
	records []byte
	copies  []copied // written only while they are what the group has
	err     error
	// turn is nil for whoever finds nobody writing. Otherwise false says that the request is done, true that the
	// caller is to write now.
	turn chan bool
}

// copied is an entry of an old segment, as a record to be written again.
type copied struct {
	group  uint32
	index  uint64
	at     position
	record []byte
}

// submit writes a request and returns when it is durable. Nobody lingers: who finds nobody writing writes at once, for
// himself and all who came meanwhile, and hands over to one of those who came since. So a single caller waits for one
// write and one sync and for no other goroutine, and under load the groups share each sync.
func (l *Log) submit(r *request) error {
	l.mu.Lock()
	if l.err != nil {
		err := l.err
		l.mu.Unlock()
		return err
	}
	l.queue = append(l.queue, r)
	if l.writing {
		r.turn = make(chan bool, 1)
		l.mu.Unlock()
		if !<-r.turn {
			return r.err
		}
	} else {
		l.writing = true
		l.mu.Unlock()
	}
	l.write(r)
	return r.err
}

// write writes what is queued, own among it.
func (l *Log) write(own *request) {
	l.mu.Lock()
	batch := l.queue
	l.queue = nil
	w := writer{log: l, buf: append(l.buf[:0], make([]byte, frameHeader)...)}
	err := l.err
	if err == nil {
		w.begin(batch)
	}
	l.mu.Unlock()
	if err == nil {
		err = w.run(batch)
	}
	for _, r := range batch[w.done:] {
		r.err = err
	}
	if l.buf = w.buf[:0]; cap(w.buf) > keepBuffer {
		l.buf = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range batch {
		if r != own {
			r.turn <- false
		}
	}
	switch {
	case len(l.queue) > 0:
		l.queue[0].turn <- true
	default:
		l.writing = false
		if l.idle != nil {
			close(l.idle)
		}
	}
}

// writer is one batch on its way to the disk.
type writer struct {
	log *Log
	buf []byte // the frame: room for its header, and records
	// copies and dropped go before everything else.
	copies, dropped []byte
	drops           map[uint32]uint64
	whole           int // requests of which everything is in a frame
	done            int // requests that are durable
}

// begin collects what goes before the requests: copies of what the groups have now, so that a record of this batch that
// removes an entry comes after its copy, and the entries dropped since the last batch. Log.mu is held.
func (w *writer) begin(batch []*request) {
	l := w.log
	for _, r := range batch {
		for _, c := range r.copies {
			if p, ok := l.index[c.group].at(c.index); ok && p == c.at {
				w.copies = append(w.copies, c.record...)
			}
		}
	}
	for id := range uint32(len(l.index)) {
		if upto, ok := l.drops[id]; ok {
			w.dropped = appendMark(w.dropped, kindDrop, id, upto)
		}
	}
	if len(l.drops) > 0 {
		w.drops, l.drops = l.drops, map[uint32]uint64{}
		l.dropping = true
	}
}

func (w *writer) run(batch []*request) error {
	if err := w.before(); err != nil {
		return err
	}
	for _, r := range batch {
		if err := w.add(r.records, false); err != nil {
			return err
		}
		w.whole++
	}
	return w.flush()
}

// before writes copies and drops. They are rare, and a frame of their own keeps them apart from what may fail.
func (w *writer) before() error {
	err := w.add(w.copies, false)
	if err == nil {
		err = w.add(w.dropped, true)
	}
	if err == nil {
		err = w.flush()
	}
	l := w.log
	if w.drops != nil {
		l.mu.Lock()
		if err != nil { // there was no room, or nothing will be written any more
			for id, upto := range w.drops {
				l.drops[id] = max(upto, l.drops[id])
			}
		}
		l.dropping = false
		if err == nil {
			l.poke()
		}
		l.mu.Unlock()
	}
	return err
}

// add puts records into the frame, and writes frames as they become full. freeing says that they may use the reserve.
func (w *writer) add(b []byte, freeing bool) error {
	for len(b) > 0 {
		held := len(w.buf) - frameHeader
		room := w.log.tail.room()
		if !freeing {
			room = max(0, room-w.log.tail.reserve())
		}
		n := whole(b, min(room, maxFrame)-int64(held))
		if size := int64(le.Uint32(b[4:])); n == 0 && held == 0 && size <= room {
			n = size
		}
		if n > 0 {
			w.buf = append(w.buf, b[:n]...)
			b = b[n:]
			continue
		}
		if held > 0 {
			if err := w.flush(); err != nil {
				return err
			}
		} else if err := w.log.rotate(); err != nil {
			return err
		}
	}
	return nil
}

// whole is the size of the records at the beginning of b that fit into room.
func whole(b []byte, room int64) (n int64) {
	if int64(len(b)) <= room {
		return int64(len(b))
	}
	for n < int64(len(b)) {
		size := int64(le.Uint32(b[n+4:]))
		if n+size > room {
			break
		}
		n += size
	}
	return n
}

// flush writes the frame, makes it durable, and only then lets the index know.
func (w *writer) flush() error {
	if len(w.buf) == frameHeader {
		w.done = w.whole
		return nil
	}
	l, s := w.log, w.log.tail
	off := s.end
	count := uint32(0)
	_ = records(off, w.buf, func(record, int64) { count++ })
	if err := l.writeFrame(s, w.buf, count); err != nil {
		return err
	}
	l.mu.Lock()
	_ = records(off, w.buf, func(r record, off int64) { l.apply(r, position{uint32(s.seq), uint32(off), r.size}) })
	l.mu.Unlock()
	w.buf = w.buf[:frameHeader]
	w.done = w.whole
	return nil
}

// writeFrame writes a frame at the end of a segment. A failure is final: after a failed sync nobody knows what the file
// holds, and trying again may succeed without the data being there.
func (l *Log) writeFrame(s *segment, b []byte, count uint32) error {
	sealFrame(b, s.salt, s.end, count)
	_, err := s.file.WriteAt(b, s.end)
	if err == nil {
		err = s.file.Datasync()
	}
	if err != nil {
		return l.fail(fmt.Errorf("write log segment %s: %w", l.path(segmentName(s.seq)), err))
	}
	s.end = align(s.end + int64(len(b)))
	return nil
}

// fail stops all writing.
func (l *Log) fail(cause error) error {
	err := fmt.Errorf("%w: %w", ErrFailed, cause)
	l.opt.Logger.Error("the log cannot be written any more; this node takes no part in replication until it is restarted",
		"error", cause)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	return err
}

// apply changes the index by a durable record. Log.mu is held.
func (l *Log) apply(r record, p position) {
	x := &l.index[r.group]
	switch r.kind {
	case kindEntry:
		l.vacate(x.cut(r.index))
		x.put(r.index, p)
		l.occupy(p)
	case kindCopy:
		if old, ok := x.at(r.index); ok {
			l.vacate([]position{old})
			x.pos[r.index-x.first] = p
			l.occupy(p)
		}
	case kindTruncate:
		l.vacate(x.cut(r.index))
	case kindDrop:
		l.vacate(x.drop(r.index))
	}
}

// dropFirst takes the entries up to upto from a group; that is written with the next batch.
func (l *Log) dropFirst(group uint32, upto uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.vacate(l.index[group].drop(upto))
	l.drops[group] = max(upto, l.drops[group])
	l.poke()
	return nil
}

func (l *Log) segmentOf(p position) *segment { return l.segs[uint64(p.seg)-l.segs[0].seq] }

func (l *Log) occupy(p position) {
	s := l.segmentOf(p)
	s.live++
	s.bytes += int64(p.size)
}

func (l *Log) vacate(gone []position) {
	for _, p := range gone {
		s := l.segmentOf(p)
		s.live--
		s.bytes -= int64(p.size)
	}
}
