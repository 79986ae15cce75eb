package gateway

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/shard"
)

const testShards = 4

// world is a cluster of gateways over shards that are a map, in front of kfake.
type world struct {
	t     testing.TB
	nodes []*testNode
	kafka *kfake.Cluster
	admin *kadm.Client

	refreshed atomic.Int32 // Cluster.RefreshImage
	// refreshedAll is of Cluster.RefreshTopics.
	refreshedAll atomic.Int32

	mu      sync.Mutex
	leaders map[uint32]int32
	changed chan struct{}
	held    map[string]*fakeGroup
	blind   map[int32]bool  // nodes whose replicas lag
	stale   map[string]bool // groups that replicas still hold although they are gone
	image   *fakeImage
	moved   chan struct{} // Cluster.Changed
	calls   []any
	clients map[any]coordinator.Client
	later   bool           // shards answer on goroutines of their own
	hangs   map[int32]bool // nodes whose shards answer nobody
	unsure  map[int32]int  // how many calls a node decides and then says that it does not lead
	refuses map[int32]int  // how many calls a node refuses without a look at them
	hanging []*shard.Call  // of nodes whose shards answer nobody
	beats   map[string]int // how many heartbeats were decided, by member
	taken   bool           // the places of static members that leave are taken at once
	unseen  bool           // nodes and slots are not known yet
	without int32          // a broker that has no slot
	holds   bool           // shards hold heartbeats
	hung    map[*shard.Holder]*shard.Call
	logs    bool // new groups keep their offsets in the log
	letGo   int
	gone    []bool
	peers   chan struct{} // while it is open, nodes do not reach each other; nil: they do
}

type fakeGroup struct {
	offsets map[string]map[int32]int64
	members map[string]bool
}

type testNode struct {
	w    *world
	id   int32
	base int32                   // client port; broker ports follow
	open map[string]net.Listener // ports that the gateway has not asked for yet
	g    *Gateway
	dead bool
}

type worldConfig struct {
	nodes, brokers int
	slots          int // broker ports, where there are more than brokers
	topics         []string
	config         func(*Config)
}

func emptyWorld(t testing.TB) *world {
	w := &world{
		t: t, leaders: map[uint32]int32{}, changed: make(chan struct{}), hung: map[*shard.Holder]*shard.Call{}, held: map[string]*fakeGroup{},
		blind: map[int32]bool{}, moved: make(chan struct{}), clients: map[any]coordinator.Client{}, hangs: map[int32]bool{}, without: noBroker, unsure: map[int32]int{},
		refuses: map[int32]int{}, beats: map[string]int{},
	}
	for s := range uint32(testShards) {
		w.leaders[s] = 1
	}
	return w
}

func newWorld(t testing.TB, wc worldConfig) *world {
	t.Helper()
	w := emptyWorld(t)
	if wc.brokers > 0 {
		kafka, err := kfake.NewCluster(kfake.NumBrokers(wc.brokers), kfake.SeedTopics(3, wc.topics...), kfake.DefaultNumPartitions(3))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(kafka.Close)
		w.kafka = kafka
		cl, err := kgo.NewClient(kgo.SeedBrokers(kafka.ListenAddrs()...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		w.admin = kadm.NewClient(cl)
		w.refresh()
	}
	hops := map[int32]net.Listener{}
	for i := range wc.nodes {
		hop, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		hops[int32(i+1)] = hop
		base, open := openPorts(t, 1+max(wc.brokers, wc.slots))
		w.nodes = append(w.nodes, &testNode{w: w, id: int32(i + 1), base: base, open: open})
	}
	for _, n := range w.nodes {
		cfg := Config{
			Coordinators: fakeCoords{w, n.id}, Cluster: fakeCluster{w}, Quirks: KfakeQuirks,
			ClientListen: "127.0.0.1:" + strconv.Itoa(int(n.base)),
			BrokerListen: func(k int32) string { return "127.0.0.1:" + strconv.Itoa(int(n.base+1+k)) },
			Network: Network{
				Listen: n.listen,
				Hops:   hops[n.id],
				DialPeer: func(ctx context.Context, node int32) (net.Conn, error) {
					if hops[node] == nil {
						return nil, errors.New("no such node")
					}
					w.mu.Lock()
					open := w.peers
					w.mu.Unlock()
					if open != nil {
						<-open
					}
					var d net.Dialer
					return d.DialContext(ctx, "tcp", hops[node].Addr().String())
				},
			},
		}
		if wc.config != nil {
			wc.config(&cfg)
		}
		n.g = New(cfg)
		if err := n.g.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.g.Close)
	}
	return w
}

// openPorts opens n ports in a row. They stay open, so that nobody else takes them and clients may connect before the
// gateway asks for them.
func openPorts(t testing.TB, n int) (base int32, open map[string]net.Listener) {
	t.Helper()
	for range 1000 {
		base := 10_000 + rand.IntN(20_000) // clients are given higher ones, so that gaps there are rare
		open := map[string]net.Listener{}
		for i := range n {
			ln, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(base+i))
			if err != nil {
				break
			}
			open[ln.Addr().String()] = ln
		}
		if len(open) == n {
			for _, ln := range open {
				t.Cleanup(func() { _ = ln.Close() })
			}
			return int32(base), open
		}
		for _, ln := range open {
			_ = ln.Close()
		}
	}
	t.Fatal("no free ports in a row")
	return 0, nil
}

