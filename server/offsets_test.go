package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
	"github.com/coordd/coordd/web"
)

// readingGroup has one member, with the task 0_1 of a source and the task 1_0 of a repartition topic that it is giving up.
func readingGroup(t *testing.T) *fsm.Group {
	t.Helper()
	tasks := func(subtopology string, partition int32) topology.Tasks {
		var b topology.TasksBuilder
		b.Add(topology.Task{Subtopology: subtopology, Partition: partition})
		list, _ := b.Build()
		return list
	}
	key := func(kind record.Type) record.Key { return record.Key{Type: kind, Group: "g", Member: "m"} }
	group := func(kind record.Type) record.Key { return record.Key{Type: kind, Group: "g"} }
	state, err := fsm.State{}.EvolveAll([]record.Record{
		{Key: key(record.TypeMemberMetadata), Value: &record.MemberMetadata{ClientID: "c", ClientHost: "/h"}},
		{Key: group(record.TypeGroupMetadata), Value: &record.GroupMetadata{Epoch: 1}},
		{Key: group(record.TypeTopology), Value: &record.Topology{Topology: topology.Topology{Subtopologies: []topology.Subtopology{
			{ID: "0", SourceTopics: []string{"in"}, SourceTopicRegex: []string{"eu-.*"}, RepartitionSinkTopics: []string{"r"}},
			{ID: "1", RepartitionSourceTopics: []topology.InternalTopic{{Name: "r"}}},
		}}}},
		{Key: key(record.TypeCurrentAssignment), Value: &record.CurrentAssignment{MemberEpoch: 1,
			Assigned: topology.Assignment{Active: tasks("0", 1)}, Revoking: topology.Assignment{Active: tasks("1", 0)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return state.Group("g")
}

func rowText(p web.PartitionOffsets) string {
	text := fmt.Sprintf("%s %s/%d %s %d", p.Subtopology, p.Topic, p.Partition, p.Kind, p.Committed)
	if p.Member != "" {
		text += " " + p.Member + " " + p.ClientID + p.Host
	}
	if p.Problem != "" {
		text += ": " + p.Problem
	}
	return text
}

func TestOffsetsAreListedByTask(t *testing.T) {
	g := readingGroup(t)
	at := func(topic string, partition int32) offsets.TopicPartition {
		return offsets.TopicPartition{Topic: topic, Partition: partition}
	}
	committed := map[offsets.TopicPartition]offsets.FetchedOffset{
		at("in", 0): {Partition: 0, Offset: 5}, at("r", 0): {Partition: 0, Offset: 7}, at("eu-a", 0): {Partition: 0, Offset: -1, Code: coordinator.UnstableOffsetCommit},
		at("old", 3): {Partition: 3, Offset: 1}, at("in", 9): {Partition: 9, Offset: 2}, at("none", 0): {Partition: 0, Offset: -1},
	}
	for name, test := range map[string]struct {
		topics topology.Metadata
		want   []string
		notes  []string
	}{
		"all there": {topicCounts{"in": 2, "r": 1, "eu-a": 1, "us": 5}, []string{
			"0 eu-a/0 source -1: a transaction of the app is open on it; it ends by itself within the app's transaction.timeout.ms",
			"0 in/0 source 5", "0 in/1 source -1 m c/h", "1 r/0 repartition 7 m c/h", " in/9 other 2", " old/3 other 1"}, nil},
		"repartition topic missing": {topicCounts{"in": 1}, []string{"0 in/0 source 5", " in/9 other 2", " old/3 other 1", " r/0 other 7"}, []string{"topic r does not exist"}},
		"nothing known": {nil, []string{" in/0 other 5", " in/9 other 2", " old/3 other 1", " r/0 other 7"},
			[]string{"the topics of the Kafka cluster behind are not known yet"}},
	} {
		rows := groupPartitions(g, test.topics, committed)
		var got []string
		for _, p := range rows.list {
			got = append(got, rowText(p))
		}
		if diff := cmp.Diff(test.want, got); diff != "" || !slices.Equal(rows.notes, test.notes) {
			t.Errorf("%s: %s\n%q", name, diff, rows.notes)
		}
	}
}

func TestResetsAreChecked(t *testing.T) {
	good := web.ResetRequest{Group: "g", Offsets: []web.NewOffset{{Topic: "in", Partition: 0, Before: -1, Offset: 3}, {Topic: "in", Partition: 1, Before: 4, Offset: -1}}}
	if err := checkReset(&good); err != nil {
		t.Error(err)
	}
	for says, bad := range map[string]web.ResetRequest{
		"group id is empty": {}, "stands twice": {Group: "g", Offsets: []web.NewOffset{{Topic: "in"}, {Topic: "in"}}},
		"partition -1": {Group: "g", Offsets: []web.NewOffset{{Topic: "in", Partition: -1}}}, `topic ""`: {Group: "g", Offsets: []web.NewOffset{{}}},
		"offsets 0 and -2": {Group: "g", Offsets: []web.NewOffset{{Topic: "in", Offset: -2}}},
	} {
		var refused *web.Refusal
		if err := checkReset(&bad); !errors.As(err, &refused) || refused.Kind != web.NotAllowed || !strings.Contains(refused.Text, says) {
			t.Errorf("%q: %v", says, err)
		}
	}
	failed := partlyReset(web.Refuse(web.Conflict, "x"), 2, 5)
	if failed.Error() != "x; 2 of 5 partitions have their new offset" {
		t.Error(failed)
	}
	if moved := web.Refuse(web.Elsewhere, "x"); !errors.Is(partlyReset(moved, 2, 5), moved) {
		t.Error("a leadership that moved on ends the reset")
	}
}
