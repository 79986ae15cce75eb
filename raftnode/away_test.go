package raftnode

import (
	"fmt"
	"testing"
	"time"
)

// TestANodeThatWasAwayGetsEntriesAtOnce starts a node that was away for longer than the library's longest pause.
func TestANodeThatWasAwayGetsEntriesAtOnce(t *testing.T) {
	virtual(t, 3, 2, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		l := c.leader(0)
		down := (l + 1) % 3
		for _, away := range []time.Duration{5 * time.Second, 30 * time.Second, 3 * time.Minute} {
			c.crash(down)
			l = c.leader(0, down)
			for k := range 10 {
				c.mustPropose(l, 0, fmt.Sprint(away, k))
				time.Sleep(away / 10)
			}
			began := time.Now()
			c.start(down)
			c.eventually("the node has caught up", c.nodes[down].Ready)
			if took := time.Since(began); took > time.Second {
				t.Errorf("it took %v after it was away for %v", took, away)
			}
		}
		if n := len(c.agree(0)); n != 30 {
			t.Errorf("%d entries", n)
		}
	})
}
