package upstream

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/coordd/coordd/topicctl"
	"github.com/coordd/coordd/topology"
)

func metadataOf(version int16, brokers ...kmsg.MetadataResponseBroker) *kmsg.MetadataResponse {
	r := kmsg.NewPtrMetadataResponse()
	r.Version, r.Brokers, r.ClusterID, r.ControllerID = version, brokers, kmsg.StringPtr("cluster"), 2
	return r
}

func brokerIn(id int32, rack string) kmsg.MetadataResponseBroker {
	b := kmsg.NewMetadataResponseBroker()
	b.NodeID, b.Host, b.Port = id, fmt.Sprint("host", id), 9092
	if rack != "" {
		b.Rack = &rack
	}
	return b
}

func topicWith(name string, id byte, replicas ...[]int32) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID[0] = &name, id
	for p, r := range replicas {
		partition := kmsg.NewMetadataResponseTopicPartition()
		partition.Partition, partition.Replicas, partition.ISR = int32(p), r, r
		partition.Leader = -1
		if len(r) > 0 {
			partition.Leader = r[0]
		}
		t.Partitions = append(t.Partitions, partition)
	}
	return t
}

func newReader() *metadataReader { return &metadataReader{racks: &racks{}} }

func readAnswer(t testing.TB, m *metadataReader, r *kmsg.MetadataResponse) *topicctl.Snapshot {
	t.Helper()
	s, err := m.read(r.Version, r.AppendTo(nil))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRacksOfDeadBrokersAreRemembered(t *testing.T) {
	m := newReader()
	r := metadataOf(12, brokerIn(2, "b"), brokerIn(1, "a"))
	r.Topics = []kmsg.MetadataResponseTopic{topicWith("t", 1, []int32{2, 1}, []int32{2})}
	slices.Reverse(r.Topics[0].Partitions)
	first := topicctl.NewImage(readAnswer(t, m, r), nil)
	r.Brokers = r.Brokers[:1]
	second := topicctl.NewImage(readAnswer(t, m, r), first)
	got, _ := second.Topic("t")
	if fmt.Sprint(got.Racks) != "[[a b] [b]]" || second.Version != first.Version {
		t.Errorf("racks %v, versions %d %d", got.Racks, first.Version, second.Version)
	}
	// Racks of brokers change without a byte of the topics.
	r.Brokers = []kmsg.MetadataResponseBroker{brokerIn(2, "c"), brokerIn(1, "a")}
	third := topicctl.NewImage(readAnswer(t, m, r), second)
	if got, _ := third.Topic("t"); fmt.Sprint(got.Racks) != "[[a c] [c]]" || third.Version != first.Version+1 {
		t.Errorf("racks %v, version %d", got.Racks, third.Version)
	}
}

// Readers share what they know of racks: that of a broker which is down, and that another one has moved.
func TestReadersShareRacks(t *testing.T) {
	shared := &racks{}
	all, named := metadataReader{racks: shared}, metadataReader{racks: shared}
	r := metadataOf(12, brokerIn(1, "a"), brokerIn(2, "b"))
	r.Topics = []kmsg.MetadataResponseTopic{topicWith("t", 1, []int32{1, 2})}
	readAnswer(t, &all, r)
	r.Brokers = r.Brokers[:1]
	if s := readAnswer(t, &named, r); fmt.Sprint(s.Topics[0].Racks) != "[[a b]]" {
		t.Errorf("racks %v", s.Topics[0].Racks)
	}
	r.Brokers = []kmsg.MetadataResponseBroker{brokerIn(1, "c")}
	readAnswer(t, &named, r)
	if s := readAnswer(t, &all, r); fmt.Sprint(s.Topics[0].Racks) != "[[b c]]" {
		t.Errorf("racks %v", s.Topics[0].Racks)
	}
}

// What an answer says of a topic that is not whole is no word that it is gone.
func TestTopicsWithErrors(t *testing.T) {
	withError := func(name string, code *kerr.Error, replicas ...[]int32) kmsg.MetadataResponseTopic {
		topic := topicWith(name, 1, replicas...)
		topic.ErrorCode = code.Code
		return topic
	}
	leaderless := topicWith("leaderless", 2, []int32{1}, []int32{1})
	leaderless.Partitions[1].ErrorCode, leaderless.Partitions[1].Leader = kerr.LeaderNotAvailable.Code, -1
	gap := topicWith("gap", 3, []int32{1}, []int32{1})
	gap.Partitions[1].Partition = 2
	twice := topicWith("twice", 4, []int32{1}, []int32{1})
	twice.Partitions[1].Partition = 0
	nameless := topicWith("", 5, []int32{1})
	for _, version := range []int16{1, 4, 8, 9, 12, 13} {
		r := metadataOf(version, brokerIn(1, ""))
		r.Topics = []kmsg.MetadataResponseTopic{
			leaderless, gap, twice, nameless, topicWith("empty", 6),
			withError("no-leader", kerr.LeaderNotAvailable), withError("elects", kerr.LeaderNotAvailable, []int32{1}),
			withError("forbidden", kerr.TopicAuthorizationFailed),
			withError("unknown", kerr.UnknownTopicOrPartition), withError("unknown-id", kerr.UnknownTopicID),
			withError("in!valid", kerr.InvalidTopicException),
		}
		s := readAnswer(t, newReader(), r)
		var names []string
		for _, topic := range s.Topics {
			names = append(names, fmt.Sprintf("%s %d", topic.Name, topic.Partitions))
		}
		if fmt.Sprint(names) != "[elects 1 leaderless 2]" || fmt.Sprint(s.Unclear) != "[empty forbidden gap no-leader twice]" {
			t.Errorf("version %d: topics %q, unclear %q", version, names, s.Unclear)
		}
	}
	r := metadataOf(13, brokerIn(1, ""))
	r.ErrorCode = kerr.RebootstrapRequired.Code
	if s, err := newReader().read(13, r.AppendTo(nil)); err == nil {
		t.Errorf("an answer with an error: %+v", s)
	}
}

// An answer that repeats the last one outside of its head costs no reading, and one that says the same in other bytes no
// new topics.
func TestUnchangedTopicsAreShared(t *testing.T) {
	m := newReader()
	r := metadataOf(12, brokerIn(1, "a"), brokerIn(2, "b"))
	for n := range 100 {
		r.Topics = append(r.Topics, topicWith(fmt.Sprint("t", n*37%100), byte(n), []int32{1, 2}, []int32{2, 1}))
	}
	first := readAnswer(t, m, r)
	same := func(s *topicctl.Snapshot) bool { return len(s.Topics) == 100 && &s.Topics[0] == &first.Topics[0] }
	r.ThrottleMillis, r.ControllerID = 7, 1
	if s := readAnswer(t, m, r); !same(s) || s.ControllerID != 1 {
		t.Error("another controller makes other topics")
	}
	r.Topics[50].Partitions[0].Leader, r.Topics[50].Partitions[0].ISR = 2, []int32{2}
	slices.Reverse(r.Topics[51].Partitions[0].Replicas)
	if !same(readAnswer(t, m, r)) {
		t.Error("another leader or order of replicas makes other topics")
	}
	slices.Reverse(r.Topics)
	if !same(readAnswer(t, m, r)) {
		t.Error("another order makes other topics")
	}
	r.Topics = append(r.Topics[:20], r.Topics[21:]...)
	s := readAnswer(t, m, r)
	if len(s.Topics) != 99 || &s.Topics[0].Racks[0] != &first.Topics[0].Racks[0] {
		t.Errorf("%d topics, or racks are not shared", len(s.Topics))
	}
	// A part that cannot be read is not remembered as read.
	raw := r.AppendTo(nil)
	if _, err := m.read(12, raw[:len(raw)-5]); err == nil {
		t.Fatal("half an answer is one")
	}
	if s, err := m.read(12, raw); err != nil || len(s.Topics) != 99 {
		t.Errorf("after half an answer: %v", err)
	}
}

// reference says what an answer means, one topic after the other.
func reference(r *kmsg.MetadataResponse, racks map[int32]string) (topics []topology.Topic, unclear []string) {
	seen := map[string]bool{}
	for _, b := range r.Brokers {
		racks[b.NodeID] = ""
		if b.Rack != nil {
			racks[b.NodeID] = *b.Rack
		}
	}
	for _, t := range r.Topics {
		if t.Topic == nil || *t.Topic == "" || absent(t.ErrorCode) {
			continue
		}
		topic := topology.Topic{Name: *t.Topic, ID: t.TopicID, Partitions: int32(len(t.Partitions))}
		if r.Version < 10 {
			topic.ID = [16]byte{}
		}
		byPartition := map[int32][]string{}
		some := false
		for _, p := range t.Partitions {
			list := []string{}
			for _, replica := range p.Replicas {
				if rack := racks[replica]; rack != "" {
					list = append(list, rack)
				}
			}
			slices.Sort(list)
			some = some || len(list) > 0
			byPartition[p.Partition] = list
		}
		whole := len(t.Partitions) > 0
		for p := range topic.Partitions {
			list, ok := byPartition[p]
			whole = whole && ok
			if some {
				topic.Racks = append(topic.Racks, list)
			}
		}
		switch {
		case !whole:
			unclear = append(unclear, topic.Name)
		case !seen[topic.Name]:
			seen[topic.Name] = true
			topics = append(topics, topic)
		}
	}
	slices.SortFunc(topics, func(a, b topology.Topic) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(unclear)
	return topics, unclear
}

func equalTopics(a, b []topology.Topic) bool {
	return slices.EqualFunc(a, b, func(a, b topology.Topic) bool {
		return a.Name == b.Name && a.ID == b.ID && a.Partitions == b.Partitions && len(a.Racks) == len(b.Racks) &&
			slices.EqualFunc(a.Racks, b.Racks, func(x, y []string) bool { return slices.Equal(x, y) })
	})
}

// Whatever answers follow each other, in any version and order, each is read as if it were the first, and what was handed
// over before stays as it was.
func TestReaderAgreesWithReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newReader()
		racks := map[int32]string{}
		r := metadataOf(0)
		var handed []*topicctl.Snapshot
		var copies [][]topology.Topic
		for range rapid.IntRange(1, 8).Draw(t, "answers") {
			r.Version = rapid.Int16Range(1, maxMetadata).Draw(t, "version")
			changeAnswer(t, r)
			wantTopics, wantUnclear := reference(r, racks)
			s, err := m.read(r.Version, r.AppendTo(nil))
			if err != nil {
				t.Fatal(err)
			}
			if !equalTopics(s.Topics, wantTopics) || !slices.Equal(s.Unclear, wantUnclear) {
				t.Fatalf("version %d: %+v, unclear %q\nwant %+v, unclear %q", r.Version, s.Topics, s.Unclear, wantTopics, wantUnclear)
			}
			if len(s.Brokers) != len(r.Brokers) || s.ControllerID != r.ControllerID || s.ClusterID != *r.ClusterID && r.Version >= 2 {
				t.Fatalf("head %+v", s)
			}
			handed, copies = append(handed, s), append(copies, slices.Clone(s.Topics))
		}
		for n, s := range handed {
			if !reflect.DeepEqual(s.Topics, copies[n]) && len(copies[n]) > 0 {
				t.Fatal("a list was changed after it was handed over")
			}
		}
	})
}

