//go:build e2e

package e2e

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/test/rig"
)

// settings of every cluster: as many shards as a node has by default, a short initial delay and heartbeat so that an
// application is up in seconds and notices at once what its coordinator does.
func settings() map[string]any {
	return map[string]any{
		"shards": shards,
		"group.streams.initial.rebalance.delay.ms": 500,
		"group.streams.min.heartbeat.interval.ms":  500,
		"group.streams.heartbeat.interval.ms":      1000,
	}
}

const shards = 8

// upstreams are what the clusters of `serve` stand in front of.
var upstreams = []string{"kfake", "kfake3", "kafka"}

// place is the folder of a test; its logs are printed when the test fails.
func place(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(work, strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			printLogs(t, dir)
		}
	})
	return dir
}

func printLogs(t *testing.T, dir string) {
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	more, _ := filepath.Glob(filepath.Join(dir, "*", "*.log"))
	events, _ := filepath.Glob(filepath.Join(dir, "*", "events.jsonl"))
	for _, log := range append(append(logs, more...), events...) {
		t.Logf("---- end of %s\n%s", log, rig.Tail(log, 25))
	}
}

// oldKafka is the upstream kafka of an older version, without transactions of the second generation.
const oldKafka = "kafka-" + rig.OldKafka

// startUpstream starts the named upstream and returns its bootstrap servers.
func startUpstream(t *testing.T, kind, dir string) string {
	t.Helper()
	if kind == "kafka" || kind == oldKafka {
		jars := java
		if kind == oldKafka {
			var err error
			if jars, err = java.Version(within(t, 5*time.Minute), rig.OldKafka); err != nil {
				t.Fatal(err)
			}
		}
		k, err := rig.StartKafka(t.Context(), rig.KafkaConfig{Java: jars, Dir: dir, Nodes: 1, Heap: "512m"})
		if k != nil {
			t.Cleanup(k.Stop)
		}
		if err != nil {
			t.Fatal(err)
		}
		return k.Bootstrap()
	}
	bin, err := kfake()
	if err != nil {
		t.Fatal(err)
	}
	brokers := 1
	if kind == "kfake3" {
		brokers = 3
	}
	k, err := rig.StartKfake(bin, dir, brokers)
	if k != nil && k.Proc != nil {
		t.Cleanup(k.Stop)
	}
	if err != nil {
		t.Fatal(err)
	}
	return k.Bootstrap()
}

// startCluster starts nodes of `coordd serve` in front of an upstream.
func startCluster(t *testing.T, nodes int, upstream, dir string) *rig.Cluster {
	t.Helper()
	return startClusterWith(t, nodes, upstream, dir, nil)
}

// startClusterWith adds to the settings of every cluster.
func startClusterWith(t *testing.T, nodes int, upstream, dir string, more map[string]any) *rig.Cluster {
	t.Helper()
	all := settings()
	maps.Copy(all, more)
	bin, err := coordd()
	if err != nil {
		t.Fatal(err)
	}
	c, err := rig.StartCluster(t.Context(), rig.ClusterConfig{Bin: bin, Dir: dir, Nodes: nodes, Upstream: upstream, Settings: all})
	if c != nil {
		t.Cleanup(c.Stop)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// within is a context that ends after d or with the test.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
