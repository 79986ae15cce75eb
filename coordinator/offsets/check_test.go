package offsets

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// active makes a set of active tasks with their assignment epochs, all of subtopology 0 unless the id is given.
func active(sub string, partitionEpochs ...int32) topology.Tasks {
	t := topology.SubtopologyTasks{Subtopology: sub}
	for i := 0; i < len(partitionEpochs); i += 2 {
		t.Partitions = append(t.Partitions, partitionEpochs[i])
		t.Epochs = append(t.Epochs, partitionEpochs[i+1])
	}
	return topology.Tasks{t}
}

// group builds a group by replaying records. Member "a" is at epoch 5, owns 0_0 since epoch 2 and 1_3 since epoch 4, and
// has 0_1, granted at epoch 3, still to revoke. Topic "in" is a source of subtopology 0, "rep" a repartition source of 1,
// "both" a source of both.
func group(t *testing.T, drop ...record.Type) *fsm.Group {
	t.Helper()
	g, err := buildGroup(drop...)
	if err != nil {
		t.Fatal(err)
	}
	if g == nil {
		t.Fatal("no group")
	}
	return g
}

func buildGroup(drop ...record.Type) (*fsm.Group, error) {
	key := func(typ record.Type, member string) record.Key {
		return record.Key{Type: typ, Group: "g", Member: member}
	}
	all := []record.Record{
		{Key: key(record.TypeGroupMetadata, ""), Value: &record.GroupMetadata{Epoch: 6}},
		{Key: key(record.TypeTopology, ""), Value: &record.Topology{Topology: topology.Topology{Epoch: 1, Subtopologies: []topology.Subtopology{
			{ID: "0", SourceTopics: []string{"in", "both"}},
			{ID: "1", SourceTopics: []string{"both"}, RepartitionSourceTopics: []topology.InternalTopic{{Name: "rep"}}},
		}}}},
		{Key: key(record.TypeMemberMetadata, "a"), Value: &record.MemberMetadata{ProcessID: "p"}},
		{Key: key(record.TypeCurrentAssignment, "a"), Value: &record.CurrentAssignment{
			MemberEpoch: 5, PreviousEpoch: 4, State: record.MemberUnrevokedTasks,
			Assigned: topology.Assignment{Active: append(active("0", 0, 2), active("1", 3, 4)...)},
			Revoking: topology.Assignment{Active: active("0", 1, 3)},
		}},
	}
	var records []record.Record
	for _, r := range all {
		if !contains(drop, r.Key.Type) {
			records = append(records, r)
		}
	}
	s, err := fsm.NewState().EvolveAll(records)
	return s.Group("g"), err
}

func contains(types []record.Type, t record.Type) bool {
	for _, x := range types {
		if x == t {
			return true
		}
	}
	return false
}

// parts names partitions as topic, partition pairs.
func parts(topicPartitions ...any) (out []CommitTopic) {
	for i := 0; i < len(topicPartitions); i += 2 {
		out = append(out, CommitTopic{
			Name:       topicPartitions[i].(string),
			Partitions: []CommitPartition{{Partition: int32(topicPartitions[i+1].(int)), Offset: 7}},
		})
	}
	return out
}

