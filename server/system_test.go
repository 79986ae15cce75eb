package server

import (
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/fsm/record"
)

func testSystem(peers ...int32) *system {
	n := &Node{config: &config.Node{NodeID: peers[0]}}
	for _, id := range peers {
		n.config.Peers = append(n.config.Peers, config.Peer{ID: id})
	}
	n.system = newSystem(n)
	n.system.replica = newReplica(nil)
	return n.system
}

func TestRegistrationsOfStrangersAreRefused(t *testing.T) {
	s := testSystem(1, 2, 3)
	for _, c := range []struct {
		name string
		r    registration
		want bool
	}{
		{"another node", registration{ID: 2, ClientHost: "h", ClientPort: 9092}, true},
		{"an id that is not in peers", registration{ID: 77, ClientHost: "h", ClientPort: 9092}, false},
		{"a negative id", registration{ID: -5, ClientHost: "h", ClientPort: 9092}, false},
		{"the leader's own id", registration{ID: 1, ClientHost: "h", ClientPort: 9092}, false},
		{"no host", registration{ID: 2, ClientPort: 9092}, false},
		{"a host beyond all names", registration{ID: 2, ClientHost: strings.Repeat("h", 600)}, false},
	} {
		if got := s.acceptable(&c.r); got != c.want {
			t.Errorf("%s: accepted %t, want %t", c.name, got, c.want)
		}
	}
}

// A log that earlier releases filled with strangers must become writable again: their records are deleted, in entries of
// a bounded size.
func TestStrangersInTheLogAreForgotten(t *testing.T) {
	s := testSystem(1, 2, 3)
	const strangers = 3000
	put := func(id int32, host string) {
		entry := record.Entry{FeatureLevel: record.FeatureLevel, Records: []record.Record{{
			Key: record.Key{Type: record.TypeNode, ID: id}, Value: &record.Node{ClientHost: host, Live: true},
		}}}
		if err := s.replica.Apply(1, record.EncodeEntry(nil, entry)); err != nil {
			t.Fatal(err)
		}
	}
	put(2, "node-2")
	for id := range int32(strangers) {
		put(1000+id, strings.Repeat("h", 300))
	}
	s.electedAt = time.Now().Add(time.Hour) // too early to judge nodes of the cluster, however long this takes
	for rounds := 0; ; rounds++ {
		records := s.dueNodes()
		if len(records) == 0 {
			break
		}
		if rounds > strangers {
			t.Fatal("no end")
		}
		records = records[:min(len(records), maxRecords)]
		b := record.EncodeEntry(nil, record.Entry{FeatureLevel: record.FeatureLevel, Records: records})
		if err := s.replica.Apply(1, b); err != nil {
			t.Fatal(err)
		}
	}
	for id, n := range s.replica.State().Nodes() {
		if id != 2 || !n.Live {
			t.Errorf("left: node %d, live %t", id, n.Live)
		}
	}
}

// What may be registered at most fits into an entry.
func TestRecordsOfASystemEntryFit(t *testing.T) {
	var records []record.Record
	for id := range int32(maxRecords) {
		records = append(records, record.Record{Key: record.Key{Type: record.TypeNode, ID: id}, Value: &record.Node{
			RaftAddress: strings.Repeat("r", maxAddress), ClientHost: strings.Repeat("c", maxAddress),
		}})
	}
	if b := record.EncodeEntry(nil, record.Entry{Records: records}); len(b) == 0 {
		t.Error("an entry of the system shard may be too large")
	}
}
