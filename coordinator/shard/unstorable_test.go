package shard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordinator"
)

func TestWhatNoRecordCanHoldIsRefusedForGood(t *testing.T) {
	r := newRig(t)
	r.joined("g", "a")
	vast := join("vast", "a")
	for i := range 20_000 {
		sources := &vast.Topology.Subtopologies[0].SourceTopics
		*sources = append(*sources, fmt.Sprintf("a-topic-with-a-long-name-%05d", i))
	}
	c, a := r.send(vast)
	r.ForeignChecked(r.now, "vast", noForeign, nil)
	r.Flush()
	r.commitAll()
	if !a.done || c.Err != nil || c.Heartbeat.Err == nil || c.Heartbeat.Err.Code != coordinator.StreamsInvalidTopology {
		t.Errorf("a topology of more than an entry: answered %v, %v, %v", a.done, c.Err, c.Heartbeat.Err)
	}
	c, a = r.send(join("g", strings.Repeat("m", 40_000)))
	r.commitAll()
	if !a.done || c.Err != nil || c.Heartbeat.Err == nil || c.Heartbeat.Err.Code != coordinator.InvalidRequest {
		t.Errorf("a member id of 40,000 bytes: answered %v, %v, %v", a.done, c.Err, c.Heartbeat.Err)
	}
	if n := r.committed.Group("g").NumMembers(); n != 1 || r.committed.Group("vast") != nil {
		t.Errorf("%d members of g, vast %v", n, r.committed.Group("vast") != nil)
	}
	if h, _ := r.send(beat("g", "a", 2)); h.Err != nil || h.Heartbeat.Err != nil {
		t.Errorf("the others are not served any more: %v, %v", h.Err, h.Heartbeat.Err)
	}
}
