package fsm

import (
	"errors"
	"strings"
	"testing"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Short forms of records of group g.

func groupMeta(epoch int32) record.Record {
	return put17("g", &record.GroupMetadata{Epoch: epoch, ValidatedTopologyEpoch: -1, StoredDescriptionEpoch: -1, FailedDescriptionEpoch: -1})
}

func put17(g string, v *record.GroupMetadata) record.Record {
	return record.Record{Key: record.Key{Type: record.TypeGroupMetadata, Group: g}, Value: v}
}

func targetMeta(epoch int32) record.Record {
	return record.Record{Key: record.Key{Type: record.TypeTargetMetadata, Group: "g"}, Value: &record.TargetMetadata{AssignmentEpoch: epoch}}
}

func topo() record.Record {
	return record.Record{Key: record.Key{Type: record.TypeTopology, Group: "g"}, Value: &record.Topology{}}
}

func claim() record.Record {
	return record.Record{Key: record.Key{Type: record.TypeOffsetsClaim, Group: "g"}, Value: &record.OffsetsClaim{}}
}

func meta(id, process, instance string) record.Record {
	v := &record.MemberMetadata{ProcessID: process}
	if instance != "" {
		v.InstanceID = &instance
	}
	return record.Record{Key: record.Key{Type: record.TypeMemberMetadata, Group: "g", Member: id}, Value: v}
}

func target(id string) record.Record {
	return record.Record{Key: record.Key{Type: record.TypeTargetMember, Group: "g", Member: id}, Value: &record.TargetMember{}}
}

func current(id string, epoch int32, state record.MemberState, assigned, revoking topology.Assignment) record.Record {
	return record.Record{Key: record.Key{Type: record.TypeCurrentAssignment, Group: "g", Member: id}, Value: &record.CurrentAssignment{
		MemberEpoch: epoch, State: state, Assigned: assigned, Revoking: revoking,
	}}
}

func stable(id string, epoch int32) record.Record {
	return current(id, epoch, record.MemberStable, topology.Assignment{}, topology.Assignment{})
}

func gone(r record.Record) record.Record { return record.Record{Key: r.Key} }

func tasksOf(sub string, partitions ...int32) topology.Tasks {
	return topology.Tasks{{Subtopology: sub, Partitions: partitions}}
}

func TestReplayRules(t *testing.T) {
	member := []record.Record{meta("m", "p", ""), groupMeta(2), target("m"), targetMeta(2), stable("m", 2)}
	leave := []record.Record{gone(stable("m", 0)), gone(target("m")), gone(meta("m", "", ""))}
	for _, tt := range []struct {
		name     string
		before   []record.Record
		last     record.Record
		rejected string // part of the error, or empty
		left     int    // records after it
	}{
		{"metadata tombstone while the member has an epoch", member, gone(meta("m", "", "")), "epoch 2", 0},
		{"metadata tombstone while the member has a target", append(member[:5:5], leave[0]), gone(meta("m", "", "")), "target", 0},
		{"metadata tombstone at last", append(member[:5:5], leave[:2]...), leave[2], "", 2},
		{"metadata tombstone of a member with epoch -1", []record.Record{meta("m", "p", ""), stable("m", -1)}, gone(meta("m", "", "")), "", 0},
		{"metadata tombstone of nobody", member, gone(meta("n", "", "")), "", 5},
		{"group tombstone while members exist", []record.Record{groupMeta(2), meta("m", "p", "")}, gone(groupMeta(0)), "1 members", 0},
		{"group tombstone while the assignment epoch is known", []record.Record{groupMeta(2), targetMeta(2)}, gone(groupMeta(0)), "epoch 2", 0},
		{"group tombstone after the one of the assignment epoch", []record.Record{groupMeta(2), targetMeta(2), gone(targetMeta(0))}, gone(groupMeta(0)), "", 0},
		{"group tombstone takes topology and claim along", []record.Record{groupMeta(2), topo(), claim()}, gone(groupMeta(0)), "", 0},
		{"topology tombstone after the group's", []record.Record{groupMeta(2), topo(), gone(groupMeta(0))}, gone(topo()), "", 0},
		{"assignment epoch tombstone while targets exist", member, gone(targetMeta(0)), "target", 0},
		{"tombstones of a missing group", nil, gone(stable("m", 0)), "", 0},
		{"current assignment before metadata", []record.Record{stable("m", 2)}, meta("m", "p", ""), "", 2},
		{"a group without its own record", nil, meta("m", "p", ""), "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := NewState().EvolveAll(tt.before)
			if err != nil {
				t.Fatal(err)
			}
			next, err := s.Evolve(tt.last)
			if tt.rejected != "" {
				if !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), tt.rejected) {
					t.Fatalf("got %v", err)
				}
				if next.Digest() != s.Digest() {
					t.Fatal("state changed")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if next.NumRecords() != tt.left {
				t.Fatalf("%d records, want %d", next.NumRecords(), tt.left)
			}
		})
	}
}

