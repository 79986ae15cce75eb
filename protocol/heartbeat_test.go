package protocol

import (
	"encoding/binary"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// fromKmsg is the reference for DecodeHeartbeat: what kmsg decoded, in the coordinator's terms.
func fromKmsg(k *kmsg.StreamsGroupHeartbeatRequest) *streams.HeartbeatRequest {
	req := &streams.HeartbeatRequest{
		Version: k.Version, GroupID: k.Group, MemberID: k.MemberID, MemberEpoch: k.MemberEpoch,
		EndpointEpoch: k.EndpointInformationEpoch, InstanceID: k.InstanceID, RackID: k.RackID,
		RebalanceTimeoutMs: k.RebalanceTimeoutMillis, ProcessID: k.ProcessID,
		TaskOffsets: taskOffsetsFromKmsg(k.TaskOffsets), TaskEndOffsets: taskOffsetsFromKmsg(k.TaskEndOffsets),
		ShutdownApplication: k.ShutdownApplication,
	}
	var a, s, w bool
	req.Active, a = tasksFromKmsg(k.ActiveTasks)
	req.Standby, s = tasksFromKmsg(k.StandbyTasks)
	req.Warmup, w = tasksFromKmsg(k.WarmupTasks)
	switch {
	case a:
		req.DuplicateTasks = "ActiveTasks"
	case s:
		req.DuplicateTasks = "StandbyTasks"
	case w:
		req.DuplicateTasks = "WarmupTasks"
	}
	if e := k.UserEndpoint; e != nil {
		req.UserEndpoint = &record.Endpoint{Host: e.Host, Port: e.Port}
	}
	if k.ClientTags != nil {
		req.ClientTags = []record.KeyValue{}
		for _, t := range k.ClientTags {
			req.ClientTags = append(req.ClientTags, record.KeyValue{Key: t.Key, Value: t.Value})
		}
	}
	if k.Topology != nil {
		req.Topology = &topology.Topology{Epoch: k.Topology.Epoch}
		for _, s := range k.Topology.Subtopologies {
			out := topology.Subtopology{
				ID: s.SubtopologyID, SourceTopics: s.SourceTopics, SourceTopicRegex: s.SourceTopicRegex,
				RepartitionSinkTopics: s.RepartitionSinkTopics,
				StateChangelogTopics:  internalFromKmsg(s.StateChangelogTopics), RepartitionSourceTopics: internalFromKmsg(s.RepartitionSourceTopics),
			}
			for _, g := range s.CopartitionGroups {
				out.CopartitionGroups = append(out.CopartitionGroups, topology.CopartitionGroup{
					SourceTopics: g.SourceTopics, SourceTopicRegex: g.SourceTopicRegex, RepartitionSourceTopics: g.RepartitionSourceTopics,
				})
			}
			req.Topology.Subtopologies = append(req.Topology.Subtopologies, out)
		}
	}
	return req
}

func internalFromKmsg(in []kmsg.TopicInfo) (out []topology.InternalTopic) {
	for _, t := range in {
		it := topology.InternalTopic{Name: t.Topic, Partitions: t.NumPartitions, ReplicationFactor: t.ReplicationFactor}
		for _, c := range t.Configs {
			it.Configs = append(it.Configs, topology.Config{Key: c.Key, Value: c.Value})
		}
		out = append(out, it)
	}
	return out
}

func tasksFromKmsg(in []kmsg.TaskIDs) (out topology.Tasks, duplicate bool) {
	if in == nil {
		return nil, false
	}
	byID := map[string][]int32{}
	for _, t := range in {
		if _, seen := byID[t.SubtopologyID]; seen {
			duplicate = true
		}
		byID[t.SubtopologyID] = append(byID[t.SubtopologyID], t.Partitions...)
	}
	out = topology.Tasks{}
	for id, ps := range byID {
		slices.Sort(ps)
		n := len(ps)
		ps = slices.Compact(ps)
		duplicate = duplicate || len(ps) < n
		if n > 0 {
			out = append(out, topology.SubtopologyTasks{Subtopology: id, Partitions: ps})
		}
	}
	slices.SortFunc(out, func(a, b topology.SubtopologyTasks) int {
		if a.Subtopology < b.Subtopology {
			return -1
		}
		return 1
	})
	return out, duplicate
}

func taskOffsetsFromKmsg(in []kmsg.TaskOffset) []streams.TaskOffset {
	if in == nil {
		return nil
	}
	out := []streams.TaskOffset{}
	for _, o := range in {
		out = append(out, streams.TaskOffset{Task: topology.Task{Subtopology: o.SubtopologyID, Partition: o.Partition}, Offset: o.Offset})
	}
	return out
}

// checkHeartbeat decodes body with both decoders and compares acceptance and values. req may hold an earlier request.
func checkHeartbeat(t interface{ Fatalf(string, ...any) }, version int16, body []byte, req *streams.HeartbeatRequest) {
	k := &kmsg.StreamsGroupHeartbeatRequest{Version: version}
	want := k.ReadFrom(body)
	got := DecodeHeartbeat(version, body, req)
	if (want == nil) != (got == nil) {
		t.Fatalf("kmsg says %v, DecodeHeartbeat %v", want, got)
	}
	if got != nil {
		return
	}
	if d := cmp.Diff(fromKmsg(k), req); d != "" {
		t.Fatalf("decoded differently (-kmsg +ours):\n%s", d)
	}
}

var (
	genString   = rapid.StringOfN(rapid.RuneFrom([]rune("ab01-._é")), 0, 40, -1)
	genNullable = rapid.Ptr(genString, true)
	genTags     = rapid.Custom(func(t *rapid.T) (tags kmsg.Tags) {
		for range rapid.IntRange(0, 2).Draw(t, "tags") {
			tags.Set(rapid.Uint32().Draw(t, "tag"), rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "value"))
		}
		return tags
	})
	genTasks = rapid.Custom(func(t *rapid.T) []kmsg.TaskIDs {
		if rapid.Bool().Draw(t, "null") {
			return nil
		}
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) kmsg.TaskIDs {
			return kmsg.TaskIDs{
				SubtopologyID: rapid.StringOfN(rapid.RuneFrom([]rune("0123")), 0, 2, -1).Draw(t, "sub"),
				Partitions:    rapid.SliceOfN(rapid.Int32Range(-1, 6), 0, 5).Draw(t, "partitions"),
				UnknownTags:   genTags.Draw(t, "tags"),
			}
		}), 0, 4).Draw(t, "tasks")
	})
	genOffsets = rapid.Custom(func(t *rapid.T) []kmsg.TaskOffset {
		if rapid.Bool().Draw(t, "null") {
			return nil
		}
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) kmsg.TaskOffset {
			return kmsg.TaskOffset{SubtopologyID: genString.Draw(t, "sub"), Partition: rapid.Int32().Draw(t, "p"), Offset: rapid.Int64().Draw(t, "o")}
		}), 0, 3).Draw(t, "offsets")
	})
	genInternal = rapid.Custom(func(t *rapid.T) kmsg.TopicInfo {
		return kmsg.TopicInfo{
			Topic: genString.Draw(t, "topic"), NumPartitions: rapid.Int32().Draw(t, "n"), ReplicationFactor: rapid.Int16().Draw(t, "rf"),
			Configs: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) kmsg.TopicInfoConfig {
				return kmsg.TopicInfoConfig{Key: genString.Draw(t, "k"), Value: genString.Draw(t, "v"), UnknownTags: genTags.Draw(t, "tags")}
			}), 0, 2).Draw(t, "configs"),
		}
	})
	genSubtopology = rapid.Custom(func(t *rapid.T) kmsg.StreamsGroupHeartbeatRequestTopologySubtopology {
		names := rapid.SliceOfN(genString, 0, 3)
		idx := rapid.SliceOfN(rapid.Int16(), 0, 3)
		return kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{
			SubtopologyID: genString.Draw(t, "id"), SourceTopics: names.Draw(t, "src"), SourceTopicRegex: names.Draw(t, "regex"),
			StateChangelogTopics: rapid.SliceOfN(genInternal, 0, 2).Draw(t, "cl"), RepartitionSinkTopics: names.Draw(t, "sink"),
			RepartitionSourceTopics: rapid.SliceOfN(genInternal, 0, 2).Draw(t, "rep"),
			CopartitionGroups: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup {
				return kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup{
					SourceTopics: idx.Draw(t, "a"), SourceTopicRegex: idx.Draw(t, "b"), RepartitionSourceTopics: idx.Draw(t, "c"),
				}
			}), 0, 2).Draw(t, "groups"),
			UnknownTags: genTags.Draw(t, "tags"),
		}
	})
	genHeartbeat = rapid.Custom(func(t *rapid.T) *kmsg.StreamsGroupHeartbeatRequest {
		k := &kmsg.StreamsGroupHeartbeatRequest{
			Version: rapid.Int16Range(0, 1).Draw(t, "version"), Group: genString.Draw(t, "group"), MemberID: genString.Draw(t, "member"),
			MemberEpoch: rapid.Int32().Draw(t, "epoch"), EndpointInformationEpoch: rapid.Int32().Draw(t, "ee"),
			InstanceID: genNullable.Draw(t, "instance"), RackID: genNullable.Draw(t, "rack"), RebalanceTimeoutMillis: rapid.Int32().Draw(t, "rt"),
			ActiveTasks: genTasks.Draw(t, "active"), StandbyTasks: genTasks.Draw(t, "standby"), WarmupTasks: genTasks.Draw(t, "warmup"),
			ProcessID: genNullable.Draw(t, "process"), TaskOffsets: genOffsets.Draw(t, "to"), TaskEndOffsets: genOffsets.Draw(t, "teo"),
			ShutdownApplication: rapid.Bool().Draw(t, "shutdown"), UnknownTags: genTags.Draw(t, "tags"),
		}
		if rapid.Bool().Draw(t, "topology") {
			k.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{
				Epoch: rapid.Int32().Draw(t, "te"), Subtopologies: rapid.SliceOfN(genSubtopology, 0, 3).Draw(t, "subs"),
			}
		}
		if rapid.Bool().Draw(t, "endpoint") {
			k.UserEndpoint = &kmsg.StreamsGroupHeartbeatRequestUserEndpoint{Host: genString.Draw(t, "host"), Port: rapid.Uint16().Draw(t, "port")}
		}
		if rapid.Bool().Draw(t, "clienttags") {
			k.ClientTags = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) kmsg.StreamsGroupHeartbeatRequestClientTag {
				return kmsg.StreamsGroupHeartbeatRequestClientTag{Key: genString.Draw(t, "k"), Value: genString.Draw(t, "v")}
			}), 0, 3).Draw(t, "ct")
		}
		return k
	})
)

