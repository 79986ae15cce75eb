package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/raftnode"
)

func nodeRecord(id int32, level uint16, live bool) record.Record {
	return record.Record{Key: record.Key{Type: record.TypeNode, ID: id}, Value: &record.Node{ClientHost: "h", Live: live, FeatureLevel: level}}
}

func (s *system) takes(t *testing.T, records ...record.Record) {
	t.Helper()
	if err := s.replica.Apply(1, record.EncodeEntry(nil, record.Entry{FeatureLevel: record.LevelOf(records), Records: records})); err != nil {
		t.Fatal(err)
	}
}

// Nothing goes to the log that a node of the cluster would leave out: not one that is down, and not one that nobody has seen.
func TestOffsetsStayUpstreamUntilAllNodesKnowThem(t *testing.T) {
	s := testSystem(1, 2, 3)
	n := s.node
	for _, c := range []struct {
		name    string
		records []record.Record
		want    []string // what is named; nil: nothing is in the way
	}{
		{"nobody was seen", nil, []string{"node 2 (has never been up)", "node 3 (has never been up)"}},
		{"one tells no level", []record.Record{nodeRecord(2, 2, true), nodeRecord(3, 0, true)}, []string{"node 3 (feature level 1)"}},
		{"and is down", []record.Record{nodeRecord(3, 0, false)}, []string{"node 3 (feature level 1 when it was up last)"}},
		{"it was upgraded", []record.Record{nodeRecord(3, 2, true)}, nil},
		{"a newer one", []record.Record{nodeRecord(3, 3, true)}, nil},
		{"one is down", []record.Record{nodeRecord(2, 2, false)}, nil},
		{"one was downgraded", []record.Record{nodeRecord(2, 0, true)}, []string{"node 2 (feature level 1)"}},
	} {
		if c.records != nil {
			s.takes(t, c.records...)
		}
		why := n.offsetsHindrance()
		if want := strings.Join(c.want, ", "); want == "" && why != "" || !strings.HasSuffix(why, want) {
			t.Errorf("%s: %q, want %q", c.name, why, want)
		}
	}
	alone := testSystem(1)
	if why := alone.node.offsetsHindrance(); why != "" {
		t.Errorf("a node alone: %s", why)
	}
	alone.node.parts.FeatureLevel = 1
	if why := alone.node.offsetsHindrance(); !strings.Contains(why, "node 1 (feature level 1)") {
		t.Errorf("an older node alone: %q", why)
	}
}

// What a release before tells of itself is read as level 1, and its higher level after the upgrade has all nodes written again:
// its state lacks what it left out.
func TestLevelsAreWrittenAgainForANodeThatWasUpgraded(t *testing.T) {
	s := testSystem(1, 2, 3)
	s.electedAt = time.Now().Add(-time.Hour)
	var old registration
	if err := json.Unmarshal([]byte(`{"id":3,"raft":"r","host":"h","port":9092,"brokerBase":1,"brokerStep":1}`), &old); err != nil {
		t.Fatal(err)
	}
	now := registration{ID: 2, ClientHost: "h", FeatureLevel: record.FeatureLevel}
	own := registration{ID: 1, ClientHost: "h", FeatureLevel: record.FeatureLevel}
	for _, r := range []registration{own, now, old} {
		s.sight(r)
	}
	s.takes(t, s.dueNodes()...)
	if due := s.dueNodes(); len(due) != 0 {
		t.Fatalf("still due: %v", due)
	}
	if why := s.node.offsetsHindrance(); !strings.Contains(why, "node 3 (feature level 1)") {
		t.Errorf("with a node of the release before: %q", why)
	}
	old.FeatureLevel = record.FeatureLevel
	s.sight(old)
	due := s.dueNodes()
	if len(due) != 3 {
		t.Errorf("%d of 3 nodes are written after the upgrade", len(due))
	}
	s.takes(t, due...)
	if why := s.node.offsetsHindrance(); why != "" {
		t.Errorf("after the upgrade: %s", why)
	}
	if due := s.dueNodes(); len(due) != 0 {
		t.Errorf("still due: %v", due)
	}
	old.FeatureLevel = 0
	s.sight(old)
	s.takes(t, s.dueNodes()...)
	if why := s.node.offsetsHindrance(); !strings.Contains(why, "node 3 (feature level 1)") {
		t.Errorf("after a downgrade: %q", why)
	}
}

