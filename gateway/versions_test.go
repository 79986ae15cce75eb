package gateway

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

// fakeBroker is an upstream broker that answers nothing but ApiVersions.
type fakeBroker struct {
	id int32
	ln net.Listener

	mu     sync.Mutex
	serves []protocol.VersionRange
	epoch  int64
	hangs  bool
	down   bool
	asked  int
	conns  []net.Conn
}

var someVersions = []protocol.VersionRange{{Key: 0, Min: 3, Max: 13}, {Key: 3, Min: 0, Max: 12}, {Key: 18, Min: 0, Max: 4}}

func newFakeBroker(t testing.TB, id int32, serves []protocol.VersionRange) *fakeBroker {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &fakeBroker{id: id, ln: ln, serves: serves}
	t.Cleanup(func() {
		_ = ln.Close()
		b.stop()
	})
	go b.accept()
	return b
}

func (b *fakeBroker) accept() {
	for {
		nc, err := b.ln.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		if b.down {
			_ = nc.Close()
		} else {
			b.conns = append(b.conns, nc)
		}
		b.mu.Unlock()
		go func() {
			for b.answer(nc) == nil {
			}
		}()
	}
}

func (b *fakeBroker) answer(nc net.Conn) error {
	var prefix [4]byte
	if _, err := io.ReadFull(nc, prefix[:]); err != nil {
		return err
	}
	frame := make([]byte, binary.BigEndian.Uint32(prefix[:]))
	if _, err := io.ReadFull(nc, frame); err != nil {
		return err
	}
	h, _, err := protocol.ParseHeader(frame)
	if err != nil || h.Key != protocol.KeyApiVersions {
		return nc.Close()
	}
	b.mu.Lock()
	b.asked++
	hangs := b.hangs
	out := protocol.AppendApiVersions(nil, h, coordinator.None, b.serves, &protocol.Features{Epoch: b.epoch})
	b.mu.Unlock()
	if hangs {
		return nil
	}
	_, err = nc.Write(out)
	return err
}

func (b *fakeBroker) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// stop ends the broker's connections, and whatever connects until restart. The port stays with the test.
func (b *fakeBroker) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = true
	for _, nc := range b.conns {
		_ = nc.Close()
	}
	b.conns = nil
}

func (b *fakeBroker) restart() { b.set(func() { b.down = false }) }

// fixVersions keeps gateways from asking brokers what they serve.
func fixVersions(c *Config) { c.Versions = &Versions{Ranges: someVersions} }

// withoutUpstream keeps gateways from waiting for what will not come.
func withoutUpstream(c *Config) {
	fixVersions(c)
	c.viewPatience, c.topicPatience = time.Nanosecond, time.Nanosecond
}

// see gives the world an image of some brokers.
func (w *world) see(brokers ...*fakeBroker) {
	image := &fakeImage{cluster: "upstream", controller: -1}
	for _, b := range brokers {
		host, port, _ := net.SplitHostPort(b.ln.Addr().String())
		number, _ := strconv.Atoi(port)
		image.brokers = append(image.brokers, Broker{ID: b.id, Host: host, Port: int32(number)})
	}
	w.change(func() { w.image = image })
}

// listed asks for the versions of a port; nil when the connection was closed instead.
func listed(t testing.TB, addr string) *kmsg.ApiVersionsResponse {
	t.Helper()
	c := dialPort(t, addr)
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 3
	req.ClientSoftwareName, req.ClientSoftwareVersion = "java", "4.4.0"
	c.send(c.encode(req))
	resp, err := c.receive(req, c.corr)
	if err != nil {
		return nil
	}
	return resp.(*kmsg.ApiVersionsResponse)
}

func maxOf(r *kmsg.ApiVersionsResponse, key int16) int16 {
	if r == nil {
		return -2
	}
	for _, k := range r.ApiKeys {
		if k.ApiKey == key {
			return k.MaxVersion
		}
	}
	return -1
}

const keyMetadata = protocol.KeyMetadata

func TestApiVersionsWaitsUntilTheUpstreamIsKnown(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, config: waitLong})
	b := newFakeBroker(t, 1, someVersions)
	got := make(chan *kmsg.ApiVersionsResponse, 1)
	go func() { got <- listed(t, w.nodes[0].addr()) }()
	eventually(t, "the client is connected", func() bool { return len(w.nodes[0].g.connections()) == 1 })
	w.see(b)
	if r := <-got; maxOf(r, keyMetadata) != 12 || maxOf(r, 88) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestNoShortListWithoutTheUpstream(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, config: func(c *Config) { c.holdVersions = 50 * time.Millisecond }})
	if r := listed(t, w.nodes[0].addr()); r != nil {
		t.Errorf("without an image: %+v", r)
	}
	b := newFakeBroker(t, 1, someVersions)
	b.set(func() { b.hangs = true })
	w.see(b)
	if r := listed(t, w.nodes[0].addr()); r != nil {
		t.Errorf("a broker that does not answer: %+v", r)
	}
}

