package gateway

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator/shard"
)

func find(t testing.TB, addr string, groups ...string) []kmsg.FindCoordinatorResponseCoordinator {
	t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = groups
	return do[*kmsg.FindCoordinatorResponse](dialPort(t, addr), req, 4).Coordinators
}

// questions is how often leaders were asked for a group.
func (w *world) questions(group string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, call := range w.calls {
		if r, ok := call.(*shard.HoldsRequest); ok && r.GroupID == group {
			n++
		}
	}
	return n
}

func TestALaggingReplicaDoesNotSendAMemberToTheUpstream(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1})
	w.hold("ours")
	w.blind[2] = true
	for _, addr := range []string{w.nodes[1].addr(), w.nodes[1].brokerAddr(0)} {
		ks := find(t, addr, "ours", "theirs")
		if ks[0].NodeID != 1_000_001 || ks[0].ErrorCode != 0 || ks[1].NodeID != w.image.brokers[0].ID {
			t.Errorf("%s: %+v", addr, ks)
		}
	}
}

func TestFindCoordinatorWithoutALeader(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, brokers: 1, config: func(c *Config) { c.ParkTime = 20 * time.Millisecond }})
	w.hold("ours")
	w.blind[1] = true
	w.lead(0)
	for _, k := range find(t, w.nodes[0].addr(), "ours", "theirs") {
		if k.NodeID != -1 || k.ErrorCode != 15 {
			t.Errorf("%+v", k)
		}
	}
	w.lead(1)
	if k := find(t, w.nodes[0].addr(), "ours")[0]; k.NodeID != 1_000_001 || k.ErrorCode != 0 {
		t.Errorf("%+v", k)
	}
}

func TestALeaderIsAskedOnceForAll(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1, config: waitLong})
	w.lead(0)
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			if k := find(t, w.nodes[1].addr(), "theirs")[0]; k.ErrorCode != 0 {
				t.Errorf("%+v", k)
			}
		})
	}
	g := w.nodes[1].g
	eventually(t, "all have asked", func() bool { return len(g.connections()) == 40 })
	w.lead(1)
	wg.Wait()
	for range 40 {
		find(t, w.nodes[1].addr(), "theirs")
	}
	if n := w.questions("theirs"); n != 1 {
		t.Errorf("%d questions", n)
	}
}

func TestAGroupThatCameToBeIsOurs(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2, brokers: 1})
	w.blind[2] = true
	addr := w.nodes[1].addr()
	if k := find(t, addr, "new")[0]; k.NodeID != w.image.brokers[0].ID {
		t.Fatalf("%+v", k)
	}
	do[*kmsg.StreamsGroupHeartbeatResponse](dialPort(t, addr), beat("new", "m", 0), 1)
	if k := find(t, addr, "new")[0]; k.NodeID != 1_000_001 {
		t.Errorf("%+v", k)
	}
}

func TestWhatLeadersSaidIsBounded(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1})
	f := &w.nodes[0].g.foreign
	for i := range 3 * maxForeign {
		if o := f.ask(fmt.Sprint("g", i), nil); o != ownerUpstream {
			t.Fatal(o)
		}
	}
	if n := len(f.said); n > maxForeign || len(f.asking) != 0 {
		t.Errorf("%d groups, %d questions", n, len(f.asking))
	}
	w.nodes[0].g.foreign.forget("absent")
	if o := f.ownerOf(fmt.Sprint("g", 3*maxForeign-1)); o != ownerUpstream {
		t.Error(o)
	}
}
