package raftnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/internal/vnet"
)

// muxBed is a mux on a network in memory.
type muxBed struct {
	*mux
	net *vnet.Network
	log lockedBuffer
	mu  sync.Mutex
	out map[string]int // dropped, by cause
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newMuxBed(t testing.TB) *muxBed {
	b := &muxBed{net: vnet.New(), out: map[string]int{}}
	ln, err := b.net.Host("a").Listen(":1")
	if err != nil {
		t.Fatal(err)
	}
	log := hclog.New(&hclog.LoggerOptions{Output: &b.log, DisableTime: true})
	b.mux = newMux(ln, b.net.Host("a").Dial, time.Second, log, func(cause string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.out[cause]++
	})
	b.serve()
	return b
}

func (b *muxBed) dial(t testing.TB, first []byte) net.Conn {
	t.Helper()
	c, err := b.net.Host("client").Dial(context.Background(), "a:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(first); err != nil {
		t.Fatal(err)
	}
	return c
}

func (b *muxBed) dropped(cause string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out[cause]
}

// gone says that the other side closed the connection without a word.
func gone(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("connection still serves: %d bytes, %v", n, err)
	}
	_ = c.Close()
}

func TestMuxRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newMuxBed(t)
		defer func() { _ = b.close() }()
		var ls []*muxListener
		for _, r := range []route{{kind: kindRaft, group: 3}, {kind: kindRaft, group: 4}, {kind: 'H'}} {
			l, err := b.listen(r)
			if err != nil {
				t.Fatal(err)
			}
			ls = append(ls, l)
		}
		if _, err := b.listen(route{kind: 'H'}); err == nil {
			t.Error("two listeners for one protocol")
		}
		for i, l := range ls {
			c, err := b.open(t.Context(), "a:1", l.route)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = fmt.Fprintf(c, "hello %d", i)
			s, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 7)
			if _, err := io.ReadFull(s, got); err != nil || string(got) != fmt.Sprintf("hello %d", i) {
				t.Errorf("read %q, %v", got, err)
			}
			b.reset(l.route)
			gone(t, c)
		}
		_ = ls[2].Close()
		if _, err := ls[2].Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept after close: %v", err)
		}
		gone(t, b.dial(t, []byte{'H', 0, 0, 0, 0}))
		if n := b.net.NumConns(); n != 0 {
			t.Errorf("%d connections left", n)
		}
	})
}

func TestMuxDropsWhatItDoesNotUnderstand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newMuxBed(t)
		defer func() { _ = b.close() }()
		l, err := b.listen(route{kind: kindRaft})
		if err != nil {
			t.Fatal(err)
		}
		gone(t, b.dial(t, []byte("GET / HTTP/1.1\r\n")))
		gone(t, b.dial(t, []byte{kindRaft, 0, 0, 0, 9}))
		gone(t, b.dial(t, []byte{0x16, 3, 1, 0, 200, 1, 0, 0})) // a TLS client
		silent := b.dial(t, nil)
		cut := b.dial(t, []byte{kindRaft, 0})
		start := time.Now()
		gone(t, silent)
		gone(t, cut)
		if d := time.Since(start); d > time.Second {
			t.Errorf("silence was borne for %v", d)
		}
		synctest.Wait() // a connection is closed first, and counted then
		if b.dropped("unknown") != 3 || b.dropped("preface") != 2 {
			t.Errorf("counted %v", b.out)
		}
		// A good connection still gets through.
		b.dial(t, []byte{kindRaft, 0, 0, 0, 0})
		if _, err := l.Accept(); err != nil {
			t.Error(err)
		}
		// One that is closed without a word is counted, and worth no line; one that is cut in the preface is.
		time.Sleep(2 * time.Second) // a cause has a line a second
		lines := strings.Count(b.log.String(), "dropped a connection")
		for _, first := range [][]byte{nil, {kindRaft}} {
			c := b.dial(t, first)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if got := strings.Count(b.log.String(), "dropped a connection") - lines; got != 1 || b.dropped("preface") != 4 {
			t.Errorf("%d lines, counted %v", got, b.out)
		}
	})
}

