package streams

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// expectedErrors are all the errors that a heartbeat may end in (StreamsGroupHeartbeatResponse.json, with what this
// coordinator answers instead of UNKNOWN_SERVER_ERROR).
var expectedErrors = []coordinator.Code{
	coordinator.UnknownMemberID, coordinator.GroupIDNotFound, coordinator.GroupMaxSizeReached, coordinator.FencedInstanceID,
	coordinator.UnreleasedInstanceID, coordinator.FencedMemberEpoch, coordinator.InvalidRequest, coordinator.StreamsInvalidTopology, coordinator.StreamsInvalidTopologyEpoch, coordinator.StreamsTopologyFenced,
}

// bytesReader draws small values from fuzz data; at its end it gives zeros.
type bytesReader struct{ data []byte }

func (r *bytesReader) next() byte {
	if len(r.data) == 0 {
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b
}

func (r *bytesReader) below(n int) int { return int(r.next()) % n }

func (r *bytesReader) flag() bool { return r.next()&1 == 1 }

func (r *bytesReader) name(prefix string) string { return fmt.Sprintf("%s%d", prefix, r.below(3)) }

func (r *bytesReader) maybe(prefix string) *string {
	switch r.below(4) {
	case 0:
		s := r.name(prefix)
		return &s
	case 1:
		s := " "
		return &s
	}
	return nil
}

func (r *bytesReader) tasks() topology.Tasks {
	n := r.below(5)
	if n == 4 {
		return nil
	}
	var b topology.TasksBuilder
	for range n {
		b.Add(topology.Task{Subtopology: fmt.Sprint(r.below(3)), Partition: int32(r.below(6)) - 1})
	}
	set, _ := b.Build()
	return set.NonNil()
}

func (r *bytesReader) offsets() []TaskOffset {
	n := r.below(4)
	if n == 3 {
		return nil
	}
	out := []TaskOffset{}
	for range n {
		out = append(out, TaskOffset{
			Task: topology.Task{Subtopology: fmt.Sprint(r.below(3)), Partition: int32(r.below(4)) - 1}, Offset: int64(r.next()),
		})
	}
	return out
}

func (r *bytesReader) names(prefix string) (out []string) {
	for range r.below(3) {
		out = append(out, r.name(prefix))
	}
	return out
}

func (r *bytesReader) internal(prefix string) (out []topology.InternalTopic) {
	for range r.below(3) {
		out = append(out, topology.InternalTopic{Name: r.name(prefix), Partitions: int32(r.below(4)) - 1})
	}
	return out
}

func (r *bytesReader) topology() *topology.Topology {
	if r.below(3) == 0 {
		return nil
	}
	t := &topology.Topology{Epoch: int32(r.below(4)) - 1}
	for range r.below(3) {
		s := topology.Subtopology{
			ID: fmt.Sprint(r.below(3)), SourceTopics: r.names("t"), RepartitionSinkTopics: r.names("r"),
			RepartitionSourceTopics: r.internal("r"), StateChangelogTopics: r.internal("c"),
		}
		if r.flag() {
			s.CopartitionGroups = []topology.CopartitionGroup{{
				SourceTopics: []int16{int16(r.below(4)) - 1}, RepartitionSourceTopics: []int16{int16(r.below(4)) - 1},
			}}
		}
		if r.below(4) == 3 {
			s.SourceTopicRegex = []string{[]string{"t.*", "t[01]", "r.*|c.*", "(", "", "x"}[r.below(6)]}
			if r.flag() {
				s.CopartitionGroups = append(s.CopartitionGroups, topology.CopartitionGroup{SourceTopicRegex: []int16{int16(r.below(3)) - 1}})
			}
		}
		t.Subtopologies = append(t.Subtopologies, s)
	}
	return t
}

func (r *bytesReader) request(simple *topology.Topology) *HeartbeatRequest {
	req := &HeartbeatRequest{
		Version: int16(r.below(2)), GroupID: testGroup, MemberID: r.name("m"), MemberEpoch: int32(r.below(8)) - 3,
		EndpointEpoch: int32(r.below(4)) - 1, RebalanceTimeoutMs: -1, ShutdownApplication: r.below(8) == 0,
	}
	if req.MemberEpoch == JoinEpoch && r.flag() {
		p := r.name("p")
		req.RebalanceTimeoutMs, req.Topology, req.ProcessID = int32(r.below(3))*1000, simple, &p
		req.Active, req.Standby, req.Warmup = topology.Tasks{}, topology.Tasks{}, topology.Tasks{}
		req.InstanceID = r.maybe("i")
		return req
	}
	if r.flag() {
		return req
	}
	req.InstanceID, req.RackID, req.ProcessID = r.maybe("i"), r.maybe("r"), r.maybe("p")
	req.RebalanceTimeoutMs = int32(r.below(4)) - 2
	req.Topology = r.topology()
	req.Active, req.Standby, req.Warmup = r.tasks(), r.tasks(), r.tasks()
	if r.flag() {
		req.UserEndpoint = &record.Endpoint{Host: r.name("h"), Port: uint16(r.next())}
	}
	for range r.below(3) {
		req.ClientTags = append(req.ClientTags, record.KeyValue{Key: r.name("k"), Value: r.name("v")})
	}
	req.TaskOffsets, req.TaskEndOffsets = r.offsets(), r.offsets()
	return req
}

// FuzzHeartbeat sends arbitrary requests, checked and unchecked, in arbitrary order: nothing panics, replay takes all
// records, every error is one of those that a client knows, and an error leaves no trace.
func FuzzHeartbeat(f *testing.F) {
	f.Add([]byte("0"))
	f.Add([]byte("\x00\x00\x03\x01\x00\x01\x01\x01\x00\x05\x00\x00\x03\x01\x00\x01\x02\x01\x00"))
	f.Add(slices.Repeat([]byte{1, 0, 3, 1, 2, 1, 7, 5, 3}, 30))
	f.Fuzz(anyRequests)
}

func anyRequests(t *testing.T, data []byte) {
	r := &bytesReader{data}
	w := newWorld()
	w.settings.NumStandbyReplicas = int32(r.below(3))
	w.settings.MaxSize = int32(r.below(4)) + 1
	w.settings.InitialRebalanceDelayMs = int32(r.below(2)) * 3000
	if r.flag() {
		w.settings.RackAwareTags = []string{"k0", "k1"}
	}
	for _, topic := range []string{"t0", "t1", "r0", "c0"} {
		w.setTopic(topic, int32(r.below(5)))
	}
	simple := &topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"t0"}}}}
	for range 200 {
		if len(r.data) == 0 {
			break
		}
		w.fuzzStep(t, r, simple)
	}
}

