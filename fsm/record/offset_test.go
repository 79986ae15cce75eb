package record_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/fsm/record"
)

// TestOffsetVersions reads each version of an offset's value that Kafka has written (OffsetCommitValue.json), and writes
// version 4, or 1 where the value has an expiry. The bytes are laid down by hand.
func TestOffsetVersions(t *testing.T) {
	const offset, epoch, meta, committed, expiry = "0000000000000007", "00000003", "6d64", "000001a0c4ab2c00", "000001a0c4ab2c63"
	const ms = 0x1a0c4ab2c00
	id := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	for _, tt := range []struct {
		name, bytes string
		want        record.OffsetCommit
		written     bool
	}{
		{"0", "0000" + offset + "0002" + meta + committed,
			record.OffsetCommit{Offset: 7, LeaderEpoch: -1, Metadata: "md", CommitTimestampMs: ms, ExpireTimestampMs: -1}, false},
		{"1", "0001" + offset + "0002" + meta + committed + expiry,
			record.OffsetCommit{Offset: 7, LeaderEpoch: -1, Metadata: "md", CommitTimestampMs: ms, ExpireTimestampMs: ms + 99}, true},
		{"1 without an expiry", "0001" + offset + "0002" + meta + committed + "ffffffffffffffff",
			record.OffsetCommit{Offset: 7, LeaderEpoch: -1, Metadata: "md", CommitTimestampMs: ms, ExpireTimestampMs: -1}, false},
		{"2", "0002" + offset + "0000" + committed,
			record.OffsetCommit{Offset: 7, LeaderEpoch: -1, CommitTimestampMs: ms, ExpireTimestampMs: -1}, false},
		{"3", "0003" + offset + epoch + "0002" + meta + committed,
			record.OffsetCommit{Offset: 7, LeaderEpoch: 3, Metadata: "md", CommitTimestampMs: ms, ExpireTimestampMs: -1}, false},
		{"4", "0004" + offset + epoch + "03" + meta + committed + "00",
			record.OffsetCommit{Offset: 7, LeaderEpoch: 3, Metadata: "md", CommitTimestampMs: ms, ExpireTimestampMs: -1}, true},
		{"4 with a topic id", "0004" + offset + "ffffffff" + "01" + committed + "01" + "00" + "10" + hex.EncodeToString(id[:]),
			record.OffsetCommit{Offset: 7, LeaderEpoch: -1, CommitTimestampMs: ms, ExpireTimestampMs: -1, TopicID: id}, true},
		{"4 with an unknown tag", "0004" + offset + epoch + "01" + committed + "01" + "05" + "01" + "aa",
			record.OffsetCommit{Offset: 7, LeaderEpoch: 3, CommitTimestampMs: ms, ExpireTimestampMs: -1}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := hex.DecodeString(tt.bytes)
			if err != nil {
				t.Fatal(err)
			}
			got, err := record.DecodeValue(record.TypeOffsetCommit, b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Error(diff)
			}
			again, err := record.AppendValue(nil, got)
			if err != nil || bytes.Equal(again, b) != tt.written {
				t.Errorf("written as %x, %v", again, err)
			}
			for i := range b {
				if _, err := record.DecodeValue(record.TypeOffsetCommit, b[:i]); !errors.Is(err, record.ErrMalformed) {
					t.Errorf("cut after %d bytes: %v", i, err)
				}
			}
		})
	}
	for _, version := range []string{"0005", "ffff"} {
		b, _ := hex.DecodeString(version + offset + epoch + "01" + committed + "00")
		if _, err := record.DecodeValue(record.TypeOffsetCommit, b); !errors.Is(err, record.ErrVersion) {
			t.Errorf("version %s: %v", version, err)
		}
	}
}

// TestOffsetKey reads keys of both of Kafka's types (OffsetCommitKey.json, LegacyOffsetCommitKey.json) as one.
func TestOffsetKey(t *testing.T) {
	want := record.Key{Type: record.TypeOffsetCommit, Group: "g", Topic: "tp", ID: 9}
	for _, text := range []string{"0000" + "000167" + "00027470" + "00000009", "0001" + "000167" + "00027470" + "00000009"} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if k, err := record.DecodeKey(b); err != nil || k != want {
			t.Errorf("%s: %s, %v", text, k, err)
		}
		if b[1] == 1 {
			if again, err := record.AppendKey(nil, want); err != nil || !bytes.Equal(again, b) {
				t.Errorf("written as %x, %v", again, err)
			}
		}
	}
}

// TestOffsetsLeftUpstream is told by a tagged field; without it the record is what it was before there was one.
func TestOffsetsLeftUpstream(t *testing.T) {
	for want, value := range map[record.OffsetsStore][]byte{
		{Store: record.StoreRaft}:                     {0, 0, 1, 0},
		{Store: record.StoreRaft, LeftUpstream: true}: {0, 0, 1, 1, 0, 1, 1},
	} {
		if b, err := record.AppendValue(nil, &want); err != nil || !bytes.Equal(b, value) {
			t.Errorf("%+v is written as %x, %v", want, b, err)
		}
		if v, err := record.DecodeValue(record.TypeOffsetsStore, value); err != nil || *v.(*record.OffsetsStore) != want {
			t.Errorf("%x is read as %+v, %v", value, v, err)
		}
	}
}

// TestNoSuchStore refuses a store of a newer version, which must not be taken for another one.
func TestNoSuchStore(t *testing.T) {
	if _, err := record.DecodeValue(record.TypeOffsetsStore, []byte{0, 0, 2, 0}); !errors.Is(err, record.ErrMalformed) {
		t.Errorf("read: %v", err)
	}
	if _, err := record.AppendValue(nil, &record.OffsetsStore{Store: 2}); !errors.Is(err, record.ErrValue) {
		t.Errorf("written: %v", err)
	}
}
