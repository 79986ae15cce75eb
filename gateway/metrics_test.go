package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestAnswersAreCountedByApiAndCode(t *testing.T) {
	registry := prometheus.NewRegistry()
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1, topics: []string{"in"}, config: func(c *Config) {
		if c.Registerer == nil { // of the first node
			c.Registerer, registry = registry, prometheus.NewRegistry()
		}
	}})
	first := w.nodes[0].g.cfg.Registerer.(*prometheus.Registry)
	w.lead(2)
	c := dialPort(t, w.nodes[0].addr())
	for _, epoch := range []int32{0, 5, 5, 5} { // the second is sent to its coordinator
		do[*kmsg.StreamsGroupHeartbeatResponse](c, beat("ours", "m", epoch), 1)
	}
	do[*kmsg.StreamsGroupHeartbeatResponse](c, beat("ours", "who", -1), 1)
	do[*kmsg.OffsetCommitResponse](c, commit("ours", "in", [16]byte{}, 3), 8)
	do[*kmsg.OffsetCommitResponse](c, commit("ours", "", [16]byte{7}, 3), 10)
	do[*kmsg.OffsetCommitResponse](c, commit("theirs", "in", [16]byte{}, 3), 8) // the upstream's answer
	w.lead(1)
	for range 3 {
		do[*kmsg.StreamsGroupHeartbeatResponse](c, beat("ours", "m", 5), 1)
	}
	describe := kmsg.NewPtrStreamsGroupDescribeRequest()
	describe.Groups = []string{"ours", "absent"}
	do[*kmsg.StreamsGroupDescribeResponse](c, describe, 1)
	if err := testutil.GatherAndCompare(first, strings.NewReader(`
# HELP coordd_gateway_requests_total Requests that coordd answered itself, by the first error code in the answer; 0 for none.
# TYPE coordd_gateway_requests_total counter
coordd_gateway_requests_total{api="OffsetCommit",code="0"} 1
coordd_gateway_requests_total{api="OffsetCommit",code="100"} 1
coordd_gateway_requests_total{api="StreamsGroupDescribe",code="0"} 0
coordd_gateway_requests_total{api="StreamsGroupDescribe",code="69"} 1
coordd_gateway_requests_total{api="StreamsGroupHeartbeat",code="0"} 6
coordd_gateway_requests_total{api="StreamsGroupHeartbeat",code="16"} 1
coordd_gateway_requests_total{api="StreamsGroupHeartbeat",code="25"} 1
`), "coordd_gateway_requests_total"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(first); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

func TestTheTimesOfAnswersAreCountedInBuckets(t *testing.T) {
	var a answers
	a.done(88, 50*time.Microsecond, 10)
	a.done(88, 51*time.Microsecond, 1)
	a.done(88, time.Hour, 1)
	a.failed(88, 25, 3*time.Second)
	a.failed(-1, 25, 0)
	a.done(1000, 0, 1) // no such key
	a.untimed(88, 0)
	a.untimed(88, 25)
	a.untimed(-1, 0)
	if n := testutil.CollectAndCount(&a); n != 3 {
		t.Errorf("%d metrics", n)
	}
	if a.held[88].Load() != 1 || a.codes[answerKind{88, 25}] != 2 {
		t.Errorf("%d held, codes %v", a.held[88].Load(), a.codes)
	}
	var all latencies
	all.add(&a.good[88])
	all.add(&a.bad[88])
	if all.buckets[0] != 10 || all.buckets[1] != 1 || all.buckets[len(latencyBounds)] != 1 || all.sum != time.Hour+3*time.Second+551*time.Microsecond {
		t.Errorf("%+v", all)
	}
}
