package topology

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func sampleTopology() *Topology {
	return &Topology{Epoch: 2, Subtopologies: []Subtopology{
		{ID: "0", SourceTopics: []string{"a", "b"}, RepartitionSinkTopics: []string{"r"}, SourceTopicRegex: []string{"x.*"},
			StateChangelogTopics: []InternalTopic{{Name: "l", ReplicationFactor: 3, Configs: []Config{{"k", "v"}}}},
			CopartitionGroups:    []CopartitionGroup{{SourceTopics: []int16{0, 1}, SourceTopicRegex: []int16{0}}}},
		{ID: "1", SourceTopics: []string{"b"}, RepartitionSourceTopics: []InternalTopic{{Name: "r", Partitions: 4}},
			CopartitionGroups: []CopartitionGroup{{SourceTopics: []int16{0}, RepartitionSourceTopics: []int16{0}}}},
	}}
}

func TestReaders(t *testing.T) {
	top := sampleTopology()
	for topic, want := range map[string][]string{"a": {"0"}, "b": {"0", "1"}, "r": {"1"}, "l": nil, "x": {"0"}, "x-": {"0"}, "ax": nil} {
		var got []string
		for s := range top.Readers(topic) {
			got = append(got, s.ID)
		}
		if !slices.Equal(got, want) || top.Reads(topic) != (want != nil) {
			t.Errorf("%s is read by %v, want %v", topic, got, want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { top.Reads("r") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if d := cmp.Diff([]string{"a", "b", "l", "r"}, top.RequiredTopics()); d != "" {
		t.Error(d)
	}
	if top.Subtopology("1") != &top.Subtopologies[1] || top.Subtopology("2") != nil || !top.Subtopologies[0].Stateful() || top.Subtopologies[1].Stateful() {
		t.Error("lookup by id or statefulness is wrong")
	}
}

// Every single field counts for equality, and a clone is equal however the original is changed.
func TestTopologyEqual(t *testing.T) {
	changes := map[string]func(*Topology){
		"epoch":               func(t *Topology) { t.Epoch++ },
		"subtopology missing": func(t *Topology) { t.Subtopologies = t.Subtopologies[:1] },
		"id":                  func(t *Topology) { t.Subtopologies[1].ID = "7" },
		"source":              func(t *Topology) { t.Subtopologies[0].SourceTopics[1] = "c" },
		"source order":        func(t *Topology) { slices.Reverse(t.Subtopologies[0].SourceTopics) },
		"regex":               func(t *Topology) { t.Subtopologies[0].SourceTopicRegex = nil },
		"sink":                func(t *Topology) { t.Subtopologies[0].RepartitionSinkTopics[0] = "q" },
		"changelog name":      func(t *Topology) { t.Subtopologies[0].StateChangelogTopics[0].Name = "q" },
		"factor":              func(t *Topology) { t.Subtopologies[0].StateChangelogTopics[0].ReplicationFactor = 1 },
		"config":              func(t *Topology) { t.Subtopologies[0].StateChangelogTopics[0].Configs[0].Value = "w" },
		"partitions":          func(t *Topology) { t.Subtopologies[1].RepartitionSourceTopics[0].Partitions = 5 },
		"group source":        func(t *Topology) { t.Subtopologies[0].CopartitionGroups[0].SourceTopics[0] = 1 },
		"group regex":         func(t *Topology) { t.Subtopologies[0].CopartitionGroups[0].SourceTopicRegex = nil },
		"group repartition":   func(t *Topology) { t.Subtopologies[1].CopartitionGroups[0].RepartitionSourceTopics = nil },
	}
	for name, change := range changes {
		top := sampleTopology()
		clone := top.Clone()
		change(top)
		if top.Equal(clone) || clone.Equal(top) {
			t.Errorf("%s does not count", name)
		}
		if d := cmp.Diff(sampleTopology(), clone); d != "" {
			t.Errorf("%s changed the clone too:\n%s", name, d)
		}
	}
	top, other := sampleTopology(), sampleTopology()
	slices.Reverse(other.Subtopologies)
	if !top.Equal(other) || !top.Equal(top) || top.Equal(nil) || (*Topology)(nil).Clone() != nil {
		t.Error("the order of subtopologies counts, or nil is something")
	}
	other.Subtopologies[0].SourceTopicRegex = []string{}
	if !top.Equal(other) {
		t.Error("null and empty lists differ")
	}
}

func TestEqualAgreesWithClone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top, _ := drawTopology(t)
		if !top.Equal(top.Clone()) || cmp.Diff(top, top.Clone()) != "" {
			t.Fatal("a clone differs")
		}
	})
}
