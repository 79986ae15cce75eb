package server

import (
	"bytes"
	"context"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/raftnode"
)

// configNode is a node whose system shard the test writes.
func configNode(t *testing.T) *Node {
	t.Helper()
	cfg, _, err := config.Load(config.Sources{Set: []string{"data.dir=/x", "upstream.bootstrap.servers=127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{config: cfg, log: hclog.NewNullLogger(), clock: newClock(nil)}
	n.system = newSystem(n)
	n.groupConfigs = newGroupConfigs(n)
	n.system.replica = newReplica(n.groupConfigs.update)
	n.shards = []*runner{newRunner(n, 0)}
	return n
}

func (n *Node) applyConfig(t *testing.T, index uint64, group string, c config.GroupConfig) {
	t.Helper()
	entry := record.Entry{FeatureLevel: record.FeatureLevel, Records: []record.Record{groupConfigRecord(group, c)}}
	if err := n.system.replica.Apply(index, record.EncodeEntry(nil, entry)); err != nil {
		t.Fatal(err)
	}
}

func TestEffectiveSettingsOfGroups(t *testing.T) {
	n := configNode(t)
	defaults := &n.config.Streams.Defaults
	if n.groupConfigs.of("g") != defaults {
		t.Error("a group without settings does not use the node's")
	}
	n.applyConfig(t, 1, "g", config.GroupConfig{"streams.session.timeout.ms": "50000", "streams.num.standby.replicas": "9"})
	g := n.groupConfigs.of("g")
	if g.SessionTimeoutMs != 50000 || g.NumStandbyReplicas != 2 || g.HeartbeatIntervalMs != defaults.HeartbeatIntervalMs {
		t.Errorf("%+v", g)
	}
	n.applyConfig(t, 2, "other", config.GroupConfig{"streams.session.timeout.ms": "51000"})
	if n.groupConfigs.of("g") != g {
		t.Error("another group's change moved the settings of this one")
	}
	if allocs := testing.AllocsPerRun(100, func() { n.groupConfigs.of("g") }); allocs != 0 {
		t.Errorf("a look costs %v allocations", allocs)
	}
	n.applyConfig(t, 3, "g", nil)
	if n.groupConfigs.of("g") != defaults || n.groupConfigs.of("other").SessionTimeoutMs != 51000 {
		t.Error("deleted settings still count, or took others with them")
	}
}

// TestAlterationsSayWhetherTheyWereBegun: only what is surely not in the log is said not to have been started.
func TestAlterationsSayWhetherTheyWereBegun(t *testing.T) {
	n := configNode(t)
	n.ctx = t.Context()
	if _, err := n.groupConfigs.alter([]config.GroupAlteration{{Group: "g"}}, false); err == nil || err.Code != coordinator.NotCoordinator || !err.NotStarted {
		t.Errorf("a node that does not lead: %+v", err)
	}
	for _, tc := range []struct {
		err               error
		after, notStarted bool
	}{
		{raftnode.ErrNotLeader, false, true},
		{raftnode.ErrMoving, false, true},
		{raftnode.ErrMoving, true, false}, // others of the request are written
		{raftnode.ErrUnknown, false, false},
		{context.Canceled, false, false},
	} {
		if got := notWritten(tc.err, tc.after); got.Code != coordinator.NotCoordinator || got.NotStarted != tc.notStarted {
			t.Errorf("%v, after others %v: %+v", tc.err, tc.after, got)
		}
	}
}

// A group whose last setting is deleted leaves nothing: neither in the log's state nor in the list of groups with settings.
func TestDeletedSettingsLeaveNothing(t *testing.T) {
	n := configNode(t)
	before := n.system.replica.State().Digest()
	n.applyConfig(t, 1, "g", config.GroupConfig{"streams.num.standby.replicas": "1", "streams.session.timeout.ms": "50000"})
	n.applyConfig(t, 2, "g", config.GroupConfig{"streams.num.standby.replicas": "1"})
	if n.system.replica.State().Digest() == before {
		t.Fatal("the setting that is left is gone, too")
	}
	n.applyConfig(t, 3, "g", config.GroupConfig{})
	state := n.system.replica.State()
	if state.Digest() != before {
		t.Error("something is left of the settings")
	}
	for id := range state.GroupConfigs() {
		t.Errorf("settings of %s are listed", id)
	}
}

// A restored snapshot replaces everything.
func TestSettingsAfterARestore(t *testing.T) {
	from := configNode(t)
	from.applyConfig(t, 1, "g", config.GroupConfig{"streams.session.timeout.ms": "50000"})
	to := configNode(t)
	to.ctx = t.Context()
	to.applyConfig(t, 1, "gone", config.GroupConfig{"streams.session.timeout.ms": "51000"})
	var snapshot bytes.Buffer
	if err := fsm.WriteSnapshot(&snapshot, from.system.replica.State()); err != nil {
		t.Fatal(err)
	}
	if err := to.system.replica.Restore(40, &snapshot); err != nil {
		t.Fatal(err)
	}
	told := false
	if to.groupConfigs.Await(40, func() { told = true }); !told {
		t.Error("what the snapshot holds is waited for")
	}
	if to.groupConfigs.of("g").SessionTimeoutMs != 50000 || to.groupConfigs.of("gone") != &to.config.Streams.Defaults {
		t.Error("the settings are not those of the snapshot")
	}
}

func TestAwaitIsToldWhenTheEntryIsApplied(t *testing.T) {
	n := configNode(t)
	n.ctx = t.Context()
	n.applyConfig(t, 4, "g", config.GroupConfig{"streams.session.timeout.ms": "50000"})
	told := false
	n.groupConfigs.Await(4, func() { told = true })
	if !told {
		t.Error("what is applied was waited for")
	}
	later := make(chan int32, 1)
	n.groupConfigs.Await(5, func() { later <- n.groupConfigs.of("g").SessionTimeoutMs })
	n.applyConfig(t, 5, "g", config.GroupConfig{"streams.session.timeout.ms": "51000"})
	if got := <-later; got != 51000 {
		t.Errorf("told when the session timeout was %d", got)
	}
	n.groupConfigs.Await(1000, func() { later <- 0 }) // nobody waits for ever
	<-later
}

// Who does not lead the system shard answers nothing.
func TestOnlyTheLeaderAlters(t *testing.T) {
	n := configNode(t)
	n.ctx = t.Context()
	value := "50000"
	list := []config.GroupAlteration{{Group: "g", Changes: []config.GroupChange{{Name: "streams.session.timeout.ms", Value: &value}}}}
	errs := make(chan *coordinator.Error, 3)
	n.groupConfigs.Alter(list, false, func(_ []*coordinator.Error, _ uint64, err *coordinator.Error) { errs <- err })
	n.groupConfigs.Describe([]string{"g"}, func(_ [][]config.GroupEntry, err *coordinator.Error) { errs <- err })
	n.groupConfigs.List(func(_ []string, err *coordinator.Error) { errs <- err })
	for range 3 {
		if err := <-errs; err == nil || err.Code != coordinator.NotCoordinator {
			t.Errorf("%v", err)
		}
	}
}
