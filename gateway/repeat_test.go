package gateway

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/shard"
)

// members is how many members a group has had that have not left.
func (w *world) members(group string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g := w.held[group]; g != nil {
		return len(g.members)
	}
	return 0
}

func TestARepeatedLeaveIsDone(t *testing.T) {
	for _, leader := range []int32{1, 2} { // at this node, and by the hop
		w := newWorld(t, worldConfig{nodes: 2, brokers: 1})
		w.lead(leader)
		c := dialPort(t, w.nodes[0].addr())
		for i, epoch := range []int32{-1, -2, -2} {
			w.mu.Lock()
			w.taken = i == 2
			w.mu.Unlock()
			do[*kmsg.StreamsGroupHeartbeatResponse](c, beat("ours", "m", 0), 1)
			leave := beat("ours", "m", epoch)
			if epoch == -2 {
				instance := "i"
				leave.InstanceID = &instance
			}
			w.mu.Lock()
			w.unsure[leader] = 1
			w.mu.Unlock()
			if r := do[*kmsg.StreamsGroupHeartbeatResponse](c, leave, 1); r.ErrorCode != 0 || r.MemberEpoch != epoch || r.MemberID != "m" {
				t.Errorf("leader %d, epoch %d: %+v", leader, epoch, r)
			}
			want := int16(25)
			if i == 2 {
				want = 82
			}
			if r := do[*kmsg.StreamsGroupHeartbeatResponse](c, leave, 1); r.ErrorCode != want {
				t.Errorf("a leave that the client repeats: %+v", r)
			}
		}
	}
}

// TestALeaveThatALeaderRefusedIsNoRepeat: a leader that has not begun with a leave says so, here and over the hop, so that what
// the next one says of it is the truth.
func TestALeaveThatALeaderRefusedIsNoRepeat(t *testing.T) {
	for _, leader := range []int32{1, 2} {
		w := newWorld(t, worldConfig{nodes: 2, brokers: 1})
		w.lead(leader)
		c := dialPort(t, w.nodes[0].addr())
		for _, epoch := range []int32{-1, -2} {
			leave := beat("ours", "m", epoch)
			if epoch == -2 {
				instance := "i"
				leave.InstanceID = &instance
			}
			w.mu.Lock()
			w.refuses[leader] = 1
			w.mu.Unlock()
			if r := do[*kmsg.StreamsGroupHeartbeatResponse](c, leave, 1); r.ErrorCode != 25 {
				t.Errorf("leader %d, epoch %d: %+v", leader, epoch, r)
			}
		}
	}
}

// TestADeletionThatALeaderRefusedIsNoRepeat: the group is gone, which this node does not know yet.
func TestADeletionThatALeaderRefusedIsNoRepeat(t *testing.T) {
	for _, leader := range []int32{1, 2} {
		w := newWorld(t, worldConfig{nodes: 2, brokers: 1})
		w.lead(leader)
		w.mu.Lock()
		w.stale, w.refuses[leader] = map[string]bool{"ours": true}, 1
		w.mu.Unlock()
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{"ours"}
		if r := do[*kmsg.DeleteGroupsResponse](dialPort(t, w.nodes[0].addr()), req, 2); r.Groups[0].ErrorCode != 69 {
			t.Errorf("leader %d: %+v", leader, r)
		}
	}
}

// TestTheOldLeadersWordIsWaitedFor: that leadership has moved is known before the old leader has said what it did.
func TestTheOldLeadersWordIsWaitedFor(t *testing.T) {
	for word, want := range map[string]int16{"not begun": 25, "unknown": 0, "": 0} {
		w := newWorld(t, worldConfig{nodes: 2, brokers: 1, config: func(c *Config) {
			waitLong(c)
			if c.lastWord = 30 * time.Second; word == "" {
				c.lastWord = time.Millisecond
			}
		}})
		w.hangs[2] = true
		w.lead(2)
		c := dialPort(t, w.nodes[0].addr())
		leave := beat("ours", "m", -1)
		c.send(c.encode(leave))
		hanging := func() *shard.Call {
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.hanging) == 0 {
				return nil
			}
			return w.hanging[0]
		}
		eventually(t, "it is at the leader", func() bool { return hanging() != nil })
		w.lead(1)
		if word != "" {
			call := hanging()
			call.Err = &coordinator.Error{Code: coordinator.NotCoordinator, NotStarted: word == "not begun"}
			call.Done.CallDone(call)
		}
		if r, err := c.receive(leave, c.corr); err != nil || r.(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode != want {
			t.Errorf("%q: %+v %v", word, r, err)
		}
	}
}

