package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestOffsetsGoWithTheirTopic: offsets in the log of a topic that was deleted upstream are deleted by the whole chain of parts, those of
// one that coordd may not describe any more stay and are shown.
func TestOffsetsGoWithTheirTopic(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		c := startCluster(t, dir, observer, 1, "offsets.store=raft", "offsets.retention.check.interval.ms=60000")
		defer c.shutdown()
		awaitNodes(t, c)
		for _, topic := range []string{"life-in", "secret", "deleted"} {
			c.up.addTopic(topic, 1)
		}
		time.Sleep(time.Minute) // every node has seen them
		a := newConfigAdmin(t, c)
		m := &lifeMember{admin: a, id: "a"}
		c.settleLife(t, m)
		m.leave()
		for _, topic := range []string{"life-in", "secret", "deleted"} {
			a.commit(topic, 7)
		}
		time.Sleep(2 * time.Second)
		c.up.dropTopic("deleted")
		c.up.mu.Lock()
		c.up.secret["secret"] = true
		c.up.mu.Unlock()
		time.Sleep(30 * time.Second)
		if d := cmp.Diff(map[string]int64{"life-in": 7, "secret": 7, "deleted": 7}, a.fetched()); d != "" {
			t.Error("before it is sure: ", d)
		}
		time.Sleep(4 * time.Minute)
		if d := cmp.Diff(map[string]int64{"life-in": 7, "secret": 7}, a.fetched()); d != "" {
			t.Error(d)
		}
		for _, failure := range observer.broken() {
			t.Error(failure)
		}
	})
}

// commit commits an offset of partition 0 of a topic without a member.
func (a *configAdmin) commit(topic string, offset int64) {
	a.t.Helper()
	for range 200 {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.SetVersion(9)
		req.Group, req.Generation = lifeGroup, -1
		rt, rp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Offset, rt.Topic = offset, topic
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp, ok := a.ask(a.rand.IntN(nodes), req).(*kmsg.OffsetCommitResponse)
		if ok && resp.Topics[0].Partitions[0].ErrorCode == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	a.t.Fatal("no commit succeeds")
}

// fetched are the offsets of partition 0 of all topics.
func (a *configAdmin) fetched() map[string]int64 {
	a.t.Helper()
	for range 200 {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.SetVersion(9)
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.MemberEpoch, g.Topics = lifeGroup, -1, nil
		req.Groups = append(req.Groups, g)
		resp, ok := a.ask(a.rand.IntN(nodes), req).(*kmsg.OffsetFetchResponse)
		if ok && resp.Groups[0].ErrorCode == 0 {
			offsets := map[string]int64{}
			for _, topic := range resp.Groups[0].Topics {
				offsets[topic.Topic] = topic.Partitions[0].Offset
			}
			return offsets
		}
		time.Sleep(50 * time.Millisecond)
	}
	a.t.Fatal("no fetch succeeds")
	return nil
}
