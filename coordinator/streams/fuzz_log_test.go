package streams

import (
	"slices"
	"testing"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// record draws a record of the group; most logs made of them hold only parts of members.
func (r *bytesReader) record() record.Record {
	key := record.Key{Group: testGroup, Member: r.name("m")}
	switch r.below(10) {
	case 0:
		key.Type, key.Member = record.TypeGroupMetadata, ""
		return record.Record{Key: key, Value: &record.GroupMetadata{
			Epoch: int32(r.below(6)), ValidatedTopologyEpoch: int32(r.below(3)) - 1, StoredDescriptionEpoch: -1, FailedDescriptionEpoch: -1,
		}}
	case 1:
		key.Type, key.Member = record.TypeTargetMetadata, ""
		return record.Record{Key: key, Value: &record.TargetMetadata{AssignmentEpoch: int32(r.below(6)), TimestampMs: int64(r.below(3)) * 999_500}}
	case 2:
		key.Type, key.Member = record.TypeTopology, ""
		if t := r.topology(); t != nil && topology.Validate(t) == nil {
			return record.Record{Key: key, Value: &record.Topology{Topology: *t}}
		}
		return record.Record{Key: key}
	case 3, 4:
		key.Type = record.TypeMemberMetadata
		return record.Record{Key: key, Value: &record.MemberMetadata{
			InstanceID: r.maybe("i"), ProcessID: r.name("p"), RebalanceTimeoutMs: int32(r.below(3)) - 1, TopologyEpoch: int32(r.below(3)) - 1,
		}}
	case 5:
		key.Type = record.TypeTargetMember
		return record.Record{Key: key, Value: &record.TargetMember{Assignment: r.assignment()}}
	case 6, 7:
		key.Type = record.TypeCurrentAssignment
		return record.Record{Key: key, Value: &record.CurrentAssignment{
			MemberEpoch: int32(r.below(8)) - 2, PreviousEpoch: int32(r.below(6)), State: record.MemberState(r.below(5)),
			Assigned: r.assignment(), Revoking: r.assignment(),
		}}
	}
	if r.flag() {
		key.Type, key.Member, key.ID = record.TypeTopologyVersion, "", int32(r.below(4))
		v := &record.TopologyVersion{Root: int32(r.below(4)), First: int32(r.below(4)), Declared: int32(r.below(4)), LastDeclared: int32(r.below(4)), Foreign: r.flag()}
		if t := r.topology(); t != nil && topology.Validate(t) == nil {
			v.Hash, v.Content = t.ContentHash(), t
		}
		return record.Record{Key: key, Value: v}
	}
	key.Type = []record.Type{
		record.TypeMemberMetadata, record.TypeTargetMember, record.TypeCurrentAssignment, record.TypeTopology, record.TypeTargetMetadata,
	}[r.below(5)]
	if key.Type == record.TypeTopology || key.Type == record.TypeTargetMetadata {
		key.Member = ""
	}
	return record.Record{Key: key}
}

func (r *bytesReader) assignment() topology.Assignment {
	return topology.Assignment{
		Active: r.tasks().WithEpoch(int32(r.below(4))), Standby: r.tasks().WithoutEpochs(), Warmup: r.tasks().WithoutEpochs(),
	}
}

// FuzzAnyLog decides on groups that no coordinator of this version left behind: of another version, with members of which a
// part is missing, with tasks that two members hold or that the topology does not have. Nothing panics, and what is decided
// can be replayed.
func FuzzAnyLog(f *testing.F) {
	f.Add([]byte("0"))
	f.Add([]byte("\x00\x04\x01\x01\x02\x02\x01\x02\x00\x01\x03\x00\x00\x00\x00\x03\x01\x01\x02\x06\x01\x05\x02\x01\x02\x00\x01\x01\x01\x02"))
	f.Add(slices.Repeat([]byte{6, 1, 0, 3, 4, 2, 1, 7, 5, 3, 2}, 30))
	f.Fuzz(anyLog)
}

func anyLog(t *testing.T, data []byte) {
	r := &bytesReader{data}
	w := newWorld()
	w.settings.NumStandbyReplicas = int32(r.below(2))
	w.settings.AssignmentIntervalMs = int32(r.below(2)) * 1000
	for _, topic := range []string{"t0", "t1", "r0", "c0"} {
		w.setTopic(topic, int32(r.below(5)))
	}
	for range 2 + r.below(20) {
		if next, err := w.state.EvolveAll([]record.Record{r.record()}); err == nil {
			w.state = next
		}
	}
	w.failover()
	simple := &topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"t0"}}}}
	for range 60 {
		if len(r.data) == 0 {
			break
		}
		w.fuzzStep(t, r, simple)
	}
	if err := w.advance(100_000, func(string, *Decision) {}); err != nil {
		t.Fatal(err)
	}
}
