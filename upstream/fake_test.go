package upstream

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
)

// world is an upstream in memory. It must be made inside a synctest bubble.
type world struct {
	t       *testing.T
	net     *kfake.VirtualNetwork
	cluster *kfake.Cluster
	opts    []kfake.Opt
}

func newWorld(t *testing.T, opts ...kfake.Opt) *world {
	t.Helper()
	w := &world{t: t, net: new(kfake.VirtualNetwork)}
	w.opts = append([]kfake.Opt{
		kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(w.net.Listen), kfake.SeedTopics(8, "in"),
	}, opts...)
	w.up()
	t.Cleanup(func() {
		w.cluster.Close()
		synctest.Wait()
	})
	return w
}

func (w *world) up() {
	w.t.Helper()
	cluster, err := kfake.NewCluster(w.opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.cluster = cluster
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return w.net.DialContext(ctx, network, address)
}

// node opens a client and its offsets, as one coordd node has them.
func (w *world) node(change ...func(*OffsetsConfig)) *Offsets {
	w.t.Helper()
	c, err := Open(Options{Bootstrap: []string{"127.0.0.1:9092"}, Dial: w.dial})
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := OffsetsConfig{Client: c, Rand: rand.Float64}
	for _, f := range change {
		f(&cfg)
	}
	o := NewOffsets(cfg)
	w.t.Cleanup(func() {
		o.Close()
		c.Close()
		synctest.Wait()
	})
	return o
}

// wait turns a call with a callback into one with a result, and checks that the callback comes once.
func wait[T any](t *testing.T, call func(func(T))) T {
	t.Helper()
	var mu sync.Mutex
	n := 0
	got := make(chan T, 1)
	call(func(v T) {
		mu.Lock()
		defer mu.Unlock()
		if n++; n == 1 {
			got <- v
		} else {
			t.Error("done was called again")
		}
	})
	return <-got
}

func (w *world) claim(o *Offsets, group string) error {
	w.t.Helper()
	return wait(w.t, func(done func(error)) { o.Claim(group, done) })
}

func (w *world) mustClaim(o *Offsets, group string) {
	w.t.Helper()
	if err := w.claim(o, group); err != nil {
		w.t.Fatalf("claim of %s: %v", group, err)
	}
}

// commitReq commits offset for partition 0 of the topic "in".
func commitReq(group string, epoch int32, offset int64) *offsets.CommitRequest {
	return &offsets.CommitRequest{
		Version: 9, GroupID: group, MemberID: "m", MemberEpoch: epoch,
		Topics: []offsets.CommitTopic{{Name: "in", ID: [16]byte{1}, Partitions: []offsets.CommitPartition{{Partition: 0, Offset: offset, LeaderEpoch: 3, Metadata: ptr("meta")}}}},
	}
}

func ptr[T any](v T) *T { return &v }

func (w *world) commit(o *Offsets, req *offsets.CommitRequest) coordinator.Code {
	w.t.Helper()
	resp := wait(w.t, func(done func(*offsets.CommitResponse)) { o.Commit(req, done) })
	return resp.Topics[0].Partitions[0].Code
}

func (w *world) fetch(o *Offsets, group string, stable bool) offsets.FetchedOffset {
	w.t.Helper()
	req := &offsets.FetchRequest{GroupID: group, MemberEpoch: -1, RequireStable: stable, Topics: []offsets.FetchTopic{{Name: "in", Partitions: []int32{0}}}}
	resp := wait(w.t, func(done func(*offsets.FetchResponse)) { o.Fetch(req, done) })
	if resp.Err != nil {
		w.t.Fatalf("fetch: %v", resp.Err)
	}
	return resp.Topics[0].Partitions[0]
}

// eventually waits, in virtual time, until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for range 1200 {
		if cond() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("not within a minute: %s", what)
}

func dataDir(dir string) kfake.Opt { return kfake.DataDir(dir) }

// count counts the requests of a key from now on.
func (w *world) count(key int16) func() int {
	var mu sync.Mutex
	n := 0
	w.cluster.ControlKey(key, func(kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		mu.Lock()
		n++
		mu.Unlock()
		return nil, nil, false
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}
