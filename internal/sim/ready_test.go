package sim

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestReadinessFollowsTheQuorum: a node that cannot serve says so, whether it led or followed, and why.
func TestReadinessFollowsTheQuorum(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		c := startCluster(t, dir, observer, 1)
		defer c.shutdown()
		awaitNodes(t, c)
		cut := c.leader(-1)
		c.isolate(cut)
		time.Sleep(3 * time.Second)
		if err := c.node(cut).Ready(); err == nil || !strings.Contains(err.Error(), "quorum") {
			t.Errorf("the node that is cut off: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) // leaderships may move just now
		defer cancel()
		for i := range nodes {
			if i == cut {
				continue
			}
			if err := c.node(i).AwaitReady(ctx); err != nil {
				t.Errorf("one of two that see each other: %v", err)
			}
		}
		c.isolate((cut + 1) % nodes)
		time.Sleep(3 * time.Second)
		for i := range nodes {
			if err := c.node(i).Ready(); err == nil || !strings.Contains(err.Error(), "quorum") {
				t.Errorf("node %d, alone: %v", i, err)
			}
		}
		c.heal()
		awaitNodes(t, c)
		for _, failure := range observer.broken() {
			t.Error(failure)
		}
	})
}
