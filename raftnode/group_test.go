package raftnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// noBalance keeps the leaders where they were elected.
var noBalance = Timing{Balance: -1}

func TestElectProposeApplyEverywhere(t *testing.T) {
	virtual(t, 3, 2, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		for g := range uint32(2) {
			l := c.leader(g)
			var want []string
			for i := range 20 {
				e := fmt.Sprintf("entry %d", i)
				c.mustPropose(l, g, e)
				want = append(want, e)
				if own := c.fsms[l][g].all(); !slices.Equal(own, want) {
					t.Fatalf("done was told before this node applied: %q", own)
				}
			}
			if got := c.agree(g); !slices.Equal(got, want) {
				t.Errorf("replicas hold %q", got)
			}
			for i := range c.nodes {
				if n, ok := c.nodes[i].Group(g).Leader(); !ok || int(n) != l {
					t.Errorf("node %d believes in leader %d, %v", i, n, ok)
				}
				if i != l {
					if err := c.propose(i, g, "x"); !errors.Is(err, ErrNotLeader) || errors.Is(err, ErrUnknown) {
						t.Errorf("propose at a follower: %v", err)
					}
				}
			}
		}
		c.eventually("all are ready", func() bool {
			return !slices.ContainsFunc(c.nodes, func(n *Node) bool { return !n.Ready() })
		})
	})
}

func TestOneNodeAloneIsACluster(t *testing.T) {
	virtual(t, 1, 3, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		for g := range uint32(3) {
			c.mustPropose(c.leader(g), g, "alone")
		}
		c.stop(0)
		c.start(0)
		c.leader(2)
		if got := c.fsms[0][2].all(); !slices.Equal(got, []string{"alone"}) {
			t.Errorf("after a restart: %q", got)
		}
	})
}

func TestRejectedEntryIsTold(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		l := c.leader(0)
		c.fsms[l][0].refuse = "bad"
		if err := c.propose(l, 0, "bad"); !errors.Is(err, ErrRejected) || !errors.Is(err, errRefused) {
			t.Errorf("got %v", err)
		}
		if err := c.propose(l, 0, ""); !errors.Is(err, ErrRejected) {
			t.Errorf("empty entry: %v", err)
		}
		c.mustPropose(l, 0, "good")
	})
}

func TestLeaderCutOffAnswersUnknownAndIsReplaced(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		old := c.leader(0)
		c.mustPropose(old, 0, "before")
		c.net.Isolate(host(old))
		start := time.Now()
		err := c.propose(old, 0, "cut off")
		if !errors.Is(err, ErrUnknown) || errors.Is(err, ErrNotLeader) {
			t.Errorf("proposal of a leader that is cut off: %v", err)
		}
		if d := time.Since(start); d > 400*time.Millisecond {
			t.Errorf("it was answered after %v", d)
		}
		if err := c.propose(old, 0, "too late"); !errors.Is(err, ErrNotLeader) {
			t.Errorf("after stepping down: %v", err)
		}
		l := c.leader(0, old)
		if d := time.Since(start); d > 800*time.Millisecond {
			t.Errorf("the new leader served after %v", d)
		}
		c.mustPropose(l, 0, "after")
		c.net.Rejoin(host(old))
		if got := c.agree(0); !slices.Equal(got, []string{"before", "after"}) {
			t.Errorf("replicas hold %q", got)
		}
		synced := c.changes(old, 0)
		if !containsInOrder(synced, func(ch Change) bool { _, ok := ch.(Elected); return ok },
			func(ch Change) bool { return ch == Change(Lost{}) },
			func(ch Change) bool { return ch == Change(LeaderKnown{Node: int32(l)}) }) {
			t.Errorf("the old leader was told %v", synced)
		}
	})
}

