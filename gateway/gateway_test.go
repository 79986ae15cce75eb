package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestHeartbeatsAreAnsweredInOrder(t *testing.T) {
	for _, later := range []bool{false, true} {
		t.Run(fmt.Sprintf("on goroutines %v", later), func(t *testing.T) {
			w := newWorld(t, worldConfig{nodes: 1})
			w.later = later
			c := dialPort(t, w.nodes[0].addr())
			const n = 500
			var all []byte
			req := beat("g", "m", 1)
			first := c.corr + 1
			for range n {
				all = append(all, c.encode(req)...)
			}
			go func() { _, _ = c.nc.Write(all) }()
			for i := range int32(n) {
				resp, err := c.receive(req, first+i)
				if err != nil {
					t.Fatal(err)
				}
				if r := resp.(*kmsg.StreamsGroupHeartbeatResponse); r.ErrorCode != 0 || r.MemberID != "m" {
					t.Fatalf("answer %d: %+v", i, r)
				}
			}
		})
	}
}

func TestMetadataShowsNodesAndBrokersAtPortsOfLiveNodes(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 3, brokers: 3, topics: []string{"in"}})
	check := func(addr string, live ...int) {
		t.Helper()
		c := dialPort(t, addr)
		for v := int16(0); v <= 13; v++ {
			m := do[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), v)
			if len(m.Brokers) != 3+len(live) {
				t.Fatalf("v%d: %d brokers", v, len(m.Brokers))
			}
			for k := range 3 {
				b, n := m.Brokers[slices.IndexFunc(m.Brokers, func(b kmsg.MetadataResponseBroker) bool { return b.NodeID == w.image.brokers[k].ID })], w.nodes[live[k%len(live)]]
				if b.Host != "127.0.0.1" || b.Port != n.base+1+int32(k) {
					t.Errorf("v%d: broker %d at %s:%d", v, b.NodeID, b.Host, b.Port)
				}
			}
			for i, l := range live {
				if b := m.Brokers[3+i]; b.NodeID != 1_000_000+w.nodes[l].id || b.Port != w.nodes[l].base {
					t.Errorf("v%d: node %+v", v, b)
				}
			}
		}
		for v := int16(0); v <= 1; v++ {
			d := do[*kmsg.DescribeClusterResponse](c, kmsg.NewPtrDescribeClusterRequest(), v)
			if len(d.Brokers) != 3+len(live) || d.ClusterID != w.image.cluster {
				t.Errorf("DescribeCluster: %+v", d)
			}
			for _, b := range d.Brokers {
				if _, port, ok := w.nodes[0].g.addressOf(b.NodeID); !ok || port != b.Port {
					t.Errorf("DescribeCluster: node %d at port %d", b.NodeID, b.Port)
				}
			}
		}
	}
	check(w.nodes[0].addr(), 0, 1, 2)
	check(w.nodes[1].brokerAddr(2), 0, 1, 2)
	w.mu.Lock()
	w.nodes[1].dead = true
	w.mu.Unlock()
	check(w.nodes[0].addr(), 0, 2)
}

func TestApiVersionsByPortRole(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, brokers: 1})
	ranges := func(addr string, v int16) map[int16][2]int16 {
		c := dialPort(t, addr)
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "java", "4.4.0"
		id := "someone else"
		req.ClusterID, req.NodeID = &id, 77 // what the client expects to meet is not checked
		r := do[*kmsg.ApiVersionsResponse](c, req, v)
		if r.ErrorCode != 0 {
			t.Fatalf("v%d: error %d", v, r.ErrorCode)
		}
		if v >= 3 && (len(r.FinalizedFeatures) == 0 || r.FinalizedFeaturesEpoch < 0) {
			t.Errorf("v%d: features of the upstream are missing: %+v", v, r)
		}
		out := map[int16][2]int16{}
		for _, k := range r.ApiKeys {
			out[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
		}
		return out
	}
	for v := int16(0); v <= 5; v++ {
		for _, addr := range []string{w.nodes[0].addr(), w.nodes[0].brokerAddr(0)} {
			got := ranges(addr, v)
			for _, key := range []int16{88, 89} {
				if got[key] != [2]int16{0, 1} {
					t.Errorf("%s v%d: key %d is %v", addr, v, key, got[key])
				}
			}
			for _, key := range []int16{4, 52, 58, 71, 72, 75, 93} {
				if _, ok := got[key]; ok {
					t.Errorf("%s v%d: key %d is listed", addr, v, key)
				}
			}
		}
	}
}

func TestUnknownVersionsAndKeys(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, brokers: 1})
	c := dialPort(t, w.nodes[0].addr())
	// ApiVersions v9: v0 answer with UNSUPPORTED_VERSION, and the connection goes on.
	c.send([]byte{0, 0, 0, 11, 0, 18, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0})
	req := kmsg.NewPtrApiVersionsRequest()
	resp, err := c.receive(req, 1)
	if err != nil || resp.(*kmsg.ApiVersionsResponse).ErrorCode != 35 {
		t.Fatalf("%+v %v", resp, err)
	}
	for _, frame := range [][]byte{
		{0, 0, 0, 10, 0, 4, 0, 0, 0, 0, 0, 1, 0xff, 0xff},        // LeaderAndIsr
		{0, 0, 0, 10, 0, 99, 0, 0, 0, 0, 0, 1, 0xff, 0xff},       // no such key
		{0, 0, 0, 10, 0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff},       // no such version
		{0, 0, 0, 10, 0xff, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff},    // negative key
		{0x80, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 1},                  // negative length
		{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 1},         // 2 GiB
		{0, 0, 0, 3, 0, 0, 0},                                    // shorter than a header
		{0, 0, 0, 12, 0, 88, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 9}, // truncated heartbeat
	} {
		c := dialPort(t, w.nodes[0].addr())
		c.send(frame)
		if _, err := c.frame(); err == nil {
			t.Errorf("% x was answered", frame)
		}
	}
}

