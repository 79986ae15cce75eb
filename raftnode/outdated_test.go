package raftnode

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// TestANodeThatIsTooOldStops gives one node's state machine an entry that it cannot apply: the node leaves all groups and says
// why, nothing that follows is applied there, the others go on, and a newer release has lost nothing.
func TestANodeThatIsTooOldStops(t *testing.T) {
	virtual(t, 3, 2, noBalance, func(t *testing.T, c *cluster) {
		var told atomic.Pointer[error]
		c.start(0, 1)
		c.tune = func(n *Node) {
			n.cfg.Fatal = func(err error) { told.Store(&err) }
			c.fsms[2][0].newer = "newer"
		}
		c.start(2)
		c.tune = nil
		l := c.leader(0)
		c.mustPropose(l, 0, "known")
		if l == 2 { // a leader writes nothing that it does not know
			if err := c.nodes[2].Group(0).Transfer(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			l = c.leader(0, 2)
		}
		c.mustPropose(l, 0, "newer")
		c.mustPropose(l, 0, "after")
		time.Sleep(5 * time.Second)
		if err := c.nodes[2].Storage(); !errors.Is(err, ErrOutdated) {
			t.Errorf("the node says %v", err)
		}
		if err := told.Load(); err == nil || !errors.Is(*err, ErrOutdated) {
			t.Error("its process was not asked to end")
		}
		if got := c.fsms[2][0].all(); !slices.Equal(got, []string{"known"}) {
			t.Errorf("applied %v", got)
		}
		for g := range uint32(2) {
			c.mustPropose(c.leader(g, 2), g, "goes on")
			if role := c.nodes[2].Group(g).Status().Role; role != Stopped {
				t.Errorf("group %d: %v", g, role)
			}
		}
		c.stop(2)
		c.start(2)
		time.Sleep(5 * time.Second)
		for g := range uint32(2) {
			c.agree(g)
		}
	})
}
