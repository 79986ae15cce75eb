package sim

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/internal/vnet"
	"github.com/coordd/coordd/raftnode"
	"github.com/coordd/coordd/server"
)

const (
	nodes  = 3
	shards = 4
	// clientHosts are the machines that members run on.
	clientHosts    = 6
	sessionTimeout = 10 * time.Second
)

// cluster is the nodes, the network and the upstream.
type cluster struct {
	t        testing.TB
	dir      string
	net      *vnet.Network
	up       *upstream
	observer *observer
	set      []string   // settings beside the usual ones
	clocks   *rand.Rand // sets the wall clocks of nodes apart; nil: they agree
	levels   []uint16   // feature levels of nodes that are of another release
	links    []*link
	hops     hops
	stop     context.CancelFunc

	mu    sync.Mutex
	nodes []*server.Node // nil while it is down
	down  sync.WaitGroup // restarts under way
}

func nodeHost(i int) string   { return fmt.Sprintf("n%d", i) }
func clientHost(i int) string { return fmt.Sprintf("c%d", i) }

func startCluster(t testing.TB, dir string, o *observer, seed uint64, set ...string) *cluster {
	return startClusterByClocks(t, dir, o, seed, nil, set...)
}

// startClusterByClocks starts nodes whose wall clocks differ by hours, each at another time of day whenever it starts.
func startClusterByClocks(t testing.TB, dir string, o *observer, seed uint64, clocks *rand.Rand, set ...string) *cluster {
	return startReleases(t, dir, o, seed, clocks, make([]uint16, nodes), set...)
}

// startReleases starts nodes of other releases: those with a feature level here, 0 for this one's.
func startReleases(t testing.TB, dir string, o *observer, seed uint64, clocks *rand.Rand, levels []uint16, set ...string) *cluster {
	ctx, stop := context.WithCancel(context.Background())
	c := &cluster{
		t: t, dir: dir, net: vnet.New(), up: newUpstream(ctx, o, seed), observer: o, stop: stop, set: set,
		clocks: clocks, levels: levels, nodes: make([]*server.Node, nodes),
	}
	c.net.SetLatency(200 * time.Microsecond)
	for i := range clientHosts {
		c.net.Host(clientHost(i))
	}
	ln, err := c.net.Host(brokerHost).Listen(fmt.Sprintf(":%d", brokerPort))
	if err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(ctx, func() { c.net.Host(brokerHost).Close() })
	go serveBroker(ln)
	for i := range nodes {
		c.links = append(c.links, newLink(c.up))
		c.start(i)
	}
	return c
}

func (c *cluster) settings(i int) []string {
	var peers []string
	for k := range nodes {
		peers = append(peers, fmt.Sprintf("%d=%s:7000/%s:9092", k, nodeHost(k), nodeHost(k)))
	}
	return append([]string{
		fmt.Sprintf("node.id=%d", i),
		"data.dir=" + filepath.Join(c.dir, nodeHost(i)),
		"raft.listen=" + nodeHost(i) + ":7000",
		"client.listen=" + nodeHost(i) + ":9092",
		"peers=" + strings.Join(peers, ","),
		"broker.port.base=9100",
		fmt.Sprintf("upstream.bootstrap.servers=%s:%d", brokerHost, brokerPort),
		fmt.Sprintf("shards=%d", shards),
		"group.streams.min.session.timeout.ms=1000",
		fmt.Sprintf("group.streams.session.timeout.ms=%d", sessionTimeout.Milliseconds()),
		"group.streams.min.heartbeat.interval.ms=500",
		"group.streams.heartbeat.interval.ms=1000",
		"group.streams.initial.rebalance.delay.ms=500",
		"group.streams.assignment.interval.ms=300",
		"group.streams.num.standby.replicas=1",
	}, c.set...)
}