// changeAnswer changes some of an answer.
func changeAnswer(t *rapid.T, r *kmsg.MetadataResponse) {
	if len(r.Brokers) == 0 || rapid.IntRange(0, 4).Draw(t, "brokers change") == 0 {
		r.Brokers = nil
		for id := range int32(3) {
			if rapid.IntRange(0, 3).Draw(t, "alive") > 0 {
				r.Brokers = append(r.Brokers, brokerIn(id, rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "rack")))
			}
		}
	}
	replicas := rapid.SliceOfN(rapid.SliceOfN(rapid.Int32Range(0, 3), 0, 3), 0, 3)
	for range rapid.IntRange(0, 4).Draw(t, "changes") {
		at := rapid.IntRange(0, len(r.Topics)).Draw(t, "at")
		switch change := rapid.IntRange(0, 6).Draw(t, "change"); {
		case change <= 1 || at == len(r.Topics):
			name := fmt.Sprint("t", rapid.IntRange(0, 9).Draw(t, "name"))
			r.Topics = slices.Insert(r.Topics, at, topicWith(name, rapid.Byte().Draw(t, "id"), replicas.Draw(t, "replicas")...))
		case change == 2:
			r.Topics = slices.Delete(r.Topics, at, at+1)
		case change == 3:
			r.Topics[at].ErrorCode = rapid.SampledFrom([]int16{0, 3, 5, 29}).Draw(t, "code")
		case change == 4:
			slices.Reverse(r.Topics)
			slices.Reverse(r.Topics[at].Partitions)
		case change == 5:
			for p := range r.Topics[at].Partitions {
				r.Topics[at].Partitions[p].Leader = rapid.Int32Range(-1, 3).Draw(t, "leader")
			}
		default:
			for p := range r.Topics[at].Partitions {
				r.Topics[at].Partitions[p].Partition = rapid.Int32Range(-1, 3).Draw(t, "partition")
			}
		}
	}
}

