package server

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/gateway"
	"github.com/coordd/coordd/raftnode"
	"github.com/coordd/coordd/topicctl"
)

// Store is where offsets of streams groups are kept, and who else uses a group id there. Callbacks come exactly once.
type Store interface {
	Foreign(group string, done func(coordinator.ForeignGroup, error))
	Claim(group string, done func(error))
	Release(group string, done func(error))
	Forget(group string)
	Commit(request *offsets.CommitRequest, done func(*offsets.CommitResponse))
	Fetch(request *offsets.FetchRequest, done func(*offsets.FetchResponse))
	Delete(request *offsets.DeleteRequest, done func(*offsets.DeleteResponse))
	DeleteGroup(group string, done func(error))
	Close()
}

// Parts are what a node is given from outside.
type Parts struct {
	Logger hclog.Logger
	// Registry takes the metrics; nil for none.
	Registry *prometheus.Registry
	// Topics is the upstream as the watcher and the creator of topics see it.
	Topics topicctl.Source
	// Logs tells where the logs of the upstream's partitions start and end; nil where nobody does.
	Logs Logs
	// Origins is the upstream as it is asked about groups that are taken over from it; nil for none.
	Origins Origins
	// NewStore makes the store of offsets; the node closes it when it stops. verify proves that this node still leads a
	// group's shard: done gets nil once that is proven.
	NewStore func(verify func(group string, done func(error))) Store
	// Listen and Dial are the network; nil means TCP.
	Listen func(addr string) (net.Listener, error)
	Dial   func(ctx context.Context, addr string) (net.Conn, error)
	// Quirks are repairs of what the upstream answers.
	Quirks gateway.Quirks
	// WallClock is the time of day, read once when the node starts; nil means the machine's. Nodes may differ in it by hours.
	WallClock func() time.Time
	// Timing overrides Raft's timing; zero means the configuration's preset.
	Timing raftnode.Timing
	// Shard changes the constants of the shards' machines; nil leaves them.
	Shard func(*shard.Options)
	// FeatureLevel is the level that the node announces and knows, 0 for that of this release: tests make an older one of it.
	FeatureLevel uint16
	// Applied watches the replicas of this node; nil for nobody. It is told the Raft group (0: the system shard), the log
	// index (0: restored from a snapshot) and the state then, on Raft's goroutine, before anybody is answered by it. It
	// must not block.
	Applied func(group uint32, index uint64, state fsm.State)
	// Fatal is told of what only a new process recovers from, and should end this one at once: the disk failed, or, where
	// [Outdated] says so, the release is too old. nil for nobody. See [raftnode.Config].
	Fatal func(error)
}

