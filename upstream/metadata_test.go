package upstream

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/topicctl"
)

// threeBrokers is an upstream whose brokers have ids 0 to 2.
func threeBrokers(t *testing.T) *world {
	return newWorld(t, kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094))
}

func poll(t *testing.T, c *Client) *topicctl.Snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := c.Metadata(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// One broker answers for as long as it does: that it is another one, or another connection to it, is told.
func TestMetadataComesFromOneBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := threeBrokers(t)
		c := w.node().client
		first := poll(t, c)
		if len(first.Topics) != 1 || len(first.Brokers) != 3 || !strings.HasPrefix(first.From, "broker 0,") {
			t.Fatalf("%+v", first)
		}
		for range 20 {
			time.Sleep(time.Second)
			if s := poll(t, c); s.From != first.From || &s.Topics[0] != &first.Topics[0] {
				t.Fatalf("%+v after %+v", s, first)
			}
		}
		var (
			mu    sync.Mutex // the handler runs in a goroutine of the cluster
			asked []int32
			drop  = true
		)
		w.cluster.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
			mu.Lock()
			defer mu.Unlock()
			w.cluster.KeepControl()
			asked = append(asked, w.cluster.CurrentNode())
			if drop && w.cluster.CurrentNode() == 0 {
				return nil, errors.New("connection closed"), true
			}
			return nil, nil, false
		})
		second := poll(t, c)
		if !strings.HasPrefix(second.From, "broker 1,") || len(second.Topics) != 1 {
			t.Fatalf("broker 0 does not answer: %+v", second)
		}
		mu.Lock()
		drop, asked = false, nil
		mu.Unlock()
		for range 20 {
			time.Sleep(time.Second)
			if s := poll(t, c); s.From != second.From {
				t.Fatalf("goes back to another broker: %+v", s)
			}
		}
		mu.Lock()
		for _, node := range asked {
			if node != 1 {
				t.Errorf("asked %v", asked)
			}
		}
		mu.Unlock()
		w.cluster.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
			return nil, errors.New("connection closed"), true
		})
		if s := poll(t, c); s.From == second.From {
			t.Fatalf("another connection counts as the same: %+v", s)
		}
	})
}

// frozenConn is a connection to a broker that stops answering at some time.
type frozenConn struct {
	net.Conn
	frozen *atomic.Bool
}

func (c frozenConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.frozen.Load() {
			return n, err
		}
	}
}

// A broker that keeps its connections and does not answer is left for another one within the time of one poll.
func TestFrozenBrokerIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := threeBrokers(t)
		var frozen atomic.Bool
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := w.dial(ctx, network, address)
			if err == nil && strings.HasSuffix(address, ":9092") {
				conn = frozenConn{conn, &frozen}
			}
			return conn, err
		}
		c, err := Open(Options{Bootstrap: []string{"127.0.0.1:9092"}, Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		poll(t, c)
		frozen.Store(true)
		began := time.Now()
		s := poll(t, c)
		if took := time.Since(began); !strings.HasPrefix(s.From, "broker 1,") || took > 3*time.Second {
			t.Errorf("%q answered after %v", s.From, took)
		}
		began = time.Now()
		if poll(t, c); time.Since(began) > 100*time.Millisecond {
			t.Errorf("the frozen broker is asked again: %v", time.Since(began))
		}
	})
}

// Some topics can be asked for alone, over the same connection; that creates none.
func TestNamedMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kfake.AllowAutoTopicCreation(), kfake.SeedTopics(3, "other"))
		c := w.node().client
		ctx := context.Background()
		all := poll(t, c)
		for range 3 {
			s, err := c.NamedMetadata(ctx, []string{"absent", "in"})
			if err != nil || len(s.Topics) != 1 || s.Topics[0].Name != "in" || s.Topics[0].ID != all.Topics[0].ID || len(s.Unclear) != 0 ||
				s.From != all.From || len(s.Brokers) != 1 {
				t.Fatalf("%+v, %v", s, err)
			}
		}
		if s, err := c.NamedMetadata(ctx, nil); err != nil || len(s.Topics) != 0 || len(s.Brokers) != 1 {
			t.Errorf("no topics: %+v, %v", s, err)
		}
		if again := poll(t, c); len(again.Topics) != 2 || &again.Topics[0] != &all.Topics[0] {
			t.Errorf("afterwards: %+v", again.Topics)
		}
	})
}

// The rack of a broker that was down ever since this process runs is known all the same, before the first answer counts.
func TestRacksOfFencedBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var asked atomic.Int32
		var silent atomic.Bool
		w.cluster.ControlKey(int16(kmsg.DescribeCluster), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			asked.Add(1)
			resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
			if r := req.(*kmsg.DescribeClusterRequest); r.IncludeFencedBrokers && !silent.Load() {
				b := kmsg.NewDescribeClusterResponseBroker()
				b.NodeID, b.Rack, b.IsFenced = 9, ptr("z"), true
				resp.Brokers = append(resp.Brokers, b)
			}
			return resp, nil, true
		})
		w.cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			if r := req.(*kmsg.MetadataRequest); r.Topics != nil {
				return nil, nil, false
			}
			alive := brokerIn(0, "a")
			alive.Host, alive.Port = "127.0.0.1", 9092
			resp := metadataOf(req.GetVersion(), alive)
			resp.Topics = []kmsg.MetadataResponseTopic{topicWith("t", 1, []int32{0, 9})}
			return resp, nil, true
		})
		if s := poll(t, w.node().client); asked.Load() != 1 || len(s.Topics) != 1 || !slices.Equal(s.Topics[0].Racks[0], []string{"a", "z"}) {
			t.Errorf("asked %d times: %+v", asked.Load(), s.Topics)
		}
		asked.Store(0)
		silent.Store(true) // an older Kafka
		c := w.node().client
		for range 25 {
			if s := poll(t, c); !slices.Equal(s.Topics[0].Racks[0], []string{"a"}) {
				t.Errorf("%+v", s.Topics)
			}
			time.Sleep(time.Second)
		}
		if n := asked.Load(); n != 3 {
			t.Errorf("asked %d times in 25 s", n)
		}
	})
}
