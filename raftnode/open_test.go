package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.etcd.io/bbolt"
)

func open(t *testing.T, c Config) (*Node, error) {
	t.Helper()
	n, err := Open(c)
	if err == nil {
		t.Cleanup(func() { _ = n.Shutdown(context.Background()) })
	}
	return n, err
}

func TestDataFolderHasOneOwner(t *testing.T) {
	c := newCluster(t, 3, 2, Timing{})
	first := c.config(0)
	n, err := open(t, first)
	if err != nil {
		t.Fatal(err)
	}
	second := c.config(0)
	second.ListenAddress = ":7001"
	_, err = open(t, second)
	if !errors.Is(err, ErrDataDirInUse) || !strings.Contains(err.Error(), first.Dir) ||
		!strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) || !strings.Contains(err.Error(), "data.dir") {
		t.Errorf("second owner: %v", err)
	}
	if err := n.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := open(t, second); err != nil {
		t.Errorf("after the first has gone: %v", err)
	}
}

func TestDataFolderKeepsItsIdentity(t *testing.T) {
	c := newCluster(t, 3, 2, Timing{})
	good := c.config(0)
	n, err := open(t, good)
	if err != nil {
		t.Fatal(err)
	}
	_ = n.Shutdown(context.Background())
	for name, change := range map[string]func(*Config){
		"node.id": func(c *Config) { c.NodeID = 1 },
		"peers":   func(c *Config) { c.Peers = append(c.Peers, Peer{ID: 9, Address: "n9:7000"}) },
		"groups":  func(c *Config) { c.Groups = 3 },
	} {
		bad := c.config(0)
		change(&bad)
		if _, err := open(t, bad); !errors.Is(err, ErrDataDirMismatch) || !strings.Contains(err.Error(), name) ||
			!strings.Contains(err.Error(), bad.Dir) {
			t.Errorf("%s changed: %v", name, err)
		}
	}
	moved := c.config(0)
	moved.Peers[1].Address = "elsewhere:1"
	n, err = open(t, moved)
	if err != nil {
		t.Fatalf("an address changed: %v", err)
	}
	_ = n.Shutdown(context.Background())
	_ = os.WriteFile(filepath.Join(good.Dir, identityFile), []byte("{"), 0o600)
	if _, err := open(t, c.config(0)); !errors.Is(err, ErrDataDirMismatch) {
		t.Errorf("damaged identity: %v", err)
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no folder":     func(c *Config) { c.Dir = "" },
		"no groups":     func(c *Config) { c.Groups = 0 },
		"no fsm":        func(c *Config) { c.NewFSM = nil },
		"not a peer":    func(c *Config) { c.NodeID = 7 },
		"peer twice":    func(c *Config) { c.Peers = append(c.Peers, c.Peers[0]) },
		"no address":    func(c *Config) { c.Peers[2].Address = "" },
		"long lease":    func(c *Config) { c.Timing.Lease = time.Hour },
		"port is taken": func(c *Config) { c.Listen = func(string) (net.Listener, error) { return nil, io.EOF } },
	} {
		c := newCluster(t, 3, 1, Timing{}).config(0)
		change(&c)
		if n, err := Open(c); err == nil {
			t.Errorf("%s: accepted", name)
			_ = n.Shutdown(context.Background())
		}
	}
}

