package raftnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// moveNotes is a mover that takes notes, and optionally all the time that it gets.
type moveNotes struct {
	mu    sync.Mutex
	calls []string
	slow  bool
	group *Group
}

func (r *moveNotes) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
}

func (r *moveNotes) Pause()  { r.note("pause") }
func (r *moveNotes) Resume() { r.note("resume") }
func (r *moveNotes) HandOver(ctx context.Context, to int32, term uint64) {
	r.note("hand over to %d, leading %v in that term %v", to, r.group.leading(), r.group.Status().Term == term)
	if r.slow {
		<-ctx.Done()
	}
}

func (r *moveNotes) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// TestMoverIsToldOfTransfers: first to pause, then to hand over while this node still leads, and to resume only when the
// transfer failed; a hand-over that does not end costs its bound and no more.
func TestMoverIsToldOfTransfers(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		movers := make([]*moveNotes, 3)
		for i := range movers {
			movers[i] = &moveNotes{group: c.nodes[i].Group(0)}
			c.nodes[i].Group(0).OnMove(movers[i])
		}
		l := c.leader(0)
		to := (l + 1) % 3
		movers[l].slow = true
		start := time.Now()
		if err := c.nodes[l].TransferTo(t.Context(), 0, int32(to)); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("it took %v", d)
		}
		want := []string{"pause", fmt.Sprintf("hand over to %d, leading true in that term true", to)}
		if got := movers[l].take(); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		if got := movers[to].take(); len(got) > 0 {
			t.Errorf("the target was told %q", got)
		}
		c.eventually("the target serves", func() bool { return c.nodes[to].Group(0).Status().Serving })
		c.net.Isolate(host(l))
		time.Sleep(time.Second)
		if err := c.nodes[to].TransferTo(t.Context(), 0, int32(l)); err == nil {
			t.Fatal("transfer to a node that is cut off")
		}
		got := movers[to].take()
		if n := len(got); n > 0 && (got[0] != "pause" || got[n-1] != "resume" || n != 2) {
			t.Errorf("%q", got)
		}
		c.mustPropose(to, 0, "still here")
	})
}

// TestTransfersOfAGroupDoNotOverlap: a second one, which the library would refuse, must not resume what the first has paused.
func TestTransfersOfAGroupDoNotOverlap(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		l := c.leader(0)
		g := c.nodes[l].Group(0)
		mover := &moveNotes{group: g, slow: true}
		g.OnMove(mover)
		var wg sync.WaitGroup
		var first error
		wg.Go(func() { first = g.Transfer(t.Context(), int32((l+1)%3)) })
		c.eventually("the first one hands over", func() bool {
			mover.mu.Lock()
			defer mover.mu.Unlock()
			return len(mover.calls) == 2
		})
		second := g.Transfer(t.Context(), int32((l+2)%3))
		wg.Wait()
		if first != nil || !errors.Is(second, ErrNotLeader) {
			t.Errorf("%v, %v", first, second)
		}
		if got := mover.take(); len(got) != 2 {
			t.Errorf("%q", got)
		}
	})
}