func TestALeaveThatWasNotSentIsNoRepeat(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, brokers: 1, config: waitLong})
	w.lead(0)
	c := dialPort(t, w.nodes[0].addr())
	leave := beat("ours", "m", -1)
	c.send(c.encode(leave))
	eventually(t, "it waits for a leader", func() bool { return testutil.ToFloat64(w.nodes[0].g.metrics.parked) == 1 })
	w.lead(1)
	if r, err := c.receive(leave, c.corr); err != nil || r.(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode != 25 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestARepeatedDeletionIsDone(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1})
	for _, version := range []int16{0, 2} {
		w.hold("ours")
		w.blind[2] = true
		w.unsure[1] = 0
		c := dialPort(t, w.nodes[0].addr())
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{"ours"}
		w.mu.Lock()
		w.unsure[1] = 1
		w.mu.Unlock()
		if r := do[*kmsg.DeleteGroupsResponse](c, req, version); r.Groups[0].ErrorCode != 0 {
			t.Errorf("v%d: %+v", version, r)
		}
	}
}

// TestACommitThatMayBeStoredIsNotRepeated: its client may have committed something newer since, which the repeat would undo, and its member
// may be gone, so that what was stored would be called refused. What no leader has begun with is repeated.
func TestACommitThatMayBeStoredIsNotRepeated(t *testing.T) {
	const notAvailable = 15
	for _, leader := range []int32{1, 2} { // at this node, and by the hop
		w := newWorld(t, worldConfig{nodes: 2, brokers: 1, topics: []string{"in"}})
		w.lead(leader)
		w.hold("ours")
		c := dialPort(t, w.nodes[0].addr())
		txn := kmsg.NewPtrTxnOffsetCommitRequest()
		txn.Group, txn.MemberID, txn.Generation = "ours", "m", 5
		txn.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "in", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: 3}}}}
		ask := func() (codes [2]int16) {
			codes[0] = do[*kmsg.OffsetCommitResponse](c, commit("ours", "in", [16]byte{}, 3), 9).Topics[0].Partitions[0].ErrorCode
			codes[1] = do[*kmsg.TxnOffsetCommitResponse](c, txn, 3).Topics[0].Partitions[0].ErrorCode
			return codes
		}
		calls := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			n := 0
			for _, call := range w.calls {
				if _, ok := call.(*offsets.CommitRequest); ok {
					n++
				}
			}
			return n
		}
		w.mu.Lock()
		w.unsure[leader] = 2
		w.mu.Unlock()
		if codes := ask(); codes != [2]int16{notAvailable, notAvailable} {
			t.Errorf("leader %d: codes %v of what may be done", leader, codes)
		}
		if n := calls(); n != 2 {
			t.Errorf("leader %d: %d attempts of 2 requests that may be done", leader, n)
		}
		for range 3 { // each is refused once, and made again
			w.mu.Lock()
			w.refuses[leader] = 1
			w.mu.Unlock()
			if r := do[*kmsg.OffsetCommitResponse](c, commit("ours", "in", [16]byte{}, 4), 9); r.Topics[0].Partitions[0].ErrorCode != 0 {
				t.Errorf("leader %d: what was not begun is answered with %+v", leader, r)
			}
		}
	}
}

