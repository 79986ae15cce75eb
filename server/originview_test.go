package server

import (
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

// sizes are topics with their partition counts.
type sizes map[string]int32

func (s sizes) Topic(name string) (topology.Topic, bool) {
	n, ok := s[name]
	return topology.Topic{Name: name, Partitions: n}, ok
}
func (s sizes) Names() []string { return nil }

// movable is a streams group without members that read in[0] and in[1].
func movable() *originInput {
	in := &originInput{
		group: "app", origin: &coordinator.Origin{Type: "streams", Protocol: "streams", State: "Empty", Epoch: 4,
			Topology: &topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"in"},
				StateChangelogTopics: []topology.InternalTopic{{Name: "app-changelog"}}}}}},
		committed: []offsets.FetchTopicResult{{Name: "in", Partitions: []offsets.FetchedOffset{{Partition: 0, Offset: 3}, {Partition: 1, Offset: 9}}}},
		topics:    sizes{"in": 2, "app-changelog": 2},
		start:     map[offsets.TopicPartition]offsets.LogOffset{}, end: map[offsets.TopicPartition]offsets.LogOffset{},
	}
	for p := range int32(2) {
		in.start[offsets.TopicPartition{Topic: "in", Partition: p}] = offsets.LogOffset{Offset: 1}
		in.end[offsets.TopicPartition{Topic: "in", Partition: p}] = offsets.LogOffset{Offset: 10}
	}
	return in
}

func first(in *originInput) *offsets.FetchedOffset { return &in.committed[0].Partitions[0] }

// TestWhatStandsInTheWayOfAMove: each reason is told before anything is done, with what to do.
func TestWhatStandsInTheWayOfAMove(t *testing.T) {
	for name, c := range map[string]struct {
		change             func(in *originInput)
		noImport, noExport string
	}{
		"nothing":           {func(*originInput) {}, "", "coordd has no group app"},
		"no group":          {func(in *originInput) { in.origin = &coordinator.Origin{} }, "has no group app; an app that never ran needs no import", "no group"},
		"coordd's":          {func(in *originInput) { in.held, in.heldState = true, "Empty" }, "is coordd's already", ""},
		"coordd's, running": {func(in *originInput) { in.held, in.heldMembers = true, 2 }, "is coordd's already", "has members: stop the app first"},
		"a consumer group":  {func(in *originInput) { in.origin.Type = "consumer" }, "is a consumer group, whose id no streams group can have", "no group"},
		"a share group":     {func(in *originInput) { in.origin.Type = "share" }, "is a share group", "no group"},
		"runs there": {func(in *originInput) {
			in.origin.State = "Stable"
			in.origin.Members = []coordinator.OriginMember{{ClientID: "a", Host: "/h1"}, {ClientID: "b", Host: "/h2"}}
		}, "is Stable in the Kafka behind, with a/h1, b/h2: stop the app there first", "no group"},
		"classic, runs there": {func(in *originInput) {
			in.origin.Type, in.origin.Protocol, in.origin.State = "classic", "consumer", "Stable"
			in.origin.Members = make([]coordinator.OriginMember, 5)
		}, "2 more: stop the app there first. A Kafka Streams app with group.protocol=classic does not leave", "no group"},
		"another cluster's": {func(in *originInput) {
			in.origin.Type, in.origin.Protocol, in.origin.State = "classic", "coordd", "Stable"
		}, "belongs to another coordd cluster", "no group"},
		"was coordd's": {func(in *originInput) { in.origin.Type, in.origin.Protocol = "classic", "coordd" }, "", "no group"},
		"an open transaction": {func(in *originInput) {
			first(in).Offset, first(in).Code = -1, coordinator.UnstableOffsetCommit
		}, "a transaction that commits offsets of group app is open (in[0])", "no group"},
	} {
		in := movable()
		c.change(in)
		view := originView(in)
		if view.MayBeHeld != (name == "was coordd's") {
			t.Errorf("%s: may be held is %v", name, view.MayBeHeld)
		}
		for what, said := range map[string][2]string{"import": {view.NoImport, c.noImport}, "export": {view.NoExport, c.noExport}} {
			if (said[1] == "") != (said[0] == "") || !strings.Contains(said[0], said[1]) {
				t.Errorf("%s, %s: %q, want %q", name, what, said[0], said[1])
			}
		}
	}
}

