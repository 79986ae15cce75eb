package raftnode

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/internal/vnet"
	"github.com/coordd/coordd/raftnode/seglog"
)

// recorder is a state machine that keeps every entry.
type recorder struct {
	mu      sync.Mutex
	entries []string
	restore int // restores from a snapshot
	refuse  string
	newer   string        // an entry of a newer release
	hold    chan struct{} // when set, Apply waits for it
}

var errRefused = errors.New("refused")

func (r *recorder) Apply(_ uint64, entry []byte) error {
	r.mu.Lock()
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		<-hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != "" && string(entry) == r.refuse {
		return errRefused
	}
	if r.newer != "" && string(entry) == r.newer {
		return fmt.Errorf("entry %q: %w", entry, ErrOutdated)
	}
	r.entries = append(r.entries, string(entry))
	return nil
}

func (r *recorder) Snapshot() (io.WriterTo, error) { return recorded(r.all()), nil }

func (r *recorder) Restore(_ uint64, rd io.Reader) error {
	b, err := io.ReadAll(rd)
	if err != nil {
		return err
	}
	var es []string
	for len(b) >= 4 {
		n := binary.BigEndian.Uint32(b)
		es = append(es, string(b[4:4+n]))
		b = b[4+n:]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = es
	r.restore++
	return nil
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.entries)
}

type recorded []string

func (s recorded) WriteTo(w io.Writer) (int64, error) {
	var n int64
	for _, e := range s {
		k, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(e))), e...))
		n += int64(k)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// cluster is three nodes (or another number) on a network in memory, with real files.
type cluster struct {
	t      testing.TB
	net    *vnet.Network
	dir    string
	groups int
	timing Timing
	nodes  []*Node
	fsms   [][]*recorder // by node, group
	mu     sync.Mutex
	seen   map[string][]Change // by node/group
	tune   func(*Node)         // before Start
	wrap   func(node int, c net.Conn) net.Conn
	disk   func(node int) seglog.FS // below the log; nil for the real one
	log    io.Writer                // takes what an operator would see; nil for nothing
}

func newCluster(t testing.TB, nodes, groups int, timing Timing) *cluster {
	c := &cluster{
		t: t, net: vnet.New(), dir: t.TempDir(), groups: groups, timing: timing,
		nodes: make([]*Node, nodes), fsms: make([][]*recorder, nodes), seen: map[string][]Change{},
	}
	c.net.SetLatency(200 * time.Microsecond)
	return c
}

func host(i int) string { return fmt.Sprintf("n%d", i) }

func (c *cluster) config(i int) Config {
	cfg := Config{
		NodeID: int32(i), Dir: filepath.Join(c.dir, host(i)), ListenAddress: ":7000",
		Groups: c.groups, Timing: c.timing,
		Listen: c.net.Host(host(i)).Listen, Dial: c.net.Host(host(i)).Dial,
	}
	if c.wrap != nil {
		cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := c.net.Host(host(i)).Dial(ctx, addr)
			if err != nil {
				return nil, err
			}
			return c.wrap(i, conn), nil
		}
	}
	if os.Getenv("RAFT_LOG") != "" {
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: host(i), Level: hclog.Debug})
	}
	if c.disk != nil {
		cfg.logFS = c.disk(i)
	}
	if c.log != nil {
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: host(i), Level: hclog.Info, Output: c.log})
	}
	for k := range c.nodes {
		cfg.Peers = append(cfg.Peers, Peer{ID: int32(k), Address: host(k) + ":7000"})
	}
	c.fsms[i] = make([]*recorder, c.groups)
	cfg.NewFSM = func(g uint32) FSM {
		c.fsms[i][g] = &recorder{}
		return c.fsms[i][g]
	}
	return cfg
}

func (c *cluster) start(is ...int) {
	c.t.Helper()
	for _, i := range is {
		n, err := Open(c.config(i))
		if err != nil {
			c.t.Fatal(err)
		}
		for _, g := range n.Groups() {
			key := fmt.Sprintf("%d/%d", i, g.ID())
			g.OnChange(func(ch Change) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.seen[key] = append(c.seen[key], ch)
			})
		}
		if c.tune != nil {
			c.tune(n)
		}
		if err := n.Start(); err != nil {
			c.t.Fatal(err)
		}
		c.nodes[i] = n
	}
}

func (c *cluster) startAll() {
	for i := range c.nodes {
		c.start(i)
	}
}

// stop stops a node as SIGTERM does.
func (c *cluster) stop(i int) {
	c.t.Helper()
	if err := c.nodes[i].Shutdown(context.Background()); err != nil {
		c.t.Error(err)
	}
	c.nodes[i] = nil
}

// crash takes a node off the network at once, and then stops what is left of it.
func (c *cluster) crash(i int) {
	c.t.Helper()
	c.net.Host(host(i)).Close()
	c.net.Isolate(host(i))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.nodes[i].Shutdown(ctx); err != nil {
		c.t.Error(err)
	}
	c.nodes[i] = nil
	c.net.Rejoin(host(i))
}

func (c *cluster) stopAll() {
	for i, n := range c.nodes {
		if n != nil {
			ctx, cancel := context.WithCancel(context.Background())
			cancel() // nobody needs the leaderships any more
			if err := n.Shutdown(ctx); err != nil {
				c.t.Error(err)
			}
			c.nodes[i] = nil
		}
	}
}

// leader waits until one running node serves the group, not counting those in except.
func (c *cluster) leader(group uint32, except ...int) int {
	c.t.Helper()
	for range 3000 {
		for i, n := range c.nodes {
			if n != nil && !slices.Contains(except, i) && n.Group(group).Status().Serving {
				return i
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("group %d has no leader", group)
	return -1
}

// propose proposes and waits.
func (c *cluster) propose(node int, group uint32, entry string) error {
	done := make(chan error, 2)
	c.nodes[node].Group(group).Propose([]byte(entry), func(err error) { done <- err })
	return <-done
}

func (c *cluster) mustPropose(node int, group uint32, entry string) {
	c.t.Helper()
	if err := c.propose(node, group, entry); err != nil {
		c.t.Fatalf("propose %q: %v", entry, err)
	}
}

// agree waits until all running nodes hold the same entries of the group.
func (c *cluster) agree(group uint32) []string {
	c.t.Helper()
	var all []string
	c.eventually("replicas agree", func() bool {
		var states [][]string
		for i, n := range c.nodes {
			if n != nil {
				states = append(states, c.fsms[i][group].all())
			}
		}
		all = states[0]
		for _, s := range states[1:] {
			if !slices.Equal(s, all) {
				return false
			}
		}
		return true
	})
	return all
}

func (c *cluster) eventually(what string, f func() bool) {
	c.t.Helper()
	for range 3000 {
		if f() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("never: %s", what)
}

func (c *cluster) changes(node int, group uint32) []Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen[fmt.Sprintf("%d/%d", node, group)])
}

// virtual runs a test on a cluster in virtual time.
func virtual(t *testing.T, nodes, groups int, timing Timing, f func(t *testing.T, c *cluster)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nodes, groups, timing)
		c.dir = dir
		defer synctest.Wait()
		defer c.stopAll()
		f(t, c)
	})
}

var _ net.Listener = closedListener{}