// wishOnly says whether a refused decision writes nothing, but for the wish to shut the application down.
func wishOnly(d *Decision) bool {
	return len(d.Records) == 0 || len(d.Records) == 1 && d.Records[0].Key.Type == record.TypeGroupMarks
}

func (w *world) fuzzStep(t *testing.T, r *bytesReader, simple *topology.Topology) {
	switch r.below(16) {
	case 0:
		w.failover()
	case 1:
		w.setTopic(r.name("t"), int32(r.below(5)))
	case 2:
		if err := w.advance(int64(r.next())*500, func(string, *Decision) {}); err != nil {
			t.Fatal(err)
		}
	case 3:
		w.hold = r.flag()
	case 4:
		w.settings.TopologyFenceOlder = r.flag()
		w.settings.TopologyUpdatePolicy = []string{"epoch", PolicyLatest}[r.below(2)]
		w.settings.AssignorName = []string{"sticky", "highly_available", "auto"}[r.below(3)]
		w.assign = builtinAssignor(w.settings.AssignorName)
		w.settings.NumWarmupReplicas, w.settings.AcceptableRecoveryLag = int32(r.below(3)), int64(r.next())
		w.settings.TaskOffsetIntervalMs = int32(r.next()) * 100
	case 5:
		if g := w.group(); g != nil && g.Topology != nil {
			env := w.env()
			if d, _, err := AbortTopology(g, w.soft, &env, testGroup, g.Topology.Epoch); err == nil {
				if err := w.stand(&d); err != nil {
					t.Fatal(err)
				}
			}
		}
	default:
		req := r.request(simple)
		checked := Validate(req)
		if checked != nil && r.flag() {
			return
		}
		d := Heartbeat(HeartbeatInput{
			Group: w.group(), Soft: w.soft, Env: w.env(), Client: &coordinator.Client{ID: r.name("c"), Host: "/h"}, Request: req,
		})
		if err := d.Reply.Err; err != nil && (!slices.Contains(expectedErrors, err.Code) || !wishOnly(&d) || len(d.Effects) > 0) {
			t.Fatalf("unexpected %v with %d records", err, len(d.Records))
		}
		if a := d.Reply; (a.Active == nil) != (a.Standby == nil) || (a.Active == nil) != (a.Warmup == nil) {
			t.Fatalf("mixed lists: %+v", a)
		}
		if err := w.stand(&d); err != nil {
			t.Fatal(err)
		}
	}
	env := w.env()
	Describe(w.group(), w.soft, &env, testGroup)
	StateOf(w.group())
}
