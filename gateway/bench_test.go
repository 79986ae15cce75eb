package gateway

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/coordinator/streams"
)

// echoCoords answers each heartbeat at once and allocates nothing.
type echoCoords struct{ foreign chan *shard.Call }

func (echoCoords) Self() int32                                    { return 1 }
func (echoCoords) Shards() uint32                                 { return 1 }
func (echoCoords) Shard(string) uint32                            { return 0 }
func (echoCoords) Holds(string) bool                              { return true }
func (echoCoords) Leader(uint32) (int32, bool)                    { return 1, true }
func (echoCoords) LeaderChanged(uint32) <-chan struct{}           { return nil }
func (echoCoords) LedSince(uint32, time.Time) bool                { return true }
func (echoCoords) Groups(uint32) iter.Seq[GroupListing]           { return func(func(GroupListing) bool) {} }
func (echoCoords) Position(uint32) uint64                         { return 0 }
func (echoCoords) AwaitPosition(_ uint32, _ uint64, f func(bool)) { f(true) }

func (echoCoords) LetGo(uint32, *shard.Holder)      {}
func (echoCoords) Gone(uint32, *shard.Holder, bool) {}

func (e echoCoords) Submit(_ uint32, call *shard.Call) {
	if e.foreign != nil {
		e.foreign <- call
		return
	}
	echo(call)
}

func echo(call *shard.Call) {
	r := call.Request.(*streams.HeartbeatRequest)
	call.Heartbeat.MemberID, call.Heartbeat.MemberEpoch = r.MemberID, r.MemberEpoch
	call.Heartbeat.HeartbeatIntervalMs = 5000
	call.Response = &call.Heartbeat
	call.Done.CallDone(call)
}

type lonelyCluster struct{}

func (lonelyCluster) Nodes() []Node            { return nil }
func (lonelyCluster) Slots() []Slot            { return nil }
func (lonelyCluster) Image() Image             { return nil }
func (lonelyCluster) Changed() <-chan struct{} { return nil }
func (lonelyCluster) RefreshImage(...string)   {}
func (lonelyCluster) RefreshTopics()           {}

func echoGateway(t testing.TB, foreign bool, edit func(*Config)) *Gateway {
	e := echoCoords{}
	if foreign {
		e.foreign = make(chan *shard.Call, 1024)
		stop := make(chan struct{})
		t.Cleanup(func() { close(stop) })
		go func() {
			for {
				select {
				case call := <-e.foreign:
					echo(call)
				case <-stop:
					return
				}
			}
		}()
	}
	cfg := Config{Coordinators: e, Cluster: lonelyCluster{}, ClientListen: "127.0.0.1:0", BrokerListen: func(int32) string { return "" }}
	if edit != nil {
		edit(&cfg)
	}
	g := New(cfg)
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// steadyFrame is a heartbeat as a client in its steady state sends it.
func steadyFrame() []byte {
	w := &wire{}
	return w.encode(beat("a-streams-application", "fgEIGOuUQZuHXpCnGyqb4Q", 5))
}

// drive sends n heartbeats in closed loop over conns connections with depth in flight each.
func drive(t testing.TB, addr string, conns, depth, n int) {
	var wg sync.WaitGroup
	for range conns {
		wg.Go(func() {
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = nc.Close() }()
			frame := steadyFrame()
			br := bufio.NewReaderSize(nc, 64<<10)
			burst := []byte{}
			for range depth {
				burst = append(burst, frame...)
			}
			for range n / conns / depth {
				if _, err := nc.Write(burst); err != nil {
					t.Error(err)
					return
				}
				for range depth {
					head, err := br.Peek(4)
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = br.Discard(4 + int(binary.BigEndian.Uint32(head)))
				}
			}
		})
	}
	wg.Wait()
}

const serverEnv = "GATEWAY_BENCH_SERVER"

// TestMain lets the test binary be the server of the benchmark, so that its CPU can be told from the client's.
func TestMain(m *testing.M) {
	if mode := os.Getenv(serverEnv); mode != "" {
		t := &testing.B{}
		fmt.Println(echoGateway(t, mode == "foreign", nil).Addr())
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	os.Exit(m.Run())
}

// BenchmarkHeartbeats reports the server's CPU for a million heartbeats over loopback, with a backend that does nothing:
// the price of the connection engine.
func BenchmarkHeartbeats(b *testing.B) {
	for _, mode := range []string{"inline", "foreign"} {
		for _, shape := range [][2]int{{64, 1}, {8, 16}} {
			b.Run(fmt.Sprintf("%s/%dx%d", mode, shape[0], shape[1]), func(b *testing.B) {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), serverEnv+"="+mode)
				stdin, _ := cmd.StdinPipe()
				stdout, _ := cmd.StdoutPipe()
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				defer func() { _ = cmd.Wait() }()
				defer func() { _ = stdin.Close() }()
				addr, err := bufio.NewReader(stdout).ReadString('\n')
				if err != nil {
					b.Fatal(err)
				}
				addr = strings.TrimSpace(addr)
				drive(b, addr, shape[0], shape[1], 10_000)
				before := cpuTicks(b, cmd.Process.Pid)
				n := max(b.N, shape[0]*shape[1])
				b.ResetTimer()
				drive(b, addr, shape[0], shape[1], n)
				b.StopTimer()
				seconds := float64(cpuTicks(b, cmd.Process.Pid)-before) / 100
				b.ReportMetric(seconds/float64(n)*1e6, "server-s/1M")
				b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "beats/s")
			})
		}
	}
}

func cpuTicks(b *testing.B, pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return user + system
}

func TestSteadyHeartbeatsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	for _, foreign := range []bool{false, true} {
		g := echoGateway(t, foreign, nil)
		nc, err := net.Dial("tcp", g.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = nc.Close() }()
		frame := steadyFrame()
		answer := make([]byte, 4<<10)
		trip := func() {
			_, _ = nc.Write(frame)
			if _, err := nc.Read(answer); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			trip()
		}
		if n := testing.AllocsPerRun(2000, trip); n > 0 {
			t.Errorf("foreign %v: %v allocations for each heartbeat", foreign, n)
		}
	}
}
