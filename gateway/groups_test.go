package gateway

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator/offsets"
)

func commit(group, topic string, id [16]byte, offset int64) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group, r.MemberID, r.Generation = group, "m", 5
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = offset
	r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, TopicID: id, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	return r
}

func TestOwnGroupsAreServedOnEveryPort(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 3, brokers: 2, topics: []string{"in"}})
	w.hold("ours")
	id := w.image.ids["in"]
	at := int64(0)
	for _, n := range w.nodes { // node 1 leads: the others go by the hop
		for _, addr := range []string{n.addr(), n.brokerAddr(0), n.brokerAddr(1)} {
			c := dialPort(t, addr)
			if r := do[*kmsg.StreamsGroupHeartbeatResponse](c, beat("ours", "m", 0), 1); r.ErrorCode != 0 || r.MemberEpoch != 1 {
				t.Errorf("%s: %+v", addr, r)
			}
			for v := int16(2); v <= 10; v++ {
				at++
				r := do[*kmsg.OffsetCommitResponse](c, commit("ours", "in", id, at), v)
				if r.Topics[0].Partitions[0].ErrorCode != 0 || w.held["ours"].offsets["in"][0] != at {
					t.Errorf("%s: commit v%d: %+v", addr, v, r)
				}
			}
			bad := commit("ours", "", [16]byte{7}, 1)
			bad.Topics = append(bad.Topics, commit("ours", "", id, 1).Topics...)
			r := do[*kmsg.OffsetCommitResponse](c, bad, 10)
			codes := map[[16]byte]int16{}
			for _, topic := range r.Topics {
				codes[topic.TopicID] = topic.Partitions[0].ErrorCode
			}
			if codes[[16]byte{7}] != 100 || codes[id] != 0 {
				t.Errorf("unknown topic id: %+v", r)
			}
			txn := kmsg.NewPtrTxnOffsetCommitRequest()
			txn.TransactionalID, txn.Group, txn.Generation = "tx", "ours", 5
			txn.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "in", TopicID: id, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: 99}}}}
			if r := do[*kmsg.TxnOffsetCommitResponse](c, txn, 6); r.Topics[0].Partitions[0].ErrorCode != 0 {
				t.Errorf("%s: %+v", addr, r)
			}
			fetch := kmsg.NewPtrOffsetFetchRequest()
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = "ours"
			fetch.Groups = []kmsg.OffsetFetchRequestGroup{g}
			f := do[*kmsg.OffsetFetchResponse](c, fetch, 10)
			if topic := f.Groups[0].Topics[0]; topic.TopicID != id || topic.Partitions[0].Offset != 99 {
				t.Errorf("%s: %+v", addr, f)
			}
			describe := kmsg.NewPtrStreamsGroupDescribeRequest()
			describe.Groups = []string{"absent", "ours"}
			d := do[*kmsg.StreamsGroupDescribeResponse](c, describe, 0)
			if len(d.Groups) != 2 || d.Groups[0].Group != "absent" || d.Groups[0].ErrorCode != 69 || d.Groups[1].Epoch != 7 {
				t.Errorf("%s: %+v", addr, d)
			}
		}
	}
}

