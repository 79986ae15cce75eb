package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

type sink struct{}

func (sink) Apply(uint64, []byte) error          { return nil }
func (sink) Snapshot() (io.WriterTo, error)      { return recorded(nil), nil }
func (sink) Restore(_ uint64, r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }

// BenchmarkPropose commits 300-byte entries on three nodes in one process over TCP with real files, one entry in
// flight per group: the floor of a shard. What it measures is fsync.
func BenchmarkPropose(b *testing.B) {
	for _, groups := range []int{1, 8, 64} {
		for _, inFlight := range []int{1, 8, 32} {
			b.Run(fmt.Sprintf("groups=%d/inflight=%d", groups, inFlight), func(b *testing.B) {
				nodes := benchCluster(b, groups)
				leaders := make([]*Group, groups)
				for g := range leaders {
					leaders[g] = servingGroup(nodes, uint32(g))
				}
				entry := make([]byte, 300)
				var left, failed atomic.Int64
				left.Store(int64(b.N))
				terms := totalTerms(leaders)
				b.ResetTimer()
				var wg sync.WaitGroup
				for _, l := range leaders {
					for range inFlight {
						g := l
						wg.Add(1)
						var next func(error)
						next = func(err error) {
							if err != nil { // leadership flaps when the machine is overloaded
								failed.Add(1)
								left.Add(1)
								time.Sleep(time.Millisecond)
								g = servingGroup(nodes, g.ID())
							}
							if left.Add(-1) < 0 {
								wg.Done()
								return
							}
							g.Propose(entry, next)
						}
						go next(nil)
					}
				}
				wg.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
				b.ReportMetric(float64(failed.Load()), "failed")
				b.ReportMetric(float64(totalTerms(leaders)-terms), "elections")
				stopNodes(b, nodes)
			})
		}
	}
}

// BenchmarkVerify proves leadership over TCP, one caller at a time.
func BenchmarkVerify(b *testing.B) {
	nodes := benchCluster(b, 1)
	g := servingGroup(nodes, 0)
	done := make(chan error)
	b.ResetTimer()
	for b.Loop() {
		g.Verify(func(err error) { done <- err })
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	stopNodes(b, nodes)
}

func BenchmarkProof(b *testing.B) {
	nodes := benchCluster(b, 1)
	g := servingGroup(nodes, 0)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := g.Proof(g.serving.Load()); !ok {
			b.Fatal("not proven")
		}
	}
	b.StopTimer()
	stopNodes(b, nodes)
}

func benchCluster(b *testing.B, groups int) []*Node {
	b.Helper()
	var lns []net.Listener
	var peers []Peer
	for i := range 3 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		lns = append(lns, ln)
		peers = append(peers, Peer{ID: int32(i), Address: ln.Addr().String()})
	}
	var nodes []*Node
	for i := range 3 {
		n, err := Open(Config{
			NodeID: int32(i), Dir: b.TempDir(), Peers: peers, Groups: groups, Timing: Timing{Balance: -1},
			NewFSM: func(uint32) FSM { return sink{} },
			Listen: func(string) (net.Listener, error) { return lns[i], nil },
		})
		if err == nil {
			err = n.Start()
		}
		if err != nil {
			b.Fatal(err)
		}
		nodes = append(nodes, n)
	}
	for g := range uint32(groups) { // spread the leaders
		to := int32(g % 3)
		for servingGroup(nodes, g).node.cfg.NodeID != to {
			l := servingGroup(nodes, g)
			if err := l.Transfer(context.Background(), to); err != nil && !errors.Is(err, ErrNotLeader) {
				b.Log(err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nodes
}

func totalTerms(gs []*Group) (n uint64) {
	for _, g := range gs {
		n += g.Status().Term
	}
	return n
}

func servingGroup(nodes []*Node, g uint32) *Group {
	for {
		for _, n := range nodes {
			if n.Group(g).Status().Serving {
				return n.Group(g)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func stopNodes(b *testing.B, nodes []*Node) {
	for _, n := range nodes {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := n.Shutdown(ctx); err != nil {
			b.Error(err)
		}
	}
}
