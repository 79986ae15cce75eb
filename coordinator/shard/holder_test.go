package shard

import "testing"

// TestAnEarlierHeartbeatDoesNotTakeALaterOnesPlace: the shard of an earlier heartbeat may come to it after that of a later one
// of the connection holds that.
func TestAnEarlierHeartbeatDoesNotTakeALaterOnesPlace(t *testing.T) {
	h := NewHolder(1)
	h.Release(1) // as the gateway does before it submits the second one
	if !h.Begin(2) {
		t.Fatal("the later one may be held")
	}
	if h.Begin(1) {
		t.Fatal("the earlier one is released")
	}
	h.End(1)
	if !h.Release(2) {
		t.Fatal("nobody is told that the later one must be answered")
	}
}
