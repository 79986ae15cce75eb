package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator/offsets"
)

func TestRequestsOfOtherTypesForOwnGroups(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1})
	w.hold("ours")
	w.held["ours"].members["m"] = true
	c := dialPort(t, w.nodes[1].addr())
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType = "ours", "consumer"
	for _, member := range []string{"", "someone"} {
		join.MemberID = member
		if r := do[*kmsg.JoinGroupResponse](c, join, 5); r.ErrorCode != 23 || r.MemberID != "" {
			t.Errorf("member %q: %+v", member, r)
		}
	}
	consumer := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	consumer.Group = "ours"
	if r := do[*kmsg.ConsumerGroupHeartbeatResponse](c, consumer, 0); r.ErrorCode != 69 || *r.ErrorMessage != "Group ours is not a consumer group." {
		t.Errorf("%+v", r)
	}
	share := kmsg.NewPtrShareGroupHeartbeatRequest()
	share.GroupID = "ours"
	if r := do[*kmsg.ShareGroupHeartbeatResponse](c, share, 1); r.ErrorCode != 69 || *r.ErrorMessage != "Group ours is not a share group." {
		t.Errorf("%+v", r)
	}
	alter := kmsg.NewPtrAlterShareGroupOffsetsRequest()
	alter.GroupID = "ours"
	if r := do[*kmsg.AlterShareGroupOffsetsResponse](c, alter, 0); r.ErrorCode != 69 || *r.ErrorMessage != "Group ours is not a share group." {
		t.Errorf("%+v", r)
	}
	classic := kmsg.NewPtrDescribeGroupsRequest()
	classic.Groups = []string{"theirs", "ours"}
	if r := do[*kmsg.DescribeGroupsResponse](c, classic, 5); len(r.Groups) != 2 || r.Groups[1].State != "Dead" || r.Groups[1].ErrorCode != 0 || r.Groups[0].Group != "theirs" {
		t.Errorf("%+v", r)
	}
	classic.Groups = []string{"ours"}
	if r := do[*kmsg.DescribeGroupsResponse](c, classic, 6); r.Groups[0].State != "Dead" || r.Groups[0].ErrorCode != 69 || *r.Groups[0].ErrorMessage != "Group ours is not a classic group." {
		t.Errorf("%+v", r)
	}
	describe := kmsg.NewPtrConsumerGroupDescribeRequest()
	describe.Groups = []string{"ours"}
	if r := do[*kmsg.ConsumerGroupDescribeResponse](c, describe, 1); r.Groups[0].ErrorCode != 69 || *r.Groups[0].ErrorMessage != "Group ours is not a consumer group." {
		t.Errorf("%+v", r)
	}
}

// A new member of the classic protocol takes the place of a group without members; the request itself goes upstream. Where
// the node's replica lags behind the leader's decision, what the new member says next must go upstream, too.
func TestAClassicMemberTakesThePlaceOfAnEmptyGroup(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1})
	w.lead(2)
	for _, addr := range []string{w.nodes[0].addr(), w.nodes[0].brokerAddr(0), w.nodes[1].addr()} {
		group := "g-" + addr
		w.hold(group)
		c := dialPort(t, addr)
		join := kmsg.NewPtrJoinGroupRequest()
		join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = group, "consumer", 10_000, 10_000
		join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{}}}
		join.MemberID = "unknown"
		if r := do[*kmsg.JoinGroupResponse](c, join, 5); r.ErrorCode != 25 || r.MemberID != "unknown" {
			t.Fatalf("%s: a member id: %+v", addr, r)
		}
		join.MemberID = ""
		r := do[*kmsg.JoinGroupResponse](c, join, 5)
		if r.ErrorCode != 79 || r.MemberID == "" {
			t.Fatalf("%s: %+v", addr, r)
		}
		w.mu.Lock()
		gone := w.held[group] == nil
		if gone {
			w.stale = map[string]bool{group: true}
		}
		w.mu.Unlock()
		if !gone {
			t.Errorf("%s: the group is still there", addr)
		}
		join.MemberID = r.MemberID
		if r := do[*kmsg.JoinGroupResponse](c, join, 5); r.ErrorCode != 0 || r.LeaderID != join.MemberID {
			t.Errorf("%s: %+v", addr, r)
		}
		before := len(w.calls)
		m := commit(group, "in", [16]byte{}, 3)
		m.MemberID, m.Generation = join.MemberID, 1
		if r := do[*kmsg.OffsetCommitResponse](c, m, 8); len(w.calls) != before {
			t.Errorf("%s: the member's commit was asked for here: %+v", addr, r)
		}
		// Another connection knows nothing of it, and asks the leader.
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.Group, beat.MemberID, beat.Generation = group, join.MemberID, 1
		if r := do[*kmsg.HeartbeatResponse](dialPort(t, addr), beat, 4); r.ErrorCode != 0 && r.ErrorCode != 27 {
			t.Errorf("%s: %+v", addr, r)
		}
		describe := kmsg.NewPtrDescribeGroupsRequest()
		describe.Groups = []string{group}
		if r := do[*kmsg.DescribeGroupsResponse](dialPort(t, addr), describe, 5); len(r.Groups) != 1 || r.Groups[0].State == "Dead" || len(r.Groups[0].Members) != 1 {
			t.Errorf("%s: %+v", addr, r)
		}
		deleteOffsets := kmsg.NewPtrOffsetDeleteRequest()
		deleteOffsets.Group = group
		do[*kmsg.OffsetDeleteResponse](dialPort(t, addr), deleteOffsets, 0)
		w.mu.Lock()
		for _, call := range w.calls {
			if _, ok := call.(*offsets.DeleteRequest); ok {
				t.Errorf("%s: offsets of a group that is the upstream's are to be deleted here", addr)
			}
		}
		w.mu.Unlock()
		deleteGroup := kmsg.NewPtrDeleteGroupsRequest()
		deleteGroup.Groups = []string{group}
		if r := do[*kmsg.DeleteGroupsResponse](dialPort(t, addr), deleteGroup, 2); len(r.Groups) != 1 || r.Groups[0].ErrorCode != 68 {
			t.Errorf("%s: %+v", addr, r)
		}
	}
}

