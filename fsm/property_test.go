package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/fsm/record/recordtest"
	"github.com/coordd/coordd/topology"
)

// model is the plainest state: the latest value of each key.
type model map[record.Key]record.Value

// apply reports whether the record is accepted.
func (m model) apply(r record.Record) bool {
	k := r.Key
	if r.Value != nil {
		m[k] = r.Value
		return true
	}
	member := func(t record.Type) record.Value { return m[record.Key{Type: t, Group: k.Group, Member: k.Member}] }
	switch k.Type {
	case record.TypeGroupMetadata:
		meta, _ := m[record.Key{Type: record.TypeTargetMetadata, Group: k.Group}].(*record.TargetMetadata)
		if m.count(k.Group, record.TypeMemberMetadata, record.TypeCurrentAssignment) > 0 || meta != nil && meta.AssignmentEpoch != -1 {
			return false
		}
		maps.DeleteFunc(m, func(o record.Key, _ record.Value) bool { return o.Group == k.Group && ofGroup(o.Type) })
	case record.TypeTargetMetadata:
		if m.count(k.Group, record.TypeTargetMember) > 0 {
			return false
		}
	case record.TypeMemberMetadata:
		current, _ := member(record.TypeCurrentAssignment).(*record.CurrentAssignment)
		exists := current != nil || member(record.TypeMemberMetadata) != nil
		if exists && (current != nil && current.MemberEpoch != -1 || member(record.TypeTargetMember) != nil) {
			return false
		}
		delete(m, record.Key{Type: record.TypeCurrentAssignment, Group: k.Group, Member: k.Member})
	}
	delete(m, k)
	return true
}

// ofGroup says whether keys of the type belong to a group.
func ofGroup(t record.Type) bool {
	return t < record.TypeNode || t == record.TypeJournalEntry || t == record.TypeGroupMarks || t == record.TypeGroupTopics ||
		t == record.TypeTopologyVersion || t == record.TypeOffsetsStore
}

func (m model) count(group string, types ...record.Type) (n int) {
	for k := range m {
		if k.Group == group && slices.Contains(types, k.Type) {
			n++
		}
	}
	return n
}

func (m model) records() []record.Record {
	var list []record.Record
	for k, v := range m {
		list = append(list, record.Record{Key: k, Value: v})
	}
	slices.SortFunc(list, func(a, b record.Record) int { return a.Key.Compare(b.Key) })
	return list
}

// TestFreshReplayedRestored holds the states that several ways lead to against each other and against the model.
func TestFreshReplayedRestored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.SliceOfN(recordtest.Records(), 1, 60).Draw(t, "records")
		m := model{}
		fresh := NewState()
		var accepted []record.Record
		var states []State
		var prints []string
		for _, r := range records {
			states, prints = append(states, fresh), append(prints, print(fresh))
			next, err := fresh.Evolve(r)
			if ok := m.apply(r); ok != (err == nil) {
				t.Fatalf("%s: model accepts %v, got %v", r.Key, ok, err)
			}
			if err != nil {
				if !errors.Is(err, ErrRejected) {
					t.Fatal(err)
				}
				equal(t, "after a rejected record", fresh, next)
				continue
			}
			accepted = append(accepted, r)
			fresh = next
		}
		if diff := cmp.Diff(m.records(), slices.Collect(fresh.Records())); diff != "" {
			t.Fatalf("records (-model +got):\n%s", diff)
		}
		if fresh.NumRecords() != len(m) {
			t.Fatalf("%d records, counted %d", len(m), fresh.NumRecords())
		}
		checkIndexes(t, fresh)
		replayed, err := NewState().EvolveAll(accepted)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "replayed at once", fresh, replayed)
		cut := rapid.IntRange(0, len(accepted)).Draw(t, "cut")
		halves, err := NewState().EvolveAll(accepted[:cut])
		if err != nil {
			t.Fatal(err)
		}
		if halves, err = restore(t, halves).EvolveAll(accepted[cut:]); err != nil {
			t.Fatal(err)
		}
		equal(t, "restored in between", fresh, halves)
		equal(t, "restored", fresh, restore(t, fresh))
		for i := range states {
			if got := print(states[i]); got != prints[i] {
				t.Fatalf("record %d changed an old state:\n%s\n%s", i, prints[i], got)
			}
		}
	})
}

// TestAnyLegalOrder replays the records of a state in any order, as a log may have them that lost older records of a key:
// offsets before their group, tasks before their member.
func TestAnyLegalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, err := NewState().EvolveAll(rapid.SliceOfN(creations(), 1, 60).Draw(t, "records"))
		if err != nil {
			t.Fatal(err)
		}
		records := rapid.Permutation(slices.Collect(want.Records())).Draw(t, "order")
		cut := rapid.IntRange(0, len(records)).Draw(t, "cut")
		got, err := NewState().EvolveAll(records[:cut])
		if err != nil {
			t.Fatal(err)
		}
		if got, err = restore(t, got).EvolveAll(records[cut:]); err != nil {
			t.Fatal(err)
		}
		equal(t, "in another order", want, got)
	})
}

// TestEvolveAllIsAtomic demands that a rejected record takes those before it along.
func TestEvolveAllIsAtomic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, _ := NewState().EvolveAll(rapid.SliceOfN(creations(), 0, 20).Draw(t, "before"))
		records := rapid.SliceOfN(recordtest.Records(), 1, 10).Draw(t, "records")
		one, failed := before, false
		for _, r := range records {
			next, err := one.Evolve(r)
			if failed = err != nil; failed {
				break
			}
			one = next
		}
		all, err := before.EvolveAll(records)
		if (err != nil) != failed {
			t.Fatalf("one by one failed: %v, at once: %v", failed, err)
		}
		if failed {
			one = before
		}
		equal(t, "at once", one, all)
	})
}

