//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/coordd/coordd/test/rig"
)

// TestAppsWithOffsetsInTheLog runs apps whose groups keep their offsets in coordd's log: one that is stopped and started again while its
// input goes on, at last with the classic protocol, and whose output is exact; and one that cannot run so.
func TestAppsWithOffsetsInTheLog(t *testing.T) {
	dir := place(t)
	upstream := startUpstream(t, "kafka", dir)
	cluster := startClusterWith(t, 3, upstream, dir, map[string]any{"offsets.store": "raft"})
	t.Run("at least once", func(t *testing.T) { stoppedAndStarted(t, upstream, cluster.Bootstrap()) })
	t.Run("exactly once", func(t *testing.T) { refusedTransactions(t, cluster) })
}

func stoppedAndStarted(t *testing.T, upstream, bootstrap string) {
	dir := place(t)
	c := appCase{"logged", "wordcount", atLeastOnce}
	createTopics(t, bootstrap, c.name, c.topology)
	input := feed(t, bootstrap, c.name, c.topology, 300, 9000)
	apps := startApps(t, bootstrap, c, "", dir)
	waitSplit(t, apps, tasksOf(c.topology), 60*time.Second)
	closeApps(t, apps)
	admin := kadm.NewClient(client(t, bootstrap))
	ctx := within(t, 60*time.Second)
	committed, err := admin.FetchOffsets(ctx, c.name)
	if err != nil || len(committed.Offsets()) == 0 {
		t.Fatalf("the stopped app has offsets %v, %v", committed, err)
	}
	groups, err := kadm.NewClient(client(t, upstream)).ListGroups(ctx)
	if _, there := groups[c.name]; err != nil || there {
		t.Errorf("the Kafka behind has groups %v, %v", groups, err)
	}
	apps = startApps(t, bootstrap, c, "", dir)
	waitSplit(t, apps, tasksOf(c.topology), 60*time.Second)
	closeApps(t, apps)
	// A classic group's coordinator is behind, where it finds the offsets.
	apps = startApps(t, bootstrap, c, "classic", dir)
	waitSplit(t, apps, tasksOf(c.topology), 90*time.Second)
	if groups, err = kadm.NewClient(client(t, upstream)).ListGroups(within(t, 30*time.Second)); err != nil || groups[c.name].State == "" {
		t.Errorf("the Kafka behind has groups %v, %v", groups, err)
	}
	verify(t, bootstrap, c.name, c.topology, input.wait(t), 60*time.Second)
	closeApps(t, apps)
}

// refusedTransactions: an app with exactly_once_v2 ends with an error that says so, and a node's log says what to do.
func refusedTransactions(t *testing.T, cluster *rig.Cluster) {
	dir := place(t)
	bootstrap := cluster.Bootstrap()
	createTopics(t, bootstrap, "transactional", "stateless")
	feed(t, bootstrap, "transactional", "stateless", 300, 300)
	a, err := rig.StartApp(rig.AppConfig{Java: java, Dir: dir, Name: "one", Bootstrap: bootstrap, App: "transactional", Topology: "stateless", Guarantee: exactlyOnce})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Kill)
	err = a.Wait(within(t, 60*time.Second), "the end of the app", func(rig.AppState) bool {
		for _, e := range a.Events(0) {
			if e.Event == "exception" && strings.Contains(e.Class+e.Message+e.Root, "UnsupportedForMessageFormat") {
				return true
			}
		}
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range cluster.Nodes {
		if logs(t, n.Log, "refused a transactional commit", "group=transactional", "coordd groups offsets GROUP --move-to upstream") {
			return
		}
	}
	t.Error("no node's log says what to do")
}
