package sim

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// rollMember is a member whose topology has an epoch, and a source topic for each subtopology.
type rollMember struct {
	lifeMember
	topologyEpoch int32
	sources       map[string]string
}

func newRollMember(admin *configAdmin, id string, epoch int32, second string) *rollMember {
	return &rollMember{lifeMember: lifeMember{admin: admin, id: id}, topologyEpoch: epoch, sources: map[string]string{"0": "life-in", "1": second}}
}

// goOn sends a heartbeat and looks at what it is told: no task that its topology does not have, and nothing new while it is
// stale.
func (m *rollMember) goOn(t *testing.T) {
	t.Helper()
	had := m.owned[0]
	r := m.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) {
		if r.Topology == nil {
			return
		}
		r.Topology.Epoch = m.topologyEpoch
		r.Topology.Subtopologies = nil
		for _, id := range []string{"0", "1"} {
			sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
			sub.SubtopologyID, sub.SourceTopics = id, []string{m.sources[id]}
			r.Topology.Subtopologies = append(r.Topology.Subtopologies, sub)
		}
	})
	for _, tasks := range r.ActiveTasks {
		for _, p := range tasks.Partitions {
			if m.stale() && !has(had, tasks.SubtopologyID, p) {
				t.Fatalf("%s is stale and was given %s_%d", m.id, tasks.SubtopologyID, p)
			}
		}
	}
}

func (m *rollMember) stale() bool {
	return slices.ContainsFunc(m.last.Status, func(s kmsg.StreamsGroupHeartbeatResponseStatus) bool { return s.StatusCode == 0 })
}

func (m *rollMember) tasks(id string) (n int) {
	for _, tasks := range m.owned[0] {
		if tasks.SubtopologyID == id {
			n += len(tasks.Partitions)
		}
	}
	return n
}

func has(list []kmsg.TaskIDs, id string, partition int32) bool {
	return slices.ContainsFunc(list, func(t kmsg.TaskIDs) bool {
		return t.SubtopologyID == id && slices.Contains(t.Partitions, partition)
	})
}

func (c *cluster) settleRoll(t *testing.T, members ...*rollMember) {
	t.Helper()
	for range 100 {
		for _, m := range members {
			m.goOn(t)
		}
		time.Sleep(200 * time.Millisecond)
		if g, ok := c.node(0).LocalGroup(lifeGroup); ok && g.State == "Stable" && g.Members == len(members) {
			return
		}
	}
	t.Fatal("not stable")
}

// TestRolloutOverKilledLeaders rolls an app from topology epoch 0 to 1 and back by another bump, and kills the shard's leader
// between any two steps. Subtopology 0 is the same in all versions, 1 reads another topic in the one of epoch 1.
func TestRolloutOverKilledLeaders(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		c := startCluster(t, dir, observer, 1)
		defer c.shutdown()
		awaitNodes(t, c)
		for _, topic := range []string{"life-in", "life-one", "life-two"} {
			c.up.addTopic(topic, 4)
		}
		time.Sleep(time.Minute) // every node has seen them
		admin := newConfigAdmin(t, c)
		a, b := newRollMember(admin, "a", 0, "life-one"), newRollMember(admin, "b", 0, "life-one")
		c.settleRoll(t, a, b)
		shard := observer.shardOf(lifeGroup)
		expect := func(m *rollMember, stale bool, first, second int) {
			t.Helper()
			if m.stale() != stale || m.tasks("0") != first || m.tasks("1") != second {
				t.Errorf("%s: stale %v, tasks %v; want stale %v, %d and %d", m.id, m.stale(), m.owned[0], stale, first, second)
			}
		}
		expect(a, false, 2, 2)
		expect(b, false, 2, 2)

		next := newRollMember(admin, "c", 1, "life-two")
		next.goOn(t)
		c.killLeader(t, shard)
		a.goOn(t) // is asked to give 1 up
		c.killLeader(t, shard)
		c.settleRoll(t, a, b, next)
		expect(a, true, 2, 0)
		expect(b, true, 2, 0)
		expect(next, false, 0, 4)

		// An old instance is restarted in the middle, then with the new version.
		b.leave()
		b = newRollMember(admin, "b2", 0, "life-one")
		b.goOn(t)
		c.killLeader(t, shard)
		c.settleRoll(t, a, b, next)
		expect(b, true, 0, 0)
		b.leave()
		b = newRollMember(admin, "b3", 1, "life-two")
		c.settleRoll(t, a, b, next)
		expect(a, true, 2, 0)
		a.leave()
		c.killLeader(t, shard)
		a = newRollMember(admin, "a2", 1, "life-two")
		c.settleRoll(t, a, b, next)
		for _, m := range []*rollMember{a, b, next} {
			if m.stale() {
				t.Errorf("%s is stale at the end of the roll-out", m.id)
			}
		}

		// Back: the content of epoch 0 with epoch 2.
		back := newRollMember(admin, "d", 2, "life-one")
		back.goOn(t)
		c.killLeader(t, shard)
		c.settleRoll(t, a, b, next, back)
		if back.stale() || back.tasks("1") != 4 || !a.stale() || a.tasks("1")+b.tasks("1")+next.tasks("1") != 0 {
			t.Errorf("back: d has %v, a %v", back.owned[0], a.owned[0])
		}
		for _, m := range []*rollMember{a, b, next} {
			m.leave()
			c.killLeader(t, shard)
		}
		c.settleRoll(t, back)
		expect(back, false, 4, 4)
		for i := range nodes {
			if g, ok := c.node(i).LocalGroup(lifeGroup); !ok || g.TopologyEpoch != 2 {
				t.Errorf("node %d: %+v", i, g)
			}
		}
		for _, failure := range observer.broken() {
			t.Error(failure)
		}
	})
}