// What a newer release wrote is not left out: the node stops, with its state as it was.
func TestAReplicaRefusesWhatANewerReleaseWrote(t *testing.T) {
	data, records := entryOf(t, "a")
	newer := record.EncodeEntry(nil, record.Entry{FeatureLevel: record.FeatureLevel + 1, Records: records})
	r := newReplica(nil)
	if err := r.Apply(1, data); err != nil {
		t.Fatal(err)
	}
	before := r.State()
	err := r.Apply(2, newer)
	if !errors.Is(err, raftnode.ErrOutdated) || !strings.Contains(err.Error(), "release of the other nodes") || r.State() != before {
		t.Errorf("refused with %v, changed %v", err, r.State() != before)
	}
	// An older node refuses what this release writes of offsets.
	offsets := []record.Record{{Key: record.Key{Type: record.TypeOffsetsStore, Group: "a"}, Value: &record.OffsetsStore{Store: record.StoreRaft}}}
	written := record.EncodeEntry(nil, record.Entry{FeatureLevel: record.LevelOf(offsets), Records: offsets})
	r.level = 1
	if err := r.Apply(2, written); !errors.Is(err, raftnode.ErrOutdated) {
		t.Errorf("offsets at a node of level 1: %v", err)
	}
	r.level = record.FeatureLevel
	if err := r.Apply(2, written); err != nil {
		t.Error(err)
	}
}

// A snapshot with a record that this release does not know is a newer one's.
func TestAReplicaRefusesASnapshotOfANewerRelease(t *testing.T) {
	_, records := entryOf(t, "a")
	state, err := fsm.NewState().EvolveAll(records)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := fsm.WriteSnapshot(&out, state); err != nil {
		t.Fatal(err)
	}
	r := newReplica(nil)
	if err := r.Restore(1, bytes.NewReader(out.Bytes())); err != nil {
		t.Fatal(err)
	}
	before := r.State()
	if err := r.restored(7, 1, fsm.NewState()); !errors.Is(err, raftnode.ErrOutdated) || r.State() != before {
		t.Errorf("with an unknown record: %v, changed %v", err, r.State() != before)
	}
}

// The first groups of a cluster that forms wait for the nodes to announce themselves, not for one that does not come.
func TestFirstGroupsWaitForAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testSystem(1, 2)
		n := s.node
		n.config = &config.Node{NodeID: 1, Peers: n.config.Peers, OffsetsStore: "raft"}
		n.clock, n.cluster, n.ctx = newClock(nil), newCluster(n), t.Context()
		asked := func() (after time.Duration) {
			began := time.Now()
			done := make(chan struct{})
			n.onceAnnounced(func() { close(done) })
			<-done
			return time.Since(began)
		}
		if took := asked(); took != announced {
			t.Errorf("%v with a node that does not come", took)
		}
		go func() {
			time.Sleep(10 * time.Millisecond)
			s.takes(t, nodeRecord(2, record.FeatureLevel, true))
			n.cluster.mu.Lock()
			defer n.cluster.mu.Unlock()
			close(n.cluster.changed)
			n.cluster.changed = make(chan struct{})
		}()
		if took := asked(); took != 10*time.Millisecond {
			t.Errorf("%v until a node announced itself", took)
		}
		if took := asked(); took != 0 {
			t.Errorf("%v with all nodes known", took)
		}
		s.takes(t, nodeRecord(2, 0, true))
		time.Sleep(forming + time.Millisecond)
		if took := asked(); took != 0 {
			t.Errorf("%v long after the start", took)
		}
		ended, end := context.WithCancel(context.Background())
		end()
		n.clock, n.ctx = newClock(nil), ended
		n.onceAnnounced(func() { t.Error("asked by a node that has stopped") })
		synctest.Wait()
	})
}
