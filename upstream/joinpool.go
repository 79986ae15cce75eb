package upstream

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// joinPool lends clients for JoinGroup and SyncGroup, each to one group at a time: a broker that holds a join lets
// everything behind it on that connection wait.
type joinPool struct {
	open  func() (*kgo.Client, error)
	slots chan struct{}

	mu     sync.Mutex
	idle   []idleClient // most recently used last
	closed bool
}

type idleClient struct {
	cl    *kgo.Client
	since time.Time
}

func newJoinPool(size int, open func() (*kgo.Client, error)) *joinPool {
	return &joinPool{open: open, slots: make(chan struct{}, size)}
}

func (p *joinPool) get(ctx context.Context) (*kgo.Client, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		<-p.slots
		return nil, errClosed
	}
	if n := len(p.idle); n > 0 {
		cl := p.idle[n-1].cl
		p.idle = p.idle[:n-1]
		return cl, nil
	}
	cl, err := p.open()
	if err != nil {
		<-p.slots
	}
	return cl, err
}

func (p *joinPool) put(cl *kgo.Client) {
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.idle = append(p.idle, idleClient{cl, time.Now()})
	}
	p.mu.Unlock()
	if closed {
		cl.Close()
	}
	<-p.slots
}

// trim closes clients that nobody needed for a while.
func (p *joinPool) trim(unusedFor time.Duration) {
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && time.Since(p.idle[n].since) >= unusedFor {
		n++
	}
	old := p.idle[:n:n]
	p.idle = append([]idleClient(nil), p.idle[n:]...)
	p.mu.Unlock()
	for _, i := range old {
		i.cl.Close()
	}
}

func (p *joinPool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.trim(0)
}
