package offsets

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// book is what a group's offsets in the log ought to be, kept by the rules in the plainest way.
type book struct {
	state   fsm.State
	world   World
	topics  images
	offsets map[TopicPartition]entry
	nextID  byte
}

type entry struct {
	offset, at int64
	id         [16]byte
	metadata   string
}

var bookTopics = []string{"in", "both", "rep", "other"}

// TestOffsetsInTheLogFollowTheRules lets members, strangers and tools commit, read and delete, topics come and go, and time go
// by, and compares what the records make of it with a book.
func TestOffsetsInTheLogFollowTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &book{offsets: map[TopicPartition]entry{}, topics: images{}, world: World{Now: 10_000, TopicsAsOf: 10_000, TopicsCurrent: true}}
		b.world.Topics = b.topics
		for _, topic := range bookTopics {
			b.make(topic)
		}
		b.evolve(t, groupRecords(group2(t)))
		t.Repeat(map[string]func(*rapid.T){
			"":        b.check,
			"commit":  b.commit,
			"delete":  b.delete,
			"topic":   b.change,
			"time":    b.elapse,
			"members": b.members,
			"sweep":   b.sweep,
		})
	})
}

// group2 is the group of the other tests.
func group2(t *rapid.T) *fsm.Group {
	g, err := buildGroup()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (b *book) group() *fsm.Group { return b.state.Group("g") }

func (b *book) evolve(t *rapid.T, records []record.Record) {
	s, err := b.state.EvolveAll(records)
	if err != nil {
		t.Fatal(err)
	}
	b.state = s
}

func (b *book) make(topic string) {
	b.nextID++
	b.topics[topic] = topology.Topic{Name: topic, ID: [16]byte{b.nextID}, Partitions: 4}
}

func (b *book) commit(t *rapid.T) {
	req := &CommitRequest{
		Version: 9, GroupID: "g",
		MemberID:    rapid.SampledFrom([]string{"a", "", "z"}).Draw(t, "member"),
		MemberEpoch: rapid.SampledFrom([]int32{5, 5, 4, 3, 6, -1}).Draw(t, "epoch"),
	}
	for range rapid.IntRange(1, 3).Draw(t, "topics") {
		topic := CommitTopic{Name: rapid.SampledFrom(bookTopics).Draw(t, "topic")}
		if known, ok := b.topics[topic.Name]; ok && rapid.Bool().Draw(t, "by id") {
			topic.ID = known.ID
		}
		for range rapid.IntRange(1, 3).Draw(t, "partitions") {
			metadata := fmt.Sprint("m", rapid.IntRange(0, 9).Draw(t, "metadata"))
			topic.Partitions = append(topic.Partitions, CommitPartition{
				Partition: rapid.Int32Range(-1, 5).Draw(t, "partition"), Offset: rapid.Int64Range(0, 99).Draw(t, "offset"), LeaderEpoch: -1, Metadata: &metadata,
			})
		}
		req.Topics = append(req.Topics, topic)
	}
	kept, refused := AdmitLogged(b.group(), req, b.world.Topics, 4096)
	count := 0
	if kept != nil {
		b.evolve(t, CommitRecords(kept, &b.world))
		for _, topic := range kept.Topics {
			for _, p := range topic.Partitions {
				count++
				known, ok := b.topics[topic.Name]
				if !ok || p.Partition < 0 || p.Partition >= known.Partitions {
					t.Fatalf("%s/%d is taken, which does not exist", topic.Name, p.Partition)
				}
				b.offsets[TopicPartition{Topic: topic.Name, Partition: p.Partition}] = entry{p.Offset, b.world.Now, known.ID, *p.Metadata}
			}
		}
		if code := CheckCommit(b.group(), kept); code != coordinator.None {
			t.Fatalf("a commit is taken in part although what is left of it gets %d", code)
		}
	}
	for _, topic := range refused {
		for _, p := range topic.Partitions {
			count++
			if p.Code == coordinator.None {
				t.Fatal("refused without a code")
			}
		}
	}
	asked := 0
	for _, topic := range req.Topics {
		asked += len(topic.Partitions)
	}
	if count != asked {
		t.Fatalf("%d of %d partitions are answered", count, asked)
	}
}

func (b *book) delete(t *rapid.T) {
	topic := rapid.SampledFrom(bookTopics).Draw(t, "topic")
	allowed, _ := AdmitDelete(b.group(), &DeleteRequest{GroupID: "g", Topics: []FetchTopic{{Name: topic, Partitions: []int32{0, 1, 0}}}}, b.world.Topics)
	b.evolve(t, DeletionRecords(b.group(), allowed))
	_, exists := b.topics[topic]
	if exists && (topic == "other" || b.group().NumMembers() == 0) {
		delete(b.offsets, TopicPartition{Topic: topic, Partition: 0})
		delete(b.offsets, TopicPartition{Topic: topic, Partition: 1})
	}
}

// change deletes a topic, makes it, or makes it anew; the picture of the topics is younger than all commits then.
func (b *book) change(t *rapid.T) {
	topic := rapid.SampledFrom(bookTopics).Draw(t, "topic")
	b.world = World{Now: b.world.Now + 1, TopicsAsOf: b.world.Now + 1, TopicsCurrent: true, Topics: b.topics} // another picture
	if rapid.Bool().Draw(t, "deleted") {
		delete(b.topics, topic)
	} else {
		b.make(topic)
	}
}

func (b *book) elapse(t *rapid.T) {
	b.world.Now += rapid.Int64Range(1, 200).Draw(t, "ms")
	b.world.TopicsAsOf = b.world.Now
}

// members has the member leave or come.
func (b *book) members(t *rapid.T) {
	if b.group().NumMembers() > 0 {
		b.evolve(t, []record.Record{
			{Key: record.Key{Type: record.TypeCurrentAssignment, Group: "g", Member: "a"}},
			{Key: record.Key{Type: record.TypeMemberMetadata, Group: "g", Member: "a"}},
			{Key: record.Key{Type: record.TypeGroupMarks, Group: "g"}, Value: &record.GroupMarks{EmptySinceMs: b.world.Now}},
		})
		return
	}
	b.evolve(t, groupRecords(group2(t)))
}

const bookRetention = 300

// sweep deletes what is due, with the topics that are gone confirmed.
func (b *book) sweep(t *rapid.T) {
	g := b.group()
	due := FindDue(g, &b.world, Retention{Ms: bookRetention}, b.confirmed, rapid.IntRange(1, 20).Draw(t, "limit"))
	want := map[TopicPartition]bool{}
	for tp, e := range b.offsets {
		since := e.at
		if g.NumMembers() == 0 {
			since = max(since, g.Marks.EmptySinceMs)
		}
		read := g.NumMembers() > 0 && tp.Topic != "other"
		if b.gone(tp) || !read && b.world.Now-since >= bookRetention {
			want[tp] = true
		}
	}
	for _, r := range due.Records {
		tp := TopicPartition{Topic: r.Key.Topic, Partition: r.Key.ID}
		if r.Value != nil || !want[tp] {
			t.Fatalf("%v is not due", r.Key)
		}
		delete(b.offsets, tp)
		delete(want, tp)
	}
	if due.More != (len(want) > 0) || due.Left != len(b.offsets) {
		t.Fatalf("%d are due beside, of %d that stay: %+v", len(want), len(b.offsets), due)
	}
	b.evolve(t, due.Records)
}

// confirmed says of a topic what is true.
func (b *book) confirmed(topic string) (Confirmed, bool) {
	known, ok := b.topics[topic]
	return Confirmed{Lookup: topology.Lookup{Missing: !ok, ID: known.ID}, Since: b.world.Now + 1}, true
}

// gone says that an offset is of a topic that is gone, and was not committed just now.
func (b *book) gone(tp TopicPartition) bool {
	e := b.offsets[tp]
	return b.topics[tp.Topic].ID != e.id && e.at < b.world.TopicsAsOf
}

// hidden says that there is another topic of the name.
func (b *book) hidden(tp TopicPartition) bool {
	_, exists := b.topics[tp.Topic]
	return exists && b.gone(tp)
}

func (b *book) check(t *rapid.T) {
	g := b.group()
	if g.NumOffsets() != len(b.offsets) {
		t.Fatalf("%d offsets, want %d", g.NumOffsets(), len(b.offsets))
	}
	shown := map[TopicPartition]FetchedOffset{}
	for _, topic := range Fetch(g, &FetchRequest{}, &b.world).Topics {
		for _, p := range topic.Partitions {
			shown[TopicPartition{Topic: topic.Name, Partition: p.Partition}] = p
		}
	}
	for _, topic := range bookTopics {
		one := Fetch(g, &FetchRequest{Topics: []FetchTopic{{Name: topic, Partitions: []int32{0, 1, 2, 3}}}}, &b.world).Topics[0]
		for _, p := range one.Partitions {
			tp := TopicPartition{Topic: topic, Partition: p.Partition}
			e, ok := b.offsets[tp]
			all, listed := shown[tp]
			if ok = ok && !b.hidden(tp); ok != listed || ok != (p.Offset >= 0) {
				t.Fatalf("%v: %+v and %+v, want %+v, there %v", tp, p, all, e, ok)
			}
			if ok && (p.Offset != e.offset || *p.Metadata != e.metadata || all.Offset != e.offset) {
				t.Fatalf("%v: %+v and %+v, want %+v", tp, p, all, e)
			}
		}
	}
	if n := len(AsCommits(g, &b.world, 2, 1<<20)); n != (len(shown)+1)/2 {
		t.Fatalf("%d parts to hand over %d", n, len(shown))
	}
	if !slices.IsSortedFunc(Fetch(g, &FetchRequest{}, &b.world).Topics, func(a, b FetchTopicResult) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	}) {
		t.Fatal("topics are not in order")
	}
}