// Memory of what is shared is bounded, and what was shared before stays right.
func TestRackListsAreBounded(t *testing.T) {
	r := racks{}
	for id := range int32(500) {
		r.set(id, fmt.Sprint("rack", id))
	}
	key := func(a, b int) []byte { return []byte{0, 0, byte(a >> 8), byte(a), 0, 0, byte(b >> 8), byte(b)} }
	for a := range 500 {
		for b := range 300 {
			l := r.list(key(a, b))
			if want := r.of[int32(a)]; !slices.Contains(l.racks, want) || !slices.Contains(l.racks, r.of[int32(b)]) {
				t.Fatalf("racks of %d and %d: %v", a, b, l.racks)
			}
			if lists := r.lists([]*rackList{l}); !slices.Equal(lists[0], l.racks) {
				t.Fatalf("topic with partition on %d and %d: %v", a, b, lists)
			}
		}
	}
	if len(r.byReplicas) > maxRackLists || len(r.byRacks) > maxRackLists || len(r.byTopic) > maxTopicRacks {
		t.Errorf("%d, %d and %d lists", len(r.byReplicas), len(r.byRacks), len(r.byTopic))
	}
}

func FuzzMetadataReader(f *testing.F) {
	for version := range int16(maxMetadata + 1) {
		r := metadataOf(version, brokerIn(1, "a"), brokerIn(2, ""))
		r.Topics = []kmsg.MetadataResponseTopic{topicWith("t", 1, []int32{1, 2}, nil), topicWith("u", 2)}
		f.Add(version, r.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, raw []byte) {
		version = max(1, version%(maxMetadata+1))
		m := newReader()
		first, err := m.read(version, bytes.Clone(raw))
		again, errAgain := m.read(version, bytes.Clone(raw))
		if (err == nil) != (errAgain == nil) || err == nil && !equalTopics(first.Topics, again.Topics) {
			t.Fatalf("%+v %v, then %+v %v", first, err, again, errAgain)
		}
		r := kmsg.NewPtrMetadataResponse()
		r.Version = version
		if r.ReadFrom(raw) != nil || err != nil {
			return
		}
		topics, unclear := reference(r, map[int32]string{})
		if !equalTopics(first.Topics, topics) || !slices.Equal(first.Unclear, unclear) {
			t.Fatalf("%+v, unclear %q\nwant %+v, unclear %q", first.Topics, first.Unclear, topics, unclear)
		}
	})
}

