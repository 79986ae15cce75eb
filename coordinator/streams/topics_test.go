package streams

import (
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
	first, err := configured(nil, top, &Env{Metadata: topics, MetadataVersion: 1})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	topics["in"] = topology.Topic{Name: "in", Partitions: 3}
	look := func(version uint64, changed ...string) *ConfiguredTopics {
		env := Env{Metadata: loggedTopics{topics, changed, &asked}, MetadataVersion: version}
		c, err := configured(&Soft{Topics: first}, top, &env)
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