// TestCrashWhileFormingIsRepaired leaves what a crash leaves between the two writes that form a group.
func TestCrashWhileFormingIsRepaired(t *testing.T) {
	virtual(t, 1, 1, noBalance, func(t *testing.T, c *cluster) {
		dir := filepath.Join(c.config(0).Dir, "group-000")
		_ = os.MkdirAll(filepath.Join(dir, "snapshots", "2-17-1.tmp"), 0o700)
		s, err := openStore(filepath.Join(dir, stableFile), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.SetUint64([]byte("CurrentTerm"), 1)
		_ = s.close()
		c.startAll()
		c.mustPropose(c.leader(0), 0, "works")
		if _, err := os.Stat(filepath.Join(dir, "snapshots", "2-17-1.tmp")); !os.IsNotExist(err) {
			t.Error("a half-written snapshot was left")
		}
	})
}

func TestErrorsAreMapped(t *testing.T) {
	for err, want := range map[error]error{
		raft.ErrNotLeader:                    ErrNotLeader,
		raft.ErrLeadershipTransferInProgress: ErrNotLeader,
		raft.ErrEnqueueTimeout:               ErrNotLeader,
		raft.ErrLeadershipLost:               ErrUnknown,
		raft.ErrAbortedByRestore:             ErrUnknown,
		raft.ErrRaftShutdown:                 ErrUnknown,
		raft.ErrLeader:                       ErrUnknown,
		raft.ErrNotVoter:                     ErrUnknown,
		raft.ErrNothingNewToSnapshot:         ErrUnknown,
		raft.ErrUnsupportedProtocol:          ErrUnknown,
		raft.ErrCantBootstrap:                ErrUnknown,
		raft.ErrIncompatibleLogStore:         ErrUnknown,
		raft.ErrLogNotFound:                  ErrUnknown,
		raft.ErrTransportShutdown:            ErrUnknown,
		raft.ErrPipelineShutdown:             ErrUnknown,
		errors.New("no space left"):          ErrUnknown,
	} {
		got := proposalError(err)
		if !errors.Is(got, want) || errors.Is(got, ErrNotLeader) == errors.Is(got, ErrUnknown) || !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
		if l := leaderError(err); !errors.Is(l, ErrNotLeader) || !errors.Is(l, err) {
			t.Errorf("proof: %v became %v", err, l)
		}
	}
	if proposalError(nil) != nil || leaderError(nil) != nil {
		t.Error("success became an error")
	}
	for _, err := range []error{ErrBusy, ErrMoving, ErrStopped, ErrStaleTerm} {
		if !errors.Is(err, ErrNotLeader) || errors.Is(err, ErrUnknown) {
			t.Errorf("%v must say that nothing was started", err)
		}
	}
}

func TestOtherProtocolsShareThePort(t *testing.T) {
	virtual(t, 2, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		l := c.nodes[1].Listener('H')
		conn, err := c.nodes[0].DialPeer(t.Context(), 1, 'H')
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "ping")
		b := make([]byte, 4)
		if _, err := io.ReadFull(s, b); err != nil || string(b) != "ping" {
			t.Errorf("%q, %v", b, err)
		}
		for _, l := range []net.Listener{c.nodes[1].Listener('H'), c.nodes[1].Listener(kindRaft)} {
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("taken kind: %v", err)
			}
		}
		if _, err := c.nodes[0].DialPeer(t.Context(), 5, 'H'); err == nil {
			t.Error("dialled a node that does not exist")
		}
		_ = c.nodes[1].Shutdown(t.Context())
		if _, err := conn.Read(b); err == nil {
			t.Error("connection outlives the node")
		}
	})
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 1, noBalance)
		c.dir = dir
		cfg := c.config(0)
		cfg.Registerer = reg
		n, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		c.nodes[0] = n
		c.leader(0)
		err = testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP coordd_raft_leader Whether this node leads the group and serves it.
# TYPE coordd_raft_leader gauge
coordd_raft_leader{group="0"} 1
`), "coordd_raft_leader")
		if err != nil {
			t.Error(err)
		}
		_ = n.Shutdown(t.Context())
		c.nodes[0] = nil
		if fs, err := reg.Gather(); err != nil || len(fs) != 0 {
			t.Errorf("after shutdown: %d families, %v", len(fs), err)
		}
	})
}

// TestStableFileOpensEitherWay: a file written without its free list opens with a build that expects one, and back.
func TestStableFileOpensEitherWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), stableFile)
	value := uint64(0)
	for round := range 4 {
		s, err := openStore(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			value++
			if err := s.SetUint64(termKey, value); err != nil {
				t.Fatal(err)
			}
		}
		_ = s.close()
		o := boltOptions()
		o.NoFreelistSync = round%2 == 0
		db, err := bbolt.Open(path, 0o600, o)
		if err != nil {
			t.Fatal(err)
		}
		_ = db.View(func(tx *bbolt.Tx) error {
			for err := range tx.Check() {
				t.Error(err)
			}
			return nil
		})
		_ = db.Update(func(tx *bbolt.Tx) error { return nil })
		_ = db.Close()
	}
}

// TestLostPartsOfADataFolderAreToldOf takes away what a folder cannot do without; what is left must not pass for a
// younger node.
func TestLostPartsOfADataFolderAreToldOf(t *testing.T) {
	for _, part := range []string{logFolder, filepath.Join("group-000", stableFile)} {
		virtual(t, 1, 1, noBalance, func(t *testing.T, c *cluster) {
			c.startAll()
			c.mustPropose(c.leader(0), 0, "x")
			cfg := c.config(0)
			_ = c.nodes[0].Shutdown(t.Context())
			c.nodes[0] = nil
			if err := os.RemoveAll(filepath.Join(cfg.Dir, part)); err != nil {
				t.Fatal(err)
			}
			n, err := Open(c.config(0))
			if err == nil {
				_ = n.Shutdown(t.Context())
				t.Fatalf("%s lost: opened", part)
			}
			if !strings.Contains(err.Error(), cfg.Dir) || !strings.Contains(err.Error(), "restore this node") {
				t.Errorf("%s lost: %v", part, err)
			}
		})
	}
}
