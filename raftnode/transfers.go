package raftnode

import "sync"

// transfers are the library's transfers of one raft instance. The library never answers a future that is still in one of
// its queues when it stops, so the instance waits for them before it stops, and answers what is left afterwards.
type transfers struct {
	mu        sync.Mutex
	running   int
	stopped   bool
	finished  chan struct{} // closed when none runs after stop
	abandoned chan struct{} // closed when nobody waits for them any more
}

func newTransfers() *transfers {
	return &transfers{finished: make(chan struct{}), abandoned: make(chan struct{})}
}

// do runs a transfer and returns its outcome, or ErrStopped when the instance stops without it.
func (t *transfers) do(transfer func() error) error {
	t.mu.Lock()
	if t.stopped {
		t.mu.Unlock()
		return ErrStopped
	}
	t.running++
	t.mu.Unlock()
	outcome := make(chan error, 1)
	go func() {
		err := transfer()
		t.mu.Lock()
		t.running--
		t.finish()
		t.mu.Unlock()
		outcome <- err
	}()
	select {
	case err := <-outcome:
		return err
	case <-t.abandoned:
		return ErrStopped
	}
}

func (t *transfers) finish() {
	if t.stopped && t.running == 0 {
		close(t.finished)
	}
}

// stop lets no other transfer begin.
func (t *transfers) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.finish()
}

// abandon answers what is left of an instance that is shut down. To be called after stop.
func (t *transfers) abandon() { close(t.abandoned) }
