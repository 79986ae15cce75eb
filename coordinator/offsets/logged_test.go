package offsets

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// images are topics by name, in no order.
type images map[string]topology.Topic

func (m images) Topic(name string) (topology.Topic, bool) { t, ok := m[name]; return t, ok }
func (m images) Names() []string                          { return nil }

var (
	idA = [16]byte{0xa}
	idB = [16]byte{0xb}
)

// world has topic "in" with 4 partitions and id A, and "old" with 2 and none, as of 1000, at 2000.
func world() *World {
	return &World{Now: 2000, TopicsAsOf: 1000, TopicsCurrent: true, Topics: images{
		"in": {Name: "in", ID: idA, Partitions: 4}, "old": {Name: "old", Partitions: 2},
	}}
}

func text(s string) *string { return &s }

// with adds offsets to the group.
func with(t *testing.T, g *fsm.Group, records ...record.Record) *fsm.Group {
	t.Helper()
	s := fsm.NewState()
	for _, r := range [][]record.Record{groupRecords(g), records} {
		var err error
		if s, err = s.EvolveAll(r); err != nil {
			t.Fatal(err)
		}
	}
	return s.Group(g.ID)
}

// groupRecords are the records of a group.
func groupRecords(g *fsm.Group) []record.Record {
	records := []record.Record{{Key: record.Key{Type: record.TypeOffsetsStore, Group: g.ID}, Value: &record.OffsetsStore{Store: record.StoreRaft}}}
	add := func(typ record.Type, member string, v record.Value) {
		records = append(records, record.Record{Key: record.Key{Type: typ, Group: g.ID, Member: member}, Value: v})
	}
	if g.Topology != nil {
		add(record.TypeTopology, "", &record.Topology{Topology: *g.Topology})
	}
	if g.Metadata != nil {
		add(record.TypeGroupMetadata, "", g.Metadata)
	}
	for m := range g.Members() {
		add(record.TypeMemberMetadata, m.ID, m.Meta)
		add(record.TypeCurrentAssignment, m.ID, m.Current)
	}
	return records
}

func offset(topic string, partition int32, v record.OffsetCommit) record.Record {
	if v.ExpireTimestampMs == 0 {
		v.ExpireTimestampMs = -1
	}
	return record.Record{Key: record.Key{Type: record.TypeOffsetCommit, Group: "g", Topic: topic, ID: partition}, Value: &v}
}

// A request that names a partition twice has the effect of the last; what it names by name gets the id that there is now.
func TestRecordsOfACommit(t *testing.T) {
	req := &CommitRequest{GroupID: "g", Topics: []CommitTopic{
		{Name: "in", Partitions: []CommitPartition{{Partition: 1, Offset: 5, LeaderEpoch: 3, Metadata: text("m")}, {Partition: 2, Offset: 6, LeaderEpoch: -1}}},
		{Name: "in", ID: idB, Partitions: []CommitPartition{{Partition: 1, Offset: 7, LeaderEpoch: -1, Metadata: text("")}}},
		{Name: "old", Partitions: []CommitPartition{{Partition: 0, Offset: 8, LeaderEpoch: -1}}},
	}}
	want := []record.Record{
		offset("in", 1, record.OffsetCommit{Offset: 7, LeaderEpoch: -1, CommitTimestampMs: 2000, TopicID: idB}),
		offset("in", 2, record.OffsetCommit{Offset: 6, LeaderEpoch: -1, CommitTimestampMs: 2000, TopicID: idA}),
		offset("old", 0, record.OffsetCommit{Offset: 8, LeaderEpoch: -1, CommitTimestampMs: 2000}),
	}
	if d := cmp.Diff(want, CommitRecords(req, world())); d != "" {
		t.Error(d)
	}
}

