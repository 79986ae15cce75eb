package fsm

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// formed returns the records of groups with members that hold equal shares of tasks, each member a process, one group
// after the other. All strings are the records' own, as after decoding.
func formed(groups, members, tasks int) [][]record.Record {
	all := make([][]record.Record, groups)
	for i := range all {
		group := fmt.Sprintf("mem-g-12345678-%d", i)
		records := []record.Record{
			put17(group, &record.GroupMetadata{Epoch: 2, AssignmentConfigs: []record.KeyValue{{Key: "num.standby.replicas", Value: "0"}}}),
			{Key: record.Key{Type: record.TypeTopology, Group: group}, Value: &record.Topology{Topology: topology.Topology{
				Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"mem-src-20"}}}}}},
		}
		for j := range members {
			records = append(records, joined(group, j, tasks/members)...)
		}
		all[i] = append(records, record.Record{Key: record.Key{Type: record.TypeTargetMetadata, Group: group},
			Value: &record.TargetMetadata{AssignmentEpoch: 2, TimestampMs: 1}})
	}
	return all
}

// joined are the records of a member with its share of tasks.
func joined(group string, number, share int) []record.Record {
	id := fmt.Sprintf("%08x-0000-4000-8000-%012x", number, number)
	var tasks topology.Tasks
	if share > 0 {
		t := topology.SubtopologyTasks{Subtopology: "0"}
		for p := range share {
			t.Partitions = append(t.Partitions, int32(number*share+p))
			t.Epochs = append(t.Epochs, 2)
		}
		tasks = topology.Tasks{t}
	}
	target := append(topology.Tasks(nil), tasks...)
	if share > 0 {
		target[0].Epochs = nil
	}
	key := func(t record.Type) record.Key { return record.Key{Type: t, Group: group, Member: id} }
	return []record.Record{
		{Key: key(record.TypeMemberMetadata), Value: &record.MemberMetadata{
			ClientID: "client-" + id, ClientHost: "/127.0.0.1", RebalanceTimeoutMs: 300000, ProcessID: strings.Repeat("p", 28) + id[:8],
		}},
		{Key: key(record.TypeTargetMember), Value: &record.TargetMember{Assignment: topology.Assignment{Active: target}}},
		{Key: key(record.TypeCurrentAssignment), Value: &record.CurrentAssignment{
			MemberEpoch: 2, State: record.MemberStable, Assigned: topology.Assignment{Active: tasks},
		}},
	}
}

func evolved(b testing.TB, all [][]record.Record) State {
	s := NewState()
	for _, records := range all {
		var err error
		if s, err = s.EvolveAll(records); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

// BenchmarkMemory prints the live heap of a state per member, built as on a follower: from decoded entries.
func BenchmarkMemory(b *testing.B) {
	for _, shape := range []struct{ groups, members, tasks int }{{500, 10, 20}, {1, 1000, 10000}} {
		b.Run(fmt.Sprintf("%dx%dx%d", shape.groups, shape.members, shape.tasks), func(b *testing.B) {
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				s := NewState()
				for _, records := range formed(shape.groups, shape.members, shape.tasks) {
					e, err := record.DecodeEntry(record.EncodeEntry(nil, record.Entry{Records: records}))
					if err != nil {
						b.Fatal(err)
					}
					if s, err = s.EvolveAll(e.Records); err != nil {
						b.Fatal(err)
					}
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(shape.groups*shape.members), "B/member")
				runtime.KeepAlive(s)
			}
		})
	}
}

// BenchmarkEvolveAll measures the entry of one join into groups of several sizes.
func BenchmarkEvolveAll(b *testing.B) {
	for _, members := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			s := evolved(b, formed(1, members, members))
			id := "mem-g-12345678-0"
			join := append(joined(id, members, 0), record.Record{Key: record.Key{Type: record.TypeGroupMetadata, Group: id}, Value: &record.GroupMetadata{Epoch: 3}},
				record.Record{Key: record.Key{Type: record.TypeTargetMetadata, Group: id}, Value: &record.TargetMetadata{AssignmentEpoch: 3}})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.EvolveAll(join); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReassign measures a current assignment that gains and loses a task, one of 100 in 10,000.
func BenchmarkReassign(b *testing.B) {
	s := evolved(b, formed(1, 100, 10000))
	r := joined("mem-g-12345678-0", 50, 100)[2]
	c := *r.Value.(*record.CurrentAssignment)
	c.Assigned.Active = topology.Tasks{c.Assigned.Active[0]}
	c.Assigned.Active[0].Partitions = append(append([]int32(nil), c.Assigned.Active[0].Partitions[1:]...), 20000)
	r.Value = &c
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Evolve(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	s := evolved(b, formed(500, 10, 20))
	group := []byte("mem-g-12345678-321")
	member := []byte("00000007-0000-4000-8000-000000000007")
	task := topology.Task{Subtopology: "0", Partition: 15}
	b.ReportAllocs()
	for b.Loop() {
		g := s.Group(alias(group))
		if g.Member(alias(member)) == nil {
			b.Fatal("not found")
		}
		if p, ok := g.ActiveOwner(task); !ok || g.StandbyHeldBy(task, p) {
			b.Fatal("no owner")
		}
		if !g.Reconciled() {
			b.Fatal("not reconciled")
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	s := evolved(b, formed(500, 10, 20))
	b.ReportAllocs()
	for b.Loop() {
		snapshotOf(b, s)
	}
}

// TestLookupsDoNotAllocate holds what the steady heartbeat relies on.
func TestLookupsDoNotAllocate(t *testing.T) {
	s := evolved(t, formed(20, 10, 20))
	group, member := []byte("mem-g-12345678-7"), []byte("00000007-0000-4000-8000-000000000007")
	task := topology.Task{Subtopology: "0", Partition: 15}
	allocs := testing.AllocsPerRun(100, func() {
		g := s.Group(alias(group))
		m := g.Member(alias(member))
		p, _ := g.ActiveOwner(task)
		if m == nil || g.StandbyHeldBy(task, p) || g.WarmupHeldBy(task, p) || !g.Reconciled() || g.NumMembers() != 10 {
			t.Fatal("wrong")
		}
		g.Static(alias(member))
	})
	if allocs != 0 {
		t.Fatalf("%v allocations", allocs)
	}
}
