package server

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/topology"
	"github.com/coordd/coordd/web"
)

// topicCounts are topics with their partition counts.
type topicCounts map[string]int32

func (m topicCounts) Topic(name string) (topology.Topic, bool) {
	n, ok := m[name]
	return topology.Topic{Name: name, Partitions: n}, ok
}
func (m topicCounts) Names() []string { return slices.Sorted(maps.Keys(m)) }

// TestMissingTopicsAreShownAsTheyAreToBeMade, so that somebody else can make them where coordd may not.
func TestMissingTopicsAreShownAsTheyAreToBeMade(t *testing.T) {
	top := &topology.Topology{Subtopologies: []topology.Subtopology{
		{ID: "0", SourceTopics: []string{"in"}, RepartitionSinkTopics: []string{"r"}},
		{ID: "1", SourceTopicRegex: []string{"eu-.*"}, RepartitionSourceTopics: []topology.InternalTopic{{Name: "r", Partitions: 3}},
			StateChangelogTopics: []topology.InternalTopic{{Name: "store", ReplicationFactor: 2, Configs: []topology.Config{{Key: "cleanup.policy", Value: "compact"}}}}},
	}}
	failure := func(topic string) string {
		if topic == "r" {
			return "not authorized"
		}
		return ""
	}
	for _, test := range []struct {
		topics topicCounts
		want   []web.MissingTopic
	}{
		{topicCounts{}, []web.MissingTopic{{Topic: "in", Kind: "source"}, {Topic: "eu-.*", Kind: "pattern"},
			{Topic: "r", Kind: "internal", Error: "not authorized"}, {Topic: "store", Kind: "internal"}}},
		{topicCounts{"in": 2, "eu-a": 4}, []web.MissingTopic{{Topic: "r", Kind: "internal", Partitions: 3, ReplicationFactor: -1, Error: "not authorized"},
			{Topic: "store", Kind: "internal", Partitions: 4, ReplicationFactor: 2, Configs: []string{"cleanup.policy=compact"}}}},
		{topicCounts{"in": 2, "eu-a": 4, "r": 3, "store": 4}, []web.MissingTopic{}},
	} {
		configured, err := topology.Configure(top, test.topics)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, missingTopics(topology.Resolve(top, test.topics), configured, test.topics, failure)); diff != "" {
			t.Errorf("%v: %s", test.topics, diff)
		}
	}
}
