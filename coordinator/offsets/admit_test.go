package offsets

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/topology"
)

// topics are those that exist, with their partition counts.
type topics map[string]int32

func (t topics) Topic(name string) (topology.Topic, bool) {
	n, ok := t[name]
	return topology.Topic{Name: name, Partitions: n}, ok
}

func (t topics) Names() []string { return slices.Sorted(maps.Keys(t)) }

// result is the answer for a topic: partition, code pairs.
func result(topic string, partitionCodes ...int) CommitTopicResult {
	r := CommitTopicResult{Name: topic}
	for i := 0; i < len(partitionCodes); i += 2 {
		r.Partitions = append(r.Partitions, PartitionResult{int32(partitionCodes[i]), coordinator.Code(partitionCodes[i+1])})
	}
	return r
}

// commits makes a request with each topic once: topic, then its partitions.
func commits(topicPartitions ...any) (out []CommitTopic) {
	for _, x := range topicPartitions {
		switch x := x.(type) {
		case string:
			out = append(out, CommitTopic{Name: x})
		case int:
			t := &out[len(out)-1]
			t.Partitions = append(t.Partitions, CommitPartition{Partition: int32(x), Offset: 7})
		}
	}
	return out
}

// TestAdmit: which partitions of a commit go to the store, and what the others are answered (semantics of Kafka's
// KafkaApis.handleOffsetCommitRequest and of the group coordinator behind it).
func TestAdmit(t *testing.T) {
	t.Parallel()
	g := group(t)
	exist := topics{"in": 4, "both": 4, "rep": 4}
	const absent, unknownMember, stale, illegal, unsupported, large = 3, 25, 113, 22, 35, 12
	long := strings.Repeat("x", 11)
	withMetadata := func(list []CommitTopic) []CommitTopic {
		for i := range list {
			for j := range list[i].Partitions {
				list[i].Partitions[j].Metadata = &long
			}
		}
		return list
	}
	for _, c := range []struct {
		name    string
		req     CommitRequest
		topics  topology.Metadata
		kept    []CommitTopic
		refused []CommitTopicResult
	}{
		{"an allowed commit is the store's to judge", CommitRequest{Version: 9, MemberID: "a", MemberEpoch: 5, Topics: commits("in", 0, 9, "none", 0)}, exist,
			commits("in", 0, 9, "none", 0), nil},
		{"unknown member", CommitRequest{Version: 9, MemberID: "b", MemberEpoch: 5, Topics: commits("in", 0, 9, -1, "none", 0)}, exist,
			nil, []CommitTopicResult{result("in", 9, absent, -1, absent, 0, unknownMember), result("none", 0, absent)}},
		{"unknown member, nothing exists", CommitRequest{Version: 9, MemberID: "b", MemberEpoch: 5, Topics: commits("none", 0, 1)}, exist,
			nil, []CommitTopicResult{result("none", 0, absent, 1, absent)}},
		{"unknown member, all exist", CommitRequest{Version: 9, MemberID: "b", MemberEpoch: 5, Topics: commits("in", 0, "both", 3)}, exist,
			nil, []CommitTopicResult{result("in", 0, unknownMember), result("both", 3, unknownMember)}},
		{"nothing is known of topics", CommitRequest{Version: 9, MemberID: "b", MemberEpoch: 5, Topics: commits("none", 0)}, nil,
			nil, []CommitTopicResult{result("none", 0, unknownMember)}},
		{"newer epoch", CommitRequest{Version: 9, MemberID: "a", MemberEpoch: 6, Topics: commits("none", 0, "in", 0)}, exist,
			nil, []CommitTopicResult{result("none", 0, absent), result("in", 0, stale)}},
		{"old version", CommitRequest{Version: 8, MemberID: "a", MemberEpoch: 5, Topics: commits("none", 0, "in", 0)}, exist,
			nil, []CommitTopicResult{result("none", 0, absent), result("in", 0, unsupported)}},
		{"transactional", CommitRequest{Transactional: true, Version: 5, MemberID: "a", MemberEpoch: 6, Topics: commits("none", 0, "in", 0)}, exist,
			nil, []CommitTopicResult{result("none", 0, absent), result("in", 0, illegal)}},
		{"older epoch: what does not exist fails no other partition", CommitRequest{Version: 9, MemberID: "a", MemberEpoch: 2, Topics: commits("in", 0, 9, "none", 0)}, exist,
			commits("in", 0), []CommitTopicResult{result("in", 9, absent), result("none", 0, absent)}},
		{"older epoch, a partition that exists and is not the member's", CommitRequest{Version: 9, MemberID: "a", MemberEpoch: 2, Topics: commits("in", 0, 2, 9)}, exist,
			nil, []CommitTopicResult{result("in", 9, absent, 0, stale, 2, stale)}},
		{"long metadata", CommitRequest{Version: 9, MemberID: "a", MemberEpoch: 5, Topics: append(withMetadata(commits("in", 1, 9)), commits("both", 0)...)}, exist,
			commits("both", 0), []CommitTopicResult{result("in", 1, large, 9, absent)}},
		{"nothing but long metadata", CommitRequest{Version: 9, MemberID: "a", MemberEpoch: 5, Topics: withMetadata(commits("in", 1))}, exist,
			nil, []CommitTopicResult{result("in", 1, large)}},
		{"nothing", CommitRequest{Version: 9, MemberID: "a", MemberEpoch: 5}, exist, nil, nil},
		{"nothing, unknown member", CommitRequest{Version: 9, MemberID: "b", MemberEpoch: 5}, exist, nil, nil},
	} {
		c.req.GroupID = "g"
		before := cmp.Diff(CommitRequest{}, c.req)
		kept, refused := Admit(g, &c.req, c.topics, 10)
		var got []CommitTopic
		if kept != nil {
			got = kept.Topics
		}
		if d := cmp.Diff(c.kept, got); d != "" {
			t.Errorf("%s: kept (-want +got):\n%s", c.name, d)
		}
		if d := cmp.Diff(c.refused, refused); d != "" {
			t.Errorf("%s: refused (-want +got):\n%s", c.name, d)
		}
		if kept != nil && (kept.GroupID != "g" || kept.MemberID != c.req.MemberID || kept.MemberEpoch != c.req.MemberEpoch) {
			t.Errorf("%s: kept of another member: %+v", c.name, kept)
		}
		if cmp.Diff(CommitRequest{}, c.req) != before {
			t.Errorf("%s: the request was changed", c.name)
		}
	}
}

