package fsm

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/fsm/record"
)

func offsetAt(topic string, partition int32, v record.OffsetCommit) record.Record {
	return record.Record{Key: record.Key{Type: record.TypeOffsetCommit, Group: "g", Topic: topic, ID: partition}, Value: &v}
}

func committed(offset int64) record.OffsetCommit {
	return record.OffsetCommit{Offset: offset, LeaderEpoch: -1, ExpireTimestampMs: -1}
}

// checkOffsets holds the ways to read offsets against each other.
func checkOffsets(t *rapid.T, g *Group) {
	n := 0
	var topics []string
	for p, v := range g.Offsets() {
		n++
		if got, ok := g.Offset(p.Topic, p.Partition); !ok || got != v {
			t.Fatalf("offset of %v is %v %v, want %v", p, got, ok, v)
		}
		topics = append(topics, p.Topic)
	}
	if n != g.NumOffsets() {
		t.Fatalf("%d offsets, counted %d", g.NumOffsets(), n)
	}
	topics = slices.Compact(topics)
	if got := slices.Collect(g.OffsetTopics()); !slices.Equal(got, topics) {
		t.Fatalf("topics %q, want %q", got, topics)
	}
	for _, topic := range topics {
		for partition, v := range g.TopicOffsets(topic) {
			if got, ok := g.Offset(topic, partition); !ok || got != v {
				t.Fatalf("offset of %q %d is %v %v, want %v", topic, partition, got, ok, v)
			}
			n--
		}
	}
	if n != 0 {
		t.Fatalf("the topics have %d offsets less", n)
	}
	for _, p := range []int32{-2, 3, 33, 64, math.MinInt32} {
		if _, ok := g.Offset("t", p); ok {
			t.Fatalf("there is an offset of partition %d", p)
		}
	}
}

// TestOffsetsWithoutGroup reads offsets of a nil group, and keeps those that come before any other record of their group.
func TestOffsetsWithoutGroup(t *testing.T) {
	var none *Group
	if _, ok := none.Offset("t", 0); ok || none.NumOffsets() != 0 || none.Store() != record.StoreUpstream {
		t.Error("a missing group has offsets")
	}
	for range none.Offsets() {
		t.Error("a missing group has offsets")
	}
	for range none.TopicOffsets("t") {
		t.Error("a missing group has offsets")
	}
	for range none.OffsetTopics() {
		t.Error("a missing group has topics")
	}
	s, err := NewState().EvolveAll([]record.Record{offsetAt("t", 0, committed(7)), groupMeta(2), meta("m", "p", "")})
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := s.Group("g").Offset("t", 0); !ok || v != committed(7) {
		t.Errorf("%v %v", v, ok)
	}
}

// TestStore is upstream without a record, and again after its tombstone.
func TestStore(t *testing.T) {
	key := record.Key{Type: record.TypeOffsetsStore, Group: "g"}
	s, err := NewState().Evolve(groupMeta(2))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		value record.Value
		want  record.Store
	}{
		{&record.OffsetsStore{Store: record.StoreRaft}, record.StoreRaft},
		{&record.OffsetsStore{Store: record.StoreUpstream}, record.StoreUpstream},
		{&record.OffsetsStore{Store: record.StoreRaft}, record.StoreRaft},
		{nil, record.StoreUpstream},
	} {
		if s, err = s.Evolve(record.Record{Key: key, Value: step.value}); err != nil {
			t.Fatal(err)
		}
		if got := s.Group("g").Store(); got != step.want {
			t.Fatalf("%s, want %s", got, step.want)
		}
	}
}

// TestOffsetsGoWithGroup lets the group's tombstone take its offsets along, those of the same entry, too.
func TestOffsetsGoWithGroup(t *testing.T) {
	s, err := NewState().EvolveAll([]record.Record{groupMeta(2), offsetAt("t", 0, committed(1)), offsetAt("u", 3, committed(2))})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.EvolveAll([]record.Record{offsetAt("t", 1, committed(3)), gone(groupMeta(2)), offsetAt("v", 0, committed(4))}); err != nil {
		t.Fatal(err)
	}
	g := s.Group("g")
	if v, ok := g.Offset("v", 0); g.NumOffsets() != 1 || !ok || v != committed(4) || s.NumRecords() != 1 {
		t.Fatalf("%d offsets, %d records", g.NumOffsets(), s.NumRecords())
	}
	if s, err = s.Evolve(gone(offsetAt("v", 0, committed(4)))); err != nil {
		t.Fatal(err)
	}
	if s.Group("g") != nil || s.NumRecords() != 0 || s.Digest() != 0 {
		t.Fatal("the last offset left the group behind")
	}
}

// TestOffsetForms keeps what does not fit the compact form beside what does, over changes between the two.
func TestOffsetForms(t *testing.T) {
	long, expiring, other := committed(1), committed(2), committed(3)
	long.Metadata = strings.Repeat("x", 4096)
	expiring.ExpireTimestampMs = 99
	other.TopicID = [16]byte{1}
	short := committed(4)
	short.Metadata = strings.Repeat("s", maxBlockText)
	all := []record.OffsetCommit{long, expiring, other, short, committed(5)}
	for shift := range all {
		s := NewState()
		for round := range len(all) {
			var records []record.Record
			for p := range int32(40) {
				records = append(records, offsetAt("t", p, all[(int(p)*shift+round)%len(all)]))
			}
			var err error
			if s, err = s.EvolveAll(records); err != nil {
				t.Fatal(err)
			}
			again, err := NewState().EvolveAll(slices.Collect(s.Records()))
			if err != nil || again.Digest() != s.Digest() || s.NumRecords() != 40 {
				t.Fatalf("shift %d, round %d: %d records, digest %x, made anew %x, %v", shift, round, s.NumRecords(), s.Digest(), again.Digest(), err)
			}
			for p := range int32(40) {
				if v, ok := s.Group("g").Offset("t", p); !ok || v != all[(int(p)*shift+round)%len(all)] {
					t.Fatalf("shift %d, round %d, partition %d: %v", shift, round, p, v)
				}
			}
		}
	}
}

// TestOffsetIDsAreCopied lets a key's topic change afterwards, as those of a request's buffer do.
func TestOffsetIDsAreCopied(t *testing.T) {
	topic := []byte("topic")
	s, err := NewState().Evolve(offsetAt(alias(topic), 0, committed(1)))
	if err != nil {
		t.Fatal(err)
	}
	copy(topic, "xxxxx")
	if _, ok := s.Group("g").Offset("topic", 0); !ok {
		t.Fatal("lost")
	}
}
