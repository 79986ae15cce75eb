package sim

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// warmMember is a member whose tasks have state: 1000 records each, of which its replicas have as many as restored says.
type warmMember struct {
	lifeMember
	restored int64
	// silent says that it reports no offsets.
	silent bool
}

func (m *warmMember) goOn() {
	m.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) {
		withChangelog(r)
		if m.silent {
			return
		}
		for role, tasks := range m.owned {
			for _, s := range tasks {
				for _, p := range s.Partitions {
					at := kmsg.NewTaskOffset()
					at.SubtopologyID, at.Partition, at.Offset = s.SubtopologyID, p, 1000
					end := at
					if role != int(active) {
						at.Offset = m.restored
					}
					r.TaskOffsets, r.TaskEndOffsets = append(r.TaskOffsets, at), append(r.TaskEndOffsets, end)
				}
			}
		}
	})
}

func (m *warmMember) has() (n [3]int) {
	for role, tasks := range m.owned {
		for _, s := range tasks {
			n[role] += len(s.Partitions)
		}
	}
	return n
}

// TestWarmupsOverLeaders: leaders are killed and moved while tasks wait for their warm-ups. A new leader, which knows no reports,
// moves nothing, whatever else raises the epoch, and keeps the warm-ups; a planned one knows what was reported. When they are
// caught up the tasks move, two at a time, and the group ends balanced.
func TestWarmupsOverLeaders(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		c := startCluster(t, dir, observer, 1, "group.streams.assignors=highly_available,sticky", "group.streams.acceptable.recovery.lag=10",
			"group.streams.num.standby.replicas=0")
		defer c.shutdown()
		awaitNodes(t, c)
		c.up.addTopic("life-in", 6)
		c.up.addTopic("life-changelog", 6)
		time.Sleep(time.Minute) // every node has seen them
		admin := newConfigAdmin(t, c)
		var all []*warmMember
		enter := func(id string) *warmMember {
			m := &warmMember{lifeMember: lifeMember{admin: admin, id: id}}
			all = append(all, m)
			return m
		}
		rounds := func(n int) {
			t.Helper()
			for range n {
				for _, m := range all {
					m.goOn()
				}
				time.Sleep(time.Second)
			}
		}
		expect := func(m *warmMember, want [3]int) {
			t.Helper()
			if got := m.has(); got != want {
				t.Fatalf("%s has %v tasks, want %v", m.id, got, want)
			}
		}
		a := enter("a")
		rounds(8)
		expect(a, [3]int{active: 6})
		b := enter("b")
		rounds(6)
		expect(a, [3]int{active: 6})
		expect(b, [3]int{warmup: 2})
		shard := observer.shardOf(lifeGroup)

		epoch := a.epoch
		for _, m := range all {
			m.silent = true
		}
		for range 2 {
			c.killLeader(t, shard)
			rounds(5)
			if a.epoch != epoch {
				t.Fatalf("epoch %d after %d for a change of leaders", a.epoch, epoch)
			}
		}
		d := enter("d")
		rounds(6)
		expect(a, [3]int{active: 6})
		expect(b, [3]int{warmup: 2})
		expect(d, [3]int{})
		if a.epoch != epoch+1 {
			t.Fatalf("epoch %d after %d", a.epoch, epoch)
		}

		// With reports of how far they are, and a planned leader that is told of them, they wait on.
		for _, m := range all {
			m.silent = false
		}
		rounds(1)
		leader := c.leader(shard)
		if err := c.node(leader).Transfer(context.Background(), shard, int32((leader+1)%nodes)); err != nil {
			t.Fatal(err)
		}
		awaitLeader(t, c, shard, -1)
		rounds(3)
		expect(a, [3]int{active: 6})
		b.restored, d.restored = 990, 990
		for n := 0; a.has() != [3]int{active: 2} || b.has() != a.has() || d.has() != a.has(); n++ {
			if n == 60 {
				t.Fatalf("a has %v, b %v, d %v", a.has(), b.has(), d.has())
			}
			rounds(1)
			if n == 4 || n == 9 {
				c.killLeader(t, shard)
			}
		}
		epoch = a.epoch
		rounds(5)
		if a.epoch != epoch {
			t.Fatalf("epoch %d after %d when all is done", a.epoch, epoch)
		}
		for _, failure := range observer.broken() {
			t.Error(failure)
		}
	})
}
