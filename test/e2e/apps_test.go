//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/test/rig"
)

const (
	atLeastOnce = "at_least_once"
	exactlyOnce = "exactly_once_v2"
)

type appCase struct {
	name, topology, guarantee string
}

var appCases = []appCase{
	{"stateless", "stateless", atLeastOnce},
	{"wordcount", "wordcount", atLeastOnce},
	{"wordcount-eos", "wordcount", exactlyOnce},
	{"join", "join", atLeastOnce},
}

// tasksOf is the number of tasks of a topology.
func tasksOf(topology string) int {
	if topology == "wordcount" {
		return 2 * partitions
	}
	return partitions
}

// TestApps runs each topology with two instances against three nodes of `coordd serve`.
func TestApps(t *testing.T) {
	for _, kind := range upstreams {
		t.Run(kind, func(t *testing.T) {
			dir := place(t)
			upstream := startUpstream(t, kind, dir)
			cluster := startCluster(t, 3, upstream, dir)
			for _, c := range appCases {
				t.Run(c.name, func(t *testing.T) { runCase(t, cluster.Bootstrap(), c, "") })
			}
		})
	}
}

// TestDev runs an application against `coordd dev`.
func TestDev(t *testing.T) {
	dir := place(t)
	bin, err := coordd()
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for k, v := range settings() {
		if k != "shards" {
			set[k] = fmt.Sprint(v)
		}
	}
	dev, err := rig.StartDev(bin, dir, set)
	if err != nil {
		t.Fatal(err)
	}
	runCase(t, dev.Bootstrap, appCase{"wordcount-eos", "wordcount", exactlyOnce}, "")
	if err := dev.Stop(15 * time.Second); err != nil {
		t.Error(err)
	}
	if err := dev.Err(); err != nil {
		t.Errorf("coordd dev ended with %v after SIGTERM", err)
	}
}

// TestControl runs the same checks without coordd: the protocol of old over kfake (without internal topics, which the
// client could not create there unhelped), and the streams protocol with real Kafka's own coordinator. When it fails, the
// fault is in the test's own application or checks.
func TestControl(t *testing.T) {
	t.Run("classic over kfake", func(t *testing.T) {
		dir := place(t)
		runCase(t, startUpstream(t, "kfake", dir), appCase{"stateless-eos", "stateless", exactlyOnce}, "classic")
	})
	t.Run("kafka", func(t *testing.T) {
		dir := place(t)
		k, err := rig.StartKafka(t.Context(), rig.KafkaConfig{Java: java, Dir: dir, Nodes: 1, Heap: "512m", Lines: []string{
			"group.streams.initial.rebalance.delay.ms=500", "group.streams.min.heartbeat.interval.ms=500", "group.streams.heartbeat.interval.ms=1000"}})
		if k != nil {
			defer k.Stop()
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range appCases[2:] {
			t.Run(c.name, func(t *testing.T) { runCase(t, k.Bootstrap(), c, "") })
		}
		t.Run("probe", func(t *testing.T) { runProbe(t, k.Bootstrap()) })
	})
}

// runProbe takes the hand-made member through joining, heartbeats and leaving.
func runProbe(t *testing.T, bootstrap string) {
	createTopics(t, bootstrap, "probe", "stateless")
	l := startPulse(t, bootstrap, "probe", "probe.in")
	l.waitAnswer(t, time.Now(), 10*time.Second)
	g, err := rig.DescribeGroup(bootstrap, "probe", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if g.State != "Stable" || len(g.Members) != 1 {
		t.Errorf("group is %+v", *g)
	}
	for id, m := range g.Members {
		if len(m.Active) != partitions || m.Epoch != g.Epoch {
			t.Errorf("member %s is %+v in %+v", id, m, *g)
		}
	}
	l.stop(t)
	if g, err = rig.DescribeGroup(bootstrap, "probe", 10*time.Second); err != nil || g.State != "Empty" {
		t.Errorf("after the member left: %+v %v", g, err)
	}
}

// runCase starts two instances, feeds them and checks the output, all through one bootstrap address.
func runCase(t *testing.T, bootstrap string, c appCase, protocol string) {
	dir := place(t)
	const steps = 1500
	createTopics(t, bootstrap, c.name, c.topology)
	input := feed(t, bootstrap, c.name, c.topology, 300, steps)
	apps := startApps(t, bootstrap, c, protocol, dir)
	waitSplit(t, apps, tasksOf(c.topology), 60*time.Second)
	verify(t, bootstrap, c.name, c.topology, input.wait(t), 60*time.Second)
	closeApps(t, apps)
}

// startApps starts two instances.
func startApps(t *testing.T, bootstrap string, c appCase, protocol, dir string) []*rig.App {
	t.Helper()
	var apps []*rig.App
	for _, name := range []string{"one", "two"} {
		a, err := rig.StartApp(rig.AppConfig{Java: java, Dir: dir, Name: name, Bootstrap: bootstrap, App: c.name,
			Topology: c.topology, Guarantee: c.guarantee, Protocol: protocol})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Kill)
		apps = append(apps, a)
	}
	return apps
}

// waitSplit waits until every instance runs and each task is active on exactly one of them, with none idle.
func waitSplit(t *testing.T, apps []*rig.App, tasks int, limit time.Duration) {
	t.Helper()
	ctx := within(t, limit)
	for _, a := range apps {
		if err := a.Wait(ctx, "RUNNING with tasks", func(s rig.AppState) bool { return s.Client == "RUNNING" && len(s.Active) > 0 }); err != nil {
			t.Fatal(err)
		}
	}
	for !split(apps, tasks) {
		if err := waitAny(ctx, apps); err != nil {
			for _, a := range apps {
				t.Logf("%s: %+v", a.Name, a.State())
			}
			t.Fatalf("the %d tasks are not split: %v", tasks, err)
		}
	}
}

func split(apps []*rig.App, tasks int) bool {
	var all []string
	for _, a := range apps {
		s := a.State()
		if s.Client != "RUNNING" || len(s.Active) == 0 {
			return false
		}
		for task := range s.Active {
			all = append(all, task)
		}
	}
	slices.Sort(all)
	return len(all) == tasks && len(slices.Compact(all)) == tasks
}

// waitAny waits a moment for news of the instances.
func waitAny(ctx context.Context, apps []*rig.App) error {
	for _, a := range apps {
		if !a.Alive() {
			return fmt.Errorf("%s ended: %v\n%s", a.Name, a.Err(), a.Tail(20))
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(100 * time.Millisecond):
		return nil
	}
}

func closeApps(t *testing.T, apps []*rig.App) {
	t.Helper()
	closed := make(chan error, len(apps))
	for _, a := range apps {
		go func() { closed <- a.Close(40 * time.Second) }()
	}
	for range apps {
		if err := <-closed; err != nil {
			t.Error(err)
		}
	}
	for _, a := range apps {
		for _, e := range a.Events(0) {
			if e.Event == "exception" {
				t.Errorf("%s: %s: %s (%s)", a.Name, e.Class, e.Message, e.Root)
			}
		}
	}
}
