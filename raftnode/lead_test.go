package raftnode

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestBarrierFailureDoesNotLeaveHalfALeader: the barrier of a new leader fails for a while, then works.
func TestBarrierFailureDoesNotLeaveHalfALeader(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		until := time.Now().Add(3 * time.Second)
		c.tune = func(n *Node) {
			real := n.barrier
			n.barrier = func(r *raft.Raft) error {
				if time.Now().Before(until) {
					return raft.ErrEnqueueTimeout
				}
				return real(r)
			}
		}
		c.startAll()
		time.Sleep(2 * time.Second)
		for i := range c.nodes {
			if cs := c.changes(i, 0); slices.ContainsFunc(cs, func(ch Change) bool { _, ok := ch.(Elected); return ok }) {
				t.Fatalf("node %d was elected without a barrier: %v", i, cs)
			}
			if err := c.propose(i, 0, "x"); !errors.Is(err, ErrNotLeader) {
				t.Errorf("half a leader took a proposal: %v", err)
			}
		}
		c.mustPropose(c.leader(0), 0, "usable")
		if d := time.Until(until); d < -200*time.Millisecond {
			t.Errorf("it took %v more", -d)
		}
	})
}

// TestBarrierThatNeverWorksMovesLeadership: one node never passes its barrier, so another has to lead.
func TestBarrierThatNeverWorksMovesLeadership(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.tune = func(n *Node) {
			if n.cfg.NodeID == 0 {
				n.barrier = func(*raft.Raft) error { return raft.ErrLeadershipTransferInProgress }
			}
		}
		c.start(0)
		time.Sleep(100 * time.Millisecond)
		c.start(1, 2)
		for range 5 {
			l := c.leader(0)
			if l == 0 {
				t.Fatal("node 0 leads")
			}
			c.mustPropose(l, 0, "x")
			c.crash(l)
			c.start(l)
			time.Sleep(5 * time.Second)
		}
		c.agree(0)
	})
}

// TestWatchdogEndsEndlessTransfer plants what hashicorp/raft issue 696 leaves behind: a leader that refuses every
// proposal for a transfer that does not end. It has to lose leadership and to work again afterwards.
func TestWatchdogEndsEndlessTransfer(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		l := c.leader(0)
		c.mustPropose(l, 0, "before")
		g := c.nodes[l].Group(0)
		start := time.Now()
		c.eventually("restarted in place", func() bool {
			if g.Status().Restarts == 0 {
				g.noteTransferRefusal(raft.ErrLeadershipTransferInProgress)
			}
			return g.Status().Restarts == 1 && g.Status().Role == Follower
		})
		if d := time.Since(start); d > 6*time.Second {
			t.Errorf("noticed after %v", d)
		}
		next := c.leader(0)
		c.mustPropose(next, 0, "during")
		c.eventually("it can be given leadership again", func() bool {
			return c.nodes[next].TransferTo(t.Context(), 0, int32(l)) == nil
		})
		c.eventually("it serves", func() bool { return g.Status().Serving })
		c.mustPropose(l, 0, "after")
		if got := c.agree(0); !slices.Equal(got, []string{"before", "during", "after"}) {
			t.Errorf("replicas hold %q", got)
		}
		if c.fsms[l][0].restore != 0 {
			t.Error("the state machine was rebuilt though it was current")
		}
	})
}

// TestStaleTermHasNoEffect: a proposal made for a term that is over is in the log and applied nowhere.
func TestStaleTermHasNoEffect(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		l := c.leader(0)
		g := c.nodes[l].Group(0)
		term := g.serving.Load()
		g.serving.Store(term - 1) // as if the node had not been told of losing and winning again
		if err := c.propose(l, 0, "stale"); !errors.Is(err, ErrStaleTerm) || !errors.Is(err, ErrNotLeader) {
			t.Errorf("got %v", err)
		}
		g.serving.Store(term)
		c.mustPropose(l, 0, "good")
		if got := c.agree(0); !slices.Equal(got, []string{"good"}) {
			t.Errorf("replicas hold %q", got)
		}
	})
}

// TestHungLeaderGivesLeadershipUp: the leader's state machine hangs, so nothing it proposes is answered. Others take
// over while it hangs, and it follows them afterwards.
func TestHungLeaderGivesLeadershipUp(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		l := c.leader(0)
		hold := make(chan struct{})
		f := c.fsms[l][0]
		f.mu.Lock()
		f.hold = hold
		f.mu.Unlock()
		done := make(chan error, 1)
		c.nodes[l].Group(0).Propose([]byte("hangs"), func(err error) { done <- err })
		start := time.Now()
		next := c.leader(0, l)
		if d := time.Since(start); d > 7*time.Second {
			t.Errorf("another node led after %v", d)
		}
		c.mustPropose(next, 0, "goes on")
		if err := <-done; !errors.Is(err, ErrUnknown) {
			t.Errorf("the hanging proposal: %v", err)
		}
		f.mu.Lock()
		f.hold = nil
		f.mu.Unlock()
		close(hold)
		if got := c.agree(0); !slices.Equal(got, []string{"hangs", "goes on"}) {
			t.Errorf("replicas hold %q", got)
		}
	})
}

func TestANodeIsReadyAgainWhoseLastEntriesCarryNothing(t *testing.T) {
	virtual(t, 3, 2, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		c.mustPropose(c.leader(0), 0, "x") // group 1 never gets a command
		c.leader(1)
		c.stopAll()
		c.startAll()
		c.leader(0)
		c.leader(1)
		c.eventually("all are ready and show what is committed as applied", func() bool {
			return !slices.ContainsFunc(c.nodes, func(n *Node) bool {
				s := n.Group(1).Status()
				return !n.Ready() || s.AppliedIndex != s.CommitIndex
			})
		})
	})
}
