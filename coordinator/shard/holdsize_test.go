package shard

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Five thousand held heartbeats of one group cost little each, beside what their members cost anyway.
func TestTheMemoryOfAHeldHeartbeat(t *testing.T) {
	const members, limit = 5000, 1 << 10 // the gateway's slot comes to it, less than another KiB
	r := hanging(t)
	r.topics = topics{"in": members}
	state := largeGroup(t, r, "g", members)
	r.Elected(r.now, 1, state)
	r.freshProof()
	holders := make([]*line, members)
	for i := range holders {
		holders[i] = r.line()
		holders[i].send(steady(r, i)) // told what there is to tell
	}
	r.settle()
	r.now += 5000
	r.freshProof()
	before := heapInUse()
	calls := make([]*Call, members)
	requests := make([]*streams.HeartbeatRequest, members)
	answers := make([]*answer, members)
	for i := range holders {
		requests[i] = steady(r, i)
		calls[i], answers[i] = holders[i].send(requests[i])
	}
	each := (heapInUse() - before) / members
	for i := range answers {
		if answers[i].done {
			t.Fatalf("member %d is not held: %+v", i, calls[i].Heartbeat)
		}
	}
	t.Logf("%d bytes for each held heartbeat", each)
	if each > limit {
		t.Errorf("a held heartbeat takes %d bytes, more than %d", each, limit)
	}
	runtime.KeepAlive(r)
}

func steady(r *rig, member int) *streams.HeartbeatRequest {
	h := beat("g", memberName(member), 2)
	h.EndpointEpoch = r.groups["g"].soft.EndpointEpoch
	return h
}

// largeGroup is a Stable group at epoch 2 whose members have a task each, put there by records.
func largeGroup(tb testing.TB, r *rig, id string, members int) fsm.State {
	r.joined("other", "a") // its record says what targets are made with
	configs := r.committed.Group("other").Metadata.AssignmentConfigs
	topo := topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"in"}}}}
	key := func(t record.Type) record.Key { return record.Key{Type: t, Group: id} }
	records := []record.Record{
		{Key: key(record.TypeTopology), Value: &record.Topology{Topology: topo}},
		{Key: key(record.TypeGroupMetadata), Value: &record.GroupMetadata{
			Epoch: 2, MetadataHash: topology.MetadataHash(&topo, topics{"in": int32(members)}), StoredDescriptionEpoch: -1, FailedDescriptionEpoch: -1,
			AssignmentConfigs: configs,
		}},
		{Key: key(record.TypeTargetMetadata), Value: &record.TargetMetadata{AssignmentEpoch: 2, TimestampMs: 1}},
	}
	for i := range members {
		key := func(t record.Type) record.Key { return record.Key{Type: t, Group: id, Member: memberName(i)} }
		a := topology.Assignment{Active: topology.NewTasks(topology.Task{Subtopology: "0", Partition: int32(i)})}
		current := topology.Assignment{Active: a.Active.WithEpoch(2)}
		records = append(records,
			record.Record{Key: key(record.TypeMemberMetadata), Value: &record.MemberMetadata{
				ClientID: client.ID, ClientHost: client.Host, RebalanceTimeoutMs: 60000, ProcessID: "p-" + memberName(i)}},
			record.Record{Key: key(record.TypeTargetMember), Value: &record.TargetMember{Assignment: a}},
			record.Record{Key: key(record.TypeCurrentAssignment), Value: &record.CurrentAssignment{
				MemberEpoch: 2, PreviousEpoch: 2, State: record.MemberStable, Assigned: current}},
		)
	}
	state, err := fsm.NewState().EvolveAll(records)
	if err != nil {
		tb.Fatal(err)
	}
	return state
}

func memberName(i int) string { return fmt.Sprintf("m%04d", i) }

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What a heartbeat allocates on its way into the hold and out.
func BenchmarkHeldHeartbeat(b *testing.B) {
	t := &testing.T{}
	r := hanging(t)
	r.topics = topics{"in": 10}
	r.Elected(r.now, 1, largeGroup(b, r, "g", 10))
	r.freshProof()
	l := r.line()
	c, a := l.send(steady(r, 0))
	r.commitAll()
	endpoints := c.Heartbeat.EndpointEpoch
	epoch := c.Heartbeat.MemberEpoch
	request := &streams.HeartbeatRequest{}
	b.ReportAllocs()
	for b.Loop() {
		r.now += 5000
		r.freshProof()
		*request = streams.HeartbeatRequest{Version: 1, GroupID: "g", MemberID: memberNames[0], MemberEpoch: epoch, EndpointEpoch: endpoints, RebalanceTimeoutMs: -1}
		l.n++
		*c = Call{Client: client, Request: request, Done: a, Hold: l.holder, HoldNumber: l.n}
		r.Submit(r.now, c)
		r.Flush()
		if !c.wasHeld {
			b.Fatalf("not held: %+v", c.Heartbeat)
		}
		l.letGo()
	}
}

var memberNames = []string{memberName(0)}