func creations() *rapid.Generator[record.Record] {
	return recordtest.Records().Filter(func(r record.Record) bool { return r.Value != nil })
}

func restore(t *rapid.T, s State) State {
	var buf bytes.Buffer
	if err := WriteSnapshot(&buf, s); err != nil {
		t.Fatal(err)
	}
	restored, _, err := ReadSnapshot(&buf)
	if err != nil {
		t.Fatal(err)
	}
	return restored
}

func equal(t *rapid.T, what string, want, got State) {
	t.Helper()
	if want.Digest() != got.Digest() || want.NumRecords() != got.NumRecords() {
		t.Errorf("%s: digest %x of %d records, want %x of %d", what, got.Digest(), got.NumRecords(), want.Digest(), want.NumRecords())
	}
	if diff := cmp.Diff(print(want), print(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
	if t.Failed() {
		t.FailNow()
	}
}

// print shows everything that a state holds, derived or not.
func print(s State) string {
	var b bytes.Buffer
	fmt.Fprintln(&b, s.Digest(), s.NumRecords(), s.NumGroups())
	for r := range s.Records() {
		encoded, err := record.AppendRecord(nil, r)
		fmt.Fprintf(&b, "%s %x %v\n", r.Key, encoded, err)
	}
	for g := range s.Groups() {
		fmt.Fprintln(&b, g.ID, g.Epoch(), g.AssignmentEpoch(), g.Reconciled(), g.numMembers, g.numTargets, g.stable, g.hashes, g.Marks)
		if last := g.LastJournal(); last != nil {
			fmt.Fprintln(&b, "  last", last.Sequence, last.Epoch)
		}
		fmt.Fprintln(&b, "  offsets", g.NumOffsets(), slices.Collect(g.OffsetTopics()))
		for m := range values(g.members) {
			fmt.Fprintln(&b, " ", m.ID, m.metaHash, m.currentHash, m.targetHash)
		}
		for ids := range values(g.statics) {
			fmt.Fprintln(&b, "  static", ids)
		}
		for r := range numRoles {
			for _, sub := range g.owners[r] {
				for _, c := range sub.chunks {
					fmt.Fprintf(&b, "  %d %s %d %x", r, sub.subtopology, c.base, c.bits)
					for _, h := range c.held {
						for ; h != nil; h = h.next {
							fmt.Fprintf(&b, " %s*%d", h.process, h.members)
						}
						fmt.Fprint(&b, ";")
					}
					fmt.Fprintln(&b)
				}
			}
		}
	}
	return b.String()
}

// checkIndexes computes what is derived anew, from the members alone.
func checkIndexes(t *rapid.T, s State) {
	for g := range s.Groups() {
		members, reconciled := 0, true
		statics := map[string]string{}
		type holding struct {
			role role
			task topology.Task
		}
		held := map[holding]map[string]bool{}
		for m := range g.Members() {
			members++
			c := m.Current
			reconciled = reconciled && c != nil && c.State == record.MemberStable && c.MemberEpoch == g.AssignmentEpoch()
			process := ""
			if m.Meta != nil {
				process = m.Meta.ProcessID
				if i := m.Meta.InstanceID; i != nil {
					statics[*i] = max(statics[*i], m.ID)
				}
			}
			if c == nil {
				continue
			}
			for r := range numRoles {
				for _, tasks := range []topology.Tasks{r.of(&c.Assigned), r.of(&c.Revoking)} {
					for task := range tasks.All() {
						h := holding{r, task}
						if held[h] == nil {
							held[h] = map[string]bool{}
						}
						held[h][process] = true
					}
				}
			}
			if g.Member(m.ID) != m {
				t.Fatalf("member %q not found", m.ID)
			}
		}
		if g.NumMembers() != members || g.Reconciled() != reconciled {
			t.Fatalf("group %q: %d members, reconciled %v; want %d, %v", g.ID, g.NumMembers(), g.Reconciled(), members, reconciled)
		}
		for _, instance := range []string{"i1", "i2", "i3"} {
			id, ok := g.Static(instance)
			if want, known := statics[instance]; id != want || ok != known {
				t.Fatalf("instance %q is %q %v, want %q %v", instance, id, ok, want, known)
			}
		}
		checkOffsets(t, g)
		indexed := 0
		for r := range numRoles {
			for _, sub := range g.owners[r] {
				for _, c := range sub.chunks {
					indexed += len(c.held)
				}
			}
		}
		if indexed != len(held) {
			t.Fatalf("%d tasks indexed, %d held", indexed, len(held))
		}
		for h, processes := range held {
			owner, ok := g.ActiveOwner(h.task)
			if h.role == active && (!ok || owner != slices.Min(slices.Collect(maps.Keys(processes)))) {
				t.Fatalf("owner of %v is %q %v, want of %v", h.task, owner, ok, processes)
			}
			for _, p := range []string{"", "p1", "p2", "p3"} {
				if h.role == standby && g.StandbyHeldBy(h.task, p) != processes[p] || h.role == warmup && g.WarmupHeldBy(h.task, p) != processes[p] {
					t.Fatalf("%v: role %d held by %q is not %v", h.task, h.role, p, processes[p])
				}
			}
		}
	}
}