func TestMuxBearsFloods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newMuxBed(t)
		defer func() { _ = b.close() }()
		l, err := b.listen(route{kind: kindRaft})
		if err != nil {
			t.Fatal(err)
		}
		var open []net.Conn
		for range 100 { // silent, in bursts that the listener's backlog holds
			for range 10 {
				open = append(open, b.dial(t, nil))
			}
			synctest.Wait()
		}
		b.mux.mu.Lock()
		waiting := len(b.prefaces)
		b.mux.mu.Unlock()
		if waiting > maxPrefaces || b.dropped("flood") != len(open)-maxPrefaces {
			t.Errorf("%d wait, counted %v", waiting, b.out)
		}
		synctest.Wait()
		if n := strings.Count(b.log.String(), "\n"); n > 3 {
			t.Errorf("%d log lines:\n%s", n, b.log.String())
		}
		time.Sleep(2 * time.Second)
		// Connections of one group that are accepted and stay: the longest silent goes.
		var accepted []net.Conn
		for range maxGroupConns + 20 {
			open = append(open, b.dial(t, []byte{kindRaft, 0, 0, 0, 0}))
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			accepted = append(accepted, c)
			time.Sleep(time.Millisecond)
		}
		b.mux.mu.Lock()
		tracked := len(b.conns)
		b.mux.mu.Unlock()
		if tracked != maxGroupConns {
			t.Errorf("%d connections tracked", tracked)
		}
		if _, err := accepted[0].Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the oldest was kept: %v", err)
		}
		// Nobody accepts: the backlog is bounded too.
		for range 3 * backlog {
			open = append(open, b.dial(t, []byte{kindRaft, 0, 0, 0, 0}))
			synctest.Wait()
		}
		if b.dropped("backlog") == 0 {
			t.Errorf("counted %v", b.out)
		}
		for _, c := range open {
			_ = c.Close()
		}
	})
}

func TestMuxCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newMuxBed(t)
		l, _ := b.listen(route{kind: kindRaft})
		waiting, silent := b.dial(t, []byte{kindRaft, 0, 0, 0, 0}), b.dial(t, nil)
		synctest.Wait()
		_ = b.close()
		gone(t, waiting)
		gone(t, silent)
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := b.open(t.Context(), "a:1", route{}); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := b.listen(route{kind: 'H'}); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if n := b.net.NumConns(); n != 0 {
			t.Errorf("%d connections left", n)
		}
	})
}

// FuzzMux sends arbitrary bytes to the port of a running node: nothing may panic or stay behind.
func FuzzMux(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n"), true)
	f.Add([]byte{'R', 0, 0, 0, 0}, false)
	f.Add([]byte{'R', 0, 0, 0, 0, 0, 0x80}, true)
	f.Add([]byte{'R', 0, 0, 0, 0, 0, 0xdf, 0xff, 0xff, 0xff, 0xff}, true)
	f.Add([]byte{'R', 0, 0, 0, 0, 2, 0x81, 0xa4, 'S', 'i', 'z', 'e', 0xd3, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, true)
	f.Add([]byte{'R', 0, 0, 0, 0, 4, 0xc0}, true)
	f.Fuzz(func(t *testing.T, data []byte, hangUp bool) {
		if hasRaftRequest(data) {
			t.Skip("a well-formed request is the business of raft")
		}
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 1, 1, Timing{Balance: -1})
			c.dir = dir
			c.startAll()
			c.leader(0)
			conn, err := c.net.Host("fuzz").Dial(t.Context(), host(0)+":7000")
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = conn.Write(data)
			if hangUp {
				_ = conn.Close()
			}
			time.Sleep(5 * time.Second)
			_ = conn.Close()
			time.Sleep(5 * time.Second)
			if n := c.net.NumConns(); n != 0 {
				t.Errorf("%d connections left", n)
			}
			c.mustPropose(0, 0, "still alive")
			c.stopAll()
		})
	})
}

// hasRaftRequest says whether the bytes reach a group with something that its library may take for a request that
// changes its state; those are the rights of a member of the cluster.
func hasRaftRequest(b []byte) bool {
	return len(b) > 400
}
