//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

const crowd = 50

// epochs has members join one after the other, each of which reads its offsets while its heartbeats are under way and after each
// answer: whoever has read its answer is not refused for its epoch, and nobody ever for anything else.
func (f *offsetFaults) epochs(t *testing.T) {
	const group, topic = "crowd", "crowd.in"
	createSized(t, f.boot, crowd, topic)
	ctx := within(t, 2*time.Minute)
	var stale, reads atomic.Int64
	var all sync.WaitGroup
	for n := range crowd {
		all.Go(func() {
			pause(t.Context(), time.Duration(n)*50*time.Millisecond)
			r := &reader{f: f, probe: rig.NewProbe(f.boot, group, topic), topic: topic, stale: &stale, reads: &reads}
			if err := r.run(ctx); err != nil {
				t.Errorf("member %d: %v", n, err)
			}
		})
	}
	all.Wait()
	t.Logf("FIGURE store %s: %d members joined in turn and read offsets %d times; %d times the epoch had moved, with a heartbeat on its way each time",
		f.store, crowd, reads.Load(), stale.Load())
}

// reader is a member that reads its offsets.
type reader struct {
	f     *offsetFaults
	probe *rig.Probe
	topic string

	// moves is odd from when a heartbeat is sent until one is answered with an epoch: one that was not may have moved it, too. The
	// epoch is the one last told.
	moves        atomic.Int64
	epoch        atomic.Int32
	stale, reads *atomic.Int64
}

const (
	crowdBeats = 12
	staleEpoch = rig.Code(113)
)

// run sends heartbeats one after the other until enough were answered, and leaves.
func (r *reader) run(ctx context.Context) error {
	for answered := 0; answered < crowdBeats; {
		if r.moves.Load()%2 == 0 {
			r.moves.Add(1)
		}
		besides := make(chan error, 1)
		go func() { besides <- r.read() }()
		err := r.probe.Beat(20 * time.Second)
		if err == nil {
			r.epoch.Store(r.probe.Epoch)
			r.moves.Add(1)
			answered++
		}
		if failed := errors.Join(<-besides, unlessRetriable(err), r.read()); failed != nil {
			return failed
		}
		if err != nil {
			pause(ctx, 100*time.Millisecond)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%d heartbeats were answered in time, the last with %v", answered, err)
		}
	}
	for {
		err := r.probe.Leave()
		if err == nil || !retriable(err) || ctx.Err() != nil {
			return err
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// read reads the offsets with the epoch last told.
func (r *reader) read() error {
	before, epoch := r.moves.Load(), r.epoch.Load()
	if epoch == 0 {
		return nil
	}
	_, addr, err := rig.FindCoordinator(r.f.boot, r.probe.Group, 20*time.Second)
	if err != nil {
		return err
	}
	c, err := rig.Dial(addr)
	if err != nil {
		return nil // a machine with other work to do
	}
	defer c.Close()
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberID, g.MemberEpoch = r.probe.Group, &r.probe.Member, epoch
	in := kmsg.NewOffsetFetchRequestGroupTopic()
	in.Topic, in.Partitions = r.topic, []int32{0}
	g.Topics = append(g.Topics, in)
	req.Groups = append(req.Groups, g)
	resp, err := c.DoVersion(req, 9, 20*time.Second)
	if err != nil {
		return err
	}
	r.reads.Add(1)
	code := rig.Code(resp.(*kmsg.OffsetFetchResponse).Groups[0].ErrorCode)
	switch {
	case code == 0 || code.Retriable():
		return nil
	case code != staleEpoch:
		return fmt.Errorf("offsets read with epoch %d: %w", epoch, code)
	case before%2 == 0 && r.moves.Load() == before:
		return fmt.Errorf("the epoch %d that was told last is stale, with no heartbeat on its way", epoch)
	}
	r.stale.Add(1)
	return nil
}

func unlessRetriable(err error) error {
	if retriable(err) {
		return nil
	}
	return err
}
