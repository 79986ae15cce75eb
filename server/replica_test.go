package server

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

func entryOf(t *testing.T, group string) ([]byte, []record.Record) {
	t.Helper()
	records := []record.Record{{Key: record.Key{Type: record.TypeGroupMetadata, Group: group},
		Value: &record.GroupMetadata{Epoch: 2, ValidatedTopologyEpoch: -1, StoredDescriptionEpoch: -1, FailedDescriptionEpoch: -1}}}
	data := record.EncodeEntry(nil, record.Entry{FeatureLevel: record.FeatureLevel, Proposal: 7, Records: records})
	if len(data) == 0 {
		t.Fatal("the entry cannot be encoded")
	}
	return data, records
}

func TestReplicaTakesOverOnlyExactlyWhatWasExpected(t *testing.T) {
	data, records := entryOf(t, "a")
	other, _ := entryOf(t, "b")
	empty := fsm.NewState()
	planned, err := empty.EvolveAll(records)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		before []byte // applied first
		from   fsm.State
		data   []byte // applied then
		shared bool
	}{
		{"the entry on that state", nil, empty, data, true},
		{"another entry", nil, empty, other, false},
		{"the entry on another state", other, empty, data, false},
	} {
		r := newReplica(nil)
		r.store(0, empty)
		if c.before != nil {
			if err := r.Apply(1, c.before); err != nil {
				t.Fatal(err)
			}
		}
		r.expect(data, c.from, planned)
		if err := r.Apply(2, bytes.Clone(c.data)); err != nil {
			t.Fatal(err)
		}
		if shared := r.State() == planned; shared != c.shared {
			t.Errorf("%s: taken over: %v", c.name, shared)
		}
		if c.before != nil && r.State().NumGroups() != 2 {
			t.Errorf("%s: %d groups", c.name, r.State().NumGroups())
		}
	}
}

// A newer release may write records that this one does not know. They are left out, and somebody is told.
func TestRecordsOfUnknownTypesAreLeftOutWithAWarning(t *testing.T) {
	data, _ := entryOf(t, "a")
	const header, crcAt = 28, 24 // see record.Entry
	binary.BigEndian.PutUint16(data[header+4:], 1999)
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.BigEndian.PutUint32(data[crcAt:], crc32.Update(crc32.Checksum(data[:crcAt], table), table, data[header:]))
	known, _ := entryOf(t, "b")

	var out bytes.Buffer
	n := &Node{log: hclog.New(&hclog.LoggerOptions{Output: &out})}
	r := newReplica(nil)
	r.skipped = n.recordsSkipped("shard 3")
	for i, entry := range [][]byte{data, known, data} {
		if err := r.Apply(uint64(i+1), entry); err != nil {
			t.Fatal(err)
		}
	}
	if s := r.State(); s.NumGroups() != 1 || s.Group("b") == nil {
		t.Errorf("%d groups", s.NumGroups())
	}
	line := out.String()
	if strings.Count(line, "unknown types") != 1 || !strings.Contains(line, "shard 3") || !strings.Contains(line, "records=1") {
		t.Errorf("one warning was wanted for the first of two entries in a second:\n%s", line)
	}
}
