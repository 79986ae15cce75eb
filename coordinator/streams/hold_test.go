package streams

import (
	"testing"

	"github.com/coordd/coordd/coordinator"
)

// How long an answer may be held: the heartbeat interval less 100 ms and at most 4.9 s, or what is set where that is less than
// the interval; half of it when the connection closed once meanwhile, and nothing after the second time.
func TestHoldMs(t *testing.T) {
	for _, c := range []struct {
		interval, hold int32
		cuts           uint8
		want           int32
	}{
		{5000, -1, 0, 4900}, {15000, -1, 0, 4900}, {1000, -1, 0, 900}, {100, -1, 0, 0}, {50, -1, 0, 0},
		{5000, 0, 0, 0}, {5000, 2000, 0, 2000}, {5000, 20000, 0, 4900}, {15000, 20000, 0, 14900}, {15000, 10000, 0, 10000},
		{5000, -1, 1, 2450}, {5000, 2000, 1, 1000}, {5000, -1, 2, 0}, {5000, -1, 255, 0},
	} {
		s := &coordinator.GroupSettings{HeartbeatIntervalMs: c.interval, HeartbeatHoldMs: c.hold}
		if got := (&SoftMember{HoldCuts: c.cuts}).HoldMs(s); got != c.want {
			t.Errorf("interval %d, hold %d, %d cuts: %d, want %d", c.interval, c.hold, c.cuts, got, c.want)
		}
		if got := (*SoftMember)(nil).HoldMs(s); c.cuts == 0 && got != c.want {
			t.Errorf("interval %d, hold %d, a new member: %d, want %d", c.interval, c.hold, got, c.want)
		}
	}
}

// A member has two heartbeat intervals at least to come back over another connection.
func TestDisconnectMs(t *testing.T) {
	for _, c := range []struct {
		set  int32
		want int64
	}{{0, 0}, {1, 10000}, {9999, 10000}, {10001, 10001}, {45000, 45000}} {
		s := &coordinator.GroupSettings{HeartbeatIntervalMs: 5000, DisconnectTimeoutMs: c.set}
		if got := DisconnectMs(s); got != c.want {
			t.Errorf("set to %d: %d, want %d", c.set, got, c.want)
		}
	}
}

// Who is let go before the time of its hold is told to come soon, but never together with a status: a client takes twice the
// interval for its patience with missing source topics. Nor is news told so, which the member acknowledges at once.
func TestLetGoTellsNoStatusAShorterInterval(t *testing.T) {
	const configured = 5000
	for name, c := range map[string]struct {
		left         int64
		acknowledged bool
		status       []Status
		news         bool
		want         int32
	}{
		"acknowledged":                {left: 4000, acknowledged: true, want: 500},
		"in the middle":               {left: 2000, want: 2000},
		"near the end":                {left: 10, want: 500},
		"over":                        {left: -10, want: 500},
		"as long as the interval":     {left: configured, want: configured},
		"missing source topics":       {left: 2000, acknowledged: true, status: []Status{{Code: StatusMissingSourceTopics}}, want: configured},
		"incorrectly partitioned":     {left: 2000, acknowledged: true, status: []Status{{Code: StatusIncorrectlyPartitionedTopics}}, want: configured},
		"missing internal topics":     {left: 2000, acknowledged: true, status: []Status{{Code: StatusMissingInternalTopics}}, want: configured},
		"news that is to be answered": {left: 2000, news: true, want: configured},
	} {
		d := Decision{Reply: HeartbeatResponse{HeartbeatIntervalMs: configured, Status: c.status}, Holding: Holding{News: c.news}}
		d.LetGo(1_000_000, c.left, c.acknowledged)
		if got := d.Reply.HeartbeatIntervalMs; got != c.want {
			t.Errorf("%s: told %d ms, want %d", name, got, c.want)
		}
		if soon := d.soon != 0; soon != (c.want != configured) {
			t.Errorf("%s: heartbeats before the interval are expected from %d", name, d.soon)
		}
	}
}
