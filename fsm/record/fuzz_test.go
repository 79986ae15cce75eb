package record_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/fsm/record/recordtest"
	"github.com/coordd/coordd/topology"
)

// ownSamples are values of our own types; Kafka's are in recordtest.
var ownSamples = []record.Record{
	{Key: record.Key{Type: record.TypeOffsetsClaim, Group: "g"}, Value: &record.OffsetsClaim{}},
	{Key: record.Key{Type: record.TypeNode, ID: 3}, Value: &record.Node{RaftAddress: "a:1", ClientHost: "h", ClientPort: 2, Live: true}},
	{Key: record.Key{Type: record.TypeBrokerSlot, ID: 4}, Value: &record.BrokerSlot{Slot: 1}},
	{Key: record.Key{Type: record.TypeCluster}, Value: &record.Cluster{ID: "c", Shards: 8, FeatureLevel: 1}},
	{Key: record.Key{Type: record.TypeGroupConfig, Group: "g"}, Value: &record.GroupConfig{Settings: []record.KeyValue{
		{Key: "streams.heartbeat.interval.ms", Value: "6000"}, {Key: "streams.rack.aware.assignment.tags"},
	}}},
	{Key: record.Key{Type: record.TypeGroupMarks, Group: "g"}, Value: &record.GroupMarks{ShutdownBy: "m", DelayUntilMs: 5, EmptySinceMs: 6}},
	{Key: record.Key{Type: record.TypeGroupTopics, Group: "g"}, Value: &record.GroupTopics{TopologyEpoch: 2, SinceMs: 7, Sizes: topology.Sizes{
		{ID: "0", Tasks: 3, Repartition: []int32{3}, Matched: []string{"in"}}, {ID: "1", Tasks: 4, Changelogs: []int32{4, 5}},
	}}},
	{Key: record.Key{Type: record.TypeTopologyVersion, Group: "g", ID: 2}, Value: &record.TopologyVersion{
		Root: 1, First: 6, LastDeclared: 3, Hash: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, SinceMs: 5, Aborted: true,
		Content: &topology.Topology{Epoch: 2, Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"a"}}}},
		Tasks:   []record.TaskCount{{Subtopology: "0", Tasks: 4}},
	}},
	{Key: record.Key{Type: record.TypeJournalEntry, Group: "g", ID: 7}, Value: &record.JournalEntry{
		Sequence: 107, FirstEpoch: 3, Epoch: 4, StartedAtMs: 1000, TargetAtMs: 1001, SettledAtMs: 1002, Slowest: "m2",
		Counts:   []record.JournalCount{{Kind: 0, Count: 2}},
		Causes:   []record.JournalCause{{Kinds: 1, Epoch: 3, AtMs: 1000, Member: "m2", Instance: "i", Host: "/h", Detail: "d"}},
		NumMoves: 3, Moves: []record.JournalMove{
			{Task: topology.Task{Subtopology: "0", Partition: 1}, Role: record.RoleActive, From: "m1", To: "m2"},
			{Task: topology.Task{Subtopology: "0", Partition: 2}, Role: record.RoleWarmup, To: "m1"},
		},
	}},
	{Key: record.Key{Type: record.TypeOffsetsStore, Group: "g"}, Value: &record.OffsetsStore{Store: record.StoreRaft}},
}

// FuzzDecodeEntry demands that any entry that decodes encodes again to one that decodes to the same.
func FuzzDecodeEntry(f *testing.F) {
	all := append([]record.Record(nil), ownSamples...)
	for _, s := range recordtest.Samples() {
		all = append(all, s.Record)
	}
	for _, records := range [][]record.Record{nil, all[:4], all} {
		b := record.EncodeEntry(nil, record.Entry{FeatureLevel: 1, LeaderTimeMs: 2, Proposal: 3, Records: records})
		f.Add(b)
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= 28 { // else the checksum keeps the fuzzer out
			binary.BigEndian.PutUint32(b[24:], crc32.Update(crc32.Checksum(b[:24], table), table, b[28:]))
		}
		e, err := record.DecodeEntry(b)
		if err != nil {
			return
		}
		e.Skipped = 0
		again := record.EncodeEntry(nil, e)
		got, err := record.DecodeEntry(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// FuzzDecodeValue demands the same of single values, of each type.
func FuzzDecodeValue(f *testing.F) {
	all := append([]record.Record(nil), ownSamples...)
	for _, s := range recordtest.Samples() {
		all = append(all, s.Record)
	}
	for _, r := range all {
		if r.Value == nil {
			continue
		}
		b, err := record.AppendValue(nil, r.Value)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(int16(r.Key.Type), b)
	}
	f.Fuzz(func(t *testing.T, typ int16, b []byte) {
		v, err := record.DecodeValue(record.Type(typ), b)
		if err != nil {
			return
		}
		if record.Normal(v) != v {
			t.Fatal("decoded value is not normal")
		}
		first, err := record.AppendValue(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		again, err := record.DecodeValue(record.Type(typ), first)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := record.AppendValue(nil, again); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%x became %x (%v)", first, second, err)
		}
	})
}

// FuzzDecodeKey demands that any key that decodes encodes to the same bytes.
func FuzzDecodeKey(f *testing.F) {
	for _, r := range ownSamples {
		b, err := record.AppendKey(nil, r.Key)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, s := range recordtest.Samples() {
		b, err := record.AppendKey(nil, s.Record.Key)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0, 18, 0, 1, 'g'})
	f.Add([]byte{0, 0, 0, 1, 'g', 0, 1, 't', 0, 0, 0, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := record.DecodeKey(b)
		if err != nil {
			return
		}
		if len(b) >= 2 && b[0] == 0 && b[1] == 0 { // an offset's key by an old Kafka
			b[1] = byte(record.TypeOffsetCommit)
		}
		if again, err := record.AppendKey(nil, k); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x became %x (%v)", b, again, err)
		}
	})
}
