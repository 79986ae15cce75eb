package streams

import (
	"slices"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/topology"
)

// namesCounted counts how often all topics are gone through.
type namesCounted struct {
	fakeTopics
	asked *int
}

func (n namesCounted) Names() []string {
	*n.asked++
	return n.fakeTopics.Names()
}

// TestDescribeGoesOnFromWhatPatternsMatch: the names of all topics are not gone through again for each who looks, whether the
// group is ready or not.
func TestDescribeGoesOnFromWhatPatternsMatch(t *testing.T) {
	want := []string{"in", "pa", "pb"}
	for _, test := range []struct {
		name       string
		changelogs []topology.InternalTopic
	}{{"ready", nil}, {"not ready", []topology.InternalTopic{{Name: "missing"}}}} {
		w := newWorld()
		for _, topic := range []string{"in", "pa", "pb"} {
			w.setTopic(topic, 2)
		}
		join := goodJoin()
		join.Topology.Subtopologies[0].SourceTopicRegex = []string{"p.*"}
		join.Topology.Subtopologies[0].StateChangelogTopics = test.changelogs
		if d, err := w.heartbeat(join, &coordinator.Client{ID: "c", Host: "/h"}); err != nil || d.Reply.Err != nil {
			t.Fatal(err, d.Reply.Err)
		}
		asked := 0
		env := w.env()
		env.Metadata = namesCounted{w.topics, &asked}
		d := Describe(w.group(), w.soft, &env, testGroup)
		if got := d.Topology.Subtopologies[0].SourceTopics; !slices.Equal(got, want) {
			t.Errorf("%s: sources %v", test.name, got)
		}
		if asked != 0 {
			t.Errorf("%s: all topics gone through %d times", test.name, asked)
		}
		asked = 0
		if d := Describe(w.group(), nil, &env, testGroup); !slices.Equal(d.Topology.Subtopologies[0].SourceTopics, want) || asked != 1 {
			t.Errorf("%s, without soft state: sources %v, all topics gone through %d times", test.name, d.Topology.Subtopologies[0].SourceTopics, asked)
		}
	}
}
