package gateway

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/shard"
)

// asked counts what shards were asked about offsets, and whether they hold groups.
func (w *world) asked() (commits, holds int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, call := range w.calls {
		switch call.(type) {
		case *offsets.CommitRequest:
			commits++
		case *shard.HoldsRequest:
			holds++
		}
	}
	return commits, holds
}

// A shard that makes groups in the log must know of commits that could hinder one; those of members of other groups are none.
func TestCommitsWithoutAMemberGoThroughAShardThatLogsOffsets(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1, topics: []string{"in"}})
	for _, logs := range []bool{false, true} {
		w.mu.Lock()
		w.logs = logs
		w.mu.Unlock()
		want := 0
		if logs {
			want = 1
		}
		for _, n := range w.nodes { // node 1 leads: the other goes by the hop
			for _, addr := range []string{n.addr(), n.brokerAddr(0)} {
				c := dialPort(t, addr)
				through := func(what string, want int, request func()) {
					t.Helper()
					before, _ := w.asked()
					request()
					if after, _ := w.asked(); after-before != want {
						t.Errorf("logs %v, %s: %s: %d commits at the shard, want %d", logs, addr, what, after-before, want)
					}
				}
				through("a tool", want, func() {
					m := commit("theirs", "in", [16]byte{}, 7)
					m.MemberID, m.Generation = "", -1
					if r := do[*kmsg.OffsetCommitResponse](c, m, 8); r.Topics[0].Partitions[0].ErrorCode != 0 {
						t.Errorf("%+v", r)
					}
				})
				through("a producer", want, func() {
					txn := kmsg.NewPtrTxnOffsetCommitRequest()
					txn.TransactionalID, txn.Group, txn.Generation = "tx", "theirs", -1
					txn.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "in", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: 99}}}}
					do[*kmsg.TxnOffsetCommitResponse](c, txn, 3)
				})
				through("a member", 0, func() { do[*kmsg.OffsetCommitResponse](c, commit("theirs", "in", [16]byte{}, 7), 8) })
			}
		}
	}
}

// fetched is the offset of partition 0 of "in" as a connection is told it, by a request for one group or for several.
func fetched(c *wire, group string, version int16) int64 {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "in", Partitions: []int32{0}}}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "in", Partitions: []int32{0}}}
	req.Groups = []kmsg.OffsetFetchRequestGroup{g}
	r := do[*kmsg.OffsetFetchResponse](c, req, version)
	if version >= 8 {
		return r.Groups[0].Topics[0].Partitions[0].Offset
	}
	return r.Topics[0].Partitions[0].Offset
}

// A group that is made in the log is served by its shard from then on, also to a connection that was just told that there is none, at a
// node that lags.
func TestAGroupInTheLogIsNotTakenForTheUpstreams(t *testing.T) {
	for _, version := range []int16{7, 8} {
		for what, before := range map[string]func(w *world, c *wire){
			"asked before": func(*world, *wire) {},
			"asked a leader that keeps offsets upstream": func(w *world, c *wire) {
				w.logs = false
				fetched(c, "g", version)
				w.mu.Lock()
				w.logs = true
				w.mu.Unlock()
				w.lead(2)
			},
			"made room for a classic group": func(w *world, c *wire) {
				w.hold("g")
				join := kmsg.NewPtrJoinGroupRequest()
				join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = "g", "consumer", 10_000, 10_000
				join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{}}}
				if r := do[*kmsg.JoinGroupResponse](c, join, 5); r.ErrorCode != 79 {
					t.Errorf("%+v", r)
				}
			},
		} {
			w := newWorld(t, worldConfig{nodes: 3, brokers: 1, topics: []string{"in"}})
			w.logs, w.blind[3] = true, true
			c := dialPort(t, w.nodes[2].brokerAddr(0))
			before(w, c)
			if got := fetched(c, "g", version); got != -1 {
				t.Fatalf("%s, v%d: %d", what, version, got)
			}
			w.hold("g")
			w.mu.Lock()
			w.held["g"].offsets["in"] = map[int32]int64{0: 7}
			w.mu.Unlock()
			if got := fetched(c, "g", version); got != 7 {
				t.Errorf("%s, v%d: %d", what, version, got)
			}
			m := commit("g", "in", [16]byte{}, 8)
			if r := do[*kmsg.OffsetCommitResponse](c, m, 8); r.Topics[0].Partitions[0].ErrorCode != 0 || w.held["g"].offsets["in"][0] != 8 {
				t.Errorf("%s: %+v", what, r)
			}
		}
	}
}

// The same holds for who deletes offsets: the upstream would say that they are gone.
func TestOffsetsOfAGroupInTheLogAreDeletedThere(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 3, brokers: 1, topics: []string{"in"}})
	w.logs, w.blind[3] = true, true
	c := dialPort(t, w.nodes[2].brokerAddr(0))
	if got := fetched(c, "g", 8); got != -1 {
		t.Fatal(got)
	}
	w.hold("g")
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = "g"
	req.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "in", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
	do[*kmsg.OffsetDeleteResponse](c, req, 0)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, call := range w.calls {
		if r, ok := call.(*offsets.DeleteRequest); ok && r.GroupID == "g" {
			return
		}
	}
	t.Error("the shard was not asked")
}

// Where offsets are kept upstream a connection asks for a group once.
func TestAnotherGroupIsAskedForOnceWhereOffsetsAreUpstream(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1, topics: []string{"in"}})
	c := dialPort(t, w.nodes[1].brokerAddr(0))
	for range 3 {
		fetched(c, "theirs", 7)
		do[*kmsg.OffsetCommitResponse](c, commit("theirs", "in", [16]byte{}, 7), 8)
	}
	if commits, holds := w.asked(); commits != 0 || holds != 1 {
		t.Errorf("%d commits, asked %d times", commits, holds)
	}
}
