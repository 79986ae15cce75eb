package streams

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/topology"
)

func TestCreationErrors(t *testing.T) {
	for _, c := range []struct{ reasons, want string }{
		{"", ""},
		{"a", ""},
		{"a=X: no", "; creation failed: a (X: no)."},
		{"a b=X c", "; creation failed: b (X)."},
		{"a=X b=X c=Y", "; creation failed: a, b (X), c (Y)."},
		{"a=X b=Y c=X d=Y e=Z f", "; creation failed: a (X), b (Y), c (X) and 2 additional topics."},
	} {
		reasons := map[string]string{}
		configured := &topology.Configured{}
		for _, field := range strings.Fields(strings.ReplaceAll(c.reasons, ": ", ":_")) {
			name, reason, _ := strings.Cut(field, "=")
			configured.Create = append(configured.Create, topology.InternalTopic{Name: name})
			reasons[name] = strings.ReplaceAll(reason, "_", " ")
		}
		got := creationErrors(&Env{CreationErrors: func(topic string) string { return reasons[topic] }}, configured)
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.reasons, got, c.want)
		}
		if detail := "Internal topics are missing: a, b, c"; (creationTold(detail+got) != 0) != (got != "") || creationTold(detail+got) != creationTold(detail+", d"+got) {
			t.Errorf("%s: the number of what is told", c.reasons)
		}
	}
	if creationTold("x; creation failed: a (X).") == creationTold("x; creation failed: a (Y).") {
		t.Error("another reason has the same number")
	}
}

func TestExistingInternalTopics(t *testing.T) {
	named := func(names ...string) (topics []topology.InternalTopic) {
		for _, name := range names {
			topics = append(topics, topology.InternalTopic{Name: name, Configs: []topology.Config{{Key: "k", Value: "v"}}})
		}
		return topics
	}
	c := &topology.Configured{
		Create: named("missing"),
		Subtopologies: []topology.ConfiguredSubtopology{
			{SourceTopics: []string{"in"}, Changelogs: append(named("in", "cl", "missing"), topology.InternalTopic{Name: "free"})},
			{RepartitionSources: append(named("rep", "cl"), topology.InternalTopic{Name: "factor", ReplicationFactor: 3})},
		},
	}
	var got []string
	for _, topic := range ExistingInternalTopics(c) {
		got = append(got, topic.Name)
	}
	if want := "cl rep factor"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}
