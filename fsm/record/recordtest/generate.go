package recordtest

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Types are all record types.
var Types = []record.Type{
	record.TypeGroupMetadata, record.TypeMemberMetadata, record.TypeTargetMetadata, record.TypeTargetMember,
	record.TypeCurrentAssignment, record.TypeTopology, record.TypeOffsetsClaim, record.TypeNode, record.TypeBrokerSlot,
	record.TypeCluster, record.TypeGroupConfig, record.TypeJournalEntry, record.TypeGroupMarks, record.TypeGroupTopics,
	record.TypeTopologyVersion, record.TypeOffsetCommit, record.TypeOffsetsStore,
}

// Records generates any record, one in four a tombstone. Ids come from small sets, so that records meet.
func Records() *rapid.Generator[record.Record] {
	return rapid.Custom(func(t *rapid.T) record.Record {
		k := Keys().Draw(t, "key")
		if rapid.IntRange(0, 3).Draw(t, "tombstone") == 0 {
			return record.Record{Key: k}
		}
		return record.Record{Key: k, Value: Values(k.Type).Draw(t, "value")}
	})
}

// Keys generates keys of all types.
func Keys() *rapid.Generator[record.Key] {
	return rapid.Custom(func(t *rapid.T) record.Key {
		k := record.Key{Type: rapid.SampledFrom(Types).Draw(t, "type")}
		switch k.Type {
		case record.TypeNode, record.TypeBrokerSlot:
			k.ID = rapid.SampledFrom([]int32{-1, 0, 1, 2, math.MaxInt32}).Draw(t, "id")
		case record.TypeCluster:
		case record.TypeJournalEntry:
			k.ID = rapid.SampledFrom([]int32{-1, 0, 1, 2, record.JournalSlots - 1}).Draw(t, "slot")
			k.Group = rapid.SampledFrom([]string{"g", "g1", ""}).Draw(t, "group")
		case record.TypeTopologyVersion:
			k.ID = rapid.SampledFrom([]int32{-1, 0, 1, 2, math.MaxInt32}).Draw(t, "epoch")
			k.Group = rapid.SampledFrom([]string{"g", "g1", ""}).Draw(t, "group")
		case record.TypeOffsetCommit:
			k.ID = rapid.SampledFrom([]int32{-1, 0, 1, 31, 32, math.MaxInt32}).Draw(t, "partition")
			k.Topic = rapid.SampledFrom([]string{"t", "t1"}).Draw(t, "topic")
			k.Group = rapid.SampledFrom([]string{"g", ""}).Draw(t, "group")
		case record.TypeMemberMetadata, record.TypeTargetMember, record.TypeCurrentAssignment:
			k.Member = rapid.SampledFrom([]string{"m", "m1", "m2", "n", ""}).Draw(t, "member")
			fallthrough
		default:
			k.Group = rapid.SampledFrom([]string{"g", "g1", "h", ""}).Draw(t, "group")
		}
		return k
	})
}

// Values generates values of one type, in normal form.
func Values(typ record.Type) *rapid.Generator[record.Value] {
	if typ == record.TypeOffsetsClaim { // rapid.Custom demands that something is drawn
		return rapid.Just[record.Value](&record.OffsetsClaim{})
	}
	return rapid.Custom(func(t *rapid.T) record.Value { return record.Normal(value(t, typ)) })
}

func value(t *rapid.T, typ record.Type) record.Value {
	switch typ {
	case record.TypeGroupMetadata:
		return &record.GroupMetadata{
			Epoch: epoch(t), MetadataHash: rapid.Int64().Draw(t, "hash"), ValidatedTopologyEpoch: epoch(t),
			AssignmentConfigs: pairs(t), StoredDescriptionEpoch: epoch(t), FailedDescriptionEpoch: epoch(t),
		}
	case record.TypeMemberMetadata:
		return member(t)
	case record.TypeTargetMetadata:
		return &record.TargetMetadata{AssignmentEpoch: epoch(t), TimestampMs: rapid.Int64().Draw(t, "time")}
	case record.TypeTargetMember:
		return &record.TargetMember{Assignment: assignment(t, false)}
	case record.TypeCurrentAssignment:
		return &record.CurrentAssignment{
			MemberEpoch: epoch(t), PreviousEpoch: epoch(t), State: record.MemberState(rapid.Int8Range(0, 4).Draw(t, "state")),
			Assigned: assignment(t, true), Revoking: assignment(t, true),
		}
	case record.TypeTopology:
		v := &record.Topology{}
		v.Epoch = epoch(t)
		v.Subtopologies = orNil(rapid.SliceOfN(rapid.Custom(subtopology), 0, 3).Draw(t, "subtopologies"))
		return v
	case record.TypeNode:
		port := rapid.Uint16()
		return &record.Node{
			RaftAddress: text(t), ClientHost: text(t), ClientPort: port.Draw(t, "port"), BrokerPortBase: port.Draw(t, "base"),
			BrokerPortStep: port.Draw(t, "step"), Live: rapid.Bool().Draw(t, "live"), FeatureLevel: rapid.Uint16().Draw(t, "level"),
		}
	case record.TypeBrokerSlot:
		return &record.BrokerSlot{Slot: rapid.Int32().Draw(t, "slot")}
	case record.TypeGroupConfig:
		return &record.GroupConfig{Settings: pairs(t)}
	case record.TypeJournalEntry:
		return journalEntry(t)
	case record.TypeGroupMarks:
		return &record.GroupMarks{ShutdownBy: text(t), DelayUntilMs: rapid.Int64().Draw(t, "delay"), EmptySinceMs: rapid.Int64().Draw(t, "since")}
	case record.TypeGroupTopics:
		return groupTopics(t)
	case record.TypeTopologyVersion:
		return topologyVersion(t)
	case record.TypeOffsetsStore:
		return &record.OffsetsStore{
			Store: rapid.SampledFrom([]record.Store{record.StoreUpstream, record.StoreRaft}).Draw(t, "store"), LeftUpstream: rapid.Bool().Draw(t, "left upstream"),
		}
	case record.TypeOffsetCommit:
		return offsetCommit(t)
	case record.TypeCluster:
		return &record.Cluster{ID: text(t), Shards: rapid.Int32().Draw(t, "shards"), FeatureLevel: rapid.Int32().Draw(t, "level")}
	}
	panic("no such type")
}

