package streams

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// stableWorld is a Stable group whose members have two tasks each, put there by records.
func stableWorld(tb testing.TB, members int) *world {
	w := newWorld()
	tasks := int32(2 * members)
	w.setTopic("in", tasks)
	t := topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"in"}}}}
	meta := &record.GroupMetadata{
		Epoch: 7, MetadataHash: topology.MetadataHash(&t, w.topics), AssignmentConfigs: assignmentConfigs(&w.settings),
		StoredDescriptionEpoch: -1, FailedDescriptionEpoch: -1,
	}
	records := []record.Record{
		{Key: record.Key{Type: record.TypeTopology, Group: testGroup}, Value: &record.Topology{Topology: t}},
		{Key: record.Key{Type: record.TypeGroupMetadata, Group: testGroup}, Value: meta},
		{Key: record.Key{Type: record.TypeTargetMetadata, Group: testGroup}, Value: &record.TargetMetadata{AssignmentEpoch: 7, TimestampMs: 1}},
	}
	for i := range members {
		id := fmt.Sprintf("member-%05d", i)
		a := topology.Assignment{Active: topology.NewTasks(
			topology.Task{Subtopology: "0", Partition: int32(2 * i)}, topology.Task{Subtopology: "0", Partition: int32(2*i + 1)})}
		key := func(t record.Type) record.Key { return record.Key{Type: t, Group: testGroup, Member: id} }
		current := a
		current.Active = a.Active.WithEpoch(7)
		records = append(records,
			record.Record{Key: key(record.TypeMemberMetadata), Value: &record.MemberMetadata{
				ClientID: "c", ClientHost: "/h", RebalanceTimeoutMs: 60000, ProcessID: id,
			}},
			record.Record{Key: key(record.TypeTargetMember), Value: &record.TargetMember{Assignment: a}},
			record.Record{Key: key(record.TypeCurrentAssignment), Value: &record.CurrentAssignment{
				MemberEpoch: 7, PreviousEpoch: 7, State: record.MemberStable, Assigned: current,
			}},
		)
	}
	var err error
	if w.state, err = w.state.EvolveAll(records); err != nil {
		tb.Fatal(err)
	}
	w.failover()
	return w
}

func steadyRequest(w *world, member int) *HeartbeatRequest {
	return &HeartbeatRequest{
		Version: 1, GroupID: testGroup, MemberID: fmt.Sprintf("member-%05d", member), MemberEpoch: 7,
		EndpointEpoch: w.soft.EndpointEpoch, RebalanceTimeoutMs: -1,
	}
}

// BenchmarkSteadyHeartbeat must not depend on the size of the group and allocate nothing.
func BenchmarkSteadyHeartbeat(b *testing.B) {
	for _, members := range []int{10, 5000} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			w := stableWorld(b, members)
			client := &coordinator.Client{ID: "c", Host: "/h"}
			requests := make([]*HeartbeatRequest, members)
			for i := range requests {
				requests[i] = steadyRequest(w, i)
			}
			if _, err := w.heartbeat(requests[0], client); err != nil {
				b.Fatal(err)
			}
			env := w.env()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				d := Heartbeat(HeartbeatInput{Group: w.group(), Soft: w.soft, Env: env, Client: client, Request: requests[i%members]})
				if d.Reply.Err != nil || d.Records != nil {
					b.Fatal(d)
				}
				w.soft.Apply(&d.Soft)
				i++
			}
		})
	}
}

// TestSteadyHeartbeatAllocatesNothing also holds while tags are configured, and under an assignor that looks at reports.
func TestSteadyHeartbeatAllocatesNothing(t *testing.T) {
	for _, name := range []string{"sticky", "highly_available"} {
		t.Run(name, func(t *testing.T) { steadyAllocates(t, name) })
	}
}

func steadyAllocates(t *testing.T, assignor string) {
	w := stableWorld(t, 20)
	w.assign = builtinAssignor(assignor)
	client := &coordinator.Client{ID: "c", Host: "/h"}
	req := steadyRequest(w, 3)
	if _, err := w.heartbeat(req, client); err != nil {
		t.Fatal(err)
	}
	env := w.env()
	n := testing.AllocsPerRun(100, func() {
		d := Heartbeat(HeartbeatInput{Group: w.group(), Soft: w.soft, Env: env, Client: client, Request: req})
		w.soft.Apply(&d.Soft)
		if d.Reply.Err != nil || d.Records != nil || Validate(req) != nil {
			t.Fatal(d)
		}
	})
	if n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// BenchmarkJoins lets 500 members join a group of 5,000 tasks, with targets that wait for the assignment interval and with
// one target for each join, and says what the log gets for a join and how much of it is the journal's.
func BenchmarkJoins(b *testing.B) {
	for _, interval := range []int32{1000, 0} {
		b.Run(fmt.Sprintf("interval=%d", interval), func(b *testing.B) {
			b.ReportAllocs()
			var all, journal int
			for b.Loop() {
				w := newWorld()
				w.settings.AssignmentIntervalMs = interval
				w.setTopic("in", 5000)
				top := &topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"in"}}}}
				client := &coordinator.Client{ID: "c", Host: "/10.0.0.7"}
				for i := range 500 {
					id := fmt.Sprintf("3a1c9c7e-5d0b-4a54-9d5a-%012d", i)
					d, err := w.heartbeat(&HeartbeatRequest{
						Version: 1, GroupID: testGroup, MemberID: id, RebalanceTimeoutMs: 1000, ProcessID: &id, Topology: top,
						Active: topology.Tasks{}, Standby: topology.Tasks{}, Warmup: topology.Tasks{},
					}, client)
					if err != nil || d.Reply.Err != nil {
						b.Fatal(err, d.Reply.Err)
					}
					for _, r := range d.Records {
						all += record.Size(r)
						if r.Key.Type == record.TypeJournalEntry {
							journal += record.Size(r)
						}
					}
				}
			}
			joins := float64(500 * b.N)
			b.ReportMetric(float64(all)/joins, "log-B/join")
			b.ReportMetric(float64(journal)/joins, "journal-B/join")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/joins, "ns/join")
		})
	}
}
