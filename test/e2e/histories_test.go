//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/internal/histories"
	"github.com/coordd/coordd/test/rig"
)

const (
	historyTime    = 30 * time.Second // of faults
	historySession = 5 * time.Second
)

// historyConn is a connection of a client of histories.
type historyConn struct{ *rig.Conn }

func (c historyConn) Do(req kmsg.Request, patience time.Duration) (kmsg.Response, error) {
	return c.DoVersion(req, req.GetVersion(), patience)
}

// TestHistories: while nodes are killed, stopped for longer than any lease and than the members' session, and started again, committed
// offsets are registers that only the owners of tasks write, and that lose nothing that was acknowledged.
func TestHistories(t *testing.T) {
	for _, c := range []struct{ store, upstream string }{{"raft", "kfake"}, {"upstream", "kafka"}} {
		t.Run(c.store, func(t *testing.T) {
			t.Parallel()
			dir := place(t)
			cluster := startClusterWith(t, 3, startUpstream(t, c.upstream, dir), dir, map[string]any{
				"offsets.store":                        c.store,
				"group.streams.min.session.timeout.ms": 1000,
				"group.streams.session.timeout.ms":     historySession.Milliseconds(),
				"group.streams.assignment.interval.ms": 300,
			})
			newHistoryRun(t, cluster).run(t)
		})
	}
}

// historyRun is a cluster of processes whose clients write a history down.
type historyRun struct {
	cluster *rig.Cluster
	log     *histories.Log
	loads   []*histories.Load
	rand    *rand.Rand
}

func newHistoryRun(t *testing.T, cluster *rig.Cluster) *historyRun {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &historyRun{cluster: cluster, log: histories.NewLog(), rand: rand.New(rand.NewPCG(seed, 0))}
	var topics []string
	for i := range 3 {
		l := &histories.Load{
			Log: r.log, Group: fmt.Sprintf("history-%d", i), Topic: fmt.Sprintf("history-%d-in", i), Partitions: partitions, Members: 3, Readers: 2,
			Seed: seed + uint64(i), Patience: 2 * time.Second, Session: historySession, Beat: 300 * time.Millisecond, Pace: 100 * time.Millisecond, Calm: 25,
			Nodes: strings.Split(cluster.Bootstrap(), ","),
			Dial: func(_ context.Context, _ int, address string, _ time.Duration) (histories.Conn, error) {
				c, err := rig.Dial(address)
				if err != nil {
					return nil, err
				}
				return historyConn{c}, nil
			},
		}
		r.loads, topics = append(r.loads, l), append(topics, l.Topic)
	}
	createSized(t, cluster.Bootstrap(), partitions, topics...)
	return r
}

func (r *historyRun) run(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for _, l := range r.loads {
		clients.Go(func() { l.Run(ctx) })
	}
	pause(ctx, 5*time.Second)
	kinds := map[string]int{}
	for end := time.Now().Add(historyTime); time.Now().Before(end); {
		kinds[r.fault(t)]++
		pause(ctx, time.Duration(1000+r.rand.IntN(1500))*time.Millisecond)
	}
	if err := r.cluster.WaitReady(t.Context(), groupsBack); err != nil {
		t.Error(err)
	}
	pause(ctx, 3*time.Second)
	stop()
	clients.Wait()
	last := within(t, 30*time.Second)
	for _, l := range r.loads {
		if !l.LastRead(last) {
			t.Errorf("nobody can read the offsets of %s when all is over", l.Group)
		}
	}
	history, odd := r.log.History()
	began := time.Now()
	for _, v := range append(odd, histories.Check(history)...) {
		t.Error(v)
	}
	counts := history.Counts()
	t.Logf("%v: %v; checked in %v", kinds, counts, ms(time.Since(began)))
	if counts.Acknowledged < 500 || counts.Refused < 5 || counts.Unknown < 10 || counts.Grants < 12 {
		t.Errorf("too little happened to tell anything: %v", counts)
	}
}

// fault is one that begins and ends, at the leader of a group's shard more often than not.
func (r *historyRun) fault(t *testing.T) string {
	t.Helper()
	victim := r.cluster.Nodes[r.rand.IntN(len(r.cluster.Nodes))]
	if r.rand.IntN(3) > 0 {
		if _, addr, err := rig.FindCoordinator(r.cluster.Bootstrap(), r.loads[r.rand.IntN(len(r.loads))].Group, time.Second); err == nil {
			if n := r.cluster.ByClient(addr); n != nil {
				victim = n
			}
		}
	}
	start := func() {
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		if err := r.cluster.WaitReady(t.Context(), groupsBack); err != nil {
			t.Error(err)
		}
	}
	switch p := r.rand.IntN(12); {
	case p < 2: // what only the last one has of its log is lost, or goes on, but was not acknowledged
		for _, n := range r.others(victim) {
			n.Kill()
		}
		pause(t.Context(), time.Duration(100+r.rand.IntN(400))*time.Millisecond)
		victim.Kill()
		for _, n := range r.others(victim) {
			if err := n.Start(); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.cluster.WaitReady(t.Context(), groupsBack); err != nil {
			t.Error(err)
		}
		pause(t.Context(), time.Second)
		start()
		return "kill -9 of all"
	case p < 5:
		victim.Kill()
		pause(t.Context(), time.Duration(r.rand.IntN(1500))*time.Millisecond)
		start()
		return "kill -9"
	case p < 6:
		if err := victim.Stop(20 * time.Second); err != nil {
			t.Error(err)
		}
		start()
		return "SIGTERM"
	case p < 10: // longer than the lease and elections
		r.standStill(t, victim, time.Duration(500+r.rand.IntN(2500))*time.Millisecond)
		return "SIGSTOP"
	default: // longer than members live without heartbeats
		r.standStill(t, victim, historySession+time.Duration(r.rand.IntN(2000))*time.Millisecond)
		return "long SIGSTOP"
	}
}

func (r *historyRun) others(than *rig.Node) (nodes []*rig.Node) {
	for _, n := range r.cluster.Nodes {
		if n != than {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (r *historyRun) standStill(t *testing.T, n *rig.Node, d time.Duration) {
	t.Helper()
	sendSignal(t, n, syscall.SIGSTOP)
	pause(t.Context(), d)
	sendSignal(t, n, syscall.SIGCONT)
}

func sendSignal(t *testing.T, n *rig.Node, s syscall.Signal) {
	t.Helper()
	if err := n.Signal(s); err != nil {
		t.Fatal(err)
	}
}