// A join that could not come to anything upstream takes no place.
func TestAGroupStaysWhereTheUpstreamCannotTakeTheJoin(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, brokers: 1})
	w.hold("ours")
	w.kafka.Close()
	c := dialPort(t, w.nodes[0].addr())
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType = "ours", "consumer"
	join.Version = 5
	c.send(c.encode(join))
	if r, err := c.receive(join, c.corr); err == nil && r.(*kmsg.JoinGroupResponse).ErrorCode != 15 {
		t.Errorf("%+v", r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held["ours"] == nil {
		t.Error("the group is gone")
	}
}

// A list that lacks the groups of a shard would look whole.
func TestListGroupsWithoutALeaderIsRefused(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, brokers: 1, config: func(c *Config) { c.ParkTime = 20 * time.Millisecond }})
	w.hold("ours")
	c := dialPort(t, w.nodes[0].addr())
	list := kmsg.NewPtrListGroupsRequest()
	for _, states := range [][]string{nil, {"STABLE"}, {"stable"}} {
		list.StatesFilter = states
		if r := do[*kmsg.ListGroupsResponse](c, list, 5); r.ErrorCode != 0 || len(r.Groups) != 1 {
			t.Errorf("%v: %+v", states, r)
		}
	}
	w.lead(0)
	if r := do[*kmsg.ListGroupsResponse](c, list, 5); r.ErrorCode != 15 || len(r.Groups) != 0 {
		t.Errorf("%+v", r)
	}
}

// What stands upstream for a group of ours is not listed, also where the node's replica lags: the offsets of a classic group
// that became a streams group, and coordd's own membership. Other groups are.
func TestAnUpstreamBrokersListHasNoGroupsOfOurs(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1, topics: []string{"in"}})
	ctx := context.Background()
	for _, group := range []string{"ours", "theirs"} {
		var at kadm.Offsets
		at.AddOffset("in", 0, 5, -1)
		if _, err := w.admin.CommitOffsets(ctx, group, at); err != nil {
			t.Fatal(err)
		}
	}
	upstream := dialPort(t, w.kafka.ListenAddrs()[0])
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = "claimed", "coordd", 10_000, 10_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "offsets", Metadata: []byte{}}}
	if r := do[*kmsg.JoinGroupResponse](upstream, join, 3); r.ErrorCode != 0 {
		t.Fatalf("%+v", r)
	}
	w.hold("ours")
	for _, lags := range []bool{false, true} {
		w.mu.Lock()
		w.blind[2] = lags
		w.mu.Unlock()
		for _, v := range []int16{3, 4, 5} {
			r := do[*kmsg.ListGroupsResponse](dialPort(t, w.nodes[1].brokerAddr(0)), kmsg.NewPtrListGroupsRequest(), v)
			if r.ErrorCode != 0 || len(r.Groups) != 1 || r.Groups[0].Group != "theirs" {
				t.Errorf("v%d, replica lags %v: %+v", v, lags, r)
			}
		}
	}
}