// TestLagsThatAreNotKnown: no lag is 0 where nothing is known, and what a sum is without is counted.
func TestLagsThatAreNotKnown(t *testing.T) {
	row := func(subtopology string, committed, start, end, lag int64) web.PartitionOffsets {
		return web.PartitionOffsets{Subtopology: subtopology, Committed: committed, Start: start, End: end, Lag: lag}
	}
	for name, c := range map[string]struct {
		rows     []web.PartitionOffsets
		topology bool
		lag      int64
		unknown  int
	}{
		"nothing":             {nil, true, -1, 0},
		"never committed":     {[]web.PartitionOffsets{row("0", -1, 0, 29, -1), row("0", -1, 0, 21, -1)}, true, -1, 2},
		"no ends":             {[]web.PartitionOffsets{row("0", 5, -1, -1, -1)}, true, -1, 1},
		"half of it":          {[]web.PartitionOffsets{row("0", 5, 0, 9, 4), row("0", -1, 0, 21, -1)}, true, 4, 1},
		"caught up":           {[]web.PartitionOffsets{row("0", 9, 0, 9, 0)}, true, 0, 0},
		"without records":     {[]web.PartitionOffsets{row("0", -1, 0, 0, -1), row("0", -1, 7, 7, -1)}, true, 0, 0},
		"what no task reads":  {[]web.PartitionOffsets{row("0", 5, 0, 9, 4), row("", 5, -1, -1, -1)}, true, 4, 0},
		"no topology, no end": {[]web.PartitionOffsets{row("", 5, -1, -1, -1), row("", 5, 0, 6, 1)}, false, 1, 1},
	} {
		if lag, unknown := totalLag(c.rows, c.topology); lag != c.lag || unknown != c.unknown {
			t.Errorf("%s: %d without %d, want %d without %d", name, lag, unknown, c.lag, c.unknown)
		}
	}
	in := movable()
	in.committed = nil
	if view := originView(in); view.Lag != -1 || view.LagUnknown != 2 {
		t.Errorf("without offsets: %d without %d", view.Lag, view.LagUnknown)
	}
	in = movable()
	in.end[offsets.TopicPartition{Topic: "in"}] = offsets.LogOffset{Offset: -1, Code: coordinator.CoordinatorNotAvailable}
	if view := originView(in); view.Lag != 1 || view.LagUnknown != 1 {
		t.Errorf("without an end: %d without %d", view.Lag, view.LagUnknown)
	}
}