func TestVersionsOfABrokerThatIsAway(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, slots: 2})
	port := w.nodes[0].brokerAddr
	newer := append(slices.Clone(someVersions), protocol.VersionRange{Key: 60, Min: 0, Max: 1})
	a, b := newFakeBroker(t, 1, someVersions), newFakeBroker(t, 2, newer)
	a.stop()
	w.see(a, b)
	for _, addr := range []string{port(0), w.nodes[0].addr()} {
		if r := listed(t, addr); maxOf(r, keyMetadata) != 12 || maxOf(r, 60) != 1 {
			t.Errorf("another broker is known: %+v", r)
		}
	}
	a.restart()
	eventually(t, "the broker itself is asked when it is back", func() bool {
		r := listed(t, port(0))
		return maxOf(r, keyMetadata) == 12 && maxOf(r, 60) == -1
	})
	a.stop()
	b.stop()
	if r := listed(t, port(0)); maxOf(r, keyMetadata) != 12 || maxOf(r, 60) != -1 {
		t.Errorf("the broker's own of before: %+v", r)
	}
	w.see() // the upstream leaves it out
	if r := listed(t, port(0)); maxOf(r, keyMetadata) != 12 {
		t.Errorf("out of the image: %+v", r)
	}
	w.see(a, b)
	a.set(func() { a.hangs = true })
	a.restart()
	if r := listed(t, port(0)); maxOf(r, keyMetadata) != 12 {
		t.Errorf("hanging: %+v", r)
	}
}

func TestVersionsFollowTheBroker(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1})
	b := newFakeBroker(t, 1, someVersions)
	w.see(b)
	if r := listed(t, w.nodes[0].addr()); maxOf(r, keyMetadata) != 12 {
		t.Fatalf("%+v", r)
	}
	listed(t, w.nodes[0].addr())
	b.set(func() {
		if b.asked != 1 {
			t.Errorf("asked %d times", b.asked)
		}
		b.serves = []protocol.VersionRange{{Key: 3, Min: 0, Max: 9}, {Key: 18, Min: 0, Max: 3}}
	})
	b.stop()
	b.restart()
	eventually(t, "a restart is noticed", func() bool { return maxOf(listed(t, w.nodes[0].addr()), keyMetadata) == 9 })
	c := newFakeBroker(t, 1, someVersions)
	w.see(c) // the same broker at another address, while the old one still answers
	if r := listed(t, w.nodes[0].addr()); maxOf(r, keyMetadata) != 12 {
		t.Errorf("moved: %+v", r)
	}
}

func TestFeaturesThatChangeWithoutARestartAreSeen(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, config: func(c *Config) { c.freshVersions = time.Nanosecond }})
	b := newFakeBroker(t, 1, someVersions)
	w.see(b)
	listed(t, w.nodes[0].addr())
	b.set(func() { b.epoch = 7 })
	eventually(t, "the new features", func() bool { return listed(t, w.nodes[0].addr()).FinalizedFeaturesEpoch == 7 })
	eventually(t, "one connection for questions", func() bool {
		v := &w.nodes[0].g.versions
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.brokers[1].nc != nil
	})
}

func TestVersionsOutliveARestartWhileTheUpstreamIsAway(t *testing.T) {
	dir := t.TempDir()
	b := newFakeBroker(t, 1, someVersions)
	first := newWorld(t, worldConfig{nodes: 1, config: func(c *Config) { c.StateDir = dir }})
	first.see(b)
	if r := listed(t, first.nodes[0].addr()); maxOf(r, keyMetadata) != 12 {
		t.Fatalf("%+v", r)
	}
	eventually(t, "the file", func() bool { _, err := os.Stat(string(versionFileIn(dir))); return err == nil })
	first.nodes[0].g.Close()
	b.stop()

	again := newWorld(t, worldConfig{nodes: 1, config: func(c *Config) { c.StateDir = dir; c.holdVersions = time.Nanosecond }})
	if r := listed(t, again.nodes[0].addr()); maxOf(r, keyMetadata) != 12 {
		t.Errorf("the upstream was not seen yet: %+v", r)
	}
	again.see(b)
	if r := listed(t, again.nodes[0].addr()); maxOf(r, keyMetadata) != 12 {
		t.Errorf("the upstream is away: %+v", r)
	}
	again.image.cluster = "another"
	if r := listed(t, again.nodes[0].addr()); r != nil {
		t.Errorf("the upstream is another cluster: %+v", r)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v %v", files, err)
	}
}

func TestADamagedVersionFileIsNoFile(t *testing.T) {
	for _, content := range []string{"", "{", `{"format":9}`, `{"format":1,"brokers":[{"id":1}]}`, `{"format":1,"brokers":[{"id":1,"ranges":[[3,5,1]]}]}`} {
		dir := t.TempDir()
		if err := os.WriteFile(string(versionFileIn(dir)), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, worldConfig{nodes: 1, config: func(c *Config) { c.StateDir = dir; c.holdVersions = time.Nanosecond }})
		if r := listed(t, w.nodes[0].addr()); r != nil {
			t.Errorf("%q: %+v", content, r)
		}
	}
}

func TestFixedVersions(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, config: func(c *Config) { c.Versions = &Versions{Ranges: someVersions} }})
	if r := listed(t, w.nodes[0].addr()); maxOf(r, keyMetadata) != 12 {
		t.Errorf("%+v", r)
	}
	b := newFakeBroker(t, 1, nil)
	w.see(b)
	if r := listed(t, w.nodes[0].addr()); maxOf(r, keyMetadata) != 12 {
		t.Errorf("%+v", r)
	}
	b.set(func() {
		if b.asked != 0 {
			t.Error("a broker was asked")
		}
	})
}

func FuzzVersionFile(f *testing.F) {
	known := &Versions{Ranges: someVersions, Features: &protocol.Features{Epoch: 3, Finalized: []protocol.FinalizedFeature{{Name: "transaction.version", Min: 0, Max: 2}}}}
	f.Add(encodeVersions(map[int32]brokerVersions{1: {known: known, cluster: "c"}, 2: {known: known}}))
	f.Add([]byte(`{"format":1,"brokers":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		kept, err := decodeVersions(b)
		if err != nil {
			return
		}
		again, err := decodeVersions(encodeVersions(kept))
		if err != nil || len(again) != len(kept) {
			t.Fatalf("%v: %d brokers became %d", err, len(kept), len(again))
		}
	})
}