func TestDecodeHeartbeatAgreesWithKmsg(t *testing.T) { // not parallel: rapid names shared generators when they are first used
	var req streams.HeartbeatRequest // reused, so that leftovers show
	rapid.Check(t, func(t *rapid.T) {
		k := genHeartbeat.Draw(t, "request")
		body := k.AppendTo(nil)
		checkHeartbeat(t, k.Version, body, &req)
		// Damaged: cut short, and with a byte replaced.
		checkHeartbeat(t, k.Version, body[:rapid.IntRange(0, len(body)-1).Draw(t, "cut")], &req)
		body[rapid.IntRange(0, len(body)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		checkHeartbeat(t, k.Version, body, &req)
	})
}

func FuzzDecodeHeartbeat(f *testing.F) {
	for i := range 20 {
		k := genHeartbeat.Example(i)
		f.Add(k.Version, k.AppendTo(nil))
	}
	f.Add(int16(1), []byte{1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	var req streams.HeartbeatRequest
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		checkHeartbeat(t, version&1, body, &req)
	})
}

func steadyBody() []byte {
	instance := "instance-1"
	k := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	k.Version, k.Group, k.MemberID, k.MemberEpoch, k.EndpointInformationEpoch = 1, "wordcount", "fgEIGOuUQZuHXpCnGyqb4Q", 7, 1700000000
	k.InstanceID = &instance
	return k.AppendTo(nil)
}

func TestSteadyHeartbeatAllocatesNothing(t *testing.T) {
	body := steadyBody()
	frame := append(append([]byte{0, 88, 0, 1, 0, 0, 0, 1, 0, 1, 'c', 0}, []byte(nil)...), body...)
	var req streams.HeartbeatRequest
	resp := &streams.HeartbeatResponse{MemberID: "fgEIGOuUQZuHXpCnGyqb4Q", MemberEpoch: 7, HeartbeatIntervalMs: 5000, Status: []streams.Status{}}
	out := make([]byte, 0, 512)
	if n := testing.AllocsPerRun(200, func() {
		h, b, err := ParseHeader(frame)
		if err != nil || DecodeHeartbeat(h.Version, b, &req) != nil {
			t.Fatal("not decoded")
		}
		out = AppendHeartbeat(out[:0], h.Version, h.Correlation, resp)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestRepeatedReportAllocatesNothing(t *testing.T) {
	k := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	k.Version, k.Group, k.MemberID, k.MemberEpoch = 1, "wordcount", "fgEIGOuUQZuHXpCnGyqb4Q", 7
	k.ActiveTasks = []kmsg.TaskIDs{{SubtopologyID: "1", Partitions: []int32{2, 1, 0}}, {SubtopologyID: "0", Partitions: []int32{5}}}
	k.StandbyTasks, k.WarmupTasks = []kmsg.TaskIDs{{SubtopologyID: "1", Partitions: []int32{7}}}, []kmsg.TaskIDs{}
	k.TaskOffsets = []kmsg.TaskOffset{{SubtopologyID: "1", Partition: 7, Offset: 3}}
	body := k.AppendTo(nil)
	var req streams.HeartbeatRequest
	if n := testing.AllocsPerRun(200, func() {
		if DecodeHeartbeat(1, body, &req) != nil {
			t.Fatal("not decoded")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	if d := cmp.Diff(fromKmsg(k), &req); d != "" {
		t.Errorf("decoded (-kmsg +ours):\n%s", d)
	}
}

func BenchmarkDecodeHeartbeatSteady(b *testing.B) {
	body := steadyBody()
	var req streams.HeartbeatRequest
	b.ReportAllocs()
	for b.Loop() {
		if err := DecodeHeartbeat(1, body, &req); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendHeartbeatSteady(b *testing.B) {
	resp := &streams.HeartbeatResponse{MemberID: "fgEIGOuUQZuHXpCnGyqb4Q", MemberEpoch: 7, HeartbeatIntervalMs: 5000, Status: []streams.Status{}}
	out := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		out = AppendHeartbeat(out[:0], 1, 1, resp)
	}
}

func TestDecodeHeartbeatRefusesUnknownVersions(t *testing.T) {
	t.Parallel()
	for _, v := range []int16{-1, 2} {
		if err := DecodeHeartbeat(v, steadyBody(), new(streams.HeartbeatRequest)); err == nil {
			t.Errorf("version %d was decoded", v)
		}
	}
}

// toKmsg is the reference for AppendHeartbeat.
func toKmsg(version int16, r *streams.HeartbeatResponse) *kmsg.StreamsGroupHeartbeatResponse {
	k := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	k.Version = version
	k.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
	if r.Err != nil {
		k.ErrorCode = int16(r.Err.Code)
		if r.Err.Message != "" {
			k.ErrorMessage = &r.Err.Message
		}
		return k
	}
	k.MemberID, k.MemberEpoch, k.HeartbeatIntervalMillis = r.MemberID, r.MemberEpoch, r.HeartbeatIntervalMs
	k.TaskOffsetIntervalMillis, k.AcceptableRecoveryLag, k.EndpointInformationEpoch = r.TaskOffsetIntervalMs, r.AcceptableRecoveryLag, r.EndpointEpoch
	for _, s := range r.Status {
		k.Status = append(k.Status, kmsg.StreamsGroupHeartbeatResponseStatus{StatusCode: int8(s.Code), StatusDetail: s.Detail})
	}
	tasks := func(in topology.Tasks) (out []kmsg.TaskIDs) {
		if in != nil {
			out = []kmsg.TaskIDs{}
		}
		for _, t := range in {
			out = append(out, kmsg.TaskIDs{SubtopologyID: t.Subtopology, Partitions: t.Partitions})
		}
		return out
	}
	k.ActiveTasks, k.StandbyTasks, k.WarmupTasks = tasks(r.Active), tasks(r.Standby), tasks(r.Warmup)
	if r.Endpoints != nil {
		k.PartitionsByUserEndpoint = []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint{}
	}
	for _, e := range r.Endpoints {
		out := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpoint()
		out.UserEndpoint.Host, out.UserEndpoint.Port = e.Endpoint.Host, e.Endpoint.Port
		for _, p := range e.Active {
			out.ActivePartitions = append(out.ActivePartitions, kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointActivePartition{Topic: p.Topic, Partitions: p.Partitions})
		}
		for _, p := range e.Standby {
			out.StandbyPartitions = append(out.StandbyPartitions, kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointStandbyPartition{Topic: p.Topic, Partitions: p.Partitions})
		}
		k.PartitionsByUserEndpoint = append(k.PartitionsByUserEndpoint, out)
	}
	return k
}

var genResponse = rapid.Custom(func(t *rapid.T) *streams.HeartbeatResponse {
	parts := rapid.SliceOfN(rapid.Int32(), 0, 200)
	tasks := rapid.Custom(func(t *rapid.T) topology.Tasks {
		if rapid.Bool().Draw(t, "null") {
			return nil
		}
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) topology.SubtopologyTasks {
			return topology.SubtopologyTasks{Subtopology: genString.Draw(t, "sub"), Partitions: parts.Draw(t, "p")}
		}), 0, 3).Draw(t, "tasks")
	})
	topics := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) streams.TopicPartitions {
		return streams.TopicPartitions{Topic: genString.Draw(t, "topic"), Partitions: parts.Draw(t, "p")}
	}), 0, 3)
	r := &streams.HeartbeatResponse{
		MemberID: genString.Draw(t, "member"), MemberEpoch: rapid.Int32().Draw(t, "epoch"), HeartbeatIntervalMs: rapid.Int32().Draw(t, "hb"),
		TaskOffsetIntervalMs: rapid.Int32().Draw(t, "to"), AcceptableRecoveryLag: rapid.Int64().Draw(t, "lag"),
		Active: tasks.Draw(t, "active"), Standby: tasks.Draw(t, "standby"), Warmup: tasks.Draw(t, "warmup"), EndpointEpoch: rapid.Int32().Draw(t, "ee"),
		Status: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) streams.Status {
			return streams.Status{Code: streams.StatusCode(rapid.Int8Range(0, 6).Draw(t, "code")), Detail: genString.Draw(t, "detail")}
		}), 0, 3).Draw(t, "status"),
	}
	if rapid.Bool().Draw(t, "endpoints") {
		r.Endpoints = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) streams.EndpointPartitions {
			return streams.EndpointPartitions{
				Endpoint: record.Endpoint{Host: genString.Draw(t, "host"), Port: rapid.Uint16().Draw(t, "port")},
				Active:   topics.Draw(t, "active"), Standby: topics.Draw(t, "standby"),
			}
		}), 0, 3).Draw(t, "list")
	}
	if rapid.IntRange(0, 4).Draw(t, "err") == 0 {
		r.Err = &coordinator.Error{Code: coordinator.Code(rapid.Int16().Draw(t, "code")), Message: genString.Draw(t, "message")}
	}
	return r
})