// TestWhatAnAppWillMeet: offsets that are of no use, partitions without one, and state that is gone are told before the app starts.
func TestWhatAnAppWillMeet(t *testing.T) {
	key := offsets.TopicPartition{Topic: "in"}
	for name, c := range map[string]struct {
		change  func(in *originInput)
		problem string // of in[0]
		notes   []string
		lag     int64
	}{
		"nothing":           {func(*originInput) {}, "", nil, 7},
		"deleted records":   {func(in *originInput) { in.start[key] = offsets.LogOffset{Offset: 5} }, "before the start of the log", nil, 7},
		"a topic made anew": {func(in *originInput) { in.end[key] = offsets.LogOffset{Offset: 2} }, "behind the end of the log", nil, 0},
		"a deleted topic": {func(in *originInput) {
			in.topics, in.end[key] = sizes{"app-changelog": 2}, offsets.LogOffset{Offset: -1, Code: coordinator.UnknownTopicOrPartition}
		}, "does not exist", nil, -1},
		"a smaller topic": {func(in *originInput) {
			in.topics, first(in).Partition = sizes{"in": 2, "app-changelog": 2}, 2
			in.end[offsets.TopicPartition{Topic: "in", Partition: 2}] = offsets.LogOffset{Offset: -1, Code: coordinator.UnknownTopicOrPartition}
		}, "does not exist", []string{"no offset is committed for in[0]"}, -1},
		"an unknown end": {func(in *originInput) {
			in.end[key] = offsets.LogOffset{Offset: -1, Code: coordinator.CoordinatorNotAvailable}
		}, "where its log ends is not told: the Kafka cluster behind does not answer", nil, -1},
		"no offset":        {func(in *originInput) { first(in).Offset = -1 }, "", []string{"no offset is committed for in[0]"}, -1},
		"an untold offset": {func(in *originInput) { first(in).Offset, first(in).Code = -1, coordinator.UnknownTopicOrPartition }, "the offset is not told: the partition does not exist", nil, -1},
		"a larger topic":   {func(in *originInput) { in.topics = sizes{"in": 7, "app-changelog": 7} }, "", []string{"for in[2], in[3], in[4] and 2 more"}, 7},
		"an unread source": {func(in *originInput) {
			in.topics = sizes{"in": 2, "more": 1, "app-changelog": 2}
			in.origin.Topology.Subtopologies[0].SourceTopics = []string{"in", "more"}
		}, "", []string{"for more[0]"}, 7},
		"no changelog":           {func(in *originInput) { in.topics = sizes{"in": 2} }, "", []string{"changelog topics do not exist: app-changelog"}, 7},
		"an impossible topology": {func(in *originInput) { in.invalid = &topology.InvalidTopology{Message: "too odd"} }, "", []string{"topology is not taken over: too odd"}, 7},
		"coordd's before": {func(in *originInput) {
			in.origin.Type, in.origin.Protocol, in.origin.Topology = "classic", "coordd", nil
		}, "", []string{"a coordd cluster had this group last"}, 7},
		"offsets in the log": {func(in *originInput) { in.held, in.heldOffsets = true, 6 }, "", []string{"that coordd keeps itself: 6;"}, 7},
		"topics not known":   {func(in *originInput) { in.topics = nil }, "", nil, 7},
	} {
		in := movable()
		c.change(in)
		view := originView(in)
		if got := view.Offsets[0]; (c.problem == "") != (got.Problem == "") || !strings.Contains(got.Problem, c.problem) || got.Lag != c.lag {
			t.Errorf("%s: %+v, want problem %q and lag %d", name, got, c.problem, c.lag)
		}
		if !slices.EqualFunc(view.Notes, c.notes, strings.Contains) {
			t.Errorf("%s: %q, want %q", name, view.Notes, c.notes)
		}
		if want := max(0, c.lag) + 1; view.Lag != want && name != "a smaller topic" {
			t.Errorf("%s: lag %d, want %d", name, view.Lag, want)
		}
	}
}

// TestOffsetsInTheLogAreShown: an export shows those that count, with what is left to read.
func TestOffsetsInTheLogAreShown(t *testing.T) {
	state := fsm.State{}
	for _, topic := range []string{"a", "b"} {
		for p := range int32(2) {
			var err error
			state, err = state.EvolveAll([]record.Record{{Key: record.Key{Type: record.TypeOffsetCommit, Group: "app", Topic: topic, ID: p},
				Value: &record.OffsetCommit{Offset: int64(p) + 4, ExpireTimestampMs: -1}}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	want := []offsets.FetchTopicResult{
		{Name: "a", Partitions: []offsets.FetchedOffset{{Partition: 0, Offset: 4}, {Partition: 1, Offset: 5}}},
		{Name: "b", Partitions: []offsets.FetchedOffset{{Partition: 0, Offset: 4}, {Partition: 1, Offset: 5}}},
	}
	if diff := cmp.Diff(want, offsetsInLog(state.Group("app"))); diff != "" {
		t.Error(diff)
	}
}
