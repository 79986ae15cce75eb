package streams

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// statefulWorld is a Stable group of ten subtopologies with state, ten tasks and one standby for each member, put there by
// records.
func statefulWorld(tb testing.TB, members int) *world {
	w := newWorld()
	w.settings.NumStandbyReplicas = 1
	var t topology.Topology
	spec := assignor.Spec{NumStandbyReplicas: 1}
	for i := range 10 {
		id, topic := fmt.Sprint(i), fmt.Sprint("in", i)
		w.setTopic(topic, int32(members))
		t.Subtopologies = append(t.Subtopologies, topology.Subtopology{ID: id, SourceTopics: []string{topic},
			StateChangelogTopics: []topology.InternalTopic{{Name: "app-store" + id + "-changelog"}}})
		w.setTopic("app-store"+id+"-changelog", int32(members))
		spec.Subtopologies = append(spec.Subtopologies, assignor.Subtopology{ID: id, Tasks: int32(members), Stateful: true})
	}
	for i := range members {
		id := fmt.Sprintf("member-%05d-4a54-9d5a-0123456789ab", i)
		spec.Members = append(spec.Members, assignor.Member{ID: id, ProcessID: id})
	}
	goals, err := assignor.Sticky().Assign(spec)
	if err != nil {
		tb.Fatal(err)
	}
	records := []record.Record{
		{Key: record.Key{Type: record.TypeTopology, Group: testGroup}, Value: &record.Topology{Topology: t}},
		{Key: record.Key{Type: record.TypeGroupMetadata, Group: testGroup}, Value: &record.GroupMetadata{
			Epoch: 7, MetadataHash: topology.MetadataHash(&t, w.topics), AssignmentConfigs: assignmentConfigs(&w.settings),
			StoredDescriptionEpoch: -1, FailedDescriptionEpoch: -1,
		}},
		{Key: record.Key{Type: record.TypeTargetMetadata, Group: testGroup}, Value: &record.TargetMetadata{AssignmentEpoch: 7, TimestampMs: 1}},
	}
	for _, m := range spec.Members {
		key := func(t record.Type) record.Key { return record.Key{Type: t, Group: testGroup, Member: m.ID} }
		current := goals[m.ID]
		current.Active = current.Active.WithEpoch(7)
		records = append(records,
			record.Record{Key: key(record.TypeMemberMetadata), Value: &record.MemberMetadata{
				ClientID: "c", ClientHost: "/h", RebalanceTimeoutMs: 60000, ProcessID: m.ProcessID,
			}},
			record.Record{Key: key(record.TypeTargetMember), Value: &record.TargetMember{Assignment: goals[m.ID]}},
			record.Record{Key: key(record.TypeCurrentAssignment), Value: &record.CurrentAssignment{
				MemberEpoch: 7, PreviousEpoch: 7, State: record.MemberStable, Assigned: current,
			}},
		)
	}
	if w.state, err = w.state.EvolveAll(records); err != nil {
		tb.Fatal(err)
	}
	w.failover()
	return w
}

// targetOf is what a target of the group's next epoch is computed from.
func (w *world) targetOf(tb testing.TB) *targetInput {
	g, env := w.group(), w.env()
	topics, err := configured(w.soft, g, g.Topology, &env)
	if err != nil || !topics.Configured.Ready() {
		tb.Fatalf("the topology is not ready: %v", err)
	}
	line := lineageOf(g)
	return &targetInput{group: g, groupID: g.ID, soft: w.soft, offsets: w.soft.offsets, env: &env, topics: topics.Configured, epoch: 8, line: &line,
		validated: line.validated(groupMetadata(g).ValidatedTopologyEpoch, topics.Configured)}
}

// report has every member report that its tasks are caught up.
func (w *world) report() {
	for m := range w.group().Members() {
		var list []TaskOffset
		a := m.Target.Assignment
		for t := range a.Active.Union(a.Standby).All() {
			list = append(list, TaskOffset{Task: t, Offset: 1_000_000})
		}
		w.soft.Members[m.ID].TaskOffsets, w.soft.Members[m.ID].TaskEndOffsets = list, list
	}
}

// BenchmarkTarget computes the target of a group anew: all of it, the assignor alone, and what is done before and after it;
// without and with offsets that every member reported.
func BenchmarkTarget(b *testing.B) {
	for _, c := range []struct {
		members  int
		offsets  bool
		assignor assignor.Assignor
	}{
		{1000, false, assignor.Sticky()}, {1000, true, assignor.HighlyAvailable()},
		{5000, false, assignor.Sticky()}, {5000, true, assignor.HighlyAvailable()},
	} {
		w := statefulWorld(b, c.members)
		w.assign = c.assignor
		if c.offsets {
			w.report()
		}
		t := w.targetOf(b)
		spec, _ := t.spec()
		goals, err := t.env.Assignor.Assign(spec)
		if err != nil {
			b.Fatal(err)
		}
		for _, part := range []struct {
			name string
			run  func() error
		}{
			{"all", func() error { _, err := t.changes(); return err }},
			{"assignor", func() error { _, err := t.env.Assignor.Assign(spec); return err }},
			{"spec", func() error { t.spec(); return nil }},
			{"check", func() error { return checkAssignment(&spec, goals) }},
		} {
			b.Run(fmt.Sprintf("members=%d/%s/%s", c.members, c.assignor.Name(), part.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := part.run(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
