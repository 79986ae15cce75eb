package gateway

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/protocol"
)

const testShards = 4

// world is a cluster of gateways over shards that are a map, in front of kfake.
type world struct {
	t     testing.TB
	nodes []*testNode
	kafka *kfake.Cluster
	admin *kadm.Client

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
	unseen  bool           // nodes and slots are not known yet
	without int32          // a broker that has no slot
	peers   chan struct{}  // while it is open, nodes do not reach each other; nil: they do
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

func newWorld(t testing.TB, wc worldConfig) *world {
	t.Helper()
	w := &world{
		t: t, leaders: map[uint32]int32{}, changed: make(chan struct{}), held: map[string]*fakeGroup{},
		blind: map[int32]bool{}, moved: make(chan struct{}), clients: map[any]coordinator.Client{}, hangs: map[int32]bool{}, without: noBroker, unsure: map[int32]int{},
	}
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
	for s := range uint32(testShards) {
		w.leaders[s] = 1
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
	for range 200 {
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		base := first.Addr().(*net.TCPAddr).Port
		open := map[string]net.Listener{first.Addr().String(): first}
		for i := 1; i < n; i++ {
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

type fakeCoords struct {
	w    *world
	self int32
}

func (f fakeCoords) Self() int32 { return f.self }

func (f fakeCoords) Shards() uint32 { return testShards }

func (f fakeCoords) Shard(group string) uint32 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, group)
	return h.Sum32() % testShards
}

func (f fakeCoords) Holds(group string) bool {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	_, ok := f.w.held[group]
	return (ok || f.w.stale[group]) && !f.w.blind[f.self]
}

func (f fakeCoords) Leader(s uint32) (int32, bool) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	n := f.w.leaders[s]
	return n, n > 0
}

func (f fakeCoords) LeaderChanged(uint32) <-chan struct{} {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return f.w.changed
}

func (f fakeCoords) Groups() iter.Seq[GroupListing] {
	return func(yield func(GroupListing) bool) {
		f.w.mu.Lock()
		defer f.w.mu.Unlock()
		for id := range f.w.held {
			if f.w.leaders[f.Shard(id)] == f.self && !yield(GroupListing{ID: id, State: streams.StateStable}) {
				return
			}
		}
	}
}

func (f fakeCoords) Submit(s uint32, call *shard.Call) {
	f.w.mu.Lock()
	later, hangs := f.w.later, f.w.hangs[f.self]
	f.w.mu.Unlock()
	if hangs {
		return
	}
	if later {
		go f.answer(s, call)
		return
	}
	f.answer(s, call)
}

func (f fakeCoords) answer(s uint32, call *shard.Call) {
	f.w.mu.Lock()
	if _, ok := call.Request.(*streams.HeartbeatRequest); !ok {
		f.w.calls = append(f.w.calls, call.Request)
		f.w.clients[call.Request] = *call.Client
	}
	if f.w.leaders[s] != f.self {
		call.Err = &coordinator.Error{Code: coordinator.NotCoordinator}
	} else {
		f.w.decide(call)
		if f.w.unsure[f.self] > 0 {
			f.w.unsure[f.self]--
			call.Response, call.Err = nil, &coordinator.Error{Code: coordinator.NotCoordinator}
		}
	}
	f.w.mu.Unlock()
	call.Done.CallDone(call)
}

// decide answers a call as a shard that knows no rules.
func (w *world) decide(call *shard.Call) {
	switch r := call.Request.(type) {
	case *streams.HeartbeatRequest:
		g := w.held[r.GroupID]
		if g == nil {
			g = &fakeGroup{offsets: map[string]map[int32]int64{}, members: map[string]bool{}}
			w.held[string([]byte(r.GroupID))] = g
		}
		call.Response = &call.Heartbeat
		if r.MemberEpoch < 0 {
			call.Heartbeat = streams.HeartbeatResponse{MemberID: r.MemberID, MemberEpoch: r.MemberEpoch}
			if !g.members[r.MemberID] {
				call.Heartbeat = streams.HeartbeatResponse{Err: &coordinator.Error{Code: coordinator.UnknownMemberID}}
			}
			delete(g.members, r.MemberID)
			return
		}
		g.members[string([]byte(r.MemberID))] = true
		call.Heartbeat = streams.HeartbeatResponse{MemberID: r.MemberID, MemberEpoch: max(1, r.MemberEpoch), HeartbeatIntervalMs: 5000}
	case *shard.HoldsRequest:
		g := w.held[r.GroupID]
		call.Response = &shard.HoldsResponse{Held: g != nil, Empty: g != nil && len(g.members) == 0}
	case *shard.VacateRequest:
		g := w.held[r.GroupID]
		if g != nil && len(g.members) == 0 {
			delete(w.held, r.GroupID)
			g = nil
		}
		call.Response = &shard.HoldsResponse{Held: g != nil}
	case *shard.DescribeRequest:
		d := &streams.Description{GroupID: r.GroupID, State: streams.StateStable, AssignorName: "sticky", Epoch: 7}
		if w.held[r.GroupID] == nil {
			d = protocol.NotDescribed(r.GroupID)
		}
		call.Response = d
	case *shard.DeleteGroupRequest:
		resp := &shard.DeleteGroupResponse{}
		if w.held[r.GroupID] == nil {
			resp.Err = &coordinator.Error{Code: coordinator.GroupIDNotFound}
		}
		delete(w.held, r.GroupID)
		call.Response = resp
	case *offsets.CommitRequest:
		resp := &offsets.CommitResponse{}
		for _, t := range r.Topics {
			result := offsets.CommitTopicResult{Name: t.Name, ID: t.ID}
			for _, p := range t.Partitions {
				if g := w.held[r.GroupID]; g != nil {
					if g.offsets[t.Name] == nil {
						g.offsets[t.Name] = map[int32]int64{}
					}
					g.offsets[t.Name][p.Partition] = p.Offset
				}
				result.Partitions = append(result.Partitions, offsets.PartitionResult{Partition: p.Partition})
			}
			resp.Topics = append(resp.Topics, result)
		}
		call.Response = resp
	case *offsets.FetchRequest:
		resp := &offsets.FetchResponse{}
		if w.held[r.GroupID] == nil {
			call.Response = resp
			return
		}
		for topic, partitions := range w.held[r.GroupID].offsets {
			result := offsets.FetchTopicResult{Name: topic}
			for p, o := range partitions {
				result.Partitions = append(result.Partitions, offsets.FetchedOffset{Partition: p, Offset: o, LeaderEpoch: -1})
			}
			resp.Topics = append(resp.Topics, result)
		}
		call.Response = resp
	case *offsets.DeleteRequest:
		call.Response = &offsets.DeleteResponse{}
	}
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

func (f fakeCluster) RefreshImage() {}

// wire is a client that speaks raw frames.
type wire struct {
	t    testing.TB
	nc   net.Conn
	corr int32
}

func dialPort(t testing.TB, addr string) *wire {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(30 * time.Second))
	return &wire{t: t, nc: nc}
}

func (w *wire) encode(req kmsg.Request) []byte {
	w.corr++
	h := protocol.Header{Key: req.Key(), Version: req.GetVersion(), Correlation: w.corr, ClientID: "tester"}
	return appendFrame(nil, h, req.AppendTo(nil))
}

func (w *wire) send(b []byte) {
	w.t.Helper()
	if _, err := w.nc.Write(b); err != nil {
		w.t.Fatal(err)
	}
}

// receive reads the answer to req and checks that it is the one with this correlation id.
func (w *wire) receive(req kmsg.Request, corr int32) (kmsg.Response, error) {
	frame, err := w.frame()
	if err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(frame)); got != corr {
		return nil, fmt.Errorf("answer %d where %d is due", got, corr)
	}
	return decodeAnswer(req, frame)
}

func (w *wire) frame() ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(w.nc, prefix[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(prefix[:]))
	_, err := io.ReadFull(w.nc, frame)
	return frame, err
}

// do makes one request.
func do[R kmsg.Response](w *wire, req kmsg.Request, version int16) R {
	w.t.Helper()
	req.SetVersion(version)
	w.send(w.encode(req))
	resp, err := w.receive(req, w.corr)
	if err != nil {
		w.t.Fatalf("%s v%d: %v", kmsg.NameForKey(req.Key()), version, err)
	}
	return resp.(R)
}

func beat(group, member string, epoch int32) *kmsg.StreamsGroupHeartbeatRequest {
	r := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch, r.RebalanceTimeoutMillis = group, member, epoch, -1
	r.Version = 1
	return r
}
