package gateway

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// addressed are requests whose answers name brokers or nodes.
func addressed() []kmsg.Request {
	metadata, cluster := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrDescribeClusterRequest()
	metadata.Version, cluster.Version = 12, 1
	group, txn := kmsg.NewPtrFindCoordinatorRequest(), kmsg.NewPtrFindCoordinatorRequest()
	group.Version, txn.Version = 4, 4
	group.CoordinatorKeys, txn.CoordinatorKeys, txn.CoordinatorType = []string{"theirs"}, []string{"tx"}, 1
	return []kmsg.Request{metadata, cluster, group, txn}
}

// names is how many nodes an answer names.
func names(resp kmsg.Response) int {
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		return len(r.Brokers)
	case *kmsg.DescribeClusterResponse:
		return len(r.Brokers)
	case *kmsg.FindCoordinatorResponse:
		if r.Coordinators[0].ErrorCode == 0 && r.Coordinators[0].Port > 0 {
			return 1
		}
	}
	return 0
}

func TestAddressesAreToldWhenTheyAreKnown(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 2, topics: []string{"in"}, config: waitLong})
	for i, req := range addressed() {
		for k, unseen := range []func(){func() { w.unseen = true }, func() { w.image = nil }} {
			image := w.image
			w.change(unseen)
			c := dialPort(t, w.nodes[0].addr())
			before := len(w.nodes[0].g.connections())
			c.send(c.encode(req))
			eventually(t, "the client is served", func() bool { return len(w.nodes[0].g.connections()) >= max(1, before) })
			w.change(func() { w.unseen, w.image = false, image })
			resp, err := c.receive(req, c.corr)
			if err != nil {
				t.Errorf("%d, %d: %v", i, k, err)
				continue
			}
			if want := []int{4, 4, 1, 1}[i]; names(resp) != want {
				t.Errorf("%d, %d: %d names, want %d", i, k, names(resp), want)
			}
		}
	}
}

func TestWithoutAddressesTheConnectionEnds(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, brokers: 1, config: func(c *Config) { c.viewPatience = 10 * time.Millisecond }})
	w.hold("ours")
	w.change(func() { w.unseen = true })
	for _, req := range addressed() {
		c := dialPort(t, w.nodes[0].addr())
		c.send(c.encode(req))
		if resp, err := c.receive(req, c.corr); err == nil {
			t.Errorf("%+v", resp)
		}
	}
	if k := find(t, w.nodes[0].addr(), "ours")[0]; k.NodeID != -1 || k.ErrorCode != 15 {
		t.Errorf("a group of ours: %+v", k)
	}
}

func TestABrokerWithoutAPortIsLeftOut(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, brokers: 2, config: func(c *Config) { c.viewPatience = 10 * time.Millisecond }})
	w.change(func() { w.without = w.image.brokers[1].ID })
	c := dialPort(t, w.nodes[0].addr())
	if m := do[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), 12); len(m.Brokers) != 2 {
		t.Errorf("%+v", m.Brokers)
	}
	if !w.nodes[0].g.stillPartial() {
		t.Error("the next request would wait again")
	}
	w.change(func() { w.without = noBroker })
	if m := do[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), 12); len(m.Brokers) != 3 {
		t.Errorf("%+v", m.Brokers)
	}
}