func (n *testNode) listen(addr string) (net.Listener, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	ln := n.open[addr]
	if ln == nil {
		return nil, errors.New("no such port")
	}
	delete(n.open, addr)
	return ln, nil
}

func (n *testNode) addr() string { return "127.0.0.1:" + strconv.Itoa(int(n.base)) }

func (n *testNode) brokerAddr(k int) string { return "127.0.0.1:" + strconv.Itoa(int(n.base)+1+k) }

// refresh takes a new image of the upstream.
func (w *world) refresh() {
	m, err := w.admin.Metadata(context.Background())
	if err != nil {
		w.t.Error(err)
		return
	}
	image := &fakeImage{cluster: m.Cluster, controller: m.Controller, names: map[[16]byte]string{}, ids: map[string][16]byte{}}
	for _, b := range m.Brokers {
		image.brokers = append(image.brokers, Broker{ID: b.NodeID, Host: b.Host, Port: b.Port})
	}
	slices.SortFunc(image.brokers, func(a, b Broker) int { return int(a.ID - b.ID) })
	for _, topic := range m.Topics {
		image.names[topic.ID], image.ids[topic.Topic] = topic.Topic, topic.ID
	}
	w.change(func() { w.image = image })
}

// waitLong lets gateways wait for as long as a test may take.
func waitLong(c *Config) {
	c.ParkTime, c.holdVersions, c.viewPatience, c.topicPatience = 30*time.Second, 30*time.Second, 30*time.Second, 30*time.Second
	c.freshFor = 30 * time.Second
}

// change changes what gateways know of nodes, slots or the upstream.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.moved)
	w.moved = make(chan struct{})
}

// lead makes a node the leader of all shards; 0 for none.
func (w *world) lead(node int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range uint32(testShards) {
		w.leaders[s] = node
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) hold(group string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[group] = &fakeGroup{offsets: map[string]map[int32]int64{}, members: map[string]bool{}}
}

type fakeImage struct {
	cluster    string
	controller int32
	brokers    []Broker
	names      map[[16]byte]string
	ids        map[string][16]byte
}

func (i *fakeImage) ClusterID() string   { return i.cluster }
func (i *fakeImage) ControllerID() int32 { return i.controller }
func (i *fakeImage) Brokers() []Broker   { return i.brokers }
func (i *fakeImage) TopicName(id [16]byte) (string, bool) {
	n, ok := i.names[id]
	return n, ok
}
func (i *fakeImage) TopicID(name string) ([16]byte, bool) {
	id, ok := i.ids[name]
	return id, ok
}

func (i *fakeImage) HasTopic(name string) bool { _, ok := i.ids[name]; return ok }

type fakeCluster struct{ w *world }

func (f fakeCluster) Nodes() []Node {
	var nodes []Node
	f.w.mu.Lock()
	unseen := f.w.unseen
	f.w.mu.Unlock()
	if unseen {
		return nil
	}
	for _, n := range f.w.nodes {
		f.w.mu.Lock()
		live := !n.dead
		f.w.mu.Unlock()
		nodes = append(nodes, Node{ID: n.id, Host: "127.0.0.1", ClientPort: n.base, BrokerPortBase: n.base + 1, BrokerPortStep: 1, Live: live})
	}
	return nodes
}

func (f fakeCluster) Slots() []Slot {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	var slots []Slot
	if f.w.image != nil && !f.w.unseen {
		for k, b := range f.w.image.brokers {
			if b.ID == f.w.without {
				continue
			}
			slots = append(slots, Slot{K: int32(k), Broker: b.ID})
		}
	}
	return slots
}

func (f fakeCluster) Image() Image {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if f.w.image == nil {
		return nil
	}
	return f.w.image
}

func (f fakeCluster) Changed() <-chan struct{} {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return f.w.moved
}

func (f fakeCluster) RefreshImage(...string) { f.w.refreshed.Add(1) }

func (f fakeCluster) RefreshTopics() { f.w.refreshedAll.Add(1) }
