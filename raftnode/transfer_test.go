package raftnode

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestTransfer(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		for k := range 10 {
			l := c.leader(0)
			to := (l + 1 + k%2) % 3
			start := time.Now()
			if err := c.nodes[l].Group(0).Transfer(t.Context(), int32(to)); err != nil {
				t.Fatal(err)
			}
			c.eventually("the target serves", func() bool { return c.nodes[to].Group(0).Status().Serving })
			if d := time.Since(start); d > 200*time.Millisecond {
				t.Errorf("transfer took %v", d)
			}
			cs := c.changes(to, 0)
			if e, ok := cs[len(cs)-1].(Elected); !ok || !e.Planned {
				t.Errorf("the target was told %v", cs[len(cs)-1])
			}
			c.mustPropose(to, 0, fmt.Sprint(k))
		}
		l := c.leader(0)
		far := (l + 1) % 3
		c.net.Isolate(host(far))
		time.Sleep(time.Second)
		start := time.Now()
		if err := c.nodes[l].TransferTo(t.Context(), 0, int32(far)); !errors.Is(err, ErrNotCaughtUp) {
			t.Errorf("transfer to a node that is cut off: %v", err)
		}
		if d := time.Since(start); d > 2100*time.Millisecond {
			t.Errorf("it took %v", d)
		}
		c.mustPropose(l, 0, "still here")
		if err := c.nodes[l].TransferTo(t.Context(), 0, 17); err == nil {
			t.Error("transfer to a node that does not exist succeeded")
		}
		if err := c.nodes[far].TransferTo(t.Context(), 0, int32(l)); !errors.Is(err, ErrNotLeader) {
			t.Errorf("transfer asked of a follower: %v", err)
		}
	})
}

func TestTransferUnderLoadKeepsAnswersExact(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		stop, stopped := make(chan struct{}), make(chan []string)
		go func() {
			var acked []string
			for k := 0; ; k++ {
				select {
				case <-stop:
					stopped <- acked
					return
				default:
				}
				e := fmt.Sprint(k)
				err := c.propose(c.leader(0), 0, e)
				if err == nil {
					acked = append(acked, e)
				} else if errors.Is(err, ErrUnknown) {
					t.Errorf("a planned transfer left an outcome open: %v", err)
				}
				time.Sleep(time.Millisecond)
			}
		}()
		for range 20 {
			l := c.leader(0)
			if err := c.nodes[l].TransferTo(t.Context(), 0, int32((l+1)%3)); err != nil {
				t.Error(err)
			}
			c.leader(0, l)
			time.Sleep(20 * time.Millisecond)
		}
		close(stop)
		acked := <-stopped
		if got := c.agree(0); !slices.Equal(got, acked) {
			t.Errorf("%d acknowledged, %d applied", len(acked), len(got))
		}
	})
}

func TestShutdownMovesLeadership(t *testing.T) {
	virtual(t, 3, 6, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		for g := range uint32(6) {
			l := c.leader(g)
			if l != 0 {
				c.eventually("node 0 is caught up", func() bool {
					return c.nodes[l].TransferTo(t.Context(), g, 0) == nil
				})
				c.eventually("node 0 leads", func() bool { return c.nodes[0].Group(g).Status().Serving })
			}
			c.mustPropose(0, g, "x")
		}
		start := time.Now()
		c.stop(0)
		if d := time.Since(start); d > time.Second {
			t.Errorf("shutdown took %v", d)
		}
		led := map[int]int{}
		for g := range uint32(6) {
			l := c.leader(g)
			led[l]++
			cs := c.changes(l, g)
			if e, ok := cs[len(cs)-1].(Elected); !ok || !e.Planned {
				t.Errorf("group %d was not handed over: %v", g, cs)
			}
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("all groups were served after %v", d)
		}
		if led[1] == 0 || led[2] == 0 {
			t.Errorf("the groups do not spread: %v", led)
		}
	})
}

func TestLeadersSpreadAfterColdStart(t *testing.T) {
	virtual(t, 3, 9, Timing{}, func(t *testing.T, c *cluster) {
		c.startAll()
		spread := func() bool {
			for g := range uint32(9) {
				if !c.nodes[g%3].Group(g).Status().Serving {
					return false
				}
			}
			return true
		}
		start := time.Now()
		c.eventually("each node leads its share", spread)
		t.Log("spread after", time.Since(start))
		// A node that comes back gets its share again, but not within half a minute.
		c.crash(1)
		c.leader(1)
		c.start(1)
		time.Sleep(20 * time.Second)
		if c.nodes[1].Group(1).Status().Serving {
			t.Error("leadership moved right after a failure")
		}
		time.Sleep(20 * time.Second)
		c.eventually("the share is back", spread)
	})
}

