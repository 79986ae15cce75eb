package gateway

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

// holding is a world of two nodes whose shards, led by node 1, hold heartbeats, and a member's connection to a node. The
// member's first steady heartbeat elsewhere than at the leader has been sent away.
func holdingWorld(t *testing.T, node int) (*world, *wire, func() (int, []bool)) {
	w := newWorld(t, worldConfig{nodes: 2})
	w.mu.Lock()
	w.holds = true
	w.mu.Unlock()
	c := dialPort(t, w.nodes[node].addr())
	do[*kmsg.StreamsGroupHeartbeatResponse](c, beat("g", "m", 0), 1)
	if node != 0 {
		if r := do[*kmsg.StreamsGroupHeartbeatResponse](c, beat("g", "m", 1), 1); r.ErrorCode != int16(coordinator.NotCoordinator) {
			t.Fatalf("error %d", r.ErrorCode)
		}
	}
	return w, c, func() (int, []bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.hung), append([]bool(nil), w.gone...)
	}
}

// sendHeld sends a heartbeat and waits until it is held.
func sendHeld(t *testing.T, c *wire, state func() (int, []bool)) (*kmsg.StreamsGroupHeartbeatRequest, int32) {
	t.Helper()
	b := beat("g", "m", 1)
	c.send(c.encode(b))
	eventually(t, "the heartbeat is held", func() bool { n, _ := state(); return n == 1 })
	return b, c.corr
}

func TestAnotherRequestLetsTheHeldHeartbeatGo(t *testing.T) {
	for _, node := range []int{0, 1} {
		_, c, state := holdingWorld(t, node)
		for range 3 {
			b, corr := sendHeld(t, c, state)
			describe := kmsg.NewPtrStreamsGroupDescribeRequest()
			describe.Groups = []string{"g"}
			c.send(c.encode(describe))
			resp, err := c.receive(b, corr)
			if err != nil {
				t.Fatalf("node %d: the heartbeat's answer comes first: %v", node, err)
			}
			if r := resp.(*kmsg.StreamsGroupHeartbeatResponse); r.ErrorCode != 0 || r.MemberID != "m" {
				t.Fatalf("node %d: %+v", node, r)
			}
			if _, err := c.receive(describe, corr+1); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestConnectionsThatWaitAreCounted(t *testing.T) {
	for _, node := range []int{0, 1} {
		w, c, state := holdingWorld(t, node)
		g := w.nodes[node].g
		dialPort(t, w.nodes[node].addr()) // connected, and waits for nothing
		eventually(t, "what is answered is not waited for", func() bool { return g.waiting() == 0 })
		b, corr := sendHeld(t, c, state)
		if n := g.waiting(); n != 1 {
			t.Errorf("node %d: %d connections wait", node, n)
		}
		c.send(c.encode(beat("g", "m", 1)))
		if _, err := c.receive(b, corr); err != nil {
			t.Fatal(err)
		}
		_ = c.nc.Close()
		eventually(t, "nobody waits over a connection that has ended", func() bool { return g.waiting() == 0 })
	}
}

func TestTheNextHeartbeatLetsTheHeldOneGo(t *testing.T) {
	for _, node := range []int{0, 1} {
		w, c, state := holdingWorld(t, node)
		b, corr := sendHeld(t, c, state)
		next := beat("g2", "m", 1)
		c.send(c.encode(next))
		if _, err := c.receive(b, corr); err != nil {
			t.Fatal(err)
		}
		// The second one is held in turn, or sent away where its group is not led.
		eventually(t, "the second heartbeat is held or answered", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.hung) == 1 || node == 1
		})
	}
}

func TestAHeldHeartbeatKeepsNoReadBuffer(t *testing.T) {
	w, c, state := holdingWorld(t, 0)
	sendHeld(t, c, state)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, call := range w.hung {
		s := call.Done.(*slot)
		if s.buf != nil || s.frame != nil || s.h.ClientID != "" {
			t.Fatal("the slot of a held heartbeat refers to what was read")
		}
	}
}

func TestShardsHearThatAClientHasGone(t *testing.T) {
	for _, node := range []int{0, 1} {
		_, c, state := holdingWorld(t, node)
		sendHeld(t, c, state)
		_ = c.nc.Close()
		eventually(t, "the shard is told", func() bool {
			hung, gone := state()
			return hung == 0 && len(gone) >= 1 && gone[0]
		})
	}
}

func TestANodeThatStopsIsNotTheClientsDoing(t *testing.T) {
	w, c, state := holdingWorld(t, 0)
	sendHeld(t, c, state)
	w.nodes[0].g.Close()
	if _, gone := state(); len(gone) != 1 || gone[0] {
		t.Fatalf("%v", gone)
	}
}

// TestAnotherNodeForgetsAConnectionThatThisOneEnds: it keeps what it knows of each connection until it hears of its end.
func TestAnotherNodeForgetsAConnectionThatThisOneEnds(t *testing.T) {
	w, c, state := holdingWorld(t, 1)
	sendHeld(t, c, state)
	g := w.nodes[1].g
	g.mu.Lock()
	for c := range g.conns {
		c.evicted.Store(true)
		c.close()
	}
	g.mu.Unlock()
	eventually(t, "the shard is told on both nodes that the connection ended, not by its client", func() bool {
		hung, gone := state()
		return hung == 0 && len(gone) == 2 && !gone[0] && !gone[1]
	})
}

func TestALostInnerHopIsNotTheClientsDoing(t *testing.T) {
	w, c, state := holdingWorld(t, 1)
	b, corr := sendHeld(t, c, state)
	w.nodes[0].g.Close()
	resp, err := c.receive(b, corr)
	if err != nil {
		t.Fatal(err)
	}
	if r := resp.(*kmsg.StreamsGroupHeartbeatResponse); r.ErrorCode != int16(coordinator.NotCoordinator) {
		t.Fatalf("error %d", r.ErrorCode)
	}
	eventually(t, "the shard is told that the hop ended", func() bool {
		_, gone := state()
		return len(gone) == 1 && !gone[0]
	})
}

// TestALostBrokerBehindIsNotTheClientsDoing: a broker that owes answers takes the client's connection with it.
func TestALostBrokerBehindIsNotTheClientsDoing(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, brokers: 1, topics: []string{"in"}})
	w.mu.Lock()
	w.holds = true
	w.mu.Unlock()
	c := dialPort(t, w.nodes[0].addr())
	do[*kmsg.StreamsGroupHeartbeatResponse](c, beat("g", "m", 0), 1)
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version, fetch.MaxWaitMillis, fetch.MinBytes, fetch.MaxBytes = 4, 20_000, 1, 1<<20
	topic := kmsg.NewFetchRequestTopic()
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.PartitionMaxBytes = 1 << 20
	topic.Topic, topic.Partitions = "in", append(topic.Partitions, partition)
	fetch.Topics = append(fetch.Topics, topic)
	c.send(c.encode(fetch))
	state := func() (int, []bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.hung), append([]bool(nil), w.gone...)
	}
	sendHeld(t, c, state)
	w.kafka.Close()
	eventually(t, "the shard is told that the connection ended, not by its client", func() bool {
		hung, gone := state()
		return hung == 0 && len(gone) == 1 && !gone[0]
	})
}