// Node is one coordd node.
type Node struct {
	config    *config.Node
	log       hclog.Logger
	clock     clock
	parts     Parts
	assignors assignors
	observer  *observer
	measured  *shardMetrics

	raft         *raftnode.Node
	system       *system
	shards       []*runner
	cluster      *cluster
	groupConfigs *groupConfigs
	watcher      *topicctl.Watcher
	creator      *topicctl.Creator
	comparer     *topicctl.Comparer // nil where the upstream does not tell the settings of topics
	store        Store
	gateway      *gateway.Gateway

	// computing has a place for each target assignment that is computed at the same time: a large one takes a core, and
	// memory, for as long as it lasts.
	computing chan struct{}
	// planning has the place for the only plan that is computed at a time: what an operator looks at must not keep the targets of
	// groups waiting.
	planning chan struct{}

	draining atomic.Bool
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

// Start makes a node and lets it serve. It returns as soon as all ports are open; [Node.Ready] says when clients are
// served.
func Start(cfg *config.Node, parts Parts) (*Node, error) {
	if parts.Logger == nil {
		parts.Logger = hclog.NewNullLogger()
	}
	n := &Node{
		config: cfg, log: parts.Logger, clock: newClock(parts.WallClock), parts: parts, computing: make(chan struct{}, max(1, runtime.NumCPU()/2)), planning: make(chan struct{}, 1),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.assignors = newAssignors(cfg.Streams.Assignors)
	n.observer = newObserver(parts.Logger.Named("group"), parts.Registry)
	n.measure()
	n.watcher = topicctl.NewWatcher(topicctl.WatcherConfig{
		Source: parts.Topics, Logger: parts.Logger.Named("topics"), Needed: (&neededTopics{node: n}).names,
	})
	n.useTopics()
	n.cluster = newCluster(n)
	n.groupConfigs = newGroupConfigs(n)
	n.system = newSystem(n)
	for number := range cfg.Shards {
		n.shards = append(n.shards, newRunner(n, uint32(number)))
	}
	n.store = parts.NewStore(n.verify)
	if err := n.start(); err != nil {
		_ = n.Stop(context.Background()) // why it did not start is what to tell
		return nil, err
	}
	return n, nil
}

// start opens Raft first, since followers must answer before anything is served; then the watch of the upstream, and
// last the ports for clients.
func (n *Node) start() error {
	if err := n.startRaft(); err != nil {
		return err
	}
	n.watcher.OnChange(func(_, _ *topicctl.Image) {
		n.cluster.update()
		n.system.poke()
		for _, r := range n.shards {
			r.post(input{kind: inputTopics})
		}
	})
	n.cluster.update()
	n.run(func() { n.watcher.Run(n.ctx) })
	n.runTopics()
	systemListener := n.raft.Listener(kindSystem)
	n.run(func() { n.system.accept(n.ctx, systemListener) })
	handovers := n.raft.Listener(kindHandover)
	n.run(func() { n.acceptHandovers(n.ctx, handovers) })
	n.run(func() { n.system.run(n.ctx) })
	n.run(func() { n.system.register(n.ctx) })
	n.serveStatus()
	return n.startGateway()
}

func (n *Node) startRaft() error {
	timing := n.parts.Timing
	if timing == (raftnode.Timing{}) {
		timing = raftnode.LAN()
		if n.config.RaftPreset == "wan" {
			timing = raftnode.WAN()
		}
	}
	peers := []raftnode.Peer{{ID: n.config.NodeID, Address: n.config.RaftAdvertised}}
	if len(n.config.Peers) > 0 {
		peers = nil
		for _, p := range n.config.Peers {
			peers = append(peers, raftnode.Peer{ID: p.ID, Address: p.Raft})
		}
	}
	var registerer prometheus.Registerer
	if n.parts.Registry != nil {
		registerer = n.parts.Registry
	}
	raft, err := raftnode.Open(raftnode.Config{
		NodeID: n.config.NodeID, Dir: n.config.DataDir,
		ListenAddress: n.config.RaftListen, AdvertisedAddress: n.config.RaftAdvertised,
		Peers: peers, Groups: 1 + n.config.Shards, Timing: timing,
		NewFSM: n.newFSM,
		Listen: n.parts.Listen, Dial: n.parts.Dial,
		Logger: n.log.Named("raft"), Registerer: registerer, Fatal: n.parts.Fatal,
	})
	if err != nil {
		return err
	}
	n.raft = raft
	n.system.group = raft.Group(systemGroup)
	n.system.group.OnChange(n.system.leadership)
	for i, r := range n.shards {
		r.group = raft.Group(uint32(i) + 1)
		r.group.OnChange(r.leadership)
		r.group.OnMove(r)
	}
	return raft.Start()
}

func (n *Node) newFSM(group uint32) raftnode.FSM {
	r := n.system.replica
	if group != systemGroup {
		r = n.shards[group-1].replica
	}
	r.level = n.level()
	if watch := n.parts.Applied; watch != nil {
		r.applied = func(index uint64, state fsm.State) { watch(group, index, state) }
	}
	return r
}

// Transfer hands the leadership of a shard from this node to another one. It is bounded in time; when it fails this node
// leads on.
func (n *Node) Transfer(ctx context.Context, shard int, to int32) error {
	return n.raft.TransferTo(ctx, uint32(shard)+1, to)
}

const kindHop byte = 'H'

func (n *Node) startGateway() error {
	var registerer prometheus.Registerer
	if n.parts.Registry != nil {
		registerer = n.parts.Registry
	}
	n.gateway = gateway.New(gateway.Config{
		Coordinators: coordinators{n},
		Cluster:      n.cluster,
		GroupConfigs: n.groupConfigs,
		Network: gateway.Network{
			Listen: n.parts.Listen, Dial: n.parts.Dial,
			DialPeer: func(ctx context.Context, node int32) (net.Conn, error) { return n.raft.DialPeer(ctx, node, kindHop) },
			Away:     func(node int32) bool { return n.draining.Load() || n.raft.IsAway(node) },
			Hops:     n.raft.Listener(kindHop),
		},
		Logger:          n.log.Named("gateway"),
		Registerer:      registerer,
		ClientListen:    n.config.ClientListen,
		BrokerListen:    n.brokerListen,
		NodeIDBase:      n.config.NodeIDBase,
		MaxRequestBytes: n.config.MaxRequestBytes,
		IdleTimeout:     time.Duration(n.config.MaxIdleMs) * time.Millisecond,
		MaxConnections:  n.config.MaxConnections,
		Quirks:          n.parts.Quirks,
		StateDir:        n.config.DataDir,
	})
	return n.gateway.Start()
}

// brokerListen is the address of the port that stands for the upstream broker of slot k.
func (n *Node) brokerListen(k int32) string {
	host, _, _ := net.SplitHostPort(n.config.ClientListen)
	return net.JoinHostPort(host, strconv.Itoa(n.config.BrokerPortBase+int(k)*n.config.BrokerPortStep))
}

// registration is what this node tells of itself.
func (n *Node) registration() registration {
	_, port, _ := net.SplitHostPort(n.config.ClientListen)
	number, _ := strconv.Atoi(port)
	return registration{
		ID: n.config.NodeID, RaftAddress: n.config.RaftAdvertised, ClientHost: n.config.AdvertisedHost(), ClientPort: uint16(number),
		BrokerPortBase: uint16(n.config.BrokerPortBase), BrokerPortStep: uint16(n.config.BrokerPortStep), FeatureLevel: n.level(),
	}
}

func (n *Node) newClusterID() string {
	id := make([]byte, 16)
	rand.Read(id)
	return base64.RawURLEncoding.EncodeToString(id)
}

// maxRetentionCheck stands for never: times of that size can still be added up.
const maxRetentionCheck = 100 * 365 * 24 * time.Hour

func (n *Node) shardOptions() shard.Options {
	o := shard.DefaultOptions()
	o.RetentionMs = int64(n.config.RetentionMinutes) * 60_000
	o.RetentionCheckMs = min(n.config.RetentionCheckMs, maxRetentionCheck.Milliseconds())
	if n.config.OffsetsStore == "raft" {
		o.Store = record.StoreRaft
	}
	if n.config.RaftPreset == "wan" {
		o.LeaseMs = raftnode.WAN().Lease.Milliseconds()
	}
	if n.parts.Shard != nil {
		n.parts.Shard(&o)
	}
	return o
}

// verify proves that this node leads the group's shard.
func (n *Node) verify(group string, done func(error)) {
	n.shards[shardOf(group, len(n.shards))].group.Verify(done)
}

// run starts a goroutine that Stop waits for.
func (n *Node) run(f func()) {
	n.wg.Add(1)
	go func() {
		defer n.wg.Done()
		f()
	}()
}

// Stop moves leaderships to other nodes, then ends connections and everything else. It is safe to call more than once.
func (n *Node) Stop(ctx context.Context) error {
	n.draining.Store(true)
	var errs []error
	if n.raft != nil {
		n.raft.Drain(ctx)
	}
	if n.gateway != nil {
		n.gateway.Close()
	}
	for _, r := range n.shards {
		r.close()
	}
	if n.raft != nil {
		if err := n.raft.Shutdown(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	n.cancel()
	for _, r := range n.shards {
		r.timer.Stop()
		r.post(input{kind: inputLost})
	}
	n.wg.Wait()
	if n.store != nil {
		n.store.Close()
	}
	return errors.Join(errs...)
}
