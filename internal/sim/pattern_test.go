package sim

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// byPattern is the topology of an app that reads whatever is called life-in and something.
func byPattern(r *kmsg.StreamsGroupHeartbeatRequest) {
	if r.Topology != nil {
		r.Topology.Subtopologies[0].SourceTopics = nil
		r.Topology.Subtopologies[0].SourceTopicRegex = []string{"life-in-.+"}
	}
}

// partitions is how many tasks the member has been told to run.
func (m *lifeMember) partitions() (n int) {
	for _, t := range m.owned[0] {
		n += len(t.Partitions)
	}
	return n
}

// awaitTasks lets the member go on until it has n active tasks.
func (m *lifeMember) awaitTasks(t *testing.T, n int, change func(*kmsg.StreamsGroupHeartbeatRequest)) {
	t.Helper()
	for range 100 {
		if m.beat(change); m.partitions() == n {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%d tasks, not %d; status %v", m.partitions(), n, m.last.Status)
}

// TestTopicsThatAPatternMatches: a topic that comes later is a part of the assignment within a second of being seen, one that does not
// match changes nothing, and after a failover the next leader knows what the members read before any of them came.
func TestTopicsThatAPatternMatches(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		c := startCluster(t, dir, observer, 1, "group.streams.initial.rebalance.delay.ms=0", "group.streams.assignment.interval.ms=0")
		defer c.shutdown()
		awaitNodes(t, c)
		c.up.addTopic("other", 9)
		admin := newConfigAdmin(t, c)
		a := &lifeMember{admin: admin, id: "a"}
		if a.beat(byPattern); len(a.last.Status) != 1 || a.last.Status[0].StatusCode != 1 {
			t.Fatalf("nothing matches: %v", a.last.Status)
		}
		c.up.addTopic("life-in-a", 2)
		a.awaitTasks(t, 2, byPattern)
		granted := a.epoch
		a.beat(byPattern)
		best := time.Hour // here some answers of the upstream take seconds, and now and then another node comes to lead
		for n, name := range []string{"life-in-b", "life-in-c", "life-in-d"} {
			c.up.addTopic(name, int32(4+n))
			seen := make(chan time.Time, 1)
			go func() { seen <- c.awaitSource(name) }()
			a.awaitTasks(t, 4+n, byPattern)
			best = min(best, time.Since(<-seen))
			a.beat(byPattern)
		}
		if best > time.Second {
			t.Errorf("tasks %v after the topic was seen at best", best)
		}
		c.settleLife(t, a)
		epoch := a.epoch
		c.up.addTopic("unlike-in", 7)
		for range 5 {
			a.beat(byPattern)
			time.Sleep(time.Second)
		}
		if a.epoch != epoch || epoch == granted {
			t.Errorf("epoch %d, then %d, and %d after a topic that does not match", granted, epoch, a.epoch)
		}

		c.killLeader(t, observer.shardOf(lifeGroup))
		for topic, want := range map[string]int16{"life-in-a": 86, "life-in-d": 86, "unlike-in": 0, "other": 0} {
			if code := admin.deleteOffset(topic); code != want {
				t.Errorf("deletion of an offset of %s after the failover: code %d, want %d", topic, code, want)
			}
		}
		if a.beat(byPattern); a.epoch != epoch || len(a.last.Status) != 0 {
			t.Errorf("epoch %d after the failover, %d before; status %v", a.epoch, epoch, a.last.Status)
		}
		for i := range nodes {
			got, ok := c.node(i).Topology(context.Background(), lifeGroup)
			if !ok || !slices.Equal(got.Subtopologies[0].Sources, []string{"life-in-a", "life-in-b", "life-in-c", "life-in-d"}) ||
				!slices.Equal(got.Subtopologies[0].SourceRegexes, []string{"life-in-.+"}) || got.Subtopologies[0].Tasks != 6 {
				t.Errorf("node %d shows %+v", i, got.Subtopologies)
			}
		}
		for _, failure := range observer.broken() {
			t.Error(failure)
		}
	})
}

// awaitSource returns when every node has seen that the group reads a topic, or has had a minute for it.
func (c *cluster) awaitSource(name string) time.Time {
	for i := range nodes {
		for range 3000 {
			if got, ok := c.node(i).LocalTopology(lifeGroup); ok && slices.Contains(got.Subtopologies[0].Sources, name) {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return time.Now()
}

// deleteOffset deletes the offset of partition 0 of a topic, which nobody may whose group reads it, and returns the answer's
// code.
func (a *configAdmin) deleteOffset(topic string) int16 {
	for range 100 {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = lifeGroup
		rt, rp := kmsg.NewOffsetDeleteRequestTopic(), kmsg.NewOffsetDeleteRequestTopicPartition()
		rt.Topic = topic
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		if resp, ok := a.ask(a.rand.IntN(nodes), req).(*kmsg.OffsetDeleteResponse); ok && resp.ErrorCode == 0 {
			if len(resp.Topics) == 0 { // the upstream of the simulation, which is asked for what may be deleted, names none
				return 0
			}
			return resp.Topics[0].Partitions[0].ErrorCode
		}
		time.Sleep(50 * time.Millisecond)
	}
	return -1
}
