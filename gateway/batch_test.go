package gateway

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestGroupsOfARequestAreAskedForTogether: those of a shard without a leader would else wait one after the other, and those
// of other shards behind them.
func TestGroupsOfARequestAreAskedForTogether(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, config: waitLong})
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.SetVersion(2)
	for i := range 8 {
		id := fmt.Sprint("g", i)
		w.hold(id)
		remove.Groups = append(remove.Groups, id)
	}
	w.lead(0) // nobody
	c := dialPort(t, w.nodes[0].addr())
	c.send(c.encode(remove))
	eventually(t, "all wait for a leader", func() bool { return testutil.ToFloat64(w.nodes[0].g.metrics.parked) == 8 })
	w.lead(1)
	resp, err := c.receive(remove, c.corr)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range resp.(*kmsg.DeleteGroupsResponse).Groups {
		if g.ErrorCode != 0 {
			t.Errorf("%+v", g)
		}
	}
}
