package record_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/fsm/record/recordtest"
	"github.com/coordd/coordd/topology"
)

func TestEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := record.Entry{
			FeatureLevel: rapid.Uint16().Draw(t, "level"),
			LeaderTimeMs: rapid.Int64().Draw(t, "time"),
			Proposal:     rapid.Uint64().Draw(t, "proposal"),
			Records:      rapid.SliceOfN(recordtest.Records(), 1, 5).Draw(t, "records"),
		}
		prefix := []byte("prefix")
		b := record.EncodeEntry(prefix, want)
		if !bytes.HasPrefix(b, prefix) {
			t.Fatal("what was in the buffer is lost")
		}
		got, err := record.DecodeEntry(b[len(prefix):])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestEntryDamage flips each bit of an entry: the checksum must notice.
func TestEntryDamage(t *testing.T) {
	var records []record.Record
	for _, s := range recordtest.Samples() {
		if s.Name == "22-full" || s.Name == "20-tombstone" {
			records = append(records, s.Record)
		}
	}
	b := record.EncodeEntry(nil, record.Entry{Records: records})
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			if _, err := record.DecodeEntry(b); err == nil {
				t.Fatalf("bit %d of byte %d flipped unnoticed", bit, i)
			}
			b[i] ^= 1 << bit
		}
		if _, err := record.DecodeEntry(b[:i]); err == nil {
			t.Fatalf("cut after %d bytes unnoticed", i)
		}
	}
}

func TestEntryVersion(t *testing.T) {
	b := record.EncodeEntry(nil, record.Entry{})
	b[1]++
	if _, err := record.DecodeEntry(b); !errors.Is(err, record.ErrVersion) {
		t.Fatalf("got %v", err)
	}
}

// TestUnknownTypes skips records of types that are not kept, as Kafka's loader does.
func TestUnknownTypes(t *testing.T) {
	known := record.Record{Key: record.Key{Type: record.TypeTargetMetadata, Group: "g"}, Value: &record.TargetMetadata{AssignmentEpoch: 3}}
	b := record.EncodeEntry(nil, record.Entry{Records: []record.Record{known, known, known}})
	// The record type is the key's first two bytes, after its length.
	size := (len(b) - 28) / 3
	binary.BigEndian.PutUint16(b[28+4:], 18)
	binary.BigEndian.PutUint16(b[28+size+4:], 4242)
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.BigEndian.PutUint32(b[24:], crc32.Update(crc32.Checksum(b[:24], table), table, b[28:]))
	got, err := record.DecodeEntry(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(record.Entry{Records: []record.Record{known}, Skipped: 2}, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestEntryLimit(t *testing.T) {
	big := func(n int) record.Record {
		topics := make([]string, n)
		for i := range topics {
			topics[i] = strings.Repeat("t", 1<<10)
		}
		v := &record.Topology{Topology: topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: topics}}}}
		return record.Record{Key: record.Key{Type: record.TypeTopology, Group: "g"}, Value: v}
	}
	var e record.Encoder
	if err := e.Append(big(300)); err != nil {
		t.Fatal(err)
	}
	before := e.Len()
	if err := e.Append(big(10), big(300)); !errors.Is(err, record.ErrEntryTooLarge) {
		t.Fatalf("got %v", err)
	}
	if e.Len() != before || e.Count() != 1 {
		t.Fatal("a refused record stayed")
	}
	if err := e.Append(big(10)); err != nil {
		t.Fatal(err)
	}
	entry, err := record.DecodeEntry(e.Finish(1, 2, 3))
	if err != nil || len(entry.Records) != 2 {
		t.Fatalf("%d records, %v", len(entry.Records), err)
	}
	if _, err := record.DecodeEntry(append([]byte{0xC7, 1}, make([]byte, record.MaxEntrySize)...)); !errors.Is(err, record.ErrEntryTooLarge) {
		t.Fatalf("got %v", err)
	}
}

func TestEncodeErrors(t *testing.T) {
	long := strings.Repeat("x", 1<<15)
	key := record.Key{Type: record.TypeMemberMetadata, Group: "g", Member: "m"}
	for _, tt := range []struct {
		name string
		r    record.Record
		want error
	}{
		{"long group id", record.Record{Key: record.Key{Type: record.TypeTopology, Group: long}}, record.ErrTooLong},
		{"long string", record.Record{Key: key, Value: &record.MemberMetadata{ClientID: long}}, record.ErrTooLong},
		{"other type", record.Record{Key: key, Value: &record.OffsetsClaim{}}, record.ErrValue},
		{"nil pointer", record.Record{Key: key, Value: (*record.MemberMetadata)(nil)}, record.ErrValue},
		{"unknown type", record.Record{Key: record.Key{Type: 18, Group: "g"}}, record.ErrUnknownType},
	} {
		dst := []byte("kept")
		got, err := record.AppendRecord(dst, tt.r)
		if !errors.Is(err, tt.want) || string(got) != "kept" {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
}

// TestDecodeNormalises reads what a foreign writer may leave unsorted, doubled or empty.
func TestDecodeNormalises(t *testing.T) {
	messy := topology.Tasks{
		{Subtopology: "2", Partitions: []int32{5, 1, 5}, Epochs: []int32{1, 2, 3}},
		{Subtopology: "1"},
		{Subtopology: "10", Partitions: []int32{0}, Epochs: []int32{9}},
		{Subtopology: "2", Partitions: []int32{3}, Epochs: []int32{4}},
	}
	b, err := record.AppendValue(nil, &record.CurrentAssignment{MemberEpoch: 7, State: record.MemberStable,
		Assigned: topology.Assignment{Active: messy, Standby: messy}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := record.DecodeValue(record.TypeCurrentAssignment, b)
	if err != nil {
		t.Fatal(err)
	}
	want := topology.Tasks{
		{Subtopology: "10", Partitions: []int32{0}, Epochs: []int32{9}},
		{Subtopology: "2", Partitions: []int32{1, 3, 5}, Epochs: []int32{2, 4, 3}},
	}
	a := v.(*record.CurrentAssignment).Assigned
	if diff := cmp.Diff(want, a.Active); diff != "" {
		t.Error(diff)
	}
	want[0].Epochs, want[1].Epochs = nil, nil
	if diff := cmp.Diff(want, a.Standby); diff != "" {
		t.Error(diff)
	}
	if a.Warmup == nil {
		t.Error("no tasks must not read as absent")
	}
}

// TestNormalIsDecoded holds Normal to what its comment promises.
func TestNormalIsDecoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom(recordtest.Types).Draw(t, "type")
		v := recordtest.Values(typ).Draw(t, "value")
		b, err := record.AppendValue(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := record.DecodeValue(typ, b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v, got); diff != "" {
			t.Fatal(diff)
		}
		if record.Normal(v) != v {
			t.Fatal("a normal value was copied")
		}
	})
}
