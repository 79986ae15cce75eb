package server

import (
	"slices"
	"testing"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

func withTopology(group string, s topology.Subtopology) []record.Record {
	return append(groupRecords(group, 1), record.Record{
		Key:   record.Key{Type: record.TypeTopology, Group: group},
		Value: &record.Topology{Topology: topology.Topology{Subtopologies: []topology.Subtopology{s}}},
	})
}

// The topics of all groups with members are needed, whoever leads them.
func TestNeededTopics(t *testing.T) {
	n := metricsNode(t, 3, 0)
	needed := &neededTopics{node: n}
	expect := func(others bool, names ...string) {
		t.Helper()
		for range 2 {
			got, any := needed.names()
			if !slices.Equal(got, names) || any != others {
				t.Errorf("needed %q, others %v; want %q, %v", got, any, names, others)
			}
		}
	}
	expect(false)
	n.put(t, 0, withTopology("a", topology.Subtopology{ID: "0", SourceTopics: []string{"in", "other"}, RepartitionSinkTopics: []string{"sink"}}))
	n.put(t, 2, withTopology("b", topology.Subtopology{ID: "0", SourceTopics: []string{"in"},
		StateChangelogTopics: []topology.InternalTopic{{Name: "changelog"}}}))
	n.put(t, 1, groupRecords("without", 1))
	expect(false, "changelog", "in", "other", "sink")
	n.put(t, 1, withTopology("c", topology.Subtopology{ID: "0", SourceTopicRegex: []string{"x.*"}}))
	expect(true, "changelog", "in", "other", "sink")
	n.put(t, 1, []record.Record{{Key: record.Key{Type: record.TypeMemberMetadata, Group: "c", Member: "m0"}}})
	expect(false, "changelog", "in", "other", "sink")
	n.put(t, 0, []record.Record{{Key: record.Key{Type: record.TypeTopology, Group: "a"}, Value: &record.Topology{
		Topology: topology.Topology{Epoch: 1, Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"new"}}}}}}})
	expect(false, "changelog", "in", "new")
}
