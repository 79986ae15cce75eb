package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/fsm/record"
)

// groupRecords make a group with members, at group epoch 1 and without a topology.
func groupRecords(group string, members int) []record.Record {
	records := []record.Record{{Key: record.Key{Type: record.TypeGroupMetadata, Group: group}, Value: &record.GroupMetadata{Epoch: 1}}}
	for i := range members {
		records = append(records, record.Record{
			Key:   record.Key{Type: record.TypeMemberMetadata, Group: group, Member: fmt.Sprint("m", i)},
			Value: &record.MemberMetadata{},
		})
	}
	return records
}

func metricsNode(t testing.TB, shards int, leads ...int) *Node {
	t.Helper()
	n := &Node{config: &config.Node{NodeID: 1, Shards: shards}, clock: newClock(nil), parts: Parts{Registry: prometheus.NewRegistry()}}
	n.measure()
	for i := range shards {
		n.shards = append(n.shards, newRunner(n, uint32(i)))
	}
	for _, i := range leads {
		n.shards[i].leader = 1
	}
	return n
}

func (n *Node) put(t testing.TB, shard int, records []record.Record) {
	t.Helper()
	state, err := n.shards[shard].replica.State().EvolveAll(records)
	if err != nil {
		t.Fatal(err)
	}
	n.shards[shard].replica.store(1, state)
}

func TestGroupsAreCountedByTheirLeader(t *testing.T) {
	n := metricsNode(t, 3, 0, 2)
	n.put(t, 0, groupRecords("empty", 0))
	n.put(t, 0, groupRecords("two", 2))
	n.put(t, 1, groupRecords("another's", 5))
	expect := func(empty, notReady, members int) {
		t.Helper()
		if err := testutil.GatherAndCompare(n.parts.Registry, strings.NewReader(fmt.Sprintf(`
# HELP coordd_groups Groups that this node coordinates, by protocol.
# TYPE coordd_groups gauge
coordd_groups{protocol="streams"} %d
# HELP coordd_streams_groups Streams groups that this node coordinates, by state.
# TYPE coordd_streams_groups gauge
coordd_streams_groups{state="Assigning"} 0
coordd_streams_groups{state="Dead"} 0
coordd_streams_groups{state="Empty"} %d
coordd_streams_groups{state="NotReady"} %d
coordd_streams_groups{state="Reconciling"} 0
coordd_streams_groups{state="Stable"} 0
# HELP coordd_shard_groups Groups of a shard, told by its leader.
# TYPE coordd_shard_groups gauge
coordd_shard_groups{shard="0"} %d
coordd_shard_groups{shard="2"} 0
# HELP coordd_shard_members Members of the groups of a shard, told by its leader.
# TYPE coordd_shard_members gauge
coordd_shard_members{shard="0"} %d
coordd_shard_members{shard="2"} 0
`, empty+notReady, empty, notReady, empty+notReady, members)), "coordd_groups", "coordd_streams_groups", "coordd_shard_groups", "coordd_shard_members"); err != nil {
			t.Error(err)
		}
	}
	expect(1, 1, 2)
	expect(1, 1, 2) // from what was counted before
	n.put(t, 0, groupRecords("more", 1))
	expect(1, 2, 3)
}

func TestHeldHeartbeatsAreCountedByTheLeader(t *testing.T) {
	n := metricsNode(t, 2, 1)
	n.shards[0].held.Store(4)
	n.shards[1].held.Store(3)
	if err := testutil.GatherAndCompare(n.parts.Registry, strings.NewReader(`
# HELP coordd_shard_held_heartbeats Heartbeats whose answers the leader of a shard holds back now.
# TYPE coordd_shard_held_heartbeats gauge
coordd_shard_held_heartbeats{shard="1"} 3
`), "coordd_shard_held_heartbeats"); err != nil {
		t.Error(err)
	}
}

func TestOffsetsAreCountedByPartition(t *testing.T) {
	n := metricsNode(t, 1)
	topics := []offsets.CommitTopicResult{
		{Partitions: []offsets.PartitionResult{{Code: 0}, {Code: 25}}}, {Partitions: []offsets.PartitionResult{{Code: 0}}},
	}
	n.measured.committed(&offsets.CommitResponse{Topics: topics})
	n.measured.committed(&offsets.CommitResponse{Topics: topics[1:]})
	n.measured.deleted(&offsets.DeleteResponse{Topics: topics})
	if c, d := testutil.ToFloat64(n.measured.commits), testutil.ToFloat64(n.measured.deletions); c != 3 || d != 2 {
		t.Errorf("%v commits, %v deletions", c, d)
	}
}

// BenchmarkScrape is the cost of the metrics of 10,000 groups, all of which changed since the last scrape.
func BenchmarkScrape(b *testing.B) {
	n := metricsNode(b, 8, 0, 1, 2, 3, 4, 5, 6, 7)
	for shard := range 8 {
		var records []record.Record
		for i := range 1250 {
			records = append(records, groupRecords(fmt.Sprint("group-", shard, "-", i), 2)...)
		}
		n.put(b, shard, records)
	}
	g := &groupMetrics{node: n}
	for b.Loop() {
		g.seen = map[uint32]census{}
		for shard := range uint32(8) {
			g.count(shard, n.shards[shard].replica.State())
		}
	}
}

func TestGroupsInGraceAreCountedByTheirLeader(t *testing.T) {
	n := metricsNode(t, 2, 0)
	since := func(group string, ms int64) record.Record {
		return record.Record{Key: record.Key{Type: record.TypeGroupTopics, Group: group}, Value: &record.GroupTopics{SinceMs: ms}}
	}
	n.put(t, 0, append(groupRecords("right", 1), since("right", 0)))
	n.put(t, 0, append(groupRecords("wrong", 1), since("wrong", 5)))
	n.put(t, 0, append(groupRecords("empty", 0), since("empty", 5)))
	n.put(t, 1, append(groupRecords("another's", 1), since("another's", 5)))
	if err := testutil.GatherAndCompare(n.parts.Registry, strings.NewReader(`
# HELP coordd_streams_groups_in_grace Streams groups that go on with the partition counts of before although their topics are missing or do not fit.
# TYPE coordd_streams_groups_in_grace gauge
coordd_streams_groups_in_grace 1
`), "coordd_streams_groups_in_grace"); err != nil {
		t.Error(err)
	}
}
