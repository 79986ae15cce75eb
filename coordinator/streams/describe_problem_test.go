package streams

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/topology"
)

func TestTopicsProblemSaysWhatAGroupWaitsFor(t *testing.T) {
	w := newWorld()
	process := "p1"
	req := &HeartbeatRequest{
		GroupID: testGroup, MemberID: "m1", RebalanceTimeoutMs: 60000, ProcessID: &process,
		Topology: &topology.Topology{Epoch: 1, Subtopologies: []topology.Subtopology{{
			ID: "0", SourceTopics: []string{"in"}, StateChangelogTopics: []topology.InternalTopic{{Name: "log"}},
		}}},
		Active: []topology.SubtopologyTasks{}, Standby: []topology.SubtopologyTasks{}, Warmup: []topology.SubtopologyTasks{},
	}
	if d, err := w.heartbeat(req, &coordinator.Client{ID: "c", Host: "/h"}); err != nil || d.Reply.Err != nil {
		t.Fatal(err, d.Reply.Err)
	}
	check := func(want string) {
		t.Helper()
		env := w.env()
		if got := TopicsProblem(w.group(), &env); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	check("MISSING_SOURCE_TOPICS: Source topics in are missing. Subtopology 0 reads in.")
	w.setTopic("in", 2)
	w.failures["log"] = "not authorized"
	env := w.env()
	if got := TopicsProblem(w.group(), &env); !strings.HasPrefix(got, "MISSING_INTERNAL_TOPICS: ") || !strings.Contains(got, "log (not authorized)") {
		t.Error(got)
	}
	w.setTopic("log", 2)
	check("")
}

// TestTopicsProblemSaysThatTheGroupGoesOn: people see what is wrong and how long the group goes on, also where soft state is
// not known; the group's state is what it was.
func TestTopicsProblemSaysThatTheGroupGoesOn(t *testing.T) {
	w := newWorld()
	w.settings.TopologyGraceMs = 60_000
	w.setTopic("in", 2)
	client := &coordinator.Client{ID: "c", Host: "/h"}
	d, err := w.heartbeat(goodJoin(), client)
	if err != nil || d.Reply.Err != nil {
		t.Fatal(err, d.Reply.Err)
	}
	w.setTopic("in", 0)
	beat := &HeartbeatRequest{GroupID: testGroup, MemberID: d.Reply.MemberID, MemberEpoch: d.Reply.MemberEpoch, RebalanceTimeoutMs: -1}
	if d, err := w.heartbeat(beat, client); err != nil || d.Reply.Err != nil || len(d.Reply.Status) > 0 {
		t.Fatal(err, d.Reply)
	}
	w.now += 17_500
	env := w.env()
	const want = "MISSING_SOURCE_TOPICS: Source topics in are missing. Subtopology 0 reads in." +
		" The group goes on with the partition counts of before, for up to 43 s more (group.streams.topology.grace.ms)."
	if got := TopicsProblem(w.group(), &env); got != want {
		t.Errorf("%q", got)
	}
	if left := GraceLeft(w.group(), &env); left != 42_500 {
		t.Errorf("%d ms left", left)
	}
	if got := Describe(w.group(), nil, &env, testGroup); got.State != StateStable {
		t.Error(got.State)
	}
}
