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
