package topicctl

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/topology"
)

// drawTopics draws a cluster of few names, so that every kind of change is frequent.
func drawTopics(t *rapid.T, label string) map[string]topology.Topic {
	racks := [][]string{nil, {"a"}, {"a", "b"}}
	topics := map[string]topology.Topic{}
	for n := range 8 {
		if !rapid.Bool().Draw(t, label) {
			continue
		}
		topic := topology.Topic{Name: fmt.Sprint("t", n), Partitions: rapid.Int32Range(1, 3).Draw(t, "partitions")}
		topic.ID[0] = rapid.ByteRange(0, 2).Draw(t, "id")
		topic.ID[1] = byte(n)
		for range topic.Partitions {
			topic.Racks = append(topic.Racks, rapid.SampledFrom(racks).Draw(t, "racks"))
		}
		topics[topic.Name] = topic
	}
	return topics
}

func snapshotOf(topics map[string]topology.Topic) *Snapshot {
	s := &Snapshot{Brokers: []Broker{{ID: 1}}}
	for _, t := range topics {
		t.Racks = slices.Clone(t.Racks)
		s.Topics = append(s.Topics, t)
	}
	return s
}

func sameTopic(a, b topology.Topic, ok bool) bool {
	return ok && a.Name == b.Name && a.ID == b.ID && a.Partitions == b.Partitions && slices.EqualFunc(a.Racks, b.Racks, slices.Equal)
}

// Whatever clusters follow each other, an image says what the last answer said, its version grows exactly when topics
// changed, and of the changes it names exactly those that it does not refuse to name.
func TestImagesFollowEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var image *Image
		var history []map[string]topology.Topic // by version - 1
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			topics := drawTopics(t, "exists")
			if len(history) > 0 && rapid.IntRange(0, 3).Draw(t, "again") == 0 {
				topics = history[len(history)-1]
			}
			image = NewImage(snapshotOf(topics), image)
			if len(history) == 0 || !sameTopics(history[len(history)-1], topics) {
				history = append(history, topics)
			}
			if image.Version != uint64(len(history)) || image.NumTopics() != len(topics) || len(image.Names()) != len(topics) ||
				!slices.IsSorted(image.Names()) {
				t.Fatalf("version %d with %d topics, want %d with %d", image.Version, image.NumTopics(), len(history), len(topics))
			}
			for n := range 8 {
				name := fmt.Sprint("t", n)
				got, ok := image.Topic(name)
				want, exists := topics[name]
				if ok != exists || ok && !sameTopic(want, got, ok) {
					t.Fatalf("%s: %+v %v, want %+v %v", name, got, ok, want, exists)
				}
				id, hasID := image.TopicID(name)
				if hasID != (exists && want.ID != [16]byte{}) {
					t.Fatalf("%s: id %v %v", name, id, hasID)
				}
				if back, ok := image.TopicName(id); hasID && (!ok || back != name) {
					t.Fatalf("%s: its id is that of %q", name, back)
				}
			}
		}
		for version := range history {
			checkChangedSince(t, image, history, version)
		}
		if _, ok := image.ChangedSince(image.Version + 1); ok {
			t.Fatal("knows what changed since a version to come")
		}
	})
}

func checkChangedSince(t *rapid.T, image *Image, history []map[string]topology.Topic, version int) {
	names, ok := image.ChangedSince(uint64(version))
	if !ok {
		t.Fatalf("%d versions are too many to remember", len(history))
	}
	want := map[string]bool{}
	for at := version; at < len(history); at++ {
		before := map[string]topology.Topic{}
		if at > 0 {
			before = history[at-1]
		}
		for n := range 8 {
			name := fmt.Sprint("t", n)
			was, had := before[name]
			now, has := history[at][name]
			if had != has || had && !sameTopic(was, now, true) {
				want[name] = true
			}
		}
	}
	for _, name := range names {
		if !want[name] {
			t.Fatalf("since %d: %s is named and did not change", version, name)
		}
	}
	for name := range want {
		if !slices.Contains(names, name) {
			t.Fatalf("since %d: %s changed and is not named", version, name)
		}
	}
}

func sameTopics(a, b map[string]topology.Topic) bool {
	if len(a) != len(b) {
		return false
	}
	for name, t := range a {
		other, ok := b[name]
		if !sameTopic(t, other, ok) {
			return false
		}
	}
	return true
}

// What is remembered of changes is bounded in versions and names.
func TestChangesAreForgotten(t *testing.T) {
	topics := map[string]topology.Topic{}
	var images []*Image
	for n := range 2 * maxChangeVersions {
		name := fmt.Sprint("t", n)
		topics[name] = topology.Topic{Name: name, Partitions: 1}
		images = append(images, NewImage(snapshotOf(topics), last(images)))
	}
	image := last(images)
	if names, ok := image.ChangedSince(image.Version - maxChangeVersions); !ok || len(names) != maxChangeVersions {
		t.Errorf("%d names, %v", len(names), ok)
	}
	if _, ok := image.ChangedSince(image.Version - maxChangeVersions - 1); ok {
		t.Error("remembers more versions than it keeps")
	}
	if names, ok := images[10].ChangedSince(10); !ok || !slices.Equal(names, []string{"t10"}) {
		t.Errorf("an older image says %v, %v", names, ok)
	}
	for n := range maxChangeNames + 1 {
		name := fmt.Sprint("many", n)
		topics[name] = topology.Topic{Name: name, Partitions: 1}
	}
	many := NewImage(snapshotOf(topics), image)
	if names, ok := many.ChangedSince(image.Version); ok || names != nil {
		t.Errorf("%d names", len(names))
	}
	if names, ok := many.ChangedSince(many.Version); !ok || len(names) != 0 {
		t.Errorf("nothing changed since: %v %v", names, ok)
	}
}

func last(images []*Image) *Image {
	if len(images) == 0 {
		return nil
	}
	return images[len(images)-1]
}

func TestSortedKeepsTheArgument(t *testing.T) {
	given := []topology.Topic{{Name: "b"}, {Name: "a", Partitions: 1}, {Name: "a", Partitions: 2}}
	got := sorted(given)
	if len(got) != 2 || got[0].Name != "a" || got[0].Partitions != 1 || got[1].Name != "b" || given[0].Name != "b" || given[2].Partitions != 2 {
		t.Errorf("%+v of %+v", got, given)
	}
	if !slices.IsSortedFunc(got, func(a, b topology.Topic) int { return cmp.Compare(a.Name, b.Name) }) || !sameList(got, sorted(got)) {
		t.Error("what is sorted is copied")
	}
}
