package streams

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coordd/coordd/topology"
)

// copiesWorld is a group in which A runs four tasks and has lost the state of one, B warms one up of which nothing is reported, and
// D speaks version 0.
func copiesWorld(t testing.TB) *script {
	s := &script{world: newWorld(), clients: map[string]*scriptClient{}, topologies: map[string]*topology.Topology{"t": {Subtopologies: []topology.Subtopology{
		{ID: "0", SourceTopics: []string{"in"}, StateChangelogTopics: []topology.InternalTopic{{Name: "cl"}}}}}}}
	s.setTopic("in", 4)
	s.setTopic("cl", 4)
	s.settings.AssignorName, s.settings.NumWarmupReplicas = "highly_available", 1
	s.assign = builtinAssignor("highly_available")
	for _, line := range [][]string{
		{"join", "A"}, {"hb", "A", "owns"}, {"join", "B"}, {"hb", "A"}, {"hb", "B", "owns"}, {"join", "D"}, {"hb", "A"}, {"hb", "B"}, {"hb", "D", "owns"},
	} {
		args := map[string]string{}
		if line[1] == "D" {
			args["version"] = "0"
		}
		if _, err := s.request(line[0], line[1:], args); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.request("hb", []string{"A", "owns"}, map[string]string{"offsets": "0_0:5", "ends": "0_0:100000"}); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestHandoverOfCopies: since when members have warm-ups, which of these count as caught up, who speaks version 0 and what is being
// restored go on by the next leader's clock, of what members still have.
func TestHandoverOfCopies(t *testing.T) {
	s := copiesWorld(t)
	patience := warmupPatience(&s.settings)
	b := s.soft.Members["B"]
	if len(b.warmups) != 1 || !s.soft.Members["D"].old || len(s.soft.restoring) != 1 {
		t.Fatalf("%+v, %+v, %v", b, s.soft.Members["D"], s.soft.restoring)
	}
	given := b.warmups[0].since
	s.now += 7000
	for _, ready := range []bool{false, true} {
		b.warmups[0].ready, b.warmups[0].at = ready, 17
		gone := topology.Task{Subtopology: "0", Partition: 3}
		b.warmups = append(b.warmups[:1], warmup{Task: gone, since: s.now})
		handed := AppendHandover(nil, testGroup, s.soft, s.now, true)
		h, rest, err := DecodeHandover(append(slices.Clone(handed), "next"...))
		if err != nil || string(rest) != "next" {
			t.Fatal(err, rest)
		}
		const skew = 1_000_000
		next := *s.world
		next.now += skew
		next.failover()
		next.soft.Inherit(h, next.group(), next.now, next.now)
		got := next.soft
		want := []warmup{{Task: b.warmups[0].Task, since: given + skew, at: 17, ready: ready}}
		if !slices.Equal(got.Members["B"].warmups, want) || got.WarmupDue != given+skew+patience {
			t.Errorf("%+v, due at %d, want %+v", got.Members["B"].warmups, got.WarmupDue, want)
		}
		if !got.Members["D"].old || got.Members["A"].old {
			t.Error("the version of the members' heartbeats is another one")
		}
		if a, b := fmt.Sprint(s.soft.restoring), fmt.Sprint(got.restoring); a != b {
			t.Errorf("restoring %s, was %s", b, a)
		}
		for n := range handed {
			if _, _, err := DecodeHandover(handed[:n]); err == nil {
				t.Fatalf("%d of %d bytes are a hand-over", n, len(handed))
			}
		}
	}
}
