package sim

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestTheLeaderSaysWhichTopicsAreMissing: members are judged by the leader's picture of the topics, so that is what people
// are shown, whichever node they ask; where the leader does not answer a node shows what it knows itself.
func TestTheLeaderSaysWhichTopicsAreMissing(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		c := startCluster(t, dir, observer, 1)
		defer c.shutdown()
		awaitNodes(t, c)
		a := &lifeMember{admin: newConfigAdmin(t, c), id: "a"}
		a.beat(nil)
		shard := observer.shardOf(lifeGroup)
		late := (c.leader(shard) + 1) % nodes
		problem := func(node int) string {
			g, ok := c.node(node).Group(context.Background(), lifeGroup)
			if !ok || g.Members != 1 {
				t.Fatalf("node %d: %v %+v", node, ok, g)
			}
			return g.Problem
		}
		for i := range nodes {
			if problem(i) == "" {
				t.Errorf("node %d does not say that the topic is missing", i)
			}
		}

		c.links[late].set(true)
		c.up.addTopic("life-in", 2)
		settled := false
		for range 60 {
			a.beat(nil)
			time.Sleep(time.Second)
			if leader := c.leader(shard); leader == late {
				_ = c.node(late).Transfer(context.Background(), shard, int32((late+1)%nodes))
			} else if g, ok := c.node(max(0, leader)).LocalGroup(lifeGroup); ok && leader >= 0 && g.Problem == "" && g.State == "Stable" {
				settled = true
				break
			}
		}
		if g, ok := c.node(late).LocalGroup(lifeGroup); !settled || !ok || g.Problem == "" {
			t.Fatalf("settled: %v; node %d has seen the topic although it cannot reach the upstream: %+v", settled, late, g)
		}
		for i := range nodes {
			if got := problem(i); got != "" {
				t.Errorf("node %d: %s", i, got)
			}
		}
		for i := range nodes {
			if i != late {
				c.isolate(i)
			}
		}
		if problem(late) == "" {
			t.Error("without the leader the node does not tell what it knows")
		}
		c.heal()
		for _, failure := range observer.broken() {
			t.Error(failure)
		}
	})
}
