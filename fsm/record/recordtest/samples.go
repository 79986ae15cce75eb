package recordtest

import (
	"math"
	"strings"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Sample is a record whose encoding by Apache Kafka 4.4.0 is kept in fsm/record/testdata/kafka-4.4.0/NAME.bin, written by
// test/e2e/records/RecordGolden.java.
type Sample struct {
	Name   string
	Record record.Record
	// ReadOnly says that Kafka's bytes decode to Record but are not those that coordd writes for it, for example
	// because an older version wrote them.
	ReadOnly bool
}

// Samples returns all samples in the order of their names.
func Samples() []Sample {
	var list []Sample
	for _, part := range [][]Sample{offsets(), groups(), members(), targetMetadata(), targets(), currents(), topologies()} {
		list = append(list, part...)
	}
	return list
}

func key(t record.Type) record.Key { return record.Key{Type: t, Group: "g"} }

func memberKey(t record.Type) record.Key { return record.Key{Type: t, Group: "g", Member: "m-1"} }

func sample(name string, k record.Key, v record.Value) Sample {
	return Sample{Name: name, Record: record.Record{Key: k, Value: v}}
}

func readOnly(s Sample) Sample {
	s.ReadOnly = true
	return s
}

func offsets() []Sample {
	k := record.Key{Type: record.TypeOffsetCommit, Group: "g", Topic: "t-1", ID: 3}
	full := record.OffsetCommit{
		Offset: 42, LeaderEpoch: 7, Metadata: "AgAAAZ3cZ0CLAAAAAA==", CommitTimestampMs: 1790000000123, ExpireTimestampMs: -1,
		TopicID: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
	}
	edit := func(f func(*record.OffsetCommit)) *record.OffsetCommit {
		c := full
		f(&c)
		return &c
	}
	withoutID := edit(func(v *record.OffsetCommit) { v.TopicID = [16]byte{} })
	withoutEpoch := edit(func(v *record.OffsetCommit) { v.TopicID, v.LeaderEpoch = [16]byte{}, -1 })
	return []Sample{
		sample("01-expiring", k, edit(func(v *record.OffsetCommit) {
			v.TopicID, v.LeaderEpoch, v.ExpireTimestampMs = [16]byte{}, -1, 1790000099999
		})),
		sample("01-full", k, &full),
		sample("01-least", k, &record.OffsetCommit{Offset: -1, LeaderEpoch: -1, ExpireTimestampMs: -1}),
		readOnly(sample("01-legacy", k, withoutEpoch)),
		sample("01-no-topic-id", k, withoutID),
		sample("01-tombstone", k, nil),
		sample("01-unicode", record.Key{Type: record.TypeOffsetCommit, Group: "группа", Topic: "тема-Ω", ID: math.MaxInt32},
			edit(func(v *record.OffsetCommit) { v.Metadata = "メタ😀" })),
		readOnly(sample("01-version-0", k, withoutEpoch)),
		readOnly(sample("01-version-2", k, withoutEpoch)),
		readOnly(sample("01-version-3", k, withoutID)),
	}
}

func groups() []Sample {
	k := key(record.TypeGroupMetadata)
	standbys := func(n string) []record.KeyValue {
		return []record.KeyValue{{Key: "num.standby.replicas", Value: n}}
	}
	return []Sample{
		sample("17-defaults", k, &record.GroupMetadata{Epoch: 2, ValidatedTopologyEpoch: -1, StoredDescriptionEpoch: -1, FailedDescriptionEpoch: -1}),
		sample("17-full", k, &record.GroupMetadata{
			Epoch: 42, MetadataHash: -7046029254386353131, ValidatedTopologyEpoch: 3, StoredDescriptionEpoch: 4, FailedDescriptionEpoch: 5,
			AssignmentConfigs: append(standbys("2"), record.KeyValue{Key: "rack.aware.assignment.tags", Value: "zone,cluster"}),
		}),
		readOnly(sample("17-null-configs", k, &record.GroupMetadata{Epoch: 9, MetadataHash: 8, ValidatedTopologyEpoch: -1, StoredDescriptionEpoch: -1, FailedDescriptionEpoch: -1})),
		sample("17-tombstone", k, nil),
		sample("17-uncertain", k, &record.GroupMetadata{
			Epoch: math.MaxInt32, MetadataHash: math.MinInt64, ValidatedTopologyEpoch: -1, StoredDescriptionEpoch: -2, FailedDescriptionEpoch: 0,
			AssignmentConfigs: standbys("1"),
		}),
		sample("17-validated", k, &record.GroupMetadata{
			Epoch: 2, MetadataHash: 1, StoredDescriptionEpoch: -1, FailedDescriptionEpoch: -1, AssignmentConfigs: standbys("0"),
		}),
	}
}

func members() []Sample {
	k := memberKey(record.TypeMemberMetadata)
	repeat := strings.Repeat
	return []Sample{
		sample("19-full", k, &record.MemberMetadata{
			InstanceID: new("instance-1"), RackID: new("rack-1"), ClientID: "client", ClientHost: "/10.0.0.7",
			RebalanceTimeoutMs: 300000, TopologyEpoch: 2, ProcessID: "p-1",
			UserEndpoint: &record.Endpoint{Host: "app.example.com", Port: 65535},
			ClientTags:   []record.KeyValue{{Key: "cluster", Value: ""}, {Key: "zone", Value: "eu-1a"}},
		}),
		sample("19-long", record.Key{Type: record.TypeMemberMetadata, Group: repeat("g", 300), Member: repeat("m", 200)}, &record.MemberMetadata{
			RackID: new(repeat("r", 127)), ClientID: repeat("c", 128), ClientHost: repeat("h", 16383), RebalanceTimeoutMs: 5, TopologyEpoch: 6,
			ProcessID: repeat("p", 126), ClientTags: []record.KeyValue{{Key: repeat("k", 200), Value: repeat("v", 300)}},
		}),
		sample("19-minimal", k, &record.MemberMetadata{RebalanceTimeoutMs: -1, TopologyEpoch: -1}),
		sample("19-tombstone", k, nil),
		sample("19-unicode", record.Key{Type: record.TypeMemberMetadata, Group: "группа-Ω", Member: "mitglied-ä-😀"}, &record.MemberMetadata{
			InstanceID: new("экземпляр"), RackID: new(""), ClientID: "клиент", ClientHost: "host/10.0.0.7", RebalanceTimeoutMs: 1,
			ProcessID: "進程", UserEndpoint: &record.Endpoint{Host: "ホスト", Port: 1},
			ClientTags: []record.KeyValue{{Key: "зона", Value: "东"}},
		}),
		readOnly(sample("19-unknown-tag", k, &record.MemberMetadata{
			InstanceID: new(""), RackID: new(""), ClientID: "c", ClientHost: "/h", RebalanceTimeoutMs: 1, ProcessID: "p",
		})),
	}
}

func targetMetadata() []Sample {
	k := key(record.TypeTargetMetadata)
	return []Sample{
		sample("20-full", k, &record.TargetMetadata{AssignmentEpoch: 7, TimestampMs: 1790000000123}),
		sample("20-no-time", k, &record.TargetMetadata{AssignmentEpoch: 8}),
		sample("20-tombstone", k, nil),
	}
}

func targets() []Sample {
	k := memberKey(record.TypeTargetMember)
	none := topology.Tasks{}
	return []Sample{
		sample("21-empty", k, &record.TargetMember{Assignment: topology.Assignment{Active: none, Standby: none, Warmup: none}}),
		sample("21-full", k, &record.TargetMember{Assignment: topology.Assignment{
			Active: topology.Tasks{
				{Subtopology: "0", Partitions: []int32{0, 1, 2}},
				{Subtopology: "10", Partitions: []int32{7}},
				{Subtopology: "2", Partitions: []int32{5, 300}},
			},
			Standby: topology.Tasks{{Subtopology: "1", Partitions: []int32{4}}},
			Warmup:  topology.Tasks{{Subtopology: "0", Partitions: []int32{9}}, {Subtopology: "1", Partitions: []int32{3}}},
		}}),
		sample("21-tombstone", k, nil),
	}
}

func currents() []Sample {
	k := memberKey(record.TypeCurrentAssignment)
	none := topology.Tasks{}
	nothing := topology.Assignment{Active: none, Standby: none, Warmup: none}
	owns := func(epochs ...int32) topology.Assignment {
		a := nothing
		a.Active = topology.Tasks{{Subtopology: "0", Partitions: []int32{0, 1}[:len(epochs)], Epochs: epochs}}
		return a
	}
	return []Sample{
		sample("22-full", k, &record.CurrentAssignment{
			MemberEpoch: 7, PreviousEpoch: 6, State: record.MemberUnrevokedTasks,
			Assigned: topology.Assignment{
				Active: topology.Tasks{
					{Subtopology: "0", Partitions: []int32{0, 1}, Epochs: []int32{5, 7}},
					{Subtopology: "10", Partitions: []int32{3}, Epochs: []int32{2}},
				},
				Standby: topology.Tasks{{Subtopology: "1", Partitions: []int32{0, 1}}},
				Warmup:  topology.Tasks{{Subtopology: "2", Partitions: []int32{5}}},
			},
			Revoking: topology.Assignment{
				Active: topology.Tasks{
					{Subtopology: "0", Partitions: []int32{2}, Epochs: []int32{4}},
					{Subtopology: "b", Partitions: []int32{7, 130}, Epochs: []int32{1, 1}},
				},
				Standby: topology.Tasks{{Subtopology: "1", Partitions: []int32{2}}},
				Warmup:  topology.Tasks{{Subtopology: "2", Partitions: []int32{4, 6}}},
			},
		}),
		readOnly(sample("22-null-epochs", k, &record.CurrentAssignment{
			MemberEpoch: 5, PreviousEpoch: 4, State: record.MemberStable, Assigned: owns(5, 5), Revoking: nothing})),
		readOnly(sample("22-old-without-epochs", k, &record.CurrentAssignment{
			MemberEpoch: 5, PreviousEpoch: 4, State: record.MemberStable, Assigned: owns(5, 5), Revoking: nothing})),
		sample("22-stable", k, &record.CurrentAssignment{MemberEpoch: 2, State: record.MemberStable, Assigned: owns(2, 2), Revoking: nothing}),
		sample("22-static-left", k, &record.CurrentAssignment{
			MemberEpoch: -2, PreviousEpoch: 3, State: record.MemberStable, Assigned: owns(0), Revoking: nothing}),
		sample("22-tombstone", k, nil),
		readOnly(sample("22-unknown-state", k, &record.CurrentAssignment{
			MemberEpoch: 5, PreviousEpoch: 4, State: record.MemberUnknown, Assigned: owns(1, 2), Revoking: nothing})),
		sample("22-unreleased", k, &record.CurrentAssignment{
			MemberEpoch: 3, PreviousEpoch: 2, State: record.MemberUnreleasedTasks, Assigned: nothing, Revoking: nothing}),
		readOnly(sample("22-wrong-epochs", k, &record.CurrentAssignment{
			MemberEpoch: 5, PreviousEpoch: 4, State: record.MemberStable, Assigned: owns(5, 5), Revoking: nothing})),
	}
}

func topologies() []Sample {
	k := key(record.TypeTopology)
	return []Sample{
		sample("23-empty", k, &record.Topology{}),
		sample("23-full", k, &record.Topology{Topology: topology.Topology{Epoch: 3, Subtopologies: []topology.Subtopology{
			{
				ID:               "1",
				SourceTopics:     []string{"z-source", "a-source"},
				SourceTopicRegex: []string{"in-.*", "^x[0-9]+$"},
				StateChangelogTopics: []topology.InternalTopic{
					{Name: "store-changelog", ReplicationFactor: 3, Configs: []topology.Config{{Key: "cleanup.policy", Value: "compact"}, {Key: "a"}}},
					{Name: "s2", ReplicationFactor: -1},
				},
				RepartitionSinkTopics: []string{"r-2", "r-1"},
				RepartitionSourceTopics: []topology.InternalTopic{
					{Name: "r-0", Partitions: 12, Configs: []topology.Config{{Key: "segment.bytes", Value: "52428800"}}},
				},
				CopartitionGroups: []topology.CopartitionGroup{
					{SourceTopics: []int16{0, 1}, SourceTopicRegex: []int16{1}, RepartitionSourceTopics: []int16{0}},
					{},
				},
			},
			{ID: "0"},
		}}}),
		sample("23-tombstone", k, nil),
	}
}