// TestAConnectionThatIsRefusedIsNotTheClientsDoing: it lives, and was cut off for what it sent.
func TestAConnectionThatIsRefusedIsNotTheClientsDoing(t *testing.T) {
	_, c, state := holdingWorld(t, 0)
	sendHeld(t, c, state)
	c.send([]byte{0, 0, 0, 8, 0x7f, 0xff, 0, 0, 0, 0, 0, 1})
	eventually(t, "the shard is told that the connection ended, not by its client", func() bool {
		hung, gone := state()
		return hung == 0 && len(gone) == 1 && !gone[0]
	})
}

func TestANewLeaderEndsAHoldAtTheOldOne(t *testing.T) {
	w, c, state := holdingWorld(t, 1)
	b, corr := sendHeld(t, c, state)
	began := time.Now()
	w.lead(2)
	resp, err := c.receive(b, corr)
	if err != nil {
		t.Fatal(err)
	}
	if r := resp.(*kmsg.StreamsGroupHeartbeatResponse); r.ErrorCode != int16(coordinator.NotCoordinator) {
		t.Fatalf("error %d after %v", r.ErrorCode, time.Since(began))
	}
}

func TestHopMessagesOfHoldsAreChecked(t *testing.T) {
	client := coordinator.Client{ID: "c"}
	for _, kind := range []byte{hopBeat, hopLetGo, hopGone, hopEnded} {
		for _, payload := range [][]byte{nil, make([]byte, holdSize-1), make([]byte, holdSize+3)} {
			frame := appendHopRequest(nil, &hopRequest{kind: kind, client: client, payload: payload})
			if _, err := parseHopRequest(frame[4:]); err == nil {
				t.Errorf("kind %d with %d bytes was taken", kind, len(payload))
			}
		}
	}
	frame := appendHopRequest(nil, &hopRequest{kind: hopLetGo, payload: appendHold(nil, 7, 9)})
	r, err := parseHopRequest(frame[4:])
	if err != nil {
		t.Fatal(err)
	}
	if connection, number, _ := parseHold(r.payload); connection != 7 || number != 9 {
		t.Fatalf("%d %d", connection, number)
	}
}
