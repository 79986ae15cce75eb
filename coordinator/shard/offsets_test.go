package shard

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
)

// TestAnswersOfTheStoreAndOfTheRulesAreOne: partitions that never reach the store are answered with the others, each topic
// once.
func TestAnswersOfTheStoreAndOfTheRulesAreOne(t *testing.T) {
	r := newRig(t)
	h := r.joined("g", "a")
	long := strings.Repeat("x", 4097)
	request := commit("g", "a", h.MemberEpoch)
	request.Topics[0].Partitions = append(request.Topics[0].Partitions, offsets.CommitPartition{Partition: 1, Metadata: &long}, offsets.CommitPartition{Partition: 9, Metadata: &long})
	c, a := r.send(request)
	r.commitAll()
	r.Claimed(r.now, "g", nil)
	if len(r.commits) != 1 || len(r.commits[0].Topics[0].Partitions) != 1 {
		t.Fatalf("the store got %+v", r.commits)
	}
	r.stored()
	want := []offsets.CommitTopicResult{{Name: "in", Partitions: []offsets.PartitionResult{{Partition: 1, Code: 12}, {Partition: 9, Code: 3}, {Partition: 0}}}}
	if !a.done {
		t.Fatal("not answered")
	}
	if d := cmp.Diff(want, c.Response.(*offsets.CommitResponse).Topics); d != "" {
		t.Error(d)
	}

	r.topics["unread"] = 1
	c, a = r.send(&offsets.DeleteRequest{GroupID: "g", Topics: []offsets.FetchTopic{{Name: "in", Partitions: []int32{0, 9}}, {Name: "unread", Partitions: []int32{0}}}})
	if len(r.ops) != 1 {
		t.Fatalf("%d operations of the store", len(r.ops))
	}
	r.StoreDone(r.now, r.ops[0], &offsets.DeleteResponse{Topics: []offsets.CommitTopicResult{{Name: "unread", Partitions: []offsets.PartitionResult{{Partition: 0}}}}})
	want = []offsets.CommitTopicResult{
		{Name: "in", Partitions: []offsets.PartitionResult{{Partition: 0, Code: 86}, {Partition: 9, Code: 3}}}, {Name: "unread", Partitions: []offsets.PartitionResult{{Partition: 0}}},
	}
	if !a.done {
		t.Fatal("not answered")
	}
	if d := cmp.Diff(want, c.Response.(*offsets.DeleteResponse).Topics); d != "" {
		t.Error(d)
	}
}

// TestCommitsOfStrangersWithoutTopics: what does not exist is answered with that, whoever asks; before the first picture of
// the upstream's topics nothing counts as missing.
func TestCommitsOfStrangersWithoutTopics(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	codes := func() []offsets.CommitTopicResult {
		request := commit("g", "nobody", 1)
		request.Topics = append(request.Topics, offsets.CommitTopic{Name: "none", Partitions: []offsets.CommitPartition{{Partition: 0}}})
		c, a := r.send(request)
		if !a.done {
			t.Fatal("not answered")
		}
		return c.Response.(*offsets.CommitResponse).Topics
	}
	one := func(topic string, code int) offsets.CommitTopicResult {
		return offsets.CommitTopicResult{Name: topic, Partitions: []offsets.PartitionResult{{Partition: 0, Code: coordinator.Code(code)}}}
	}
	if d := cmp.Diff([]offsets.CommitTopicResult{one("none", 3), one("in", 25)}, codes()); d != "" {
		t.Error(d)
	}
	r.topics, r.changes = topics{}, 0 // version 0
	if d := cmp.Diff([]offsets.CommitTopicResult{one("in", 25), one("none", 25)}, codes()); d != "" {
		t.Error(d)
	}
}
