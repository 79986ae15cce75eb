package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAGraceGoesOnOverLeaders: the topic of a running group vanishes. Its members go on under the leader of then and under
// the next ones, others join them, and nobody is told of it before the grace is over; when the topic is back in time the
// group takes its new size by one epoch.
func TestAGraceGoesOnOverLeaders(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		const grace = 60 * time.Second
		c := startCluster(t, dir, observer, 1, "group.streams.topology.grace.ms=60000")
		defer c.shutdown()
		awaitNodes(t, c)
		c.up.addTopic("life-in", 2)
		time.Sleep(time.Minute) // every node has seen it
		admin := newConfigAdmin(t, c)
		a, b := &lifeMember{admin: admin, id: "a"}, &lifeMember{admin: admin, id: "b"}
		c.settleLife(t, a)
		shard := observer.shardOf(lifeGroup)
		left := func() int64 {
			if leader := c.leader(shard); leader >= 0 {
				g, _ := c.node(leader).LocalGroup(lifeGroup)
				if shown, _ := c.node(leader).LocalTopology(lifeGroup); shown.GraceLeftMs != g.GraceLeftMs {
					t.Errorf("with the topology %d ms are left, with the group %d", shown.GraceLeftMs, g.GraceLeftMs)
				}
				return g.GraceLeftMs
			}
			return 0
		}
		quiet := func(members ...*lifeMember) {
			t.Helper()
			for _, m := range members {
				if status := m.beat(nil).Status; len(status) > 0 && status[0].StatusCode != 5 {
					t.Fatalf("%s is told %v", m.id, status)
				}
			}
			time.Sleep(time.Second)
		}
		vanish := func(members ...*lifeMember) {
			t.Helper()
			c.up.dropTopic("life-in")
			for range 10 {
				quiet(members...)
				if left() > 0 {
					return
				}
			}
			t.Fatal("nobody noticed")
		}
		tasks := func(members ...*lifeMember) (n int) {
			for _, m := range members {
				for _, s := range m.owned[0] {
					n += len(s.Partitions)
				}
			}
			return n
		}

		epoch := a.epoch
		vanish(a)
		c.killLeader(t, shard)
		for range 5 {
			quiet(a)
		}
		if a.epoch != epoch || tasks(a) != 2 || left() == 0 {
			t.Fatalf("epoch %d after %d, %d tasks, %d ms left", a.epoch, epoch, tasks(a), left())
		}
		c.settleLife(t, a, b) // by the numbers of tasks in the log
		if tasks(a) != 1 || tasks(b) != 1 || left() == 0 {
			t.Fatalf("%d and %d tasks, %d ms left", tasks(a), tasks(b), left())
		}
		epoch = a.epoch
		c.up.addTopic("life-in", 4)
		time.Sleep(5 * time.Second)
		c.settleLife(t, a, b)
		if tasks(a) != 2 || tasks(b) != 2 || a.epoch != epoch+1 || left() != 0 {
			t.Fatalf("%d and %d tasks at epoch %d after %d, %d ms left", tasks(a), tasks(b), a.epoch, epoch, left())
		}

		since := time.Now()
		vanish(a, b)
		c.killLeader(t, shard)
		missing := func(s kmsg.StreamsGroupHeartbeatResponseStatus) bool { return s.StatusCode == 1 }
		for told := false; !told; {
			for _, m := range []*lifeMember{a, b} {
				for _, status := range m.beat(nil).Status {
					told = told || missing(status)
				}
			}
			switch passed := time.Since(since); {
			case told && passed < grace:
				t.Fatalf("told after %v", passed)
			case !told && passed > grace+20*time.Second:
				t.Fatal("never told")
			}
			time.Sleep(500 * time.Millisecond)
		}
		for _, failure := range observer.broken() {
			t.Error(failure)
		}
	})
}
