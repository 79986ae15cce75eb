package topology

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
)

type hashedTopics map[string]Topic

func (m hashedTopics) Topic(name string) (Topic, bool) {
	t, ok := m[name]
	return t, ok
}

func (m hashedTopics) Names() []string { return slices.Sorted(maps.Keys(m)) }

// testdata/metadatahash.json was computed by Apache Kafka 4.4.0's Utils.computeTopicHash and computeGroupHash.
func TestMetadataHashAgreesWithKafka(t *testing.T) {
	data, err := os.ReadFile("testdata/metadatahash.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name, Hash string
		Topics     []struct {
			Name, ID, Hash string
			Racks          [][]string
		}
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			var h hasher
			m, names := hashedTopics{}, []string{"missing"}
			for _, want := range c.Topics {
				topic := Topic{Name: want.Name, Partitions: int32(len(want.Racks)), Racks: want.Racks}
				if _, err := hex.Decode(topic.ID[:], []byte(want.ID)); err != nil {
					t.Fatal(err)
				}
				if got := strconv.FormatInt(int64(h.topic(&topic)), 10); got != want.Hash {
					t.Errorf("topic %s: %s, want %s", want.Name, got, want.Hash)
				}
				if !slices.ContainsFunc(want.Racks, func(r []string) bool { return len(r) > 0 }) {
					topic.Racks = nil // racks may be absent altogether
				}
				m[want.Name], names = topic, append(names, want.Name)
			}
			// Which list names a topic does not matter, nor how often.
			third := len(names) / 3
			top := &Topology{Subtopologies: []Subtopology{{SourceTopics: names[:third]}, {
				SourceTopics: names[:1], RepartitionSourceTopics: internalTopics(names[third : 2*third])}, {
				StateChangelogTopics: internalTopics(names[2*third:]), RepartitionSinkTopics: []string{"sink"}}}}
			m["sink"] = Topic{Name: "sink", Partitions: 3}
			if got := strconv.FormatInt(MetadataHash(top, m), 10); got != c.Hash {
				t.Errorf("group: %s, want %s", got, c.Hash)
			}
		})
	}
}

func TestMetadataHashLeavesTheMetadataAlone(t *testing.T) {
	racks := [][]string{{"b", "a"}}
	top := &Topology{Subtopologies: []Subtopology{{SourceTopics: []string{"in"}}}}
	MetadataHash(top, hashedTopics{"in": {Name: "in", Partitions: 1, Racks: racks}})
	if racks[0][0] != "b" {
		t.Error("racks were sorted in place")
	}
}

func internalTopics(names []string) (topics []InternalTopic) {
	for _, name := range names {
		topics = append(topics, InternalTopic{Name: name})
	}
	return topics
}

func BenchmarkMetadataHash(b *testing.B) {
	m := hashedTopics{"in": {Name: "in", Partitions: 100, Racks: slices.Repeat([][]string{{"b", "a", "c"}}, 100)}}
	top := &Topology{Subtopologies: []Subtopology{{SourceTopics: []string{"in"}}}}
	for b.Loop() {
		MetadataHash(top, m)
	}
}
