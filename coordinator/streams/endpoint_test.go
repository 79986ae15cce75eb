package streams

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
)

// TestEndpointsOfLargeGroupsAreCollected: changes come together in one epoch, and none is lost.
func TestEndpointsOfLargeGroupsAreCollected(t *testing.T) {
	for _, c := range []struct {
		members int
		pause   int64
	}{{10, 0}, {200, 20}} {
		t.Run(fmt.Sprint(c.members), func(t *testing.T) {
			w := stableWorld(t, c.members)
			client := &coordinator.Client{ID: "c", Host: "/h"}
			move := func(member int) *HeartbeatResponse {
				req := steadyRequest(w, member)
				req.UserEndpoint = &record.Endpoint{Host: fmt.Sprintf("h%d", member), Port: uint16(w.now % 1000)}
				d, err := w.heartbeat(req, client)
				if err != nil || d.Reply.Err != nil {
					t.Fatal(err, d.Reply.Err)
				}
				return &d.Reply
			}
			first := move(0).EndpointEpoch
			w.now++
			second := move(1).EndpointEpoch
			if raised := second != first; raised != (c.pause == 0) {
				t.Fatalf("epoch %d after %d within a millisecond", second, first)
			}
			w.now += c.pause
			req := steadyRequest(w, 2)
			req.EndpointEpoch = first
			d, err := w.heartbeat(req, client)
			if err != nil || d.Reply.Err != nil {
				t.Fatal(err, d.Reply.Err)
			}
			if d.Reply.EndpointEpoch != first+1 || len(d.Reply.Endpoints) != 2 {
				t.Fatalf("epoch %d with %d endpoints", d.Reply.EndpointEpoch, len(d.Reply.Endpoints))
			}
		})
	}
}
