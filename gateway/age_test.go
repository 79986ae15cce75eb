package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/internal/vnet"
)

// virtual is a world of two gateways, without an upstream, on a network in memory; node 2 leads all shards.
type virtual struct {
	*world
	net *vnet.Network
}

func newVirtual(t *testing.T) *virtual {
	v := &virtual{emptyWorld(t), vnet.New()}
	v.net.SetLatency(time.Millisecond)
	for i := range int32(2) {
		host := v.net.Host(fmt.Sprintf("n%d", i+1))
		hops, err := host.Listen(":7000")
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{
			Coordinators: fakeCoords{v.world, i + 1}, Cluster: fakeCluster{v.world}, ClientListen: ":9092",
			Network: Network{Listen: host.Listen, Dial: host.Dial, Hops: hops, DialPeer: func(ctx context.Context, node int32) (net.Conn, error) {
				return host.Dial(ctx, fmt.Sprintf("n%d:7000", node))
			}},
		}
		withoutUpstream(&cfg)
		g := New(cfg)
		if err := g.Start(); err != nil {
			t.Fatal(err)
		}
		v.nodes = append(v.nodes, &testNode{w: v.world, id: i + 1, base: 9092, g: g})
	}
	v.lead(2)
	return v
}

func (v *virtual) close() {
	for _, n := range v.nodes {
		n.g.Close()
	}
}

func (v *virtual) dial(node string) *wire {
	v.t.Helper()
	nc, err := v.net.Host("client").Dial(context.Background(), node+":9092")
	if err != nil {
		v.t.Fatal(err)
	}
	return &wire{t: v.t, nc: nc}
}

func (v *virtual) decided(member string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.beats[member]
}

func joinOf(member string) *kmsg.StreamsGroupHeartbeatRequest {
	r := beat("g", member, 0)
	r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	return r
}

// virtually runs f where node 1 has an open hop to node 2.
func virtually(t *testing.T, f func(v *virtual)) {
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		defer v.close()
		c := v.dial("n1")
		defer func() { _ = c.nc.Close() }()
		do[*kmsg.StreamsGroupHeartbeatResponse](c, joinOf("warm"), 1)
		f(v)
	})
}

// TestAJoinThatAHopDeliversLateIsRefused: the client gave it up and joined elsewhere, whatever kept the frame.
func TestAJoinThatAHopDeliversLateIsRefused(t *testing.T) {
	for _, late := range []time.Duration{3 * time.Second, 9 * time.Second, 40 * time.Second} {
		virtually(t, func(v *virtual) {
			v.net.Cut("n1", "n2")
			first := v.dial("n1")
			first.send(first.encode(joinOf("m")))
			time.Sleep(time.Second)
			_ = first.nc.Close()
			second := v.dial("n2")
			do[*kmsg.StreamsGroupHeartbeatResponse](second, joinOf("m"), 1)
			time.Sleep(late - time.Second)
			v.net.Heal("n1", "n2")
			time.Sleep(20 * time.Second)
			if n := v.decided("m"); n != 1 {
				t.Errorf("%v late: %d joins were decided", late, n)
			}
			_ = second.nc.Close()
		})
	}
}

