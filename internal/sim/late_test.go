package sim

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// silently keeps a heartbeat from reporting tasks.
func silently(r *kmsg.StreamsGroupHeartbeatRequest) {
	r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = nil, nil, nil
}

func numTasks(ids []kmsg.TaskIDs) (n int) {
	for _, t := range ids {
		n += len(t.Partitions)
	}
	return n
}

// TestALateJoinReleasesNothing: a join waits on an inner hop; its client gives it up, joins by way of another node, and runs
// tasks, one of which it is then to give up. When the first join arrives, "it owns nothing" is not so any more: the task must
// stay with the member until the member itself says that it has given it up.
func TestALateJoinReleasesNothing(t *testing.T) {
	for _, late := range []time.Duration{8 * time.Second, 40 * time.Second} {
		dir := dataDir(t)
		synctest.Test(t, func(t *testing.T) {
			observer := newObserver()
			c := startCluster(t, dir, observer, 1)
			defer c.shutdown()
			awaitNodes(t, c)
			c.up.addTopic("life-in", 2)
			time.Sleep(time.Minute) // every node has seen it
			admin := newConfigAdmin(t, c)
			a, b := &lifeMember{admin: admin, id: "a"}, &lifeMember{admin: admin, id: "b"}
			c.settleLife(t, a)
			leader := c.leader(observer.shardOf(lifeGroup))
			other := (leader + 1) % nodes
			a.node, b.node = &other, &leader
			a.beat(nil) // opens the hop
			a.node = &leader

			began := time.Now()
			c.hops.stall(other, late)
			w, err := dial(context.Background(), c.net.Host(clientHost(0)), nodeHost(other)+":9092", "admin", time.Second)
			if err != nil {
				t.Fatal(err)
			}
			a.epoch = 0
			if resp, err := w.do(a.request(), time.Second); err == nil {
				t.Fatalf("the first join was answered: %+v", resp)
			}
			w.close()
			a.beat(nil)
			if numTasks(a.owned[0]) != 2 {
				t.Fatalf("the second join got %+v", a.last)
			}
			a.beat(nil)
			b.beat(nil)
			for numTasks(a.owned[0]) != 1 { // a is told to give a task up
				if time.Since(began) > late-time.Second {
					t.Fatalf("a is not told to give a task up: %+v", a.last)
				}
				a.beat(silently)
				b.beat(nil)
				time.Sleep(100 * time.Millisecond)
			}
			for time.Since(began) < late+3*time.Second {
				if numTasks(b.owned[0]) != 0 {
					t.Fatalf("after %v: b was given a task that a has not given up", time.Since(began))
				}
				a.beat(silently)
				b.beat(nil)
				time.Sleep(100 * time.Millisecond)
			}
			c.settleLife(t, a, b)
			if numTasks(a.owned[0]) != 1 || numTasks(b.owned[0]) != 1 {
				t.Errorf("a has %+v, b has %+v", a.owned[0], b.owned[0])
			}
			for _, failure := range observer.broken() {
				t.Error(failure)
			}
		})
	}
}
