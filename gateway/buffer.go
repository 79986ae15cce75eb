package gateway

import (
	"sync"
	"sync/atomic"
)

const (
	readBufSize = 16 << 10 // one read of an ordinary connection; taken only while bytes are there
	keepBufSize = 64 << 10 // larger buffers are not pooled
)

// readBuf is memory that requests are read into. Requests that are not answered yet alias it, so it is used again only
// when nobody but the reader refers to it.
type readBuf struct {
	b    []byte
	refs atomic.Int32
}

var readBufs = sync.Pool{New: func() any { return &readBuf{b: make([]byte, readBufSize)} }}

func newReadBuf(size int) *readBuf {
	var rb *readBuf
	if size <= readBufSize {
		rb = readBufs.Get().(*readBuf)
	} else {
		rb = &readBuf{b: make([]byte, size)}
	}
	rb.refs.Store(1)
	return rb
}

func (rb *readBuf) pin() { rb.refs.Add(1) }

func (rb *readBuf) unpin() {
	if rb.refs.Add(-1) == 0 && len(rb.b) == readBufSize {
		readBufs.Put(rb)
	}
}

// frameReader is the reading side of a connection: a window on the bytes that came and were not taken yet.
type frameReader struct {
	rb   *readBuf
	r, w int
}

// buffered are the bytes not taken yet.
func (f *frameReader) buffered() []byte {
	if f.rb == nil {
		return nil
	}
	return f.rb.b[f.r:f.w]
}

// room makes free space behind the window, growing it as bytes arrive: never to more than double of what came already,
// whatever length a frame claims to have. need is the size of the frame at the front, 0 when it is not known.
func (f *frameReader) room(need int) []byte {
	if f.rb == nil {
		f.rb, f.r, f.w = newReadBuf(readBufSize), 0, 0
	}
	have := f.w - f.r
	need = max(need, have+1)
	alone := f.rb.refs.Load() == 1
	if have == 0 && alone {
		f.r, f.w = 0, 0
	}
	switch {
	case f.w < len(f.rb.b) && f.r+min(need, 2*have+readBufSize/4) <= len(f.rb.b):
	case alone && need <= len(f.rb.b):
		copy(f.rb.b, f.rb.b[f.r:f.w])
		f.r, f.w = 0, have
	default:
		next := newReadBuf(min(need, max(readBufSize, 2*have)))
		copy(next.b, f.rb.b[f.r:f.w])
		f.rb.unpin()
		f.rb, f.r, f.w = next, 0, have
	}
	return f.rb.b[f.w:]
}

// release gives the buffer back when nothing is in it, so that an idle connection holds none.
func (f *frameReader) release() {
	if f.rb != nil && f.r == f.w {
		f.rb.unpin()
		f.rb, f.r, f.w = nil, 0, 0
	}
}

// outBuf collects answers until they are written.
type outBuf struct{ b []byte }

var outBufs = sync.Pool{New: func() any { return &outBuf{b: make([]byte, 0, 2<<10)} }}

func (o *outBuf) free() {
	if cap(o.b) <= keepBufSize {
		o.b = o.b[:0]
		outBufs.Put(o)
	}
}