func TestCheckCommit(t *testing.T) {
	t.Parallel()
	full := group(t)
	noMembers := group(t, record.TypeMemberMetadata, record.TypeCurrentAssignment)
	noTopology := group(t, record.TypeTopology)
	neverReconciled := group(t, record.TypeCurrentAssignment)
	instance := "i"
	in0 := parts("in", 0)
	for _, c := range []struct {
		name string
		g    *fsm.Group
		req  CommitRequest
		want coordinator.Code
	}{
		// 12.1
		{"missing group, no member", nil, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: -1}, coordinator.None},
		{"missing group, member", nil, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 0}, coordinator.GroupIDNotFound},
		{"missing group, generation", nil, CommitRequest{Version: 8, GroupID: "g", MemberEpoch: 3}, coordinator.IllegalGeneration},
		{"missing group, empty id", nil, CommitRequest{Version: 9, MemberEpoch: -1}, coordinator.None},
		// 12.3
		{"txn: missing group, no member", nil, CommitRequest{Transactional: true, Version: 2, GroupID: "g", MemberEpoch: -1}, coordinator.None},
		{"txn: missing group, v6", nil, CommitRequest{Transactional: true, Version: 6, GroupID: "g", MemberEpoch: 1}, coordinator.GroupIDNotFound},
		{"txn: missing group, v5", nil, CommitRequest{Transactional: true, Version: 5, GroupID: "g", MemberEpoch: 1}, coordinator.IllegalGeneration},
		{"txn: empty group id", full, CommitRequest{Transactional: true, Version: 6, MemberEpoch: -1}, coordinator.InvalidGroupID},
		// 12.2, rule by rule
		{"1: tool on an empty group", noMembers, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: -1, MemberID: "whoever", Topics: parts("unread", 9)}, coordinator.None},
		{"1: tool on an empty group, old version", noMembers, CommitRequest{Version: 2, GroupID: "g", MemberEpoch: -1}, coordinator.None},
		{"1: any negative epoch", noMembers, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: -2}, coordinator.None},
		{"1: not with an epoch", noMembers, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 5, MemberID: "a"}, coordinator.UnknownMemberID},
		{"2: producer without group metadata", full, CommitRequest{Transactional: true, Version: 4, GroupID: "g", MemberEpoch: -1, Topics: in0}, coordinator.None},
		{"2: not below -1", full, CommitRequest{Transactional: true, Version: 4, GroupID: "g", MemberEpoch: -2}, coordinator.UnknownMemberID},
		{"2: not with an instance id", full, CommitRequest{Transactional: true, Version: 4, GroupID: "g", MemberEpoch: -1, InstanceID: &instance}, coordinator.UnknownMemberID},
		{"2: not with a member id", full, CommitRequest{Transactional: true, Version: 6, GroupID: "g", MemberEpoch: -1, MemberID: "a", Topics: in0}, coordinator.StaleMemberEpoch},
		{"2: only transactional", full, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: -1, Topics: in0}, coordinator.UnknownMemberID},
		{"3: unknown member", full, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 5, MemberID: "b"}, coordinator.UnknownMemberID},
		{"3 before 4", full, CommitRequest{Version: 8, GroupID: "g", MemberEpoch: 5, MemberID: "b"}, coordinator.UnknownMemberID},
		{"4: version without epochs", full, CommitRequest{Version: 8, GroupID: "g", MemberEpoch: 5, MemberID: "a", Topics: in0}, coordinator.UnsupportedVersion},
		{"4: not for transactions", full, CommitRequest{Transactional: true, Version: 3, GroupID: "g", MemberEpoch: 5, MemberID: "a", Topics: in0}, coordinator.None},
		{"5: own epoch, any topic", full, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 5, MemberID: "a", Topics: parts("unread", 9)}, coordinator.None},
		{"5: instance id is not looked at", full, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 5, MemberID: "a", InstanceID: &instance, Topics: in0}, coordinator.None},
		{"5: member that was never reconciled", neverReconciled, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 0, MemberID: "a", Topics: in0}, coordinator.None},
		{"6: epoch ahead", full, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 6, MemberID: "a", Topics: in0}, coordinator.StaleMemberEpoch},
		{"6: epoch ahead of no assignment", neverReconciled, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 1, MemberID: "a", Topics: in0}, coordinator.StaleMemberEpoch},
		{"7: no topology", noTopology, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 4, MemberID: "a", Topics: in0}, coordinator.StaleMemberEpoch},
		{"7: topic nobody reads", full, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 4, MemberID: "a", Topics: parts("unread", 0)}, coordinator.StaleMemberEpoch},
		{"7: task not owned", full, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 4, MemberID: "a", Topics: parts("in", 2)}, coordinator.StaleMemberEpoch},
		{"7: owned since", full, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 2, MemberID: "a", Topics: in0}, coordinator.None},
		{"7: owned only later", full, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 1, MemberID: "a", Topics: in0}, coordinator.StaleMemberEpoch},
		{"7: pending revocation", full, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 3, MemberID: "a", Topics: parts("in", 1)}, coordinator.None},
		{"7: pending revocation, too old", full, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 2, MemberID: "a", Topics: parts("in", 1)}, coordinator.StaleMemberEpoch},
		{"7: repartition source", full, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 4, MemberID: "a", Topics: parts("rep", 3)}, coordinator.None},
		{"7: second reader of the topic", full, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 4, MemberID: "a", Topics: parts("both", 3)}, coordinator.None},
		{"7: first reader of the topic", full, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 4, MemberID: "a", Topics: parts("both", 0)}, coordinator.None},
		{"7: one bad partition fails all", full, CommitRequest{Version: 9, GroupID: "g", MemberEpoch: 4, MemberID: "a", Topics: parts("in", 0, "in", 2)}, coordinator.StaleMemberEpoch},
		{"7: transactional too", full, CommitRequest{Transactional: true, Version: 6, GroupID: "g", MemberEpoch: 2, MemberID: "a", Topics: in0}, coordinator.None},
		{"stale for v6 transactions", full, CommitRequest{Transactional: true, Version: 6, GroupID: "g", MemberEpoch: 6, MemberID: "a", Topics: in0}, coordinator.StaleMemberEpoch},
		{"translated for v5 transactions", full, CommitRequest{Transactional: true, Version: 5, GroupID: "g", MemberEpoch: 6, MemberID: "a", Topics: in0}, coordinator.IllegalGeneration},
		{"unknown member is not translated", full, CommitRequest{Transactional: true, Version: 5, GroupID: "g", MemberEpoch: 6, MemberID: "b", Topics: in0}, coordinator.UnknownMemberID},
	} {
		if got := CheckCommit(c.g, &c.req); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestCommitDuringRevocation is a commit in the middle of a scale-out: A, told to give up 0_1 and not yet through with
// it, commits that task's offset with the epoch it has.
func TestCommitDuringRevocation(t *testing.T) {
	t.Parallel()
	key := func(typ record.Type, member string) record.Key {
		return record.Key{Type: typ, Group: "g", Member: member}
	}
	records := []record.Record{
		{Key: key(record.TypeGroupMetadata, ""), Value: &record.GroupMetadata{Epoch: 3}},
		{Key: key(record.TypeTopology, ""), Value: &record.Topology{Topology: topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"in"}}}}}},
		{Key: key(record.TypeMemberMetadata, "A"), Value: &record.MemberMetadata{ProcessID: "P1"}},
		{Key: key(record.TypeMemberMetadata, "B"), Value: &record.MemberMetadata{ProcessID: "P2"}},
		{Key: key(record.TypeCurrentAssignment, "A"), Value: &record.CurrentAssignment{
			MemberEpoch: 2, PreviousEpoch: 2, State: record.MemberUnrevokedTasks,
			Assigned: topology.Assignment{Active: active("0", 0, 2)}, Revoking: topology.Assignment{Active: active("0", 1, 2)},
		}},
		{Key: key(record.TypeCurrentAssignment, "B"), Value: &record.CurrentAssignment{MemberEpoch: 3, PreviousEpoch: 3, State: record.MemberUnreleasedTasks}},
	}
	s, err := fsm.NewState().EvolveAll(records)
	if err != nil {
		t.Fatal(err)
	}
	commit := func(s fsm.State, member string, epoch int32) coordinator.Code {
		return CheckCommit(s.Group("g"), &CommitRequest{Version: 10, GroupID: "g", MemberID: member, MemberEpoch: epoch, Topics: parts("in", 1)})
	}
	if got := commit(s, "A", 2); got != coordinator.None {
		t.Errorf("A before its release: %d", got)
	}
	// B is granted 0_1 at epoch 3, A has moved on: a commit that A still has in flight must not pass.
	s, err = s.EvolveAll([]record.Record{
		{Key: key(record.TypeCurrentAssignment, "A"), Value: &record.CurrentAssignment{
			MemberEpoch: 3, PreviousEpoch: 2, State: record.MemberStable, Assigned: topology.Assignment{Active: active("0", 0, 2)},
		}},
		{Key: key(record.TypeCurrentAssignment, "B"), Value: &record.CurrentAssignment{
			MemberEpoch: 3, PreviousEpoch: 3, State: record.MemberStable, Assigned: topology.Assignment{Active: active("0", 1, 3)},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := commit(s, "A", 2); got != coordinator.StaleMemberEpoch {
		t.Errorf("A after its release: %d", got)
	}
	if got := commit(s, "B", 3); got != coordinator.None {
		t.Errorf("B: %d", got)
	}
}

func TestCheckFetch(t *testing.T) {
	t.Parallel()
	g := group(t)
	a, b := "a", "b"
	for _, c := range []struct {
		name string
		g    *fsm.Group
		req  FetchRequest
		want coordinator.Code
	}{
		{"missing group", nil, FetchRequest{MemberID: &a, MemberEpoch: 3}, coordinator.None},
		{"no member", g, FetchRequest{MemberEpoch: -1}, coordinator.None},
		{"epoch without member", g, FetchRequest{MemberEpoch: 5}, coordinator.UnknownMemberID},
		{"member without epoch", g, FetchRequest{MemberID: &a, MemberEpoch: -1}, coordinator.StaleMemberEpoch},
		{"unknown member", g, FetchRequest{MemberID: &b, MemberEpoch: 5}, coordinator.UnknownMemberID},
		{"own epoch", g, FetchRequest{MemberID: &a, MemberEpoch: 5}, coordinator.None},
		{"older epoch", g, FetchRequest{MemberID: &a, MemberEpoch: 4}, coordinator.StaleMemberEpoch},
		{"newer epoch", g, FetchRequest{MemberID: &a, MemberEpoch: 6}, coordinator.StaleMemberEpoch},
	} {
		got := coordinator.None
		if err := CheckFetch(c.g, &c.req); err != nil {
			got = err.Code
		}
		if got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestCheckDelete(t *testing.T) {
	t.Parallel()
	full := group(t)
	noMembers := group(t, record.TypeMemberMetadata, record.TypeCurrentAssignment)
	noTopology := group(t, record.TypeTopology)
	for _, c := range []struct {
		name  string
		g     *fsm.Group
		topic string
		want  coordinator.Code
	}{
		{"missing", nil, "in", coordinator.GroupIDNotFound},
		{"source in use", full, "in", coordinator.GroupSubscribedToTopic},
		{"repartition source in use", full, "rep", coordinator.GroupSubscribedToTopic},
		{"topic nobody reads", full, "unread", coordinator.None},
		{"empty group", noMembers, "in", coordinator.None},
		{"no topology", noTopology, "in", coordinator.None},
	} {
		if got := CheckDelete(c.g, c.topic); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if err := CheckDeleteGroup(full, "g"); err != nil {
		t.Errorf("group: %v", err)
	}
	if err := CheckDeleteGroup(nil, "g"); err == nil || err.Code != coordinator.GroupIDNotFound {
		t.Errorf("missing group: %v", err)
	}
	if err := CheckDeleteGroup(nil, ""); err == nil || err.Code != coordinator.InvalidGroupID {
		t.Errorf("empty id: %v", err)
	}
}

func TestSplitLargeMetadata(t *testing.T) {
	t.Parallel()
	long, fits, wide := strings.Repeat("x", 11), strings.Repeat("é", 10), strings.Repeat("😀", 6)
	req := &CommitRequest{GroupID: "g", Topics: []CommitTopic{
		{Name: "a", Partitions: []CommitPartition{{Partition: 0, Metadata: &long}, {Partition: 1, Metadata: &fits}, {Partition: 2}}},
		{Name: "b", Partitions: []CommitPartition{{Partition: 0, Metadata: &wide}}},
	}}
	rest, refused := SplitLargeMetadata(req, 10)
	want := []CommitTopic{{Name: "a", Partitions: []CommitPartition{{Partition: 1, Metadata: &fits}, {Partition: 2}}}}
	if d := cmp.Diff(want, rest.Topics); d != "" {
		t.Errorf("kept (-want +got):\n%s", d)
	}
	wantRefused := []CommitTopicResult{
		{Name: "a", Partitions: []PartitionResult{{0, coordinator.OffsetMetadataTooLarge}}},
		{Name: "b", Partitions: []PartitionResult{{0, coordinator.OffsetMetadataTooLarge}}},
	}
	if d := cmp.Diff(wantRefused, refused); d != "" {
		t.Errorf("refused (-want +got):\n%s", d)
	}
	if len(req.Topics) != 2 || len(req.Topics[0].Partitions) != 3 {
		t.Error("the request was changed")
	}
	if same, refused := SplitLargeMetadata(req, 12); same != req || refused != nil {
		t.Error("a request that fits was copied")
	}
}

func TestAnswersWithOneCode(t *testing.T) {
	t.Parallel()
	id := [16]byte{1}
	commit := &CommitRequest{Topics: []CommitTopic{{Name: "a", ID: id, Partitions: []CommitPartition{{Partition: 3}, {Partition: 4}}}}}
	want := &CommitResponse{Topics: []CommitTopicResult{{Name: "a", ID: id, Partitions: []PartitionResult{{3, 16}, {4, 16}}}}}
	if d := cmp.Diff(want, CommitFailed(commit, coordinator.NotCoordinator)); d != "" {
		t.Errorf("commit (-want +got):\n%s", d)
	}
	fetch := &FetchRequest{Version: 1, Topics: []FetchTopic{{Name: "a", ID: id, Partitions: []int32{3}}}}
	none := func(code coordinator.Code) []FetchTopicResult {
		return []FetchTopicResult{{Name: "a", ID: id, Partitions: []FetchedOffset{{Partition: 3, Offset: -1, LeaderEpoch: -1, Metadata: new(string), Code: code}}}}
	}
	if d := cmp.Diff(&FetchResponse{Topics: none(0)}, NoOffsets(fetch)); d != "" {
		t.Errorf("no offsets (-want +got):\n%s", d)
	}
	err := coordinator.Errorf(coordinator.NotCoordinator, "elsewhere")
	if d := cmp.Diff(&FetchResponse{Err: err, Topics: none(16)}, FetchFailed(fetch, err)); d != "" {
		t.Errorf("v1 fetch (-want +got):\n%s", d)
	}
	fetch.Version = 2
	if d := cmp.Diff(&FetchResponse{Err: err}, FetchFailed(fetch, err)); d != "" {
		t.Errorf("v2 fetch (-want +got):\n%s", d)
	}
}
