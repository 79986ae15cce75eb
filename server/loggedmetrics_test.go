package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/fsm/record"
)

func TestOffsetsInTheLogAreCounted(t *testing.T) {
	n := metricsNode(t, 2, 0)
	for p := range int32(3) {
		n.put(t, 0, []record.Record{{
			Key:   record.Key{Type: record.TypeOffsetCommit, Group: "g", Topic: "in", ID: p},
			Value: &record.OffsetCommit{LeaderEpoch: -1, ExpireTimestampMs: -1},
		}})
	}
	n.shards[0].Observe(shard.Event{Offsets: shard.OffsetCounts{Committed: 5, Deleted: 2}})
	n.shards[0].Observe(shard.Event{Group: "g", Offsets: shard.OffsetCounts{Expired: 4}})
	want := ""
	for _, m := range []struct {
		name, help, kind, label string
		value                   int
	}{
		{"coordd_offset_commits_total", "Offsets of partitions that streams groups committed.", "counter", "", 5},
		{"coordd_offset_deletions_total", "Offsets of partitions of streams groups that were deleted on request.", "counter", "", 2},
		{"coordd_offset_expirations_total", "Offsets of partitions in coordd's log that expired, or went with their topic.", "counter", "", 4},
		{"coordd_shard_offsets", "Committed offsets in the log of a shard, told by its leader.", "gauge", `{shard="0"}`, 3},
	} {
		want += fmt.Sprintf("# HELP %s %s\n# TYPE %s %s\n%s%s %d\n", m.name, m.help, m.name, m.kind, m.name, m.label, m.value)
	}
	if err := testutil.GatherAndCompare(n.parts.Registry, strings.NewReader(want), "coordd_offset_commits_total",
		"coordd_offset_deletions_total", "coordd_offset_expirations_total", "coordd_shard_offsets"); err != nil {
		t.Error(err)
	}
}
