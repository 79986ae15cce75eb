package upstream

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/coordd/coordd/topicctl"
)

// leadersIn says where an answer has the leaders of its topics, by name.
func leadersIn(r *kmsg.MetadataResponse, racks map[int32]string) map[string][]string {
	topics, _ := reference(r, racks)
	out := map[string][]string{}
	for _, topic := range topics {
		for _, t := range r.Topics {
			if t.Topic == nil || *t.Topic != topic.Name || absent(t.ErrorCode) {
				continue
			}
			list, some := make([]string, topic.Partitions), false
			whole := true
			for _, p := range t.Partitions {
				whole = whole && p.Partition >= 0 && int(p.Partition) < len(t.Partitions)
			}
			if !whole || out[topic.Name] != nil || len(t.Partitions) != int(topic.Partitions) {
				continue // another topic of the answer by the same name
			}
			for _, p := range t.Partitions {
				list[p.Partition] = racks[p.Leader]
				some = some || list[p.Partition] != ""
			}
			if !some {
				list = nil
			}
			out[topic.Name] = list
			break
		}
	}
	return out
}

// Of each topic the leaders are told as in the latest answer that has it, whichever reader read it.
func TestLeadersAreThoseOfTheLatestAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shared := &racks{}
		readers := []*metadataReader{{racks: shared}, {racks: shared}}
		known := map[int32]string{}
		want := []map[string][]string{{}, {}}
		r := metadataOf(0)
		for range rapid.IntRange(1, 8).Draw(t, "answers") {
			n := rapid.IntRange(0, 1).Draw(t, "reader")
			r.Version = rapid.Int16Range(1, maxMetadata).Draw(t, "version")
			changeAnswer(t, r)
			r.Topics = uniqueTopics(r.Topics)
			now := leadersIn(r, known)
			if _, err := readers[n].read(r.Version, r.AppendTo(nil)); err != nil {
				t.Fatal(err)
			}
			want[n] = now
			for topic := range 10 {
				name := fmt.Sprint("t", topic)
				expected, ok := want[n][name]
				if !ok {
					expected = want[1-n][name]
				}
				if got := shared.leaders.find(name, &readers[0].led, &readers[1].led); !slices.Equal(got, expected) || (got == nil) != (expected == nil) {
					t.Fatalf("leaders of %s: %q, want %q", name, got, expected)
				}
			}
		}
	})
}

func uniqueTopics(topics []kmsg.MetadataResponseTopic) []kmsg.MetadataResponseTopic {
	seen := map[string]bool{}
	return slices.DeleteFunc(topics, func(t kmsg.MetadataResponseTopic) bool {
		had := seen[*t.Topic]
		seen[*t.Topic] = true
		return had
	})
}

// Other leaders make no other image: they are no change of a topic, and cost no memory that grows with the topics.
func TestLeadersAreNoPartOfTheImage(t *testing.T) {
	m := newReader()
	r := manyTopics(1000)
	image := topicctl.NewImage(readAnswer(t, m, r), nil)
	name := *r.Topics[500].Topic
	raws := [][]byte{r.AppendTo(nil)}
	r.Topics[500].Partitions[0].Leader = (r.Topics[500].Partitions[0].Leader + 1) % 3
	raws = append(raws, r.AppendTo(nil))
	led := func() string { return fmt.Sprint(m.racks.leaders.find(name, &m.led)) }
	before := led()
	turn := 0
	n := testing.AllocsPerRun(100, func() {
		turn++
		s, err := m.read(12, raws[turn%2])
		if err != nil || topicctl.NewImage(s, image) != image {
			t.Fatalf("another image, %v", err)
		}
	})
	if n > 20 {
		t.Errorf("%v allocations for one other leader", n)
	}
	if _, err := m.read(12, raws[1]); err != nil || led() == before {
		t.Errorf("leaders %s as before, %v", led(), err)
	}
}

// Memory of what topics share is bounded, and so are the racks.
func TestLeadersAreBounded(t *testing.T) {
	l := &leaders{}
	for n := range maxRackNumbers + 100 {
		if got, want := l.number(fmt.Sprint("rack", n)), min(n+1, maxRackNumbers); n < maxRackNumbers && int(got) != want || n >= maxRackNumbers && got != 0 {
			t.Fatalf("rack %d has number %d", n, got)
		}
	}
	var key []byte
	for n := range maxRackLists + 10 {
		key = append(key[:0], byte(n>>16), byte(n>>8), byte(n), 1)
		if l.share(key) != string(key) {
			t.Fatal("another string")
		}
	}
	if len(l.shared) > maxRackLists || len(l.racks) != maxRackNumbers {
		t.Errorf("%d strings, %d racks", len(l.shared), len(l.racks))
	}
}