// TestTransferWhileCutOff asks for transfers to a follower behind a slow link and cuts the leader off in the middle
// (hashicorp/raft issue 696): writes must be possible again soon, every time.
func TestTransferWhileCutOff(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		for round := range 40 {
			a := c.leader(0)
			b := (a + 1 + round%2) % 3
			c.net.SetLinkLatency(host(a), host(b), 60*time.Millisecond)
			done := make(chan error, 100)
			for k := range 50 {
				c.nodes[a].Group(0).Propose(fmt.Appendf(nil, "%d.%d", round, k), func(err error) { done <- err })
			}
			transferred := make(chan error, 1)
			go func() { transferred <- c.nodes[a].TransferTo(t.Context(), 0, int32(b)) }()
			time.Sleep(time.Duration(round*7) * time.Millisecond)
			c.net.Isolate(host(a))
			time.Sleep(time.Second)
			c.net.Rejoin(host(a))
			c.net.SetLinkLatency(host(a), host(b), 200*time.Microsecond)
			healed := time.Now()
			for {
				if l := c.leader(0); c.propose(l, 0, fmt.Sprint("probe ", round)) == nil {
					break
				}
			}
			if d := time.Since(healed); d > 5*time.Second {
				t.Errorf("round %d: writes were possible again after %v", round, d)
			}
			for range 50 {
				if err := <-done; err != nil && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrNotLeader) {
					t.Error(err)
				}
			}
			if err := <-transferred; err != nil {
				t.Log("round", round, err)
			}
		}
		c.agree(0)
	})
}

// TestBalancerLeavesUnplannedAlone: a group whose leader died is left where it is for half a minute, also by a node
// that did not win that election but was handed the group since.
func TestBalancerLeavesUnplannedAlone(t *testing.T) {
	virtual(t, 3, 1, Timing{}, func(t *testing.T, c *cluster) {
		c.startAll()
		preferred := func() bool { return c.nodes[0].Group(0).Status().Serving }
		c.eventually("the preferred node leads", preferred)
		c.crash(0)
		died := time.Now()
		l := c.leader(0)
		c.start(0)
		time.Sleep(5 * time.Second)
		other := 3 - l
		if err := c.nodes[l].TransferTo(t.Context(), 0, int32(other)); err != nil {
			t.Fatal(err)
		}
		c.eventually("the third node leads", func() bool { return c.nodes[other].Group(0).Status().Serving })
		for time.Since(died) < 29*time.Second {
			if preferred() {
				t.Fatalf("moved %v after the leader died", time.Since(died))
			}
			time.Sleep(100 * time.Millisecond)
		}
		c.eventually("the preferred node leads again", preferred)
		if d := time.Since(died); d > 40*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

// TestBalancerFollowsPlansSoon: what was handed over by plan, as when nodes are restarted in turn, goes home soon.
func TestBalancerFollowsPlansSoon(t *testing.T) {
	virtual(t, 3, 1, Timing{}, func(t *testing.T, c *cluster) {
		c.startAll()
		preferred := func() bool { return c.nodes[0].Group(0).Status().Serving }
		c.eventually("the preferred node leads", preferred)
		time.Sleep(time.Minute)
		for range 3 {
			c.stop(0)
			c.leader(0)
			time.Sleep(2 * time.Second)
			c.start(0)
			start := time.Now()
			c.eventually("the preferred node leads", preferred)
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("it took %v", d)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestPlannedTransferIsShort measures for how long a client that tries again at once is refused.
func TestPlannedTransferIsShort(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		var gaps []time.Duration
		for range 50 {
			l := c.leader(0)
			to := (l + 1) % 3
			c.mustPropose(l, 0, "x")
			time.Sleep(100 * time.Millisecond)
			start := time.Now()
			if err := c.nodes[l].TransferTo(t.Context(), 0, int32(to)); err != nil {
				t.Fatal(err)
			}
			for c.propose(to, 0, "y") != nil {
				time.Sleep(100 * time.Microsecond)
			}
			gaps = append(gaps, time.Since(start))
		}
		slices.Sort(gaps)
		t.Logf("with %v each way: median %v, max %v", 200*time.Microsecond, gaps[25], gaps[49])
		if gaps[49] > 50*time.Millisecond {
			t.Errorf("the longest took %v", gaps[49])
		}
	})
}