// TestWhatIsOfOffsets: what changes committed offsets, and nothing else.
func TestWhatIsOfOffsets(t *testing.T) {
	for _, c := range []struct {
		req  kmsg.Request
		want bool
	}{
		{kmsg.NewPtrOffsetCommitRequest(), true},
		{kmsg.NewPtrTxnOffsetCommitRequest(), true},
		{kmsg.NewPtrOffsetDeleteRequest(), true},
		{kmsg.NewPtrOffsetFetchRequest(), false},
		{kmsg.NewPtrStreamsGroupHeartbeatRequest(), false},
	} {
		c.req.SetVersion(0)
		if got := ofOffsets(kmsg.NewRequestFormatter().AppendRequest(nil, c.req, 1)); got != c.want {
			t.Errorf("%T: %v", c.req, got)
		}
	}
	if ofOffsets([]byte{0, 0}) {
		t.Error("a frame that is none")
	}
}

// hangUp closes a client's connection and waits until its node can see that.
func hangUp(t *testing.T, g *Gateway, c *wire) {
	t.Helper()
	conns := g.connections()
	_ = c.nc.Close()
	eventually(t, "the end is seen", func() bool {
		for _, conn := range conns {
			if !conn.hungUp() {
				return false
			}
		}
		return true
	})
}

func TestWhatAClientAskedBeforeItWentIsNotDoneLate(t *testing.T) {
	for _, pipelined := range []bool{false, true} {
		w := newWorld(t, worldConfig{nodes: 1, brokers: 1, topics: []string{"in"}, config: waitLong})
		w.hold("ours")
		w.lead(0)
		g := w.nodes[0].g
		requests := []kmsg.Request{beat("ours", "m", 5), commit("ours", "in", [16]byte{}, 3)}
		if pipelined {
			requests = []kmsg.Request{commit("ours", "in", [16]byte{}, 3), beat("ours", "m", 5)}
		}
		for i, req := range requests {
			c := dialPort(t, w.nodes[0].addr())
			req.SetVersion(min(8, req.MaxVersion()))
			b := c.encode(req)
			if pipelined {
				b = append(b, c.encode(requests[1])...)
			}
			c.send(b)
			eventually(t, "it waits for a leader", func() bool { return testutil.ToFloat64(g.metrics.parked) == float64(i+1) })
			hangUp(t, g, c)
			if pipelined {
				break
			}
		}
		w.lead(1)
		eventually(t, "the connections end", func() bool { return len(g.connections()) == 0 })
		other := dialPort(t, w.nodes[0].addr())
		do[*kmsg.StreamsGroupHeartbeatResponse](other, beat("other", "m", 0), 1)
		g.Close() // and waits for all that runs
		if n := w.members("ours"); n != 0 {
			t.Errorf("the heartbeat of a client that had gone was taken")
		}
		for _, call := range w.calls {
			if _, ok := call.(*offsets.CommitRequest); ok {
				t.Errorf("the commit of a client that had gone was taken")
			}
		}
	}
}

func TestWhatWaitsForTheHopIsDroppedWithItsClient(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1})
	w.peers = make(chan struct{})
	w.lead(2)
	g := w.nodes[0].g
	c, d := dialPort(t, w.nodes[0].addr()), dialPort(t, w.nodes[0].addr())
	stays := beat("stays", "m", 0)
	d.send(d.encode(stays))
	c.send(c.encode(beat("goes", "m", 0)))
	eventually(t, "both wait for the connection to the leader", func() bool {
		g.hops.mu.Lock()
		h := g.hops.peers[2]
		g.hops.mu.Unlock()
		if h == nil {
			return false
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.queue) == 2
	})
	_ = c.nc.Close()
	eventually(t, "the client is gone", func() bool { return len(g.connections()) == 1 })
	close(w.peers)
	if r, err := d.receive(stays, d.corr); err != nil || r.(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode != 0 {
		t.Errorf("%+v %v", r, err)
	}
	if w.members("stays") != 1 || w.members("goes") != 0 {
		t.Errorf("stays %d, goes %d", w.members("stays"), w.members("goes"))
	}
}
