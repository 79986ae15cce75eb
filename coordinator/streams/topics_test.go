package streams

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/topology"
)

// loggedTopics know what changed and count what they are asked.
type loggedTopics struct {
	fakeTopics
	changed []string
	asked   *int
}

func (l loggedTopics) Topic(name string) (topology.Topic, bool) {
	*l.asked++
	return l.fakeTopics.Topic(name)
}

func (l loggedTopics) ChangedSince(uint64) ([]string, bool) { return l.changed, true }

// A change of topics that a group does not need costs it a look at their names.
func TestTopicsOfOthersAreNotHashed(t *testing.T) {
	top := &topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"in"}}}}
	topics := fakeTopics{"in": {Name: "in", Partitions: 2}}
	first, err := configured(nil, nil, top, &Env{Metadata: topics, MetadataVersion: 1})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	topics["in"] = topology.Topic{Name: "in", Partitions: 3}
	look := func(version uint64, changed ...string) *ConfiguredTopics {
		env := Env{Metadata: loggedTopics{topics, changed, &asked}, MetadataVersion: version}
		c, err := configured(&Soft{Topics: first}, nil, top, &env)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := look(2, "another"); asked != 0 || c.Version != 2 || c.Hash != first.Hash || c.Configured != first.Configured {
		t.Errorf("another topic changed: %d questions, %+v", asked, c)
	}
	if c := look(2, "another", "in"); asked == 0 || c.Hash == first.Hash || c.Configured.Subtopologies[0].NumTasks != 3 {
		t.Errorf("its own topic changed: %d questions, %+v", asked, c)
	}
}

// BenchmarkTopicsOfOthersChange is what 20 groups of 30 topics with 3 partitions each do when a topic of none of them
// changed: with metadata that says so, and with metadata that does not.
func BenchmarkTopicsOfOthersChange(b *testing.B) {
	topics := fakeTopics{}
	var groups []*Soft
	for g := range 20 {
		top := &topology.Topology{}
		for s := range 10 {
			sub := topology.Subtopology{ID: fmt.Sprint(s)}
			for n := range 3 {
				name := fmt.Sprintf("group-%d-topic-%d", g, 3*s+n)
				topics[name] = topology.Topic{Name: name, Partitions: 3, Racks: [][]string{{"a", "b"}, {"b", "c"}, {"c", "a"}}}
				sub.SourceTopics = append(sub.SourceTopics, name)
			}
			top.Subtopologies = append(top.Subtopologies, sub)
		}
		first, err := configured(nil, nil, top, &Env{Metadata: topics, MetadataVersion: 1})
		if err != nil {
			b.Fatal(err)
		}
		groups = append(groups, &Soft{Topics: first})
	}
	asked := 0
	for name, metadata := range map[string]topology.Metadata{"named": loggedTopics{topics, []string{"other"}, &asked}, "hashed": topics} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, soft := range groups {
					if _, err := configured(soft, nil, soft.Topics.Topology, &Env{Metadata: metadata, MetadataVersion: 2}); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
