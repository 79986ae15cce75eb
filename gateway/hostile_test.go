package gateway

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

func TestALongHeartbeatIsRefusedAndTheConnectionGoesOn(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1})
	w.hold("ours")
	c := dialPort(t, w.nodes[0].addr())
	long := beat("ours", "m", 0)
	topology := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	one := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	for range maxHeartbeat / 8 {
		topology.Subtopologies = append(topology.Subtopologies, one)
	}
	long.Topology = &topology
	r := do[*kmsg.StreamsGroupHeartbeatResponse](c, long, 1)
	if r.ErrorCode != int16(coordinator.InvalidRequest) || r.ErrorMessage == nil || !strings.Contains(*r.ErrorMessage, "allowed are 2097152") {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.StreamsGroupHeartbeatResponse](c, beat("ours", "m", 5), 1); r.ErrorCode != 0 {
		t.Errorf("%+v", r)
	}
}

// TestGroupsThatAreNamedTwice: each place of the request has its answer, as in Kafka, except where groups are deleted.
func TestGroupsThatAreNamedTwice(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1})
	w.hold("a")
	w.hold("b")
	for _, n := range w.nodes { // the second asks the first
		c := dialPort(t, n.addr())
		describe := kmsg.NewPtrStreamsGroupDescribeRequest()
		describe.Groups = []string{"a", "b", "a"}
		if r := do[*kmsg.StreamsGroupDescribeResponse](c, describe, 1); len(r.Groups) != 3 || r.Groups[0].Group != "a" || r.Groups[2].Group != "b" {
			t.Errorf("node %d: %+v", n.id, r)
		}
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Groups = []kmsg.OffsetFetchRequestGroup{kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroup()}
		fetch.Groups[0].Group, fetch.Groups[1].Group = "a", "a"
		if r := do[*kmsg.OffsetFetchResponse](c, fetch, 8); len(r.Groups) != 2 || r.Groups[1].Group != "a" || r.Groups[1].ErrorCode != 0 {
			t.Errorf("node %d: %+v", n.id, r)
		}
	}
	c := dialPort(t, w.nodes[1].addr())
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = []string{"a", "a", "b"}
	if r := do[*kmsg.DeleteGroupsResponse](c, remove, 2); len(r.Groups) != 2 || r.Groups[0].ErrorCode != 0 || r.Groups[1].ErrorCode != 0 {
		t.Errorf("%+v", r)
	}
}

func TestGroupsThatAreNamedTwiceWithoutALeader(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, config: func(c *Config) { c.ParkTime = time.Millisecond }})
	w.hold("a")
	w.mu.Lock()
	for s := range w.leaders {
		w.leaders[s] = 0
	}
	w.mu.Unlock()
	c := dialPort(t, w.nodes[0].addr())
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Groups = []kmsg.OffsetFetchRequestGroup{kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroup()}
	fetch.Groups[0].Group, fetch.Groups[1].Group, fetch.Groups[2].Group = "a", "x", "x"
	r := do[*kmsg.OffsetFetchResponse](c, fetch, 8)
	if len(r.Groups) != 3 {
		t.Fatalf("%+v", r)
	}
	for _, g := range r.Groups {
		if g.ErrorCode != int16(coordinator.CoordinatorNotAvailable) {
			t.Errorf("%+v", g)
		}
	}
}

// TestOneLargeAnswerDoesNotEndAHop: all heartbeats that are held for the other node's clients would go with it.
func TestOneLargeAnswerDoesNotEndAHop(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _ = ours.Close() }()
	h := &hopServer{g: New(Config{Coordinators: fakeCoords{}}), nc: theirs}
	for id, kind := range []byte{hopKafka, hopBeat, hopKafka} {
		size := maxHopUnwritten + 1
		if id == 2 {
			size = maxHopAnswer
		}
		payload, err := h.fitting(kind, make([]byte, size), nil)
		h.send(uint64(id)+1, payload, err)
	}
	for id, want := range []coordinator.Code{coordinator.InvalidRequest, coordinator.NotCoordinator, coordinator.None} {
		frame, err := readHopFrame(ours, maxUpstream)
		if err != nil {
			t.Fatal(err)
		}
		a, err := parseHopAnswer(frame)
		if a.id != uint64(id)+1 || err != nil || a.code != want || (len(a.payload) > 0) != (want == coordinator.None) {
			t.Fatalf("answer %d: code %d, %d bytes, %v", a.id, a.code, len(a.payload), err)
		}
	}
}

func TestRepeatedResourcesCostWhatTheyTake(t *testing.T) {
	const n = 200_000
	all := make([]resource, n)
	b := newByResource[int](all)
	b.at(0, -1)
	for i := range n {
		b.add(resource{}, i) // one by one, this would take n times n looks
	}
	if got := b.results(); len(got) != n+1 || got[0] != -1 || got[1] != 0 || got[n-1] != n-2 || got[n] != n-1 {
		t.Errorf("%d results", len(got))
	}
}

// TestConnectionsThatAreResetLeaveNothingBehind: an answer that cannot be written must not have the reader wait for itself.
func TestConnectionsThatAreResetLeaveNothingBehind(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1})
	w.hold("ours")
	g := w.nodes[0].g
	for range 400 {
		c := dialPort(t, w.nodes[0].addr())
		for range 3 {
			c.send(c.encode(beat("ours", "m", 5)))
		}
		_ = c.nc.(*net.TCPConn).SetLinger(0) // it ends by a reset
		_ = c.nc.Close()
	}
	eventually(t, "connections are left", func() bool {
		for _, c := range g.connections() {
			_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // as the sweeper does
		}
		return len(g.connections()) == 0
	})
}
