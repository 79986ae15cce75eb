package shard

import (
	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/topology"
)

// useWarmups gives the groups tasks with state, and an assignor that moves them by warm-ups.
func (w *anyOrder) useWarmups(yes bool) {
	if !yes {
		return
	}
	w.topics["cl"] = w.topics["in"]
	w.settings.AssignorName = assignor.HighlyAvailableName
	w.settings.NumWarmupReplicas, w.settings.AcceptableRecoveryLag = int32(w.random.IntN(3)), 10
	w.settings.TaskOffsetIntervalMs = 2000
}

func (w *anyOrder) join(group, member string) *streams.HeartbeatRequest {
	h := join(group, member)
	if w.topics["cl"] > 0 {
		h.Topology = &topology.Topology{Subtopologies: []topology.Subtopology{
			{ID: "0", SourceTopics: []string{"in"}, StateChangelogTopics: []topology.InternalTopic{{Name: "cl"}}},
		}}
		h.Version = int16(w.random.IntN(2))
	}
	return h
}

// reportOffsets puts offsets of any tasks into a report, more or less far behind.
func (w *anyOrder) reportOffsets(r *streams.HeartbeatRequest) {
	if w.topics["cl"] == 0 || w.random.IntN(2) == 0 {
		return
	}
	r.TaskOffsets, r.TaskEndOffsets = []streams.TaskOffset{}, []streams.TaskOffset{}
	for p := range w.topics["cl"] {
		r.TaskOffsets = append(r.TaskOffsets, taskOffsets(int64(80+10*w.random.IntN(3)), p)...)
		r.TaskEndOffsets = append(r.TaskEndOffsets, taskOffsets(100, p)...)
	}
}
