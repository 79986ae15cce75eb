package server

import (
	"bytes"
	"testing"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

func entryOf(t *testing.T, group string) ([]byte, []record.Record) {
	t.Helper()
	records := []record.Record{{Key: record.Key{Type: record.TypeGroupMetadata, Group: group},
		Value: &record.GroupMetadata{Epoch: 2, ValidatedTopologyEpoch: -1, StoredDescriptionEpoch: -1, FailedDescriptionEpoch: -1}}}
	data := record.EncodeEntry(nil, record.Entry{FeatureLevel: featureLevel, Proposal: 7, Records: records})
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
