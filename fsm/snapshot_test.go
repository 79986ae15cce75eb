package fsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"testing/iotest"
	"unsafe"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/fsm/record/recordtest"
)

func alias(b []byte) string { return unsafe.String(&b[0], len(b)) }

// sampleState holds each sample that leaves a record, and the system shard's facts.
func sampleState(t testing.TB) State {
	s := NewState()
	for _, sample := range recordtest.Samples() {
		if sample.Record.Value == nil {
			continue
		}
		var err error
		if s, err = s.Evolve(sample.Record); err != nil {
			t.Fatal(err)
		}
	}
	s, err := s.EvolveAll([]record.Record{
		{Key: record.Key{Type: record.TypeNode, ID: -3}, Value: &record.Node{RaftAddress: "a"}},
		{Key: record.Key{Type: record.TypeNode, ID: 7}, Value: &record.Node{RaftAddress: "b", Live: true}},
		{Key: record.Key{Type: record.TypeBrokerSlot, ID: 1}, Value: &record.BrokerSlot{Slot: 4}},
		{Key: record.Key{Type: record.TypeCluster}, Value: &record.Cluster{ID: "c", Shards: 8}},
		{Key: record.Key{Type: record.TypeOffsetsClaim, Group: "g"}, Value: &record.OffsetsClaim{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func snapshotOf(t testing.TB, s State) []byte {
	var buf bytes.Buffer
	if err := WriteSnapshot(&buf, s); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestSnapshot(t *testing.T) {
	s := sampleState(t)
	b := snapshotOf(t, s)
	got, _, err := ReadSnapshot(iotest.OneByteReader(bytes.NewReader(b)))
	if err != nil {
		t.Fatal(err)
	}
	if print(got) != print(s) || got.Digest() != s.Digest() || s.Digest() == 0 {
		t.Fatal("restored state differs")
	}
	if !bytes.Equal(b, snapshotOf(t, got)) {
		t.Fatal("snapshot of the restored state differs")
	}
}

// TestSnapshotDamage flips a bit in each byte, and cuts after each: nothing may pass as a state.
func TestSnapshotDamage(t *testing.T) {
	b := snapshotOf(t, sampleState(t))
	step := 1
	if testing.Short() {
		step = 7
	}
	for i := 0; i < len(b); i += step {
		b[i] ^= 0x10
		if _, _, err := ReadSnapshot(bytes.NewReader(b)); err == nil {
			t.Fatalf("byte %d changed unnoticed", i)
		}
		b[i] ^= 0x10
	}
	for i := 0; i < len(b); i += 97 {
		if _, _, err := ReadSnapshot(bytes.NewReader(b[:i])); !errors.Is(err, ErrSnapshot) {
			t.Fatalf("cut after %d: %v", i, err)
		}
	}
	if _, _, err := ReadSnapshot(bytes.NewReader(append(b, 0))); !errors.Is(err, ErrSnapshot) {
		t.Fatalf("one byte more: %v", err)
	}
}

func TestSnapshotErrors(t *testing.T) {
	s := sampleState(t)
	broken := errors.New("broken")
	if err := WriteSnapshot(failingWriter{broken}, s); !errors.Is(err, broken) {
		t.Errorf("write: %v", err)
	}
	if _, _, err := ReadSnapshot(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("read: %v", err)
	}
	b := snapshotOf(t, s)
	b[7]++
	if _, _, err := ReadSnapshot(bytes.NewReader(b)); !errors.Is(err, record.ErrVersion) {
		t.Errorf("version: %v", err)
	}
}

// TestSnapshotSkipsUnknownTypes reads a snapshot that a newer version wrote.
func TestSnapshotSkipsUnknownTypes(t *testing.T) {
	known, err := record.AppendRecord(nil, targetMeta(3))
	if err != nil {
		t.Fatal(err)
	}
	unknown := bytes.Clone(known)
	binary.BigEndian.PutUint16(unknown[4:], 1999)
	b := append(snapshotMagic[:], 0, 0, 0, 0, 0, 0, 0, 2)
	b = append(append(b, known...), unknown...)
	b = binary.BigEndian.AppendUint64(b, hashOf(known)+hashOf(unknown))
	s, skipped, err := ReadSnapshot(bytes.NewReader(b))
	if err != nil || skipped != 1 || s.NumRecords() != 1 || s.Group("g").AssignmentEpoch() != 3 {
		t.Fatalf("%d records, %v", s.NumRecords(), err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// FuzzReadSnapshot demands that whatever reads as a snapshot is written and read again as the same state. The fuzzer's
// bytes get a right digest where they can have one, else the digest would keep it out.
func FuzzReadSnapshot(f *testing.F) {
	f.Add(snapshotOf(f, NewState()))
	f.Add(snapshotOf(f, sampleState(f)))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, _, err := ReadSnapshot(bytes.NewReader(withDigest(b)))
		if err != nil {
			return
		}
		again, _, err := ReadSnapshot(bytes.NewReader(snapshotOf(t, s)))
		if err != nil {
			t.Fatal(err)
		}
		if print(again) != print(s) {
			t.Fatalf("restored state differs:\n%s\n%s", print(s), print(again))
		}
	})
}

// withDigest cuts b after its records and puts their digest there.
func withDigest(b []byte) []byte {
	r := snapshotReader{}
	if len(b) < 16 {
		return b
	}
	count := binary.BigEndian.Uint64(b[8:])
	at := 16
	for ; count > 0; count-- {
		_, n, err := r.decoder.Decode(b[at:])
		if err != nil && !errors.Is(err, record.ErrUnknownType) {
			return b
		}
		r.digest += hashOf(b[at : at+n])
		at += n
	}
	return binary.BigEndian.AppendUint64(bytes.Clone(b[:at]), r.digest)
}