func groupTopics(t *rapid.T) *record.GroupTopics {
	v := &record.GroupTopics{TopologyEpoch: epoch(t), SinceMs: rapid.Int64().Draw(t, "since")}
	counts := rapid.SliceOfN(rapid.Int32(), 0, 3)
	for range rapid.IntRange(0, 3).Draw(t, "subtopologies") {
		v.Sizes = append(v.Sizes, topology.SubtopologySizes{
			ID: text(t), Tasks: rapid.Int32().Draw(t, "tasks"), Repartition: counts.Draw(t, "repartition"),
			Changelogs: counts.Draw(t, "changelogs"), Matched: rapid.SliceOfN(rapid.StringN(-1, 4, -1), 0, 2).Draw(t, "matched"),
		})
	}
	return v
}

func topologyVersion(t *rapid.T) *record.TopologyVersion {
	v := &record.TopologyVersion{
		Root: epoch(t), First: epoch(t), Declared: epoch(t), LastDeclared: epoch(t), SinceMs: rapid.Int64().Draw(t, "since"),
		Aborted: rapid.Bool().Draw(t, "aborted"), Foreign: rapid.Bool().Draw(t, "foreign"),
	}
	copy(v.Hash[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "hash"))
	if rapid.Bool().Draw(t, "content") {
		v.Content = &topology.Topology{
			Epoch: epoch(t), Subtopologies: orNil(rapid.SliceOfN(rapid.Custom(subtopology), 0, 3).Draw(t, "subtopologies")),
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "tasks") {
		v.Tasks = append(v.Tasks, record.TaskCount{Subtopology: text(t), Tasks: rapid.Int32().Draw(t, "count")})
	}
	return v
}

func journalEntry(t *rapid.T) *record.JournalEntry {
	ms := rapid.Int64()
	v := &record.JournalEntry{
		Sequence: rapid.Int64Range(-1, 4).Draw(t, "sequence"), FirstEpoch: epoch(t), Epoch: epoch(t), StartedAtMs: ms.Draw(t, "started"),
		TargetAtMs: ms.Draw(t, "target"), SettledAtMs: ms.Draw(t, "settled"), Slowest: text(t), NumMoves: rapid.Int32().Draw(t, "moves"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "counts") {
		v.Counts = append(v.Counts, record.JournalCount{Kind: rapid.Int8().Draw(t, "kind"), Count: rapid.Int32().Draw(t, "count")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "causes") {
		v.Causes = append(v.Causes, record.JournalCause{
			Kinds: rapid.Uint16().Draw(t, "kinds"), Epoch: epoch(t), AtMs: ms.Draw(t, "at"),
			Member: text(t), Instance: text(t), Host: text(t), Detail: text(t),
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "listed") {
		v.Moves = append(v.Moves, record.JournalMove{
			Task: topology.Task{Subtopology: text(t), Partition: rapid.Int32().Draw(t, "partition")},
			Role: record.TaskRole(rapid.Int8().Draw(t, "role")), From: text(t), To: text(t),
		})
	}
	return v
}

// offsetCommit draws from few topic ids and lengths of metadata, on both sides of what the state keeps in another form.
func offsetCommit(t *rapid.T) *record.OffsetCommit {
	v := &record.OffsetCommit{
		Offset: rapid.Int64().Draw(t, "offset"), LeaderEpoch: epoch(t), CommitTimestampMs: rapid.Int64().Draw(t, "committed"),
		ExpireTimestampMs: -1, Metadata: strings.Repeat("m", rapid.SampledFrom([]int{0, 1, 40, 255, 256, 400}).Draw(t, "metadata")),
	}
	v.TopicID[0] = rapid.ByteRange(0, 2).Draw(t, "topic id")
	if rapid.IntRange(0, 4).Draw(t, "expires") == 0 {
		v.ExpireTimestampMs = rapid.Int64().Draw(t, "expiry")
	}
	return v
}

func member(t *rapid.T) *record.MemberMetadata {
	v := &record.MemberMetadata{
		ClientID: text(t), ClientHost: text(t), RebalanceTimeoutMs: rapid.Int32().Draw(t, "timeout"), TopologyEpoch: epoch(t),
		ProcessID: rapid.SampledFrom([]string{"", "p1", "p2"}).Draw(t, "process"), ClientTags: pairs(t),
	}
	if rapid.Bool().Draw(t, "static") {
		v.InstanceID = new(rapid.SampledFrom([]string{"i1", "i2"}).Draw(t, "instance"))
	}
	if rapid.Bool().Draw(t, "rack") {
		v.RackID = new(text(t))
	}
	if rapid.Bool().Draw(t, "endpoint") {
		v.UserEndpoint = &record.Endpoint{Host: text(t), Port: rapid.Uint16().Draw(t, "port")}
	}
	return v
}

func epoch(t *rapid.T) int32 {
	return rapid.SampledFrom([]int32{-2, -1, 0, 1, 2, 3, math.MaxInt32}).Draw(t, "epoch")
}

func text(t *rapid.T) string { return rapid.StringN(-1, 6, -1).Draw(t, "text") }

func pairs(t *rapid.T) []record.KeyValue {
	m := rapid.MapOfN(rapid.StringN(-1, 3, -1), rapid.StringN(-1, 3, -1), 0, 3).Draw(t, "pairs")
	list := make([]record.KeyValue, 0, len(m))
	for k, v := range m {
		list = append(list, record.KeyValue{Key: k, Value: v})
	}
	slices.SortFunc(list, func(a, b record.KeyValue) int { return cmp.Compare(a.Key, b.Key) })
	return list
}

func assignment(t *rapid.T, epochs bool) topology.Assignment {
	return topology.Assignment{Active: tasks(t, epochs), Standby: tasks(t, false), Warmup: tasks(t, false)}
}

// tasks draws tasks in any order and with repetitions; record.Normal brings them into form.
func tasks(t *rapid.T, epochs bool) topology.Tasks {
	ids := rapid.SliceOfN(rapid.SampledFrom([]string{"0", "1", "10", "x"}), 0, 3).Draw(t, "ids")
	var list topology.Tasks
	for _, id := range ids {
		n := rapid.SampledFrom([]int32{4, 200, math.MaxInt32}).Draw(t, "width")
		s := topology.SubtopologyTasks{
			Subtopology: id,
			Partitions:  rapid.SliceOfN(rapid.Int32Range(-n/4, n), 0, 6).Draw(t, "partitions"),
		}
		if epochs {
			s.Epochs = rapid.SliceOfN(rapid.Int32Range(0, 5), len(s.Partitions), len(s.Partitions)).Draw(t, "epochs")
		}
		list = append(list, s)
	}
	return list
}

func subtopology(t *rapid.T) topology.Subtopology {
	names := func() []string { return orNil(rapid.SliceOfN(rapid.StringN(-1, 4, -1), 0, 2).Draw(t, "names")) }
	topics := func() []topology.InternalTopic {
		return orNil(rapid.SliceOfN(rapid.Custom(topic), 0, 2).Draw(t, "topics"))
	}
	return topology.Subtopology{
		ID: text(t), SourceTopics: names(), SourceTopicRegex: names(), StateChangelogTopics: topics(), RepartitionSinkTopics: names(),
		RepartitionSourceTopics: topics(),
		CopartitionGroups:       orNil(rapid.SliceOfN(rapid.Custom(copartition), 0, 2).Draw(t, "copartition groups")),
	}
}

func topic(t *rapid.T) topology.InternalTopic {
	v := topology.InternalTopic{
		Name: text(t), Partitions: rapid.Int32().Draw(t, "partitions"), ReplicationFactor: rapid.Int16().Draw(t, "factor"),
	}
	for _, p := range pairs(t) {
		v.Configs = append(v.Configs, topology.Config(p))
	}
	return v
}

func copartition(t *rapid.T) topology.CopartitionGroup {
	indexes := func() []int16 { return orNil(rapid.SliceOfN(rapid.Int16(), 0, 2).Draw(t, "indexes")) }
	return topology.CopartitionGroup{SourceTopics: indexes(), SourceTopicRegex: indexes(), RepartitionSourceTopics: indexes()}
}

// orNil makes empty lists nil, as decoders do.
func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}
