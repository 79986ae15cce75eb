package gateway

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/protocol"
)

// groupRequests has one request of each kind about a group of ours, except those that end it.
func groupRequests(group string, topic [16]byte) []kmsg.Request {
	instance := "i"
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Group = group
	fetch.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "in", Partitions: []int32{0}}}
	of := kmsg.NewOffsetFetchRequestGroup()
	of.Group = group
	of.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "in", TopicID: topic, Partitions: []int32{0}}}
	fetch.Groups = []kmsg.OffsetFetchRequestGroup{of}
	txn := kmsg.NewPtrTxnOffsetCommitRequest()
	txn.TransactionalID, txn.Group, txn.Generation = "tx", group, 5
	txn.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "in", TopicID: topic, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: 99}}}}
	remove := kmsg.NewPtrOffsetDeleteRequest()
	remove.Group = group
	remove.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "in", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
	describe := kmsg.NewPtrStreamsGroupDescribeRequest()
	describe.Groups = []string{group}
	classic := kmsg.NewPtrDescribeGroupsRequest()
	classic.Groups = []string{group}
	consumers := kmsg.NewPtrConsumerGroupDescribeRequest()
	consumers.Groups = []string{group}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorKeys = group, []string{group}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.InstanceID = group, "consumer", &instance
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group = group
	heartbeat := kmsg.NewPtrHeartbeatRequest()
	heartbeat.Group, heartbeat.MemberID = group, "m"
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = group, "m"
	leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: "m"}}
	consumer := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	consumer.Group = group
	return []kmsg.Request{
		beat(group, "m", 0), commit(group, "in", topic, 7), txn, fetch, remove, describe, classic, consumers, find, join, sync, heartbeat, leave, consumer,
	}
}

// TestEveryGroupRequestIsServedByEveryNode: clients keep the address of a coordinator, some for ever. Whatever they ask about a
// group, in every version, a node that does not lead it (any more) answers what the leader does, also where its replica lags.
func TestEveryGroupRequestIsServedByEveryNode(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1, topics: []string{"in"}})
	w.hold("ours")
	w.held["ours"].members["m"] = true
	w.lead(2)
	asked := 0
	for _, lags := range []bool{false, true} {
		w.mu.Lock()
		w.blind[1] = lags
		w.mu.Unlock()
		leader, follower := dialPort(t, w.nodes[1].addr()), dialPort(t, w.nodes[0].addr())
		for _, req := range groupRequests("ours", w.image.ids["in"]) {
			api, _ := protocol.Lookup(req.Key())
			for v := api.Min; v <= min(api.Max, req.MaxVersion()); v++ {
				want, got := do[kmsg.Response](leader, req, v), do[kmsg.Response](follower, req, v)
				if !bytes.Equal(want.AppendTo(nil), got.AppendTo(nil)) {
					t.Errorf("%s v%d, the replica lags %v: %+v, the leader says %+v", api.Name, v, lags, got, want)
				}
				asked++
			}
		}
	}
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = []string{"ours"}
	if r := do[*kmsg.DeleteGroupsResponse](dialPort(t, w.nodes[0].addr()), remove, 2); r.Groups[0].ErrorCode != 0 || w.held["ours"] != nil {
		t.Errorf("%+v", r)
	}
	if asked < 100 {
		t.Errorf("only %d requests", asked)
	}
}

// TestOneShardsTroubleIsItsGroups: of several groups in one request those of a shard without a leader have an error, in their
// place; the others are answered.
func TestOneShardsTroubleIsItsGroups(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1, topics: []string{"in"}, config: func(c *Config) { c.ParkTime = 20 * time.Millisecond }})
	var ids []string
	troubled := map[string]bool{}
	shards := fakeCoords{w, 1}
	for i := range 10 {
		id := fmt.Sprintf("ours-%d", i)
		ids = append(ids, id)
		w.hold(id)
		troubled[id] = shards.Shard(id) == shards.Shard(ids[0])
	}
	ids = append(ids, "nobody's")
	w.mu.Lock()
	w.leaders[shards.Shard(ids[0])] = 0
	w.mu.Unlock()
	if shards.Shard("nobody's") == shards.Shard(ids[0]) {
		t.Fatal("choose another name")
	}
	check := func(node int, what string, got []string, codes []int16) {
		t.Helper()
		if !slices.Equal(got, ids) {
			t.Errorf("node %d: %s names %v", node, what, got)
			return
		}
		for i, id := range ids {
			want := int16(0)
			switch {
			case troubled[id]:
				want = 15
			case id == "nobody's":
				want = 69
			}
			if codes[i] != want {
				t.Errorf("node %d: %s: %s has code %d, want %d", node, what, id, codes[i], want)
			}
		}
	}
	for i, n := range w.nodes {
		c := dialPort(t, n.addr())
		describe := kmsg.NewPtrStreamsGroupDescribeRequest()
		describe.Groups = ids
		var got []string
		var codes []int16
		for _, g := range do[*kmsg.StreamsGroupDescribeResponse](c, describe, 1).Groups {
			got, codes = append(got, g.Group), append(codes, g.ErrorCode)
		}
		check(i, "describe", got, codes)
	}
	c := dialPort(t, w.nodes[1].addr())
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = ids
	var got []string
	var codes []int16
	for _, g := range do[*kmsg.DeleteGroupsResponse](c, remove, 2).Groups {
		got, codes = append(got, g.Group), append(codes, g.ErrorCode)
	}
	check(1, "delete", got, codes)
}
