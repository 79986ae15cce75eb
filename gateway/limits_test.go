package gateway

import (
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// eventually waits for something that another goroutine is about to bring about.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func TestAClaimedLengthAllocatesNothing(t *testing.T) {
	g := echoGateway(t, false, nil)
	before := heap()
	const n = 50
	frame := steadyFrame()
	binary.BigEndian.PutUint32(frame, 99<<20)
	for range n {
		dialPort(t, g.Addr().String()).send(frame)
	}
	eventually(t, "frames are not read", func() bool {
		read := 0
		for _, c := range g.connections() {
			if c.activity.Load() > 0 {
				read++
			}
		}
		return read == n
	})
	if grown := int64(heap()) - int64(before); grown > 8<<20 {
		t.Errorf("%d bytes for %d frames that did not come", grown, n)
	}
}

func TestAFrameGrowsWithItsBytes(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, brokers: 1, topics: []string{"in"}})
	w.hold("ours")
	c := dialPort(t, w.nodes[0].addr())
	req := commit("ours", "in", [16]byte{}, 1)
	one := req.Topics[0].Partitions[0]
	for range 100_000 {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, one)
	}
	if r := do[*kmsg.OffsetCommitResponse](c, req, 8); len(r.Topics[0].Partitions) != 100_001 {
		t.Errorf("%d partitions", len(r.Topics[0].Partitions))
	}
	if r := do[*kmsg.StreamsGroupHeartbeatResponse](c, beat("ours", "m", 5), 1); r.ErrorCode != 0 {
		t.Errorf("%+v", r)
	}
}

func TestIdleConnectionsHoldNoBuffers(t *testing.T) {
	g := echoGateway(t, false, nil)
	const n = 500
	before := heap()
	clients := make([]*wire, n)
	for i := range clients {
		clients[i] = dialPort(t, g.Addr().String())
	}
	eventually(t, "connections are not accepted", func() bool { return len(g.connections()) == n })
	do := func(c *wire) {
		c.send(steadyFrame())
		if _, err := c.frame(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range clients {
		do(c)
	}
	idle := 0
	for _, c := range g.connections() {
		eventually(t, "the output is not given back", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return !c.reading && !c.flushing && c.out == nil
		})
		idle++
	}
	if idle != n {
		t.Errorf("%d of %d", idle, n)
	}
	runtime.GC() // twice: pools keep one generation
	if each := (int64(heap()) - int64(before)) / n; each > 12<<10 {
		t.Errorf("%d bytes for each idle connection", each)
	} else {
		t.Logf("%d bytes for each idle connection, the client's end included", each)
	}
}

func TestASlowClientHoldsUpNobody(t *testing.T) {
	g := echoGateway(t, true, nil)
	slow := dialPort(t, g.Addr().String())
	frame := steadyFrame()
	var burst []byte
	for range 1000 {
		burst = append(burst, frame...)
	}
	sent := 0
	for { // until nothing more is taken from it
		_ = slow.nc.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		n, err := slow.nc.Write(burst)
		sent += n
		if err != nil {
			break
		}
		if sent > 256<<20 {
			t.Fatal("a client that takes no answers is read without end")
		}
	}
	other := dialPort(t, g.Addr().String())
	for range 100 {
		other.send(frame)
		if _, err := other.frame(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range g.connections() {
		c.mu.Lock()
		if c.out != nil && len(c.out.b) > 4*maxUnwritten {
			t.Errorf("%d bytes of answers wait", len(c.out.b))
		}
		c.mu.Unlock()
	}
	go func() { // now it takes them all
		if rest := sent % len(frame); rest != 0 {
			_ = slow.nc.SetWriteDeadline(time.Time{})
			_, _ = slow.nc.Write(frame[rest:])
		}
	}()
	for range (sent + len(frame) - 1) / len(frame) {
		if _, err := slow.frame(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAClientThatLeftWithItsLastBytesIsNoticed: the poller tells of the end of a stream once; see conn.readReady.
func TestAClientThatLeftWithItsLastBytesIsNoticed(t *testing.T) {
	g := echoGateway(t, false, nil)
	c := dialPort(t, g.Addr().String())
	c.send(steadyFrame())
	_ = c.nc.(*net.TCPConn).CloseWrite()
	if _, err := c.frame(); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for range 3 {
		for _, conn := range g.connections() {
			conn.sweep(now)
		}
	}
	eventually(t, "the connection stays", func() bool { return len(g.connections()) == 0 })
	if _, err := c.frame(); err != io.EOF {
		t.Error(err)
	}
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	g := echoGateway(t, false, nil)
	dialPort(t, g.Addr().String())
	eventually(t, "not accepted", func() bool { return len(g.connections()) == 1 })
	c := g.connections()[0]
	now := time.Now()
	c.sweep(now)
	c.sweep(now.Add(9 * time.Minute))
	if len(g.connections()) != 1 {
		t.Error("closed too early")
	}
	c.sweep(now.Add(10 * time.Minute))
	eventually(t, "the connection stays", func() bool { return len(g.connections()) == 0 })
}

func TestCloseEndsEverything(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("use", func(t *testing.T) {
		w := newWorld(t, worldConfig{nodes: 2, brokers: 1})
		w.hold("ours")
		for _, n := range w.nodes {
			c := dialPort(t, n.addr())
			do[*kmsg.StreamsGroupHeartbeatResponse](c, beat("ours", "m", 5), 1)
			do[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), 12)
		}
		w.lead(0)
		c := dialPort(t, w.nodes[0].addr())
		c.send(c.encode(beat("ours", "m", 5))) // waits for a leader
	})
	eventually(t, "goroutines are left", func() bool { return runtime.NumGoroutine() <= before })
}

func TestALostUpstreamEndsTheConnectionsThatItOwes(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, brokers: 1, config: fixVersions})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	w.mu.Lock()
	w.image.brokers = []Broker{{ID: w.image.brokers[0].ID, Host: "127.0.0.1", Port: int32(ln.Addr().(*net.TCPAddr).Port)}}
	w.mu.Unlock()
	c := dialPort(t, w.nodes[0].brokerAddr(0))
	request := c.encode(kmsg.NewPtrMetadataRequest())
	c.send(request)
	c.send(c.encode(beat("ours", "m", 0)))
	broker, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(broker, make([]byte, len(request))); err != nil {
		t.Fatal(err)
	}
	_ = broker.Close()
	if b, err := c.frame(); err == nil {
		t.Errorf("% x was answered although what came before was not", b)
	}
}
