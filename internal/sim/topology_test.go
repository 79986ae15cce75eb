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

// counting is the topology of an app that reads a topic, repartitions it and keeps a table.
func counting(r *kmsg.StreamsGroupHeartbeatRequest) {
	if r.Topology == nil {
		return
	}
	r.Topology.Subtopologies[0].RepartitionSinkTopics = []string{"life-r"}
	second, repartition, changelog := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology(), kmsg.NewTopicInfo(), kmsg.NewTopicInfo()
	repartition.Topic, changelog.Topic = "life-r", "life-store"
	second.SubtopologyID = "1"
	second.RepartitionSourceTopics = []kmsg.TopicInfo{repartition}
	second.StateChangelogTopics = []kmsg.TopicInfo{changelog}
	r.Topology.Subtopologies = append(r.Topology.Subtopologies, second)
}

// shownTopology is what a node shows of a group's topology, in short.
func shownTopology(t *testing.T, c *cluster, node int) string {
	t.Helper()
	g, ok := c.node(node).Topology(context.Background(), lifeGroup)
	if !ok {
		t.Fatalf("node %d does not know the group", node)
	}
	return topologyText(g)
}

func topologyText(g web.GroupTopology) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d", g.State, g.TopologyEpoch)
	if g.Problem != "" {
		b.WriteString(" " + strings.SplitN(g.Problem, ":", 2)[0])
	}
	for _, s := range g.Subtopologies {
		fmt.Fprintf(&b, "; %s: %d tasks of %v %v %v %v", s.Subtopology, s.Tasks, s.Sources, s.RepartitionSources, s.RepartitionSinks, s.Changelogs)
	}
	for _, m := range g.Missing {
		fmt.Fprintf(&b, "; no %s %s %d", m.Kind, m.Topic, m.Partitions)
	}
	for _, v := range g.Versions {
		fmt.Fprintf(&b, "; %d", v.Epoch)
		if v.Aborted {
			b.WriteString(" taken back")
		}
		for _, m := range v.Members {
			fmt.Fprintf(&b, " %s=%d", m.Member, m.Tasks)
		}
	}
	return b.String()
}

// TestEveryNodeShowsTheTopology: with the topics that it waits for, then with its tasks and who has them.
func TestEveryNodeShowsTheTopology(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		c := startCluster(t, dir, observer, 1)
		defer c.shutdown()
		awaitNodes(t, c)
		a := &lifeMember{admin: newConfigAdmin(t, c), id: "a"}
		a.beat(counting)
		for i := range nodes {
			const want = "NotReady 0 MISSING_SOURCE_TOPICS; 0: -1 tasks of [life-in] [] [life-r] []; 1: -1 tasks of [] [{life-r -1}] [] [{life-store -1}]; " +
				"no source life-in 0; no internal life-r 0; no internal life-store 0; 0 a=0"
			if got := shownTopology(t, c, i); got != want {
				t.Errorf("node %d:\n%s\nwant\n%s", i, got, want)
			}
		}
		if _, ok := c.node(0).Topology(context.Background(), "nobody"); ok {
			t.Error("a group that does not exist is shown")
		}

		c.up.addTopic("life-in", 2)
		for range 60 {
			a.beat(counting)
			time.Sleep(time.Second)
			if g, ok := c.node(0).LocalGroup(lifeGroup); ok && g.State == "Stable" {
				break
			}
		}
		for i := range nodes {
			const want = "Stable 0; 0: 2 tasks of [life-in] [] [life-r] []; 1: 2 tasks of [] [{life-r 2}] [] [{life-store 2}]; 0 a=4"
			if got := shownTopology(t, c, i); got != want {
				t.Errorf("node %d:\n%s\nwant\n%s", i, got, want)
			}
		}
		for i := range nodes {
			for _, refused := range []struct {
				web.AbortRequest
				kind web.RefusalKind
				says string
			}{
				{web.AbortRequest{Group: lifeGroup}, web.Conflict, "no topology before that of epoch 0 to go back to"},
				{web.AbortRequest{Group: lifeGroup, Epoch: 1}, web.Conflict, "has the topology epoch 0 now, not 1"},
				{web.AbortRequest{Group: "nobody"}, web.NotFound, "nobody not found"},
				{web.AbortRequest{}, web.NotAllowed, "id is empty"},
			} {
				_, err := c.node(i).AbortTopology(context.Background(), refused.AbortRequest)
				var r *web.Refusal
				if !errors.As(err, &r) || r.Kind != refused.kind || !strings.Contains(r.Text, refused.says) {
					t.Errorf("node %d, %+v: %v", i, refused.AbortRequest, err)
				}
			}
		}
		for _, failure := range observer.broken() {
			t.Error(failure)
		}
	})
}
