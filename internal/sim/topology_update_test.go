package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/web"
)

// counted is the next version of the app of counting: its table has another name, and it reads one more topic.
func counted(r *kmsg.StreamsGroupHeartbeatRequest) {
	counting(r)
	if r.Topology == nil {
		return
	}
	r.Topology.Epoch = 1
	r.Topology.Subtopologies[1].StateChangelogTopics[0].Topic = "life-store2"
	third := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	third.SubtopologyID, third.SourceTopics = "2", []string{"life-other"}
	r.Topology.Subtopologies = append(r.Topology.Subtopologies, third)
}

// rollOut is the test of an update: members of the version of before, and the first of the next one.
type rollOut struct {
	t        *testing.T
	c        *cluster
	old, new []*lifeMember
}

// settle has all members go on until nobody waits for tasks and nothing is left to give up, but for what nobody may have.
func (r *rollOut) settle(waiting int32) {
	r.t.Helper()
	var g web.GroupTopology
	for range 60 {
		for _, m := range r.old {
			m.beat(counting)
		}
		for _, m := range r.new {
			m.beat(counted)
		}
		time.Sleep(200 * time.Millisecond)
		g, _ = r.c.node(0).Topology(context.Background(), lifeGroup)
		if g.State == "Stable" && g.RollOut.Leaving == 0 && g.RollOut.Waiting == waiting && g.RollOut.Tasks > 0 {
			return
		}
	}
	r.t.Fatalf("not settled: %s %+v", topologyText(g), g.RollOut)
}

// want compares what every node shows.
func (r *rollOut) want(change, back, rollOut string) {
	r.t.Helper()
	for i := range nodes {
		g, ok := r.c.node(i).Topology(context.Background(), lifeGroup)
		if !ok {
			r.t.Fatalf("node %d does not know the group", i)
		}
		if got := changeText(g.Change); got != change {
			r.t.Errorf("node %d, change: %s, want %s", i, got, change)
		}
		if got := changeText(g.Back); got != back {
			r.t.Errorf("node %d, back: %s, want %s", i, got, back)
		}
		if got := rollOutText(g); got != rollOut {
			r.t.Errorf("node %d, roll-out: %s, want %s", i, got, rollOut)
		}
	}
}

func (r *rollOut) abort(node int, epoch int32) (web.Aborted, error) {
	return r.c.node(node).AbortTopology(context.Background(), web.AbortRequest{Group: lifeGroup, Epoch: epoch})
}

// TestATopologyIsRolledOutAndTakenBack, with what every node shows meanwhile, over the death of leaders.
func TestATopologyIsRolledOutAndTakenBack(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		c := startCluster(t, dir, observer, 1)
		defer c.shutdown()
		awaitNodes(t, c)
		c.up.addTopic("life-in", 2)
		c.up.addTopic("life-other", 1)
		time.Sleep(time.Minute) // every node has seen them
		admin := newConfigAdmin(t, c)
		shard := observer.shardOf(lifeGroup)
		r := &rollOut{t: t, c: c, old: []*lifeMember{{admin: admin, id: "a"}, {admin: admin, id: "b"}}}
		r.settle(0)
		r.want("", "", "0 a b; done, 2 of 2 members, 4 tasks: 4, 0, 0; 0")

		r.new = []*lifeMember{{admin: admin, id: "c"}}
		r.settle(0)
		const forth = "0 to 1: kept 0; changed 1; new 2; lost ; orphaned life-store(2)"
		r.want(forth, "1 to 0: kept 0; changed 1; new ; lost 2; orphaned life-store2(2)",
			"1 c; 0 a b; 1 of 3 members, 5 tasks: 3, 2, 0; 0")

		leader := c.leader(shard)
		c.restart(leader, true, time.Second)
		time.Sleep(10 * time.Second)
		r.settle(0)
		r.want(forth, "1 to 0: kept 0; changed 1; new ; lost 2; orphaned life-store2(2)",
			"1 c; 0 a b; 1 of 3 members, 5 tasks: 3, 2, 0; 0")

		for node := range nodes { // repeated: as when nobody knows what became of the first
			if done, err := r.abort(node, 1); err != nil || done != (web.Aborted{Group: lifeGroup, Aborted: 1, Restored: 0, Epoch: 2}) {
				t.Errorf("node %d: %+v %v", node, done, err)
			}
		}
		r.settle(0)
		r.want("1 to 2: kept 0; changed 1; new ; lost 2; orphaned life-store2(2)", "2 to 1: kept 0; changed 1; new 2; lost ; orphaned life-store(2)",
			"2 as 0 a b; 1 taken back c; 0; 2 of 3 members, 4 tasks: 4, 0, 0; 0")
		var refused *web.Refusal
		if _, err := r.abort(0, 0); !errors.As(err, &refused) || refused.Kind != web.Conflict || !strings.Contains(refused.Text, "the topology epoch 2 now, not 0") {
			t.Errorf("a late request: %v", err)
		}

		c.restart(c.leader(shard), true, time.Second)
		time.Sleep(10 * time.Second)
		r.new[0].leave()
		r.new = nil
		r.settle(0)
		r.want("1 to 2: kept 0; changed 1; new ; lost 2; orphaned life-store2(2)", "2 to 1: kept 0; changed 1; new 2; lost ; orphaned life-store(2)",
			"2 as 0 a b; 1 taken back; 0; done, 2 of 2 members, 4 tasks: 4, 0, 0; 0")
		for _, failure := range observer.broken() {
			t.Error(failure)
		}
	})
}

func changeText(c *web.TopologyChange) string {
	if c == nil {
		return ""
	}
	var orphaned []string
	for _, topic := range c.Orphaned {
		orphaned = append(orphaned, fmt.Sprintf("%s(%d)", topic.Topic, topic.Partitions))
	}
	text := fmt.Sprintf("%d to %d: kept %s; changed %s; new %s; lost %s; orphaned %s", c.From, c.To, strings.Join(c.Kept, " "), strings.Join(c.Changed, " "),
		strings.Join(c.New, " "), strings.Join(c.Lost, " "), strings.Join(orphaned, " "))
	for _, count := range c.Counts {
		text += fmt.Sprintf("; %s %d, before %d, is %d", count.Topic, count.Needed, count.Before, count.Exists)
	}
	return text
}

// rollOutText is who runs which topology, and of all tasks those with members that run the group's, with others, with nobody,
// and those to be given up.
func rollOutText(g web.GroupTopology) string {
	var b strings.Builder
	for _, v := range g.Versions {
		fmt.Fprintf(&b, "%d", v.Epoch)
		if v.Restores >= 0 {
			fmt.Fprintf(&b, " as %d", v.Restores)
		}
		if v.Aborted {
			b.WriteString(" taken back")
		}
		for _, m := range v.Members {
			b.WriteString(" " + m.Member)
		}
		b.WriteString("; ")
	}
	r := g.RollOut
	if r.Done {
		b.WriteString("done, ")
	}
	fmt.Fprintf(&b, "%d of %d members, %d tasks: %d, %d, %d; %d", r.Current, r.Current+r.Stale, r.Tasks, r.CurrentTasks, r.StaleTasks, r.Waiting, r.Leaving)
	return b.String()
}