func TestFindCoordinator(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 3, brokers: 3})
	w.hold("ours")
	w.lead(2)
	find := func(addr string, v int16, typ int8, keys ...string) []kmsg.FindCoordinatorResponseCoordinator {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKeys, req.CoordinatorKey = typ, keys, keys[0]
		r := do[*kmsg.FindCoordinatorResponse](dialPort(t, addr), req, v)
		if v < 4 {
			return []kmsg.FindCoordinatorResponseCoordinator{{Key: keys[0], NodeID: r.NodeID, Host: r.Host, Port: r.Port, ErrorCode: r.ErrorCode}}
		}
		return r.Coordinators
	}
	for _, addr := range []string{w.nodes[0].addr(), w.nodes[2].brokerAddr(1)} {
		for v := int16(0); v <= 6; v++ {
			if k := find(addr, v, 0, "ours")[0]; k.NodeID != 1_000_002 || k.Port != w.nodes[1].base || k.ErrorCode != 0 {
				t.Errorf("v%d: %+v", v, k)
			}
			for _, typ := range []int8{0, 1} {
				if v == 0 && typ == 1 {
					continue
				}
				k := find(addr, v, typ, "theirs")[0]
				_, port, ok := w.nodes[0].g.addressOf(k.NodeID)
				if !ok || port != k.Port || k.NodeID != w.kafka.CoordinatorFor("theirs") {
					t.Errorf("v%d type %d: %+v", v, typ, k)
				}
			}
		}
		ks := find(addr, 4, 0, "theirs-2", "ours", "theirs-3")
		if len(ks) != 3 || ks[0].Key != "theirs-2" || ks[1].NodeID != 1_000_002 || ks[2].Key != "theirs-3" {
			t.Errorf("%+v", ks)
		}
	}
	w.lead(0)
	if k := find(w.nodes[2].addr(), 4, 0, "ours")[0]; k.NodeID != 1_000_003 || k.ErrorCode != 0 {
		t.Errorf("without a leader: %+v", k)
	}
}

func TestRequestsWaitForALeader(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1, topics: []string{"in"}, config: waitLong})
	w.hold("ours")
	w.lead(0)
	c := dialPort(t, w.nodes[0].addr())
	d := dialPort(t, w.nodes[0].addr())
	b := beat("ours", "m", 0)
	c.send(c.encode(b))
	m := commit("ours", "in", [16]byte{}, 3)
	m.Version = 8
	d.send(d.encode(m))
	w.lead(2)
	r, err := c.receive(b, c.corr)
	if err != nil || r.(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode != 0 {
		t.Errorf("%+v %v", r, err)
	}
	r, err = d.receive(m, d.corr)
	if err != nil || r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestWithoutALeaderTheCoordinatorIsNotAvailable(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, brokers: 1, config: func(c *Config) { c.ParkTime = 20 * time.Millisecond }})
	w.hold("ours")
	w.lead(0)
	c := dialPort(t, w.nodes[0].addr())
	if r := do[*kmsg.StreamsGroupHeartbeatResponse](c, beat("ours", "m", 5), 1); r.ErrorCode != 15 {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.OffsetCommitResponse](c, commit("ours", "in", [16]byte{}, 3), 8); r.Topics[0].Partitions[0].ErrorCode != 15 {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.OffsetCommitResponse](c, commit("who knows", "in", [16]byte{}, 3), 8); r.Topics[0].Partitions[0].ErrorCode != 15 {
		t.Errorf("only a leader may say that a group is not ours: %+v", r)
	}
	w.lead(2) // a leader that is not there
	if r := do[*kmsg.StreamsGroupHeartbeatResponse](c, beat("ours", "m", 0), 1); r.ErrorCode != 15 {
		t.Errorf("%+v", r)
	}
}

func TestALaggingReplicaDoesNotSendACommitUpstream(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1, topics: []string{"in"}})
	w.hold("ours")
	w.blind[2] = true
	c := dialPort(t, w.nodes[1].brokerAddr(0))
	r := do[*kmsg.OffsetCommitResponse](c, commit("ours", "in", [16]byte{}, 42), 8)
	if r.Topics[0].Partitions[0].ErrorCode != 0 || w.held["ours"].offsets["in"][0] != 42 {
		t.Errorf("%+v", r)
	}
}

func TestAMemberIsSentToItsLeaderOnce(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1})
	w.lead(2)
	for _, addr := range []string{w.nodes[0].brokerAddr(0), w.nodes[1].brokerAddr(0), w.nodes[0].addr()} {
		c := dialPort(t, addr)
		do[*kmsg.StreamsGroupHeartbeatResponse](c, beat("ours", "m", 0), 1)
		told := 0
		for range 10 {
			switch r := do[*kmsg.StreamsGroupHeartbeatResponse](c, beat("ours", "m", 5), 1); r.ErrorCode {
			case 16:
				told++
			case 0:
			default:
				t.Errorf("%+v", r)
			}
		}
		if told != 1 {
			t.Errorf("%s: told %d times", addr, told)
		}
	}
	c := dialPort(t, w.nodes[1].addr())
	for range 10 {
		if r := do[*kmsg.StreamsGroupHeartbeatResponse](c, beat("ours", "m", 5), 1); r.ErrorCode != 0 {
			t.Errorf("at its leader: %+v", r)
		}
	}
}

