package offsets

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
)

// A batch of __consumer_offsets holds no more than 1,048,588 bytes: 255 partitions with metadata of 4096 bytes are too many.
func TestACommitIsNoLargerThanABatch(t *testing.T) {
	text, long := strings.Repeat("x", 4096), strings.Repeat("x", 4097)
	request := func(count int32) *CommitRequest {
		req := &CommitRequest{Version: 9, GroupID: "g", MemberID: "a", MemberEpoch: 5, Topics: []CommitTopic{{Name: "in"}, {Name: "none", Partitions: []CommitPartition{{}}}}}
		for p := range count {
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, CommitPartition{Partition: p, Metadata: &text})
		}
		return req
	}
	w := world()
	topics := w.Topics.(images)
	in := topics["in"]
	in.Partitions = 1000
	topics["in"] = in
	kept, refused := AdmitLogged(group(t), request(250), w.Topics, 4096)
	if kept == nil || len(kept.Topics[0].Partitions) != 250 || len(refused) != 1 {
		t.Errorf("%+v %+v", kept, refused)
	}
	req := request(255)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, CommitPartition{Partition: 999, Metadata: &long})
	kept, refused = AdmitLogged(group(t), req, w.Topics, 4096)
	counts := map[coordinator.Code]int{}
	for _, topic := range refused {
		for _, p := range topic.Partitions {
			counts[p.Code]++
		}
	}
	want := map[coordinator.Code]int{coordinator.UnknownTopicOrPartition: 1, coordinator.OffsetMetadataTooLarge: 1, coordinator.InvalidCommitOffsetSize: 255}
	if d := cmp.Diff(want, counts); d != "" || kept != nil {
		t.Error(d, kept)
	}
	// Who may not commit is told so, however large the commit is.
	req.MemberEpoch = 3
	if _, refused := AdmitLogged(group(t), req, w.Topics, 4096); refused[len(refused)-1].Partitions[0].Code != coordinator.StaleMemberEpoch {
		t.Errorf("%+v", refused[len(refused)-1])
	}
}

// Offsets that go elsewhere go in parts of so many partitions and bytes, each of them once.
func TestPartsOfACopy(t *testing.T) {
	var records []record.Record
	for topic := range 3 {
		for p := range int32(40) {
			records = append(records, offset(fmt.Sprint("t", topic), p, record.OffsetCommit{LeaderEpoch: -1, Metadata: strings.Repeat("m", 1000*int(p%3))}))
		}
	}
	g := with(t, group(t), records...)
	for _, c := range []struct{ limit, bytes, most int }{{10, 1 << 20, 10}, {1000, 10_000, 30}, {1000, 1, 1}} {
		seen := map[TopicPartition]bool{}
		for _, req := range AsCommits(g, world(), c.limit, c.bytes) {
			count := 0
			for _, topic := range req.Topics {
				for _, p := range topic.Partitions {
					count++
					seen[TopicPartition{Topic: topic.Name, Partition: p.Partition}] = true
				}
			}
			if count > c.most || count > 1 && CommitBytes(req) > c.bytes {
				t.Errorf("%+v: a part of %d partitions and %d bytes", c, count, CommitBytes(req))
			}
		}
		if len(seen) != 120 {
			t.Errorf("%+v: %d partitions", c, len(seen))
		}
	}
}

func TestHalves(t *testing.T) {
	at := func(partitions ...int32) (list []CommitPartition) {
		for _, p := range partitions {
			list = append(list, CommitPartition{Partition: p})
		}
		return list
	}
	part := func(topics ...CommitTopic) *CommitRequest {
		return &CommitRequest{GroupID: "g", MemberEpoch: -1, Topics: topics}
	}
	for _, c := range []struct {
		req  *CommitRequest
		want [2]*CommitRequest
		ok   bool
	}{
		{part(), [2]*CommitRequest{}, false},
		{part(CommitTopic{Name: "a", Partitions: at(1)}), [2]*CommitRequest{}, false},
		{part(CommitTopic{Name: "a", Partitions: at(1, 2, 3)}, CommitTopic{Name: "b", Partitions: at(4)}),
			[2]*CommitRequest{part(CommitTopic{Name: "a", Partitions: at(1, 2)}), part(CommitTopic{Name: "a", Partitions: at(3)}, CommitTopic{Name: "b", Partitions: at(4)})}, true},
		{part(CommitTopic{Name: "a", Partitions: at(1)}, CommitTopic{Name: "b", Partitions: at(4)}),
			[2]*CommitRequest{part(CommitTopic{Name: "a", Partitions: at(1)}), part(CommitTopic{Name: "b", Partitions: at(4)})}, true},
	} {
		got, ok := Halves(c.req)
		if d := cmp.Diff(c.want, got); d != "" || ok != c.ok {
			t.Error(d, ok)
		}
	}
}

// What is written to the log of a copy is written in parts that are no larger than commits.
func TestPartsOfACopyToTheLog(t *testing.T) {
	g := with(t, group(t), offset("gone", 0, record.OffsetCommit{LeaderEpoch: -1}))
	c := Copy{}
	for p := range int32(400) {
		c[TopicPartition{Topic: "in", Partition: p}] = Copied{Offset: int64(p), LeaderEpoch: -1, Metadata: strings.Repeat("m", 4096)}
	}
	for _, limit := range []int{100, 1000} {
		var all []record.Record
		for _, part := range c.Records(g, world(), limit) {
			size := 0
			for _, r := range part {
				size += record.Size(r)
			}
			if len(part) == 0 || len(part) > limit || size > MaxCommitBytes {
				t.Errorf("a part of %d records and %d bytes", len(part), size)
			}
			all = append(all, part...)
		}
		if len(all) != 401 || all[0].Value != nil {
			t.Errorf("%d records, the first %+v", len(all), all[0].Key)
		}
	}
	if parts := (Copy{}).Records(with(t, group(t)), world(), 10); len(parts) != 0 {
		t.Errorf("%d parts of nothing", len(parts))
	}
}