func TestProduceAndFetchThroughTheGateway(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 3, brokers: 3, topics: []string{"in"}})
	for _, n := range w.nodes {
		for k := range 3 {
			dialPort(t, n.brokerAddr(k))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, acks := range []kgo.Acks{kgo.AllISRAcks(), kgo.NoAck()} {
		opts := []kgo.Opt{kgo.SeedBrokers(w.nodes[0].addr()), kgo.DefaultProduceTopic("in"), kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite(), kgo.ProducerBatchMaxBytes(1 << 20), kgo.ProducerBatchCompression(kgo.NoCompression())}
		cl, err := kgo.NewClient(opts...)
		if err != nil {
			t.Fatal(err)
		}
		big := strings.Repeat("x", 900<<10) // larger than what is held in memory
		for i := range 12 {
			value := big
			if i%3 == 0 {
				value = "small"
			}
			if err := cl.ProduceSync(ctx, kgo.KeyStringRecord(fmt.Sprint(i), value)).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		cl.Close()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.nodes[1].addr()), kgo.ConsumeTopics("in"), kgo.FetchMaxPartitionBytes(8<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	seen, bytes := 0, 0
	for seen < 24 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		fetches.EachError(func(topic string, p int32, err error) { t.Fatal(topic, p, err) })
		fetches.EachRecord(func(r *kgo.Record) { seen++; bytes += len(r.Value) })
	}
	if want := 16*(900<<10) + 8*len("small"); bytes != want {
		t.Errorf("%d bytes, want %d", bytes, want)
	}
}

func TestClassicAndKIP848GroupsLiveUpstream(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 3, brokers: 3, topics: []string{"in"}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := kgo.NewClient(kgo.SeedBrokers(w.nodes[0].addr()), kgo.DefaultProduceTopic("in"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i := range 30 {
		if err := p.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.nodes[2].addr()), kgo.ConsumerGroup("classic"), kgo.ConsumeTopics("in"))
	if err != nil {
		t.Fatal(err)
	}
	for seen := 0; seen < 30; {
		f := cl.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			t.Fatal(err)
		}
		seen += f.NumRecords()
	}
	if err := cl.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	w.hold("ours")
	w.hold("ours-2")
	adm := kadm.NewClient(p)
	fetched, err := adm.FetchOffsets(ctx, "classic")
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	fetched.Offsets().Each(func(o kadm.Offset) { sum += o.At })
	if sum != 30 {
		t.Errorf("offsets upstream: %v", fetched)
	}
	listed, err := adm.ListGroups(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []string{"classic", "ours", "ours-2"} {
		if _, ok := listed[g]; !ok {
			t.Errorf("group %s is not listed: %v", g, listed.Groups())
		}
	}
	if listed["ours"].Coordinator != 1_000_001 {
		t.Errorf("coordinator of ours: %d", listed["ours"].Coordinator)
	}
	many := adm.FetchManyOffsets(ctx, "classic", "ours", "ours-2")
	if err := many.Error(); err != nil {
		t.Error(err)
	}
	deleted, err := adm.DeleteGroups(ctx, "classic", "ours")
	if err != nil || deleted.Error() != nil {
		t.Errorf("%v %v", err, deleted.Error())
	}
	if _, ok := w.held["ours"]; ok {
		t.Error("ours was not deleted")
	}
}

func TestTransactionsPassThrough(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 3, brokers: 3, topics: []string{"in", "out"}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := kgo.NewClient(kgo.SeedBrokers(w.nodes[0].addr()), kgo.DefaultProduceTopic("in"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const n = 50
	for i := range n {
		if err := p.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(w.nodes[1].addr()), kgo.TransactionalID("tx"),
		kgo.ConsumerGroup("eos"), kgo.ConsumeTopics("in"), kgo.DefaultProduceTopic("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for moved := 0; moved < n; {
		f := s.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			t.Fatal(err)
		}
		if err := s.Begin(); err != nil {
			t.Fatal(err)
		}
		f.EachRecord(func(r *kgo.Record) { s.Produce(ctx, kgo.StringRecord(string(r.Value)), nil) })
		committed, err := s.End(ctx, kgo.TryCommit)
		if err != nil || !committed {
			t.Fatal(committed, err)
		}
		moved += f.NumRecords()
	}
	ends, err := w.admin.ListCommittedOffsets(ctx, "out")
	if err != nil {
		t.Fatal(err)
	}
	var out int64
	ends.Each(func(o kadm.ListedOffset) { out += o.Offset })
	if out < n { // and the markers
		t.Errorf("%d records in out", out)
	}
	offsets, err := w.admin.FetchOffsets(ctx, "eos")
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	offsets.Offsets().Each(func(o kadm.Offset) { sum += o.At })
	if sum != n {
		t.Errorf("offsets add up to %d", sum)
	}
}
