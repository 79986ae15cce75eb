package streams

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// TestNothingAliasesTheRequest: what a decision keeps must survive that the request's buffer is used again.
func TestNothingAliasesTheRequest(t *testing.T) {
	var buf []byte
	alias := func(s string) string {
		start := len(buf)
		if buf == nil {
			buf = make([]byte, 0, 1<<12) // never grows, so that earlier strings stay in it
		}
		buf = append(buf, s...)
		return unsafe.String(unsafe.SliceData(buf[start:]), len(s))
	}
	ptr := func(s string) *string { s = alias(s); return &s }
	w := newWorld()
	w.setTopic("in", 2)
	req := &HeartbeatRequest{
		Version: 1, GroupID: alias(testGroup), MemberID: alias("A"), InstanceID: ptr("i-a"), RackID: ptr("r"),
		RebalanceTimeoutMs: 1000, ProcessID: ptr("P"), UserEndpoint: &record.Endpoint{Host: alias("host"), Port: 1},
		ClientTags: []record.KeyValue{{Key: alias("zone"), Value: alias("z")}},
		Topology: &topology.Topology{Subtopologies: []topology.Subtopology{{
			ID: alias("0"), SourceTopics: []string{alias("in")},
			StateChangelogTopics: []topology.InternalTopic{{Name: alias("cl"), Configs: []topology.Config{{Key: alias("k"), Value: alias("v")}}}},
		}}},
		Active: topology.Tasks{}, Standby: topology.Tasks{}, Warmup: topology.Tasks{}, ShutdownApplication: true,
		TaskOffsets: []TaskOffset{{Task: topology.Task{Subtopology: alias("0")}, Offset: 5}},
	}
	d, err := w.heartbeat(req, &coordinator.Client{ID: alias("c"), Host: alias("/h")})
	if err != nil || d.Reply.Err != nil {
		t.Fatal(err, d.Reply.Err)
	}
	show := func() string {
		s := &script{world: w}
		out := s.show(&d, true) + s.describe() + marksOf(w.group()).ShutdownBy
		for _, r := range d.Records {
			out += r.Key.Group
		}
		for id := range w.soft.Members {
			out += id
		}
		return out
	}
	before := strings.Clone(show())
	for i := range buf {
		buf[i] = '#'
	}
	if after := show(); after != before {
		t.Fatalf("before:\n%s\nafter:\n%s", before, after)
	}
}