// TestNoLog refuses what no entry could hold, before a decision relies on it.
func TestNoLog(t *testing.T) {
	long := strings.Repeat("x", 1<<15)
	big := make([]string, 20)
	for i := range big {
		big[i] = long[1:]
	}
	for _, tt := range []struct {
		r    record.Record
		want error
	}{
		{meta("m", long, ""), record.ErrTooLong},
		{record.Record{Key: meta("m", "", "").Key, Value: &record.OffsetsClaim{}}, record.ErrValue},
		{record.Record{Key: topo().Key, Value: &record.Topology{Topology: topology.Topology{Subtopologies: []topology.Subtopology{{SourceTopics: big}}}}}, record.ErrEntryTooLarge},
	} {
		if _, err := NewState().Evolve(tt.r); !errors.Is(err, tt.want) {
			t.Errorf("got %v, want %v", err, tt.want)
		}
	}
}

// TestCurrentTombstone leaves the member without tasks until its metadata goes.
func TestCurrentTombstone(t *testing.T) {
	owns := topology.Assignment{Active: tasksOf("0", 1)}
	s, err := NewState().EvolveAll([]record.Record{
		meta("m", "p", "i"), current("m", 2, record.MemberUnrevokedTasks, topology.Assignment{}, owns),
	})
	if err != nil {
		t.Fatal(err)
	}
	task := topology.Task{Subtopology: "0", Partition: 1}
	if p, ok := s.Group("g").ActiveOwner(task); p != "p" || !ok {
		t.Fatalf("a task to be revoked has owner %q %v", p, ok)
	}
	if s, err = s.Evolve(gone(stable("m", 0))); err != nil {
		t.Fatal(err)
	}
	g := s.Group("g")
	if _, ok := g.ActiveOwner(task); ok {
		t.Error("the task has an owner")
	}
	if m := g.Member("m"); m == nil || m.Current != nil || g.NumMembers() != 1 || g.Reconciled() {
		t.Error("the member is not there, or counts as reconciled")
	}
	if id, ok := g.Static("i"); id != "m" || !ok {
		t.Error("the instance id is free")
	}
}

func TestReconciled(t *testing.T) {
	s, err := NewState().EvolveAll([]record.Record{meta("a", "p", ""), meta("b", "p", ""), groupMeta(2), targetMeta(2), stable("a", 2), stable("b", 2)})
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		r    record.Record
		want bool
	}{
		{targetMeta(2), true},
		{current("b", 2, record.MemberUnrevokedTasks, topology.Assignment{}, topology.Assignment{}), false},
		{stable("b", 2), true},
		{targetMeta(3), false},
		{stable("a", 3), false},
		{stable("b", 3), true},
		{meta("c", "p", ""), false},
	}
	for i, step := range steps {
		if s, err = s.Evolve(step.r); err != nil {
			t.Fatal(err)
		}
		if got := s.Group("g").Reconciled(); got != step.want {
			t.Fatalf("step %d: %v", i, got)
		}
	}
}

// TestIDsAreCopied lets a key's strings change afterwards, as those of a request's buffer do.
func TestIDsAreCopied(t *testing.T) {
	group, id := []byte("group"), []byte("member")
	r := meta("", "p", "")
	r.Key.Group, r.Key.Member = alias(group), alias(id)
	s, err := NewState().Evolve(r)
	if err != nil {
		t.Fatal(err)
	}
	copy(group, "xxxxx")
	copy(id, "xxxxxx")
	if g := s.Group("group"); g == nil || g.Member("member") == nil {
		t.Fatal("lost")
	}
}