func TestWhatALogTakes(t *testing.T) {
	long, wide := strings.Repeat("x", 4097), strings.Repeat("é", 20_000)
	req := &CommitRequest{Version: 9, GroupID: "g", MemberID: "a", MemberEpoch: 5, Topics: []CommitTopic{
		{Name: "in", Partitions: []CommitPartition{{Partition: 0}, {Partition: 1, Metadata: &long}, {Partition: 4, Metadata: &long}, {Partition: -1}}},
		{Name: "none", Partitions: []CommitPartition{{Partition: 0}}},
	}}
	kept, refused := AdmitLogged(group(t), req, world().Topics, 4096)
	if kept == nil || len(kept.Topics) != 1 || len(kept.Topics[0].Partitions) != 1 || kept.Topics[0].Partitions[0].Partition != 0 {
		t.Errorf("kept %+v", kept)
	}
	want := []CommitTopicResult{
		{Name: "in", Partitions: []PartitionResult{
			{4, coordinator.UnknownTopicOrPartition}, {-1, coordinator.UnknownTopicOrPartition}, {1, coordinator.OffsetMetadataTooLarge},
		}},
		{Name: "none", Partitions: []PartitionResult{{0, coordinator.UnknownTopicOrPartition}}},
	}
	if d := cmp.Diff(want, refused); d != "" {
		t.Error(d)
	}
	// The longest text of a record bounds the setting.
	req.Topics = []CommitTopic{{Name: "in", Partitions: []CommitPartition{{Partition: 0, Metadata: &wide}}}}
	if kept, _ := AdmitLogged(group(t), req, world().Topics, 1<<30); kept != nil {
		t.Error("a text of 40,000 bytes is taken, which no record holds")
	}
}

