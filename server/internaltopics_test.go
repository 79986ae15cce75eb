package server

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/coordd/coordd/topicctl"
)

// TestOnlyRequestsThatWereSentAreAttempts: what waits for the end of a throttle is none.
func TestOnlyRequestsThatWereSentAreAttempts(t *testing.T) {
	m := newTopicMetrics(prometheus.NewRegistry(), func() int { return 0 })
	for _, o := range []topicctl.Outcome{{NotSent: true}, {Failed: map[string]int{"POLICY_VIOLATION": 2}}, {NotSent: true}, {Created: 3}} {
		m.observe(o)
	}
	if attempts, created := testutil.ToFloat64(m.attempts), testutil.ToFloat64(m.created); attempts != 2 || created != 3 {
		t.Errorf("%v attempts, %v created", attempts, created)
	}
}