// TestAReportThatAHopDeliversLateIsRefused: it is no better than a join.
func TestAReportThatAHopDeliversLateIsRefused(t *testing.T) {
	virtually(t, func(v *virtual) {
		v.net.Cut("n1", "n2")
		c := v.dial("n1")
		report := joinOf("m")
		report.MemberEpoch = 5
		c.send(c.encode(report))
		time.Sleep(3 * time.Second)
		v.net.Heal("n1", "n2")
		r, err := c.receive(report, c.corr)
		if err != nil || r.(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode != int16(coordinator.CoordinatorNotAvailable) || v.decided("m") != 0 {
			t.Errorf("%+v %v, decided %d", r, err, v.decided("m"))
		}
		_ = c.nc.Close()
	})
}

// TestWhatAHopDeliversInTimeIsTaken, and a leave always: the member may be unable to say it again.
func TestWhatAHopDeliversInTimeIsTaken(t *testing.T) {
	for _, tc := range []struct {
		epoch int32
		late  time.Duration
	}{{0, time.Second}, {5, time.Second}, {-1, time.Second}, {-1, 9 * time.Second}} {
		virtually(t, func(v *virtual) {
			v.net.Cut("n1", "n2")
			c := v.dial("n1")
			req := joinOf("m")
			if req.MemberEpoch = tc.epoch; tc.epoch < 0 {
				req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = nil, nil, nil
			}
			c.send(c.encode(req))
			time.Sleep(tc.late)
			v.net.Heal("n1", "n2")
			if _, err := c.receive(req, c.corr); err != nil || v.decided("m") != 1 {
				t.Errorf("epoch %d, %v: %v, decided %d", tc.epoch, tc.late, err, v.decided("m"))
			}
			_ = c.nc.Close()
		})
	}
}

// TestTheShardLearnsTheAge of what came by a hop.
func TestTheShardLearnsTheAge(t *testing.T) {
	virtually(t, func(v *virtual) {
		v.mu.Lock()
		v.hangs[2] = true
		v.mu.Unlock()
		v.net.Cut("n1", "n2")
		c := v.dial("n1")
		c.send(c.encode(joinOf("m")))
		time.Sleep(1500 * time.Millisecond)
		v.net.Heal("n1", "n2")
		time.Sleep(time.Second)
		v.mu.Lock()
		defer v.mu.Unlock()
		if len(v.hanging) != 1 || v.hanging[0].AgeMs < 1500 || v.hanging[0].AgeMs > 1510 {
			t.Errorf("%+v", v.hanging)
		}
		_ = c.nc.Close()
	})
}

// TestAnAttemptThatIsTooOldIsNotMadeAgain: the leader kept it until there was another one.
func TestAnAttemptThatIsTooOldIsNotMadeAgain(t *testing.T) {
	for epoch, want := range map[int32]int{0: 0, -1: 1} {
		virtually(t, func(v *virtual) {
			v.mu.Lock()
			v.hangs[2] = true
			v.mu.Unlock()
			c := v.dial("n1")
			req := beat("g", "m", epoch)
			c.send(c.encode(req))
			time.Sleep(3 * time.Second)
			v.lead(1)
			if _, err := c.receive(req, c.corr); err != nil || v.decided("m") != want {
				t.Errorf("epoch %d: %v, decided %d", epoch, err, v.decided("m"))
			}
			_ = c.nc.Close()
		})
	}
}

// TestASilentHopIsGivenUp: clients need not wait until the network is whole again.
func TestASilentHopIsGivenUp(t *testing.T) {
	virtually(t, func(v *virtual) {
		v.net.Cut("n1", "n2")
		c := v.dial("n1")
		began := time.Now()
		do[*kmsg.StreamsGroupHeartbeatResponse](c, joinOf("m"), 1)
		if took := time.Since(began); took > (hopPings+2)*hopPingEvery {
			t.Errorf("answered after %v", took)
		}
		v.net.Heal("n1", "n2")
		time.Sleep(hopPings * hopPingEvery)
		if r := do[*kmsg.StreamsGroupHeartbeatResponse](c, joinOf("m"), 1); r.ErrorCode != 0 {
			t.Errorf("error %d when the network was whole again", r.ErrorCode)
		}
		time.Sleep(10 * hopPings * hopPingEvery) // and one over which nothing is asked stays
		hops := v.nodes[0].g.hops
		hops.mu.Lock()
		defer hops.mu.Unlock()
		if hops.peers[2] == nil {
			t.Error("a hop without requests is closed")
		}
		_ = c.nc.Close()
	})
}

// TestAJoinOfAClientThatHasGoneIsNotTaken: the process stood still while it came.
func TestAJoinOfAClientThatHasGoneIsNotTaken(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, config: func(c *Config) {
		withoutUpstream(c)
		early := dialPort(t, c.ClientListen) // the gateway does not read yet
		early.send(append(early.encode(joinOf("m")), early.encode(beat("g", "leaver", -1))...))
		_ = early.nc.Close()
	}})
	g := w.nodes[0].g
	do[*kmsg.StreamsGroupHeartbeatResponse](dialPort(t, w.nodes[0].addr()), joinOf("other"), 1)
	eventually(t, "the connection has ended", func() bool { return len(g.connections()) == 1 })
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.beats["m"] != 0 || w.beats["leaver"] != 1 || w.beats["other"] != 1 {
		t.Errorf("%v", w.beats)
	}
}

func TestPeerClock(t *testing.T) {
	const theirs = 1000 * time.Second // ahead of ours
	var p peerClock
	p.heard(theirs+10*time.Second, 15*time.Second) // the answer took 5 s
	if got := p.at(20 * time.Second); got != theirs+15*time.Second {
		t.Errorf("%v", got)
	}
	for at := 16 * time.Second; at < 40*time.Second; at += time.Second {
		took := 20 * time.Millisecond
		if at == 20*time.Second {
			took = time.Millisecond // the best counts
		}
		p.heard(theirs+at-took, at)
	}
	if got := p.at(40 * time.Second); got != theirs+40*time.Second-time.Millisecond {
		t.Errorf("%v", got)
	}
	for at := 40 * time.Second; at < 105*time.Second; at += time.Second {
		p.heard(theirs+at-20*time.Millisecond, at) // but not for ever
	}
	if got := p.at(100 * time.Second); got != theirs+100*time.Second-20*time.Millisecond {
		t.Errorf("%v", got)
	}
	p.heard(theirs, 1000*time.Second) // nothing was heard for long
	if got := p.at(1000 * time.Second); got != theirs {
		t.Errorf("%v", got)
	}
}

func TestARequestOfTheFutureEndsTheHop(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, config: withoutUpstream})
	ours, theirs := net.Pipe()
	ended := make(chan struct{})
	go func() { w.nodes[0].g.serveHop(theirs); close(ended) }()
	go func() { _, _ = io.Copy(io.Discard, ours) }()
	r := hopRequest{id: 1, kind: hopHolds, asked: time.Hour, payload: []byte("g")}
	if _, err := ours.Write(appendHopRequest([]byte{hopVersion}, &r)); err != nil {
		t.Fatal(err)
	}
	<-ended
}

// lingering is a connection that notes how it was ended.
type lingering struct {
	net.Conn
	linger int
	closed bool
}

func (l *lingering) SetLinger(sec int) error { l.linger = sec; return nil }
func (l *lingering) Close() error            { l.closed = true; return nil }

type wrapped struct{ net.Conn }

func (w wrapped) NetConn() net.Conn { return w.Conn }

func TestAnAbortedHopSendsNothingMore(t *testing.T) {
	l := &lingering{linger: -1}
	abort(wrapped{wrapped{l}})
	if l.linger != 0 || !l.closed {
		t.Errorf("%+v", l)
	}
}