// O14: what was committed for a topic that was deleted is not shown for another one of its name. A topic that is missing hides
// nothing: coordd may only not see it.
func TestFetchFromTheLog(t *testing.T) {
	g := with(t, group(t),
		offset("in", 0, record.OffsetCommit{Offset: 10, LeaderEpoch: 2, Metadata: "m", CommitTimestampMs: 500, TopicID: idA}),
		offset("in", 1, record.OffsetCommit{Offset: 11, LeaderEpoch: -1, CommitTimestampMs: 500, TopicID: idB}),
		offset("in", 2, record.OffsetCommit{Offset: 12, LeaderEpoch: -1, CommitTimestampMs: 1500, TopicID: idB}),
		offset("in", 3, record.OffsetCommit{Offset: 13, LeaderEpoch: -1, CommitTimestampMs: 500}),
		offset("none", 0, record.OffsetCommit{Offset: 14, LeaderEpoch: -1, CommitTimestampMs: 500, TopicID: idA}),
		offset("none", 1, record.OffsetCommit{Offset: 15, LeaderEpoch: -1, CommitTimestampMs: 9000, TopicID: idA}), // by a clock that was ahead
		offset("old", 0, record.OffsetCommit{Offset: 16, LeaderEpoch: -1, CommitTimestampMs: 500, TopicID: idA}),
	)
	show := func(req *FetchRequest, w *World) map[string][]int64 {
		out := map[string][]int64{}
		for _, topic := range Fetch(g, req, w).Topics {
			for _, p := range topic.Partitions {
				out[topic.Name] = append(out[topic.Name], p.Offset)
				if p.Code != 0 || p.Metadata == nil {
					t.Errorf("%+v", p)
				}
			}
		}
		return out
	}
	all := []int32{0, 1, 2, 3}
	for what, test := range map[string]struct {
		req  *FetchRequest
		edit func(*World)
		want map[string][]int64
	}{
		"by name":  {&FetchRequest{Topics: []FetchTopic{{Name: "in", Partitions: all}, {Name: "none", Partitions: []int32{0, 1, 7}}}}, nil, map[string][]int64{"in": {10, -1, 12, 13}, "none": {14, 15, -1}}},
		"by id":    {&FetchRequest{Topics: []FetchTopic{{Name: "in", ID: idA, Partitions: all}}}, nil, map[string][]int64{"in": {10, -1, -1, 13}}},
		"of old":   {&FetchRequest{Topics: []FetchTopic{{Name: "in", ID: idB, Partitions: all}}}, func(w *World) { w.TopicsCurrent = false }, map[string][]int64{"in": {-1, 11, 12, 13}}},
		"now":      {&FetchRequest{Topics: []FetchTopic{{Name: "in", ID: idB, Partitions: all}}}, nil, map[string][]int64{"in": {-1, 11, 12, 13}}},
		"all":      {&FetchRequest{}, nil, map[string][]int64{"in": {10, 12, 13}, "none": {14, 15}, "old": {16}}},
		"none":     {&FetchRequest{Topics: []FetchTopic{}}, nil, map[string][]int64{}},
		"in doubt": {&FetchRequest{}, func(w *World) { w.TopicsCurrent = false }, map[string][]int64{"in": {10, 11, 12, 13}, "none": {14, 15}, "old": {16}}},
		"unknown":  {&FetchRequest{}, func(w *World) { w.Topics = nil }, map[string][]int64{"in": {10, 11, 12, 13}, "none": {14, 15}, "old": {16}}},
	} {
		w := world()
		if test.edit != nil {
			test.edit(w)
		}
		if d := cmp.Diff(test.want, show(test.req, w)); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
	first := Fetch(g, &FetchRequest{Topics: []FetchTopic{{Name: "in", Partitions: []int32{0}}}}, world()).Topics[0].Partitions[0]
	if d := cmp.Diff(FetchedOffset{Partition: 0, Offset: 10, LeaderEpoch: 2, Metadata: text("m")}, first); d != "" {
		t.Error(d)
	}
	var handed []int64
	for _, req := range AsCommits(g, world(), 3, 1<<20) {
		for _, topic := range req.Topics {
			for _, p := range topic.Partitions {
				handed = append(handed, p.Offset)
			}
		}
		if CheckCommit(with(t, group(t, record.TypeMemberMetadata, record.TypeCurrentAssignment)), req) != coordinator.None {
			t.Error("an empty group does not take what is handed over")
		}
	}
	if d := cmp.Diff([]int64{10, 12, 13, 14, 15, 16}, handed); d != "" {
		t.Error(d)
	}
}

func TestDeletionRecords(t *testing.T) {
	g := with(t, group(t), offset("in", 0, record.OffsetCommit{LeaderEpoch: -1}), offset("in", 1, record.OffsetCommit{LeaderEpoch: -1}))
	req := &DeleteRequest{GroupID: "g", Topics: []FetchTopic{{Name: "in", Partitions: []int32{1, 1, 2}}, {Name: "old", Partitions: []int32{0}}}}
	want := []record.Record{{Key: record.Key{Type: record.TypeOffsetCommit, Group: "g", Topic: "in", ID: 1}}}
	if d := cmp.Diff(want, DeletionRecords(g, req)); d != "" {
		t.Error(d)
	}
}

// The retention by its rules, of 100 ms; the leader was elected at 1900. The group reads "in", "both" and "rep".
func TestFindDue(t *testing.T) {
	at := func(ms int64) record.OffsetCommit {
		return record.OffsetCommit{LeaderEpoch: -1, CommitTimestampMs: ms}
	}
	expires := func(ms int64) record.OffsetCommit {
		return record.OffsetCommit{LeaderEpoch: -1, CommitTimestampMs: 1999, ExpireTimestampMs: ms}
	}
	emptySince := func(ms int64) record.Record {
		return record.Record{Key: record.Key{Type: record.TypeGroupMarks, Group: "g"}, Value: &record.GroupMarks{EmptySinceMs: ms}}
	}
	live, empty := group(t), group(t, record.TypeMemberMetadata, record.TypeCurrentAssignment)
	for what, test := range map[string]struct {
		g       *fsm.Group
		marks   []record.Record
		topic   string
		value   record.OffsetCommit
		expired bool
	}{
		"read, old":                       {live, nil, "in", at(0), false},
		"read in a repartition topic":     {live, nil, "rep", at(0), false},
		"read, with an expiry":            {live, nil, "in", expires(1), false},
		"not read, old":                   {live, nil, "old", at(1900), true},
		"not read, young":                 {live, nil, "old", at(1901), false},
		"not read, expiry over":           {live, nil, "old", expires(2000), true},
		"not read, expiry to come":        {live, nil, "old", expires(2001), false},
		"not read, of a clock ahead":      {live, nil, "old", at(1 << 50), true}, // counts from the election
		"empty, both long ago":            {empty, []record.Record{emptySince(1900)}, "in", at(1000), true},
		"empty lately":                    {empty, []record.Record{emptySince(1901)}, "in", at(1000), false},
		"empty, committed lately":         {empty, []record.Record{emptySince(1000)}, "in", at(1901), false},
		"empty, not read":                 {empty, []record.Record{emptySince(1900)}, "old", at(1900), true},
		"empty since nobody knows when":   {empty, nil, "in", at(0), true},
		"empty since a clock was ahead":   {empty, []record.Record{emptySince(1 << 50)}, "in", at(0), true},
		"empty, expiry over":              {empty, []record.Record{emptySince(1999)}, "in", expires(2000), true},
		"empty lately, expiry to come":    {empty, []record.Record{emptySince(0)}, "in", expires(2001), false},
		"empty, committed by clock ahead": {empty, []record.Record{emptySince(0)}, "in", at(1 << 50), true},
	} {
		g := with(t, test.g, append(test.marks, offset(test.topic, 0, test.value))...)
		w := world()
		w.Topics.(images)["rep"] = topology.Topic{Name: "rep", Partitions: 1}
		due := FindDue(g, w, Retention{Ms: 100, From: 1900}, unconfirmed, 10)
		if got := len(due.Records) == 1; got != test.expired || due.Left+len(due.Records) != 1 || due.More || due.Gone != nil {
			t.Errorf("%s: %+v", what, due)
		}
	}
}

func unconfirmed(string) (Confirmed, bool) { return Confirmed{}, false }

// Offsets of topics that seem to be gone are told, and due where the upstream confirms it, also of what members read; a round has
// its limit.
func TestFindDueOfDeletedTopics(t *testing.T) {
	old := record.OffsetCommit{LeaderEpoch: -1, CommitTimestampMs: 999, TopicID: idB}
	g := with(t, group(t), offset("both", 0, old), offset("both", 1, old), offset("in", 0, old), offset("in", 1, old),
		offset("in", 2, record.OffsetCommit{LeaderEpoch: -1, CommitTimestampMs: 999, TopicID: idA}))
	due := FindDue(g, world(), Retention{Ms: 5000}, unconfirmed, 10)
	if d := cmp.Diff(Due{Left: 5, Gone: []string{"both", "in"}}, due); d != "" {
		t.Error(d)
	}
	due = FindDue(g, world(), Retention{Ms: 5000}, func(topic string) (Confirmed, bool) {
		return Confirmed{Lookup: topology.Lookup{ID: idA}, Since: 1500}, topic == "in"
	}, 10)
	if len(due.Records) != 2 || due.Records[0].Key.Topic != "in" || due.Left != 3 || due.More {
		t.Errorf("%+v", due)
	}
	due = FindDue(g, world(), Retention{Ms: 5000}, func(topic string) (Confirmed, bool) {
		if topic == "in" {
			return Confirmed{Lookup: topology.Lookup{ID: idA}, Since: 1500}, true
		}
		return Confirmed{Lookup: topology.Lookup{Missing: true}, Since: 1500}, true
	}, 3)
	if len(due.Records) != 3 || due.Left != 2 || !due.More {
		t.Errorf("%+v", due)
	}
}

// What the upstream says of a topic by its name must be what the picture of all topics says, and be younger than the commit.
func TestDeletionsThatAreNotConfirmed(t *testing.T) {
	missing := Confirmed{Lookup: topology.Lookup{Missing: true}, Since: 1500}
	is := func(id [16]byte, since int64) Confirmed {
		return Confirmed{Lookup: topology.Lookup{ID: id}, Since: since}
	}
	for what, test := range map[string]struct {
		topic string
		at    int64
		said  Confirmed
		due   bool
	}{
		"missing":                              {"none", 500, missing, true},
		"missing, there by name":               {"none", 500, is(idB, 1500), false},
		"missing, committed since":             {"none", 500, Confirmed{Lookup: missing.Lookup, Since: 400}, false},
		"missing, by a clock ahead":            {"none", 9000, missing, true},
		"missing, not in a younger picture":    {"none", 1200, missing, false},
		"another id":                           {"in", 500, is(idA, 1500), true},
		"another id, missing by name":          {"in", 500, missing, false},
		"another id, the offset's by name":     {"in", 500, is(idB, 1500), false},
		"another id, none by name":             {"in", 500, is([16]byte{}, 1500), false},
		"another id, committed since":          {"in", 500, is(idA, 500), false},
		"another id, not in a younger picture": {"in", 1200, is(idA, 1500), false},
	} {
		g := with(t, group(t), offset(test.topic, 0, record.OffsetCommit{LeaderEpoch: -1, CommitTimestampMs: test.at, TopicID: idB}))
		due := FindDue(g, world(), Retention{Ms: 1 << 40}, func(string) (Confirmed, bool) { return test.said, true }, 10)
		if got := len(due.Records) == 1; got != test.due {
			t.Errorf("%s: %+v", what, due)
		}
	}
}