// manyTopics is the answer of a cluster of three brokers, each in a rack of its own.
func manyTopics(n int) *kmsg.MetadataResponse {
	r := metadataOf(12, brokerIn(0, "eu-west-1a"), brokerIn(1, "eu-west-1b"), brokerIn(2, "eu-west-1c"))
	for i := range n {
		var replicas [][]int32
		for p := range 3 {
			replicas = append(replicas, []int32{int32((i + p) % 3), int32((i + p + 1) % 3), int32((i + p + 2) % 3)})
		}
		t := topicWith(fmt.Sprintf("team-%03d.service-%05d.events.v1", i*7919%300, i), 0, replicas...)
		t.TopicID = [16]byte{byte(i), byte(i >> 8), byte(i >> 16), 1}
		r.Topics = append(r.Topics, t)
	}
	return r
}

// BenchmarkPoll is what a node does with the answer of a cluster of 50,000 topics with 3 partitions each: when the answer
// is the first, when it is as before, when one leader changed, and when a topic came or went. bytes/topic is what is kept.
func BenchmarkPoll(b *testing.B) {
	const topics = 50_000
	r := manyTopics(topics)
	raws := [][]byte{r.AppendTo(nil)}
	r.Topics[topics/2].Partitions[0].Leader = 2
	raws = append(raws, r.AppendTo(nil))
	r.Topics = append(r.Topics[:topics/3:topics/3], r.Topics[topics/3+1:]...)
	raws = append(raws, r.AppendTo(nil))
	r = nil
	poll := func(m *metadataReader, image *topicctl.Image, raw []byte) *topicctl.Image {
		s, err := m.read(12, raw)
		if err != nil {
			b.Fatal(err)
		}
		return topicctl.NewImage(s, image)
	}
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		before := heapInUse()
		m := newReader()
		image := poll(m, nil, raws[0])
		kept := heapInUse() - before
		began := cpuTime(b)
		for b.Loop() {
			poll(newReader(), nil, raws[0])
		}
		b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		b.ReportMetric(float64(kept)/topics, "bytes/topic")
		runtime.KeepAlive(m)
		runtime.KeepAlive(image)
	})
	for _, c := range []struct {
		name  string
		turns []int
	}{{"same", []int{0}}, {"leader", []int{0, 1}}, {"topic", []int{1, 2}}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			m := newReader()
			image := poll(m, nil, raws[c.turns[0]])
			began := cpuTime(b)
			for n := 0; b.Loop(); n++ {
				image = poll(m, image, raws[c.turns[n%len(c.turns)]])
			}
			b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// cpuTime is the CPU time of the process, garbage collection included; other processes do not count.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
