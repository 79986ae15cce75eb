package record_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/fsm/record"
)

// ownBytes are the encodings of ownSamples, laid down by hand from the fields: a log that is written today must be read
// for ever.
var ownBytes = map[record.Type]string{
	record.TypeOffsetsStore: "00000005" + "03f1" + "000167" + "00000004" + "0000" + "01" + "00",
	record.TypeGroupMarks:   "00000005" + "03ee" + "000167" + "00000015" + "0000" + "026d" + "0000000000000005" + "0000000000000006" + "00",
	record.TypeGroupTopics: "00000005" + "03ef" + "000167" + "00000033" + "0000" + "00000002" + "0000000000000007" +
		"03" + "0230" + "00000003" + "02" + "00000003" + "01" + "02" + "03696e" + "00" +
		"0231" + "00000004" + "01" + "03" + "00000004" + "00000005" + "01" + "00" + "00",
	record.TypeTopologyVersion: "00000009" + "03f0" + "000167" + "00000002" + "00000045" + "0000" +
		"00000001" + "00000006" + "00000000" + "00000003" + "0102030405060708090a0b0c0d0e0f10" + "0000000000000005" + "03" +
		"00000002" + "02" + "0230" + "02" + "0261" + "01" + "01" + "01" + "01" + "01" + "00" + "00" + // content
		"02" + "0230" + "00000004" + "00" + "00",
	record.TypeJournalEntry: "00000009" + "03ed" + "000167" + "00000007" + "00000070" + "0000" +
		"000000000000006b" + "00000003" + "00000004" + "00000000000003e8" + "00000000000003e9" + "00000000000003ea" + "036d32" +
		"02" + "00" + "00000002" + "00" + // counts
		"02" + "0001" + "00000003" + "00000000000003e8" + "036d32" + "0269" + "032f68" + "0264" + "00" + // causes
		"00000003" + "04" + "036d31" + "036d32" + "01" + // moves: how many, the members
		"03" + "0230" + "00000001" + "00" + "00" + "01" + "00" +
		"0230" + "00000002" + "02" + "02" + "00" + "00" + "00",
}

func TestOwnBytes(t *testing.T) {
	for _, r := range ownSamples {
		text, ok := ownBytes[r.Key.Type]
		if !ok {
			continue
		}
		want, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := record.AppendRecord(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("type %d:\n got %x\nwant %x", r.Key.Type, got, want)
		}
		var d record.Decoder
		back, n, err := d.Decode(want)
		if err != nil || n != len(want) {
			t.Fatalf("type %d: %d bytes read, %v", r.Key.Type, n, err)
		}
		if diff := cmp.Diff(r, back); diff != "" {
			t.Errorf("type %d: %s", r.Key.Type, diff)
		}
	}
}

// TestJournalMoveOfNoMember refuses a move that names a member which the entry does not have.
func TestJournalMoveOfNoMember(t *testing.T) {
	for _, r := range ownSamples {
		if r.Key.Type != record.TypeJournalEntry {
			continue
		}
		b, err := record.AppendValue(nil, r.Value)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-3] = 9 // the last move's receiver
		if _, err := record.DecodeValue(r.Key.Type, b); err == nil {
			t.Error("accepted")
		}
	}
}

// TestNodeLevel reads nodes of releases that tell no feature level, and what those read of the others.
func TestNodeLevel(t *testing.T) {
	key := record.Key{Type: record.TypeNode, ID: 3}
	const plain = "00000006" + "03e9" + "00000003" + "0000000e" + "0000" + "0261" + "0262" + "0001" + "0002" + "0003" + "01"
	for _, c := range []struct {
		text  string
		level uint16
		want  uint16
	}{
		{plain + "00", 0, 1},
		{"00000006" + "03e9" + "00000003" + "00000012" + "0000" + "0261" + "0262" + "0001" + "0002" + "0003" + "01" + "01" + "00" + "02" + "0002", 2, 2},
	} {
		node := &record.Node{RaftAddress: "a", ClientHost: "b", ClientPort: 1, BrokerPortBase: 2, BrokerPortStep: 3, Live: true, FeatureLevel: c.level}
		got, err := record.AppendRecord(nil, record.Record{Key: key, Value: node})
		if err != nil || hex.EncodeToString(got) != c.text {
			t.Fatalf("level %d: %x, %v", c.level, got, err)
		}
		var d record.Decoder
		back, _, err := d.Decode(got)
		if err != nil || back.Value.(*record.Node).Level() != c.want {
			t.Errorf("level %d: %v, %v", c.level, back.Value, err)
		}
	}
}

// TestLevelOf names what releases of feature level 1 leave out of their state.
func TestLevelOf(t *testing.T) {
	for _, s := range ownSamples {
		want := uint16(1)
		if s.Key.Type == record.TypeOffsetsStore {
			want = 2
		}
		known := record.Record{Key: record.Key{Type: record.TypeGroupMetadata, Group: "g"}}
		if got := record.LevelOf([]record.Record{known, s}); got != want {
			t.Errorf("type %d: level %d, want %d", s.Key.Type, got, want)
		}
	}
	tombstone := record.Record{Key: record.Key{Type: record.TypeOffsetCommit, Group: "g", Topic: "t"}}
	b := record.EncodeEntry(nil, record.Entry{FeatureLevel: record.LevelOf([]record.Record{tombstone}), Records: []record.Record{tombstone}})
	if got := record.EntryLevel(b); got != 2 {
		t.Errorf("the entry of a deleted offset has level %d", got)
	}
	if record.EntryLevel(nil) != 0 || record.EntryLevel([]byte("no entry, but long enough for one")) != 0 {
		t.Error("what is no entry has a level")
	}
}
