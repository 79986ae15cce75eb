package topology

import (
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"
)

// TestContentHashIsStable holds the hash to its documented bytes: it is kept in logs.
func TestContentHashIsStable(t *testing.T) {
	empty := (&Topology{Epoch: 7}).ContentHash()
	// SHA-256 of eight zero bytes.
	if got, want := hex.EncodeToString(empty[:]), "af5570f5a1810b7af78caf4bc70a660f"; got != want {
		t.Errorf("no subtopologies: %s, want %s", got, want)
	}
}

// TestContentHash demands that the hash is the same exactly where the contents are equal.
func TestContentHash(t *testing.T) {
	base := func() *Topology {
		return &Topology{Epoch: 1, Subtopologies: []Subtopology{
			{ID: "1", SourceTopics: []string{"a", "b"}, SourceTopicRegex: []string{"x.*"}, RepartitionSinkTopics: []string{"r"},
				StateChangelogTopics:    []InternalTopic{{Name: "c", ReplicationFactor: 3, Configs: []Config{{"k", "v"}}}},
				RepartitionSourceTopics: []InternalTopic{{Name: "q", Partitions: 2}},
				CopartitionGroups:       []CopartitionGroup{{SourceTopics: []int16{0}, SourceTopicRegex: []int16{0}, RepartitionSourceTopics: []int16{0}}}},
			{ID: "0", SourceTopics: []string{"z"}},
		}}
	}
	want := base().ContentHash()
	same := base()
	same.Epoch = 9
	same.Subtopologies[0], same.Subtopologies[1] = same.Subtopologies[1], same.Subtopologies[0]
	same.Subtopologies[0].RepartitionSinkTopics = []string{}
	if same.ContentHash() != want {
		t.Error("the epoch, the order of subtopologies and empty lists are not content")
	}
	sub := func(edit func(s *Subtopology)) *Topology {
		c := base()
		edit(&c.Subtopologies[0])
		return c
	}
	for name, other := range map[string]*Topology{
		"id":                   sub(func(s *Subtopology) { s.ID = "2" }),
		"order of sources":     sub(func(s *Subtopology) { s.SourceTopics = []string{"b", "a"} }),
		"sources run together": sub(func(s *Subtopology) { s.SourceTopics = []string{"ab"} }),
		"source moved":         sub(func(s *Subtopology) { s.SourceTopics, s.SourceTopicRegex = []string{"a"}, []string{"b", "x.*"} }),
		"regex":                sub(func(s *Subtopology) { s.SourceTopicRegex = nil }),
		"sink":                 sub(func(s *Subtopology) { s.RepartitionSinkTopics = []string{"s"} }),
		"changelog":            sub(func(s *Subtopology) { s.StateChangelogTopics[0].Name = "d" }),
		"factor":               sub(func(s *Subtopology) { s.StateChangelogTopics[0].ReplicationFactor = 2 }),
		"config":               sub(func(s *Subtopology) { s.StateChangelogTopics[0].Configs[0].Value = "w" }),
		"partitions":           sub(func(s *Subtopology) { s.RepartitionSourceTopics[0].Partitions = 3 }),
		"copartition":          sub(func(s *Subtopology) { s.CopartitionGroups[0].SourceTopics = []int16{1} }),
		"copartition regex":    sub(func(s *Subtopology) { s.CopartitionGroups[0].SourceTopicRegex = nil }),
		"copartition source":   sub(func(s *Subtopology) { s.CopartitionGroups[0].RepartitionSourceTopics = nil }),
		"a subtopology less":   {Subtopologies: base().Subtopologies[:1]},
	} {
		if other.ContentHash() == want {
			t.Errorf("%s: the same hash", name)
		}
	}
}

// TestContentHashAgreesWithEqual draws small topologies, which are often equal.
func TestContentHashAgreesWithEqual(t *testing.T) {
	draw := func(t *rapid.T, name string) *Topology {
		out := &Topology{}
		for _, id := range rapid.Permutation([]string{"0", "1"}).Draw(t, name) {
			s := Subtopology{ID: id, SourceTopics: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 2).Draw(t, name+id)}
			if rapid.Bool().Draw(t, name+"c"+id) {
				s.StateChangelogTopics = []InternalTopic{{Name: "c"}}
			}
			out.Subtopologies = append(out.Subtopologies, s)
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t, "a"), draw(t, "b")
		if got, want := a.ContentHash() == b.ContentHash(), a.Equal(b); got != want {
			t.Fatalf("equal hashes: %v, equal: %v\n%+v\n%+v", got, want, a, b)
		}
	})
}