func TestAppendHeartbeatAgreesWithKmsg(t *testing.T) { // not parallel: rapid names shared generators when they are first used
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.Int16Range(0, 1).Draw(t, "version")
		r := genResponse.Draw(t, "response")
		got := AppendHeartbeat([]byte("kept"), version, 42, r)
		want := AppendResponse([]byte("kept"), Header{Key: 88, Version: version, Correlation: 42}, toKmsg(version, r))
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("bytes differ (-kmsg +ours):\n%s", d)
		}
		if n := binary.BigEndian.Uint32(got[4:]); int(n) != len(got)-8 {
			t.Fatalf("length prefix %d of %d bytes", n, len(got)-8)
		}
	})
}

// TestRepeatedSubtopologiesCostWhatTheyTake: uniting them one by one would be quadratic in the request.
func TestRepeatedSubtopologiesCostWhatTheyTake(t *testing.T) {
	const n = 20_000
	req := kmsg.NewStreamsGroupHeartbeatRequest()
	req.Version = 1
	for i := range int32(n) {
		req.ActiveTasks = append(req.ActiveTasks, kmsg.TaskIDs{SubtopologyID: "0", Partitions: []int32{n - i}})
	}
	body := req.AppendTo(nil)
	var got streams.HeartbeatRequest
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := DecodeHeartbeat(1, body, &got)
	runtime.ReadMemStats(&after)
	if err != nil || len(got.Active) != 1 || len(got.Active[0].Partitions) != n || got.Active[0].Partitions[0] != 1 || got.DuplicateTasks != "ActiveTasks" {
		t.Fatalf("%v, %d subtopologies, duplicate %q", err, len(got.Active), got.DuplicateTasks)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > uint64(40*len(body)) {
		t.Errorf("%d bytes for a request of %d", took, len(body))
	}
}