// start starts a node from its data folder.
func (c *cluster) start(i int) {
	cfg, _, err := config.Load(config.Sources{Set: c.settings(i)})
	if err != nil {
		c.t.Fatal(err)
	}
	host := c.net.Host(nodeHost(i))
	n, err := server.Start(cfg, server.Parts{
		Logger: c.logger(i),
		Topics: source{c.links[i]},
		NewStore: func(func(string, func(error))) server.Store {
			return newStore(c.links[i])
		},
		Listen: host.Listen, Dial: c.hops.from(i, host), WallClock: c.wallClock(),
		// The targets of some groups are computed beside their shard, and written in parts.
		Shard: func(o *shard.Options) { o.OffloadFrom, o.TargetChunk, o.MaxBatchDecisions = 24, 2, 8 },
		// Snapshots and truncation of the log happen often enough to be part of restarts.
		Timing:       raftnode.Timing{SnapshotInterval: 10 * time.Second, SnapshotThreshold: 64, TrailingLogs: 32},
		FeatureLevel: c.levels[i],
		Applied:      func(group uint32, index uint64, state fsm.State) { c.observer.applied(i, group, index, state) },
	})
	if err != nil {
		c.observer.failf("node %d does not start: %v", i, err)
		return
	}
	c.mu.Lock()
	c.nodes[i] = n
	c.mu.Unlock()
}

// wallClock is the wall clock of a node that starts.
func (c *cluster) wallClock() func() time.Time {
	if c.clocks == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	by := time.Duration(c.clocks.Int64N(int64(8*time.Hour))) - 4*time.Hour
	return func() time.Time { return time.Now().Add(by) }
}

// logger gives the observer what a node calls an error. SIM_LOG names a file for everything else.
func (c *cluster) logger(i int) hclog.Logger {
	options := &hclog.LoggerOptions{Name: nodeHost(i), Level: hclog.Error, Output: errorLines{c.observer}}
	if path := os.Getenv("SIM_LOG"); path != "" {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			options.Level, options.Output = hclog.Info, io.MultiWriter(f)
			options.TimeFormat = "15:04:05.000"
		}
	}
	return hclog.New(options)
}

// errorLines takes log lines of level error.
type errorLines struct{ observer *observer }

func (l errorLines) Write(line []byte) (int, error) {
	l.observer.failf("logged as an error: %s", strings.TrimSpace(string(line)))
	return len(line), nil
}

func (c *cluster) node(i int) *server.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i]
}

// take takes a running node to bring it down; nil when it is down.
func (c *cluster) take(i int) *server.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[i]
	c.nodes[i] = nil
	return n
}

// restart brings a node down, by kill -9 or by SIGTERM, and starts it again later.
func (c *cluster) restart(i int, kill bool, after time.Duration) {
	n := c.take(i)
	if n == nil {
		return
	}
	c.down.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		if kill {
			c.net.Host(nodeHost(i)).Close()
			c.isolate(i)
			cancel()
		}
		if err := n.Stop(ctx); err != nil {
			c.observer.failf("node %d does not stop: %v", i, err)
		}
		cancel()
		time.Sleep(after)
		if kill {
			c.rejoin(i)
		}
		c.start(i)
	})
}

// isolate cuts a node off from everybody.
func (c *cluster) isolate(i int) {
	c.net.Isolate(nodeHost(i))
	c.links[i].set(true)
}

func (c *cluster) rejoin(i int) {
	c.net.Rejoin(nodeHost(i))
	c.links[i].set(false)
}

// heal ends all faults of the network and waits for nodes that restart.
func (c *cluster) heal() {
	c.down.Wait()
	c.up.setSlow(false)
	for i := range nodes {
		c.rejoin(i)
	}
}

// leader is the node that serves a shard; -1 when none does.
func (c *cluster) leader(shard int) int {
	for i := range nodes {
		if n := c.node(i); n != nil {
			for _, s := range n.Local().Shards {
				if s.Shard == shard && s.Serving {
					return i
				}
			}
		}
	}
	return -1
}

// shutdown ends everything, so that the bubble can end.
func (c *cluster) shutdown() {
	c.hops.release()
	c.heal()
	var wg sync.WaitGroup
	for i := range nodes {
		if n := c.take(i); n != nil {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(context.Background())
				cancel() // nobody needs the leaderships any more
				_ = n.Stop(ctx)
			})
		}
	}
	wg.Wait()
	c.stop()
	c.up.wg.Wait()
}

func anyNodeAddress(r *rand.Rand) string { return nodeHost(r.IntN(nodes)) + ":9092" }
