package raftnode

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// logBuffer collects lines.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// take returns the lines so far and forgets them.
func (b *logBuffer) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := strings.TrimSpace(b.buf.String())
	b.buf.Reset()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func (b *logBuffer) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	lines := b.take()
	ok := len(lines) == len(want)
	for _, w := range want {
		found := false
		for _, l := range lines {
			found = found || strings.Contains(l, w)
		}
		ok = ok && found
	}
	if !ok {
		t.Errorf("%s, the log says\n%s\nwanted were %d lines with %q", when, strings.Join(lines, "\n"), len(want), want)
	}
}

// quietly runs a test on a cluster whose log is watched.
func quietly(t *testing.T, groups int, f func(t *testing.T, c *cluster, log *logBuffer)) {
	virtual(t, 3, groups, noBalance, func(t *testing.T, c *cluster) {
		log := new(logBuffer)
		c.log = log
		c.startAll()
		for g := range uint32(groups) {
			c.mustPropose(c.leader(g), g, "x")
		}
		time.Sleep(2 * time.Second)
		log.expect(t, "after the start")
		f(t, c, log)
	})
}

func TestStopOfOneNodeIsOneLineElsewhere(t *testing.T) {
	quietly(t, 6, func(t *testing.T, c *cluster, log *logBuffer) {
		l := c.leader(0)
		c.stop(l)
		log.expect(t, "when a node has stopped")
		time.Sleep(10 * time.Second)
		lines := log.take()
		for _, line := range lines {
			if !strings.Contains(line, "[INFO]") || !strings.Contains(line, "node has stopped") {
				t.Error(line)
			}
		}
		if len(lines) == 0 || len(lines) > 2 {
			t.Errorf("%d lines for a node that stopped", len(lines))
		}
		c.start(l)
		time.Sleep(5 * time.Second)
		for _, line := range log.take() {
			if !strings.Contains(line, "node answers again") {
				t.Error(line)
			}
		}
	})
}

func TestStopOfTheClusterIsQuiet(t *testing.T) {
	quietly(t, 9, func(t *testing.T, c *cluster, log *logBuffer) {
		start := time.Now()
		var wg sync.WaitGroup
		for i, n := range c.nodes {
			wg.Go(func() {
				if err := n.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			})
			c.nodes[i] = nil
		}
		wg.Wait()
		if d := time.Since(start); d > time.Second {
			t.Errorf("it took %v", d)
		}
		log.expect(t, "when all have stopped together")
	})
}

func TestStopOneAfterAnotherIsQuiet(t *testing.T) {
	quietly(t, 9, func(t *testing.T, c *cluster, log *logBuffer) {
		for i := range c.nodes {
			start := time.Now()
			c.stop(i)
			if d := time.Since(start); d > 500*time.Millisecond {
				t.Errorf("stop %d took %v", i, d)
			}
			time.Sleep(100 * time.Millisecond)
		}
		log.expect(t, "when all have stopped in turn")
	})
}

func TestDrainWithoutLivePeersEndsAtOnce(t *testing.T) {
	quietly(t, 3, func(t *testing.T, c *cluster, log *logBuffer) {
		l := c.leader(0)
		for i := range c.nodes {
			if i != l {
				c.crash(i)
			}
		}
		time.Sleep(3 * time.Second)
		log.expect(t, "when two nodes have crashed", "node cannot be reached", "node cannot be reached")
		start := time.Now()
		c.nodes[l].Drain(t.Context())
		c.nodes[l].Drain(t.Context())
		if d := time.Since(start); d > LAN().Heartbeat {
			t.Errorf("drain took %v", d)
		}
		c.stop(l)
		log.expect(t, "when the last has stopped")
	})
}

func TestLibraryLogLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logBuffer
		shared := &lines{}
		base := hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Info, DisableTime: true})
		a := newLibraryLog(newLimitedLog(base.With("group", 1), shared))
		b := newLibraryLog(newLimitedLog(base.With("group", 2), shared))
		closed := &net.OpError{Op: "read", Err: net.ErrClosed}
		a.Error("failed to decode incoming command", "error", closed)
		a.Error("failed to decode incoming command", "error", error(syscall.ECONNRESET))
		a.Error("failed to decode incoming command", "error", raft.ErrTransportShutdown)
		a.Error("failed to heartbeat to", "error", errors.New("refused"))
		a.Warn("heartbeat timeout reached, starting election")
		a.Info("election won")
		out.expect(t, "of what is ordinary")
		a.Error("failed to decode incoming command", "error", errors.New("unknown rpc type 71"))
		out.expect(t, "of foreign bytes", "[WARN]  failed to decode incoming command")
		for range 100 {
			a.Error("failed to commit logs", "error", errors.New("disk full"))
			b.Error("failed to commit logs", "error", errors.New("disk full"))
		}
		out.expect(t, "of a fault of all groups", "failed to commit logs: group=1")
		time.Sleep(time.Second)
		b.Error("failed to commit logs", "error", errors.New("disk full"))
		out.expect(t, "a second later", "left-out=199")
	})
}
