package streams

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
)

// A record of Kafka, or of before the other settings were kept, means the values that Kafka has built in.
func TestSettingsOfKafkasRecords(t *testing.T) {
	s := coordinator.GroupSettings{NumStandbyReplicas: 1, NumWarmupReplicas: 2, AcceptableRecoveryLag: 10000, AssignorName: "sticky"}
	stored := []record.KeyValue{{Key: "num.standby.replicas", Value: "1"}}
	if diff := cmp.Diff(stored, assignmentConfigs(&s)); diff != "" {
		t.Error(diff)
	}
	if !assignmentConfigsEqual(stored, &s) {
		t.Error("a record of Kafka differs from the settings that it was made with")
	}
	s.RackAwareStrategy = "none"
	if diff := cmp.Diff(stored, assignmentConfigs(&s)); diff != "" || !assignmentConfigsEqual(stored, &s) {
		t.Error("the strategy that Kafka's records mean is told in one", diff)
	}
	s.RackAwareTags = []string{"zone", "rack"}
	stored = append(stored, record.KeyValue{Key: "rack.aware.assignment.tags", Value: "zone,rack"})
	if diff := cmp.Diff(stored, assignmentConfigs(&s)); diff != "" || !assignmentConfigsEqual(stored, &s) {
		t.Error(diff)
	}
}

// Settings are equal to what is stored of them and to nothing else, and comparing them costs no memory.
func TestAssignmentConfigsCompare(t *testing.T) {
	settings := rapid.Custom(func(t *rapid.T) coordinator.GroupSettings {
		return coordinator.GroupSettings{
			NumStandbyReplicas:    rapid.SampledFrom([]int32{0, 1, 10}).Draw(t, "standbys"),
			NumWarmupReplicas:     rapid.SampledFrom([]int32{0, 2, 20}).Draw(t, "warmups"),
			AcceptableRecoveryLag: rapid.SampledFrom([]int64{0, 10000, 100000, 1 << 62}).Draw(t, "lag"),
			AssignorName:          rapid.SampledFrom([]string{"sticky", "other", "st"}).Draw(t, "assignor"),
			RackAwareTags:         rapid.SampledFrom([][]string{nil, {"a"}, {"a", "b"}, {"ab"}}).Draw(t, "tags"),
			RackAwareStrategy:     rapid.SampledFrom([]string{"none", "min_traffic"}).Draw(t, "strategy"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := settings.Draw(t, "a"), settings.Draw(t, "b")
		stored := assignmentConfigs(&a)
		for i := 1; i < len(stored); i++ {
			if stored[i-1].Key >= stored[i].Key {
				t.Fatalf("keys are not ascending: %v", stored)
			}
		}
		same := cmp.Equal(a, b)
		if got := assignmentConfigsEqual(stored, &b); got != same {
			t.Fatalf("equal %t, want %t: %v and %+v", got, same, stored, b)
		}
		if text := assignmentConfigChanges(stored, &b); (text == "") != same {
			t.Fatalf("the changes are told as %q", text)
		}
	})
	s := coordinator.GroupSettings{NumStandbyReplicas: 12345, NumWarmupReplicas: 7, AcceptableRecoveryLag: 1 << 62, AssignorName: "other", RackAwareStrategy: "min_traffic", RackAwareTags: []string{"a", "b"}}
	stored := assignmentConfigs(&s)
	if n := testing.AllocsPerRun(100, func() {
		if !assignmentConfigsEqual(stored, &s) {
			t.Error("not equal")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
