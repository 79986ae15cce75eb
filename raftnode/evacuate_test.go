package raftnode

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// TestKeptGroupStays: the balancer takes no group from a node that was to keep it, and takes it home once the node has lost
// it.
func TestKeptGroupStays(t *testing.T) {
	virtual(t, 3, 1, Timing{}, func(t *testing.T, c *cluster) {
		c.startAll()
		serves := func(i int) bool { return c.nodes[i].Group(0).Status().Serving }
		c.eventually("the preferred node leads", func() bool { return serves(0) })
		if err := c.nodes[1].Group(0).Keep(); !errors.Is(err, ErrNotLeader) {
			t.Errorf("a node that does not lead keeps the group: %v", err)
		}
		move := func(from, to int) {
			t.Helper()
			if err := c.nodes[from].TransferTo(t.Context(), 0, int32(to)); err != nil {
				t.Fatal(err)
			}
			c.eventually("the target serves", func() bool { return serves(to) })
		}
		move(0, 1)
		if err := c.nodes[1].Group(0).Keep(); err != nil {
			t.Fatal(err)
		}
		for range 600 {
			if time.Sleep(100 * time.Millisecond); !serves(1) || !c.nodes[1].Group(0).Status().Kept {
				t.Fatal("the group did not stay")
			}
		}
		move(1, 2)
		c.eventually("home from a node that was not asked to keep it", func() bool { return serves(0) })
		move(0, 1)
		if c.nodes[1].Group(0).Status().Kept {
			t.Error("what was kept in an earlier term is kept in the next one")
		}
		time.Sleep(30 * time.Second) // node 1 saw groups without a leader for a moment, and does not know that this was planned
		c.eventually("home again", func() bool { return serves(0) })
	})
}

// led counts the groups that a node serves.
func (c *cluster) led(node int) (n int) {
	for g := range uint32(c.groups) {
		if c.nodes[node].Group(g).Status().Serving {
			n++
		}
	}
	return n
}

// TestEvacuatedNodeLeadsNothing: neither balancers nor elections nor nodes that stop leave groups with a node that is
// drained; when it is readmitted it gets its share.
func TestEvacuatedNodeLeadsNothing(t *testing.T) {
	const groups = 6
	virtual(t, 3, groups, Timing{}, func(t *testing.T, c *cluster) {
		c.startAll()
		spread := func() bool { return c.led(0) == 2 && c.led(1) == 2 && c.led(2) == 2 }
		c.eventually("each node leads its share", spread)
		time.Sleep(time.Minute)
		others := func(within time.Duration, nodes ...int) {
			t.Helper()
			time.Sleep(within)
			for range 300 {
				time.Sleep(100 * time.Millisecond)
				total := 0
				for _, i := range nodes {
					total += c.led(i)
				}
				if total != groups {
					t.Fatalf("of %d groups %d are led by nodes %v", groups, total, nodes)
				}
			}
		}
		start := time.Now()
		if stay := c.nodes[1].Evacuate(t.Context()); len(stay) > 0 {
			t.Errorf("these stay: %v", stay)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("it took %v", d)
		}
		others(time.Second, 0, 2)
		c.stop(0) // hands its groups to node 2 only
		if c.led(1) > 0 {
			t.Error("a node that stopped handed its groups to the drained one")
		}
		c.start(0)
		others(10*time.Second, 0, 2)
		c.crash(2) // whoever wins the elections
		c.start(2)
		others(10*time.Second, 0, 2)
		c.nodes[1].Readmit()
		time.Sleep(100 * time.Millisecond)
		if c.nodes[0].IsAway(1) {
			t.Error("still away by what node 0 knows")
		}
		c.eventually("each node leads its share again", spread)
	})
}

// TestEvacuatedNodeLeadsWhenNobodyElseCan: better a drained leader than none.
func TestEvacuatedNodeLeadsWhenNobodyElseCan(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		l := c.leader(0)
		for i := range c.nodes {
			if i != l {
				if stay := c.nodes[i].Evacuate(t.Context()); len(stay) > 0 {
					t.Errorf("node %d: %v", i, stay)
				}
			}
		}
		stay := c.nodes[l].Evacuate(t.Context())
		if !errors.Is(stay[0], ErrAlone) {
			t.Errorf("the last node's groups went: %v", stay)
		}
		for i := range c.nodes {
			if i != l {
				if err := c.nodes[l].TransferTo(t.Context(), 0, int32(i)); !errors.Is(err, ErrAway) {
					t.Errorf("transfer to a drained node: %v", err)
				}
			}
		}
		c.mustPropose(l, 0, "x")
		other := (l + 1) % 3
		c.nodes[other].Readmit()
		c.eventually("the readmitted node leads", func() bool { return c.nodes[other].Group(0).Status().Serving })
		if got := c.agree(0); !slices.Equal(got, []string{"x"}) {
			t.Errorf("%q", got)
		}
	})
}