func TestAdmitDelete(t *testing.T) {
	t.Parallel()
	req := &DeleteRequest{GroupID: "g", Topics: []FetchTopic{
		{Name: "in", Partitions: []int32{0, 9}}, {Name: "unread", Partitions: []int32{0, 9}}, {Name: "rep", Partitions: []int32{1}}, {Name: "none", Partitions: []int32{0}},
	}}
	for name, c := range map[string]struct {
		topics  topology.Metadata
		kept    []FetchTopic
		refused []CommitTopicResult
	}{
		"topics known": {topics{"in": 4, "unread": 1}, []FetchTopic{{Name: "unread", Partitions: []int32{0}}},
			[]CommitTopicResult{result("in", 0, 86, 9, 3), result("unread", 9, 3), result("rep", 1, 3), result("none", 0, 3)}},
		"topics unknown": {nil, []FetchTopic{req.Topics[1], req.Topics[3]}, []CommitTopicResult{result("in", 0, 86, 9, 86), result("rep", 1, 86)}},
	} {
		kept, refused := AdmitDelete(group(t), req, c.topics)
		if d := cmp.Diff(c.kept, kept.Topics); d != "" || kept.GroupID != "g" {
			t.Errorf("%s: kept (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff(c.refused, refused); d != "" {
			t.Errorf("%s: refused (-want +got):\n%s", name, d)
		}
	}
}

func TestJoinedNamesEachTopicOnce(t *testing.T) {
	t.Parallel()
	id := CommitTopicResult{ID: [16]byte{1}, Partitions: []PartitionResult{{0, 0}}}
	got := Joined([]CommitTopicResult{result("a", 9, 3)}, []CommitTopicResult{result("b", 0, 0), result("a", 0, 0), id, result("b", 1, 0)})
	want := []CommitTopicResult{result("a", 9, 3, 0, 0), result("b", 0, 0, 1, 0), id}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestJoinedCostsWhatItTakes: a request of a few megabytes may name that many topics; looking each up among all others would
// stop its shard for hours.
func TestJoinedCostsWhatItTakes(t *testing.T) {
	const n = 200_000
	part, more := make([]CommitTopicResult, n), make([]CommitTopicResult, 2*n)
	for i := range part {
		part[i].Name = fmt.Sprint("a", i)
		more[2*i].Name, more[2*i+1].Name = fmt.Sprint("b", i), fmt.Sprint("b", i)
	}
	if got := Joined(part, more); len(got) != 2*n {
		t.Errorf("%d topics", len(got))
	}
}