func containsInOrder(cs []Change, want ...func(Change) bool) bool {
	for _, c := range cs {
		if len(want) > 0 && want[0](c) {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// TestPartitionsLoseNothing proposes while leaders are cut off again and again: what was acknowledged is kept, what
// was refused never appears, each done is told once, and nothing is applied twice.
func TestPartitionsLoseNothing(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		outcome := map[string]error{}
		answers := map[string]int{}
		type answer struct {
			entry string
			err   error
		}
		done := make(chan answer, 1000)
		seq, waiting := 0, 0
		for range 25 {
			l := c.leader(0)
			for k := range 12 {
				e := fmt.Sprintf("%d", seq)
				seq++
				waiting++
				c.nodes[l].Group(0).Propose([]byte(e), func(err error) { done <- answer{e, err} })
				if k == 6 {
					c.net.Isolate(host(l))
				}
				time.Sleep(time.Millisecond)
			}
			c.leader(0, l)
			c.net.Rejoin(host(l))
			time.Sleep(50 * time.Millisecond)
		}
		for range waiting {
			a := <-done
			outcome[a.entry] = a.err
			answers[a.entry]++
		}
		time.Sleep(2 * time.Second)
		select {
		case a := <-done:
			t.Fatalf("entry %s was answered twice", a.entry)
		default:
		}
		applied := map[string]int{}
		for _, e := range c.agree(0) {
			applied[e]++
		}
		for e, err := range outcome {
			switch n := applied[e]; {
			case answers[e] != 1:
				t.Errorf("entry %s was answered %d times", e, answers[e])
			case n > 1:
				t.Errorf("entry %s was applied %d times", e, n)
			case err == nil && n != 1:
				t.Errorf("entry %s was acknowledged and lost", e)
			case errors.Is(err, ErrNotLeader) && n != 0:
				t.Errorf("entry %s was refused (%v) and applied", e, err)
			case err != nil && !errors.Is(err, ErrNotLeader) && !errors.Is(err, ErrUnknown):
				t.Errorf("entry %s: %v", e, err)
			}
		}
		for i := range c.nodes {
			alternates(t, c.changes(i, 0))
		}
	})
}

func alternates(t *testing.T, cs []Change) {
	t.Helper()
	leads, term := false, uint64(0)
	for _, ch := range cs {
		switch ch := ch.(type) {
		case Elected:
			if leads || ch.Term <= term {
				t.Errorf("elected for term %d after %d, leading %v", ch.Term, term, leads)
			}
			leads, term = true, ch.Term
		case Lost:
			if !leads {
				t.Error("lost without having been elected")
			}
			leads = false
		case LeaderKnown:
			if leads {
				t.Error("another leader is known while leading")
			}
		}
	}
}

func TestVerify(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		l := c.leader(0)
		verify := func(i int) error {
			done := make(chan error, 2)
			c.nodes[i].Group(0).Verify(func(err error) { done <- err })
			return <-done
		}
		done := make(chan error, 100)
		for range 100 {
			c.nodes[l].Group(0).Verify(func(err error) { done <- err })
		}
		for range 100 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if err := verify((l + 1) % 3); !errors.Is(err, ErrNotLeader) {
			t.Errorf("proof at a follower: %v", err)
		}
		g := c.nodes[l].Group(0)
		for range 20 {
			if at, ok := g.Proof(g.serving.Load()); !ok || time.Since(at) > 100*time.Millisecond {
				t.Errorf("proof is %v old, %v", time.Since(at), ok)
			}
			time.Sleep(11 * time.Millisecond)
		}
		c.net.Isolate(host(l))
		cut := time.Now()
		time.AfterFunc(100*time.Millisecond, func() {
			if at, _ := g.Proof(g.serving.Load()); at.After(cut) {
				t.Errorf("proven %v after the cut", at.Sub(cut))
			}
		})
		if err := verify(l); !errors.Is(err, ErrNotLeader) {
			t.Errorf("proof of a leader that is cut off: %v", err)
		}
	})
}

func TestRestartKeepsEverything(t *testing.T) {
	virtual(t, 3, 2, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		var want [2][]string
		for round := range 3 {
			for g := range uint32(2) {
				for k := range 10 {
					e := fmt.Sprintf("%d.%d.%d", round, g, k)
					c.mustPropose(c.leader(g), g, e)
					want[g] = append(want[g], e)
				}
			}
			c.stopAll()
			for _, i := range []int{2, 0, 1} {
				c.start(i)
			}
			for g := range uint32(2) {
				c.leader(g)
				if got := c.agree(g); !slices.Equal(got, want[g]) {
					t.Fatalf("round %d group %d: %q, want %q", round, g, got, want[g])
				}
			}
		}
	})
}

func TestFollowerCatchesUpFromSnapshot(t *testing.T) {
	timing := noBalance
	timing.SnapshotInterval, timing.SnapshotThreshold, timing.TrailingLogs = time.Second, 50, 10
	virtual(t, 3, 1, timing, func(t *testing.T, c *cluster) {
		c.startAll()
		l := c.leader(0)
		down := (l + 1) % 3
		c.crash(down)
		for k := range 300 {
			c.mustPropose(l, 0, fmt.Sprint(k))
		}
		c.eventually("a snapshot is taken", func() bool { return c.nodes[l].Group(0).Status().SnapshotIndex > 250 })
		for k := range 5 {
			c.mustPropose(l, 0, fmt.Sprint("tail ", k))
		}
		c.start(down)
		if got := c.agree(0); len(got) != 305 {
			t.Errorf("%d entries", len(got))
		}
		if c.fsms[down][0].restore == 0 {
			t.Error("the follower was not given a snapshot")
		}
		c.eventually("the index is known", func() bool {
			return c.nodes[down].Group(0).Status().AppliedIndex == c.nodes[l].Group(0).Status().AppliedIndex
		})
		c.stopAll()
		c.startAll()
		c.leader(0)
		if got := c.agree(0); len(got) != 305 {
			t.Errorf("after a restart from snapshots: %d entries", len(got))
		}
	})
}

func TestTooManyProposalsAreRefused(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		l := c.leader(0)
		done := make(chan error, 200)
		for range 200 {
			c.nodes[l].Group(0).Propose([]byte("x"), func(err error) { done <- err })
		}
		ok := 0
		for range 200 {
			switch err := <-done; {
			case err == nil:
				ok++
			case !errors.Is(err, ErrBusy):
				t.Fatal(err)
			}
		}
		if got := c.agree(0); len(got) != ok || ok < maxInFlight {
			t.Errorf("%d acknowledged, %d applied", ok, len(got))
		}
	})
}

func TestShutdownAnswersEverybody(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		l := c.leader(0)
		g := c.nodes[l].Group(0)
		hold := make(chan struct{})
		c.fsms[l][0].mu.Lock()
		c.fsms[l][0].hold = hold
		c.fsms[l][0].mu.Unlock()
		done := make(chan error, 100)
		for range 10 {
			g.Propose([]byte("held"), func(err error) { done <- err })
			g.Verify(func(error) { done <- nil })
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		go func() {
			time.Sleep(time.Minute) // longer than any patience
			close(hold)
		}()
		n := c.nodes[l]
		c.nodes[l] = nil
		_ = n.Shutdown(ctx)
		for range 20 {
			if err := <-done; err != nil && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrNotLeader) {
				t.Error(err)
			}
		}
		g.Propose([]byte("late"), func(err error) { done <- err })
		if err := <-done; !errors.Is(err, ErrStopped) {
			t.Errorf("after shutdown: %v", err)
		}
		time.Sleep(2 * time.Minute)
	})
}