func TestTheHopCarriesTheClient(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1, topics: []string{"in"}})
	w.hold("ours")
	c := dialPort(t, w.nodes[1].addr())
	do[*kmsg.OffsetCommitResponse](c, commit("ours", "in", [16]byte{}, 42), 8)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, call := range w.calls {
		if _, ok := call.(*offsets.CommitRequest); ok {
			if w.clients[call].ID != "tester" || w.clients[call].Host != "/127.0.0.1" || w.clients[call].Principal != "User:ANONYMOUS" {
				t.Errorf("%+v", w.clients[call])
			}
			return
		}
	}
	t.Error("no commit")
}

func TestCoorddNodesHaveNoConfigsLogDirsOrTransactions(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, brokers: 1, topics: []string{"in"}})
	c := dialPort(t, w.nodes[0].addr())
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, name := range []string{"1000001", "in"} {
		res := kmsg.NewDescribeConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeBroker, name
		if name == "in" {
			res.ResourceType = kmsg.ConfigResourceTypeTopic
		}
		req.Resources = append(req.Resources, res)
	}
	r := do[*kmsg.DescribeConfigsResponse](c, req, 4)
	if len(r.Resources) != 2 || len(r.Resources[0].Configs) != 0 || r.Resources[0].ErrorCode != 0 || len(r.Resources[1].Configs) == 0 {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.DescribeLogDirsResponse](c, kmsg.NewPtrDescribeLogDirsRequest(), 4); r.ErrorCode != 0 || len(r.Dirs) != 0 {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.ListTransactionsResponse](c, kmsg.NewPtrListTransactionsRequest(), 0); r.ErrorCode != 0 {
		t.Errorf("%+v", r)
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 5000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "made", 1, 1
	create.Topics = append(create.Topics, topic)
	if r := do[*kmsg.CreateTopicsResponse](c, create, 7); r.Topics[0].ErrorCode != 0 || r.Topics[0].Configs == nil {
		t.Errorf("%+v", r.Topics)
	}
}

func TestARequestIsRepeatedAtTheNextLeader(t *testing.T) {
	for _, how := range []string{"the node hangs", "the hop breaks"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t, worldConfig{nodes: 3, brokers: 1, topics: []string{"in"}, config: waitLong})
			w.hold("ours")
			w.lead(2)
			w.hangs[2] = true
			c, d := dialPort(t, w.nodes[0].addr()), dialPort(t, w.nodes[0].addr())
			m, b := commit("ours", "in", [16]byte{}, 3), beat("ours", "m", 0)
			m.Version = 8
			c.send(c.encode(m))
			d.send(d.encode(b))
			hop := w.nodes[0].g.hops
			eventually(t, "nothing is sent to the leader", func() bool {
				hop.mu.Lock()
				h := hop.peers[2]
				hop.mu.Unlock()
				if h == nil {
					return false
				}
				h.mu.Lock()
				defer h.mu.Unlock()
				return h.nc != nil && len(h.pending) == 2
			})
			if how == "the hop breaks" {
				w.mu.Lock()
				w.hangs[2] = false
				w.mu.Unlock()
				hop.mu.Lock()
				_ = hop.peers[2].nc.Close()
				hop.mu.Unlock()
			} else {
				w.lead(3)
			}
			// A commit may have been stored: its client repeats it.
			if r, err := c.receive(m, c.corr); err != nil || r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode != 15 {
				t.Errorf("%+v %v", r, err)
			}
			if r, err := d.receive(b, d.corr); err != nil || r.(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode != 0 {
				t.Errorf("%+v %v", r, err)
			}
		})
	}
}
