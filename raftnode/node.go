package raftnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/coordd/coordd/raftnode/seglog"
	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"
)

// Node is all groups of one node.
type Node struct {
	cfg     Config
	lock    *dirLock
	mux     *mux
	entries *seglog.Log // of all groups
	groups  []*Group
	metrics *metrics
	lines   *lines
	reach   map[int32]*reach // the other nodes; never changed

	draining  atomic.Bool
	evacuated atomic.Bool
	outdated  atomic.Pointer[error] // see tooOld
	handing   chan struct{}         // held by who hands the groups of a drained node over
	// snapshotting is held by the snapshot that a group's size brought about.
	snapshotting chan struct{}
	stopping     chan struct{} // closed when the groups are to stop
	supervised   chan struct{} // closed when the supervisor has ended
	lifetime     context.Context
	die          context.CancelFunc

	mu       sync.Mutex
	running  bool
	closed   bool
	shutdown sync.Once
	shutErr  error

	// barrier waits until the state machine holds everything before the call; replaced in tests.
	barrier func(*raft.Raft) error
}

// The parts of a data folder, besides snapshots and identity; doc.go shows it as a whole.
const (
	logFolder  = "log"
	stableFile = "raft.db"
)

// cacheAlone bounds the entries that each group of a node without peers keeps in memory, in bytes: there is nobody who
// reads back what was just written.
const cacheAlone = 64 << 10

// Open takes the data folder and the raft port and opens the stores; nothing runs until [Node.Start], so that
// [Group.OnChange] can be set in between. Errors: ErrDataDirInUse, ErrDataDirMismatch, and whatever the disk and the
// network say.
func Open(c Config) (*Node, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: c, stopping: make(chan struct{}), supervised: make(chan struct{}),
		handing: make(chan struct{}, 1), snapshotting: make(chan struct{}, 1),
		lines: &lines{}, reach: map[int32]*reach{},
		barrier: func(r *raft.Raft) error { return r.Barrier(0).Error() },
	}
	n.lifetime, n.die = context.WithCancel(context.Background())
	for _, p := range c.Peers {
		if p.ID != c.NodeID {
			n.reach[p.ID] = newReach(n, p.ID)
		}
	}
	if err := n.open(); err != nil {
		n.die()
		return nil, errors.Join(err, n.release())
	}
	return n, nil
}

func (n *Node) open() (err error) {
	if err = os.MkdirAll(n.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if n.lock, err = lockDir(n.cfg.Dir); err != nil {
		return err
	}
	if err = checkIdentity(&n.cfg); err != nil {
		return err
	}
	options := seglog.Options{
		Dir: filepath.Join(n.cfg.Dir, logFolder), Groups: n.cfg.Groups, Logger: n.cfg.Logger.Named("log"), FS: n.cfg.logFS,
	}
	if len(n.cfg.Peers) == 1 {
		options.CacheSize = cacheAlone
	}
	n.entries, err = seglog.Open(options)
	if err != nil {
		return err
	}
	n.metrics = newMetrics(n, n.cfg.Registerer)
	for id := range n.cfg.Groups {
		g, err := n.openGroup(uint32(id))
		if err != nil {
			return err
		}
		n.groups = append(n.groups, g)
	}
	ln, err := n.cfg.Listen(n.cfg.ListenAddress)
	if err != nil {
		return fmt.Errorf("raft port %s: %w", n.cfg.ListenAddress, err)
	}
	n.mux = newMux(ln, n.cfg.Dial, n.cfg.Timing.Handshake, n.cfg.Logger.Named("mux"), n.metrics.droppedConn)
	n.mux.notices = map[byte]func(node int32){kindLeaving: n.leaves, kindBack: n.isBack}
	return n.metrics.register()
}

func (n *Node) openGroup(id uint32) (*Group, error) {
	dir := filepath.Join(n.cfg.Dir, fmt.Sprintf("group-%03d", id))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	log := newLimitedLog(n.cfg.Logger.With("group", id), n.lines)
	g := &Group{id: id, node: n, log: log, told: -1, restart: make(chan string, 1), done: make(chan struct{}),
		transferring: make(chan struct{}, 1)}
	g.fsm = &fsmAdapter{fsm: n.cfg.NewFSM(id), log: log, captured: g.captured, tooOld: n.tooOld}
	var err error
	if g.snap, err = openSnapshots(dir, newLibraryLog(log)); err != nil {
		return nil, err
	}
	if g.disk, err = openStore(filepath.Join(dir, stableFile), n.entries.Group(id)); err != nil {
		return nil, err
	}
	g.disk.CoveredBy(g.snap.last.Load)
	g.disk.failed, g.disk.fatal, g.disk.storage = g.storeFailed, n.endProcess, n.Storage
	if err = g.disk.check(g.snap.last.Load()); err != nil {
		return nil, errors.Join(fmt.Errorf("group %d in %s: %w", id, n.cfg.Dir, err), g.disk.close())
	}
	if err = g.bootstrap(); err != nil {
		return nil, errors.Join(fmt.Errorf("form group %d: %w", id, err), g.disk.close())
	}
	return g, nil
}

// Start restores the state machines from disk and begins to take part in the groups.
func (n *Node) Start() error {
	n.mu.Lock()
	if n.running || n.closed {
		n.mu.Unlock()
		return errors.New("raft: the node was started before")
	}
	n.running = true
	n.mu.Unlock()
	var eg errgroup.Group
	eg.SetLimit(4)
	for _, g := range n.groups {
		eg.Go(func() error {
			in, err := g.newInstance()
			if err == nil {
				g.inst.Store(in)
			}
			return err
		})
	}
	err := eg.Wait()
	for _, g := range n.groups {
		if g.inst.Load() != nil {
			go g.run()
		} else {
			close(g.done)
		}
	}
	go n.supervise()
	go n.makeRoom(n.lifetime)
	n.mux.serve()
	return err
}

// ID is the node's id.
func (n *Node) ID() int32 { return n.cfg.NodeID }

// Group is a group by its number, nil when there is none.
func (n *Node) Group(id uint32) *Group {
	if int64(id) >= int64(len(n.groups)) {
		return nil
	}
	return n.groups[id]
}

// Groups are all groups, by number.
func (n *Node) Groups() []*Group { return n.groups }

// Addr is the address that the raft port is bound to.
func (n *Node) Addr() net.Addr { return n.mux.ln.Addr() }

// Listener gives the connections of another protocol on the raft port: those that a peer opened by [Node.DialPeer]
// with the same kind. Kind 'R' is raft's. A kind has one listener at a time; a second gets net.ErrClosed at once.
func (n *Node) Listener(kind byte) net.Listener {
	var l net.Listener
	err := errors.New("the kind is raft's own")
	if kind != kindRaft {
		l, err = n.mux.listen(route{kind: kind})
	}
	if err != nil {
		n.cfg.Logger.Error("raft port: protocol not available", "kind", string(rune(kind)), "error", err)
		return closedListener{n.mux.ln.Addr()}
	}
	return l
}

// DialPeer opens a connection to another node's raft port for another protocol.
func (n *Node) DialPeer(ctx context.Context, node int32, kind byte) (net.Conn, error) {
	addr, err := addresses(n.cfg.Peers).ServerAddr(serverID(node))
	if err != nil {
		return nil, err
	}
	return n.mux.open(ctx, string(addr), route{kind: kind})
}

// Ready says whether the node has caught up since it was started: every group has been led, here or elsewhere, and
// this node has applied what was committed when it learnt of that.
func (n *Node) Ready() bool {
	for _, g := range n.groups {
		if !g.CaughtUp() {
			return false
		}
	}
	return true
}

// Shutdown hands the leaderships over, within Timing.Drain or until ctx ends, and stops. Every proposal is answered
// when it returns. It may be called more than once, and on a node that was not started.
func (n *Node) Shutdown(ctx context.Context) error {
	n.shutdown.Do(func() {
		n.mu.Lock()
		running := n.running
		n.closed = true
		n.mu.Unlock()
		if running {
			n.Drain(ctx)
			close(n.stopping)
			n.die()
			for _, g := range n.groups {
				<-g.done
			}
			<-n.supervised
		} else {
			n.die()
		}
		n.shutErr = n.release()
	})
	return n.shutErr
}

// release gives up what open took. What an instance still uses because its disk hangs is given up when it has ended.
func (n *Node) release() error {
	var errs []error
	if n.mux != nil {
		errs = append(errs, n.mux.close())
	}
	if n.metrics != nil {
		n.metrics.unregister()
	}
	var hang []*Group
	for _, g := range n.groups {
		if g.ended != nil && !isClosed(g.ended) {
			hang = append(hang, g)
		}
	}
	if len(hang) == 0 {
		return errors.Join(append(errs, n.releaseFolder())...)
	}
	go func() {
		for _, g := range hang {
			<-g.ended
		}
		if err := n.releaseFolder(); err != nil {
			n.cfg.Logger.Warn("data folder", "error", err)
		}
	}()
	return errors.Join(errs...)
}

func (n *Node) releaseFolder() error {
	var errs []error
	for _, g := range n.groups {
		errs = append(errs, g.disk.close())
	}
	if n.entries != nil {
		errs = append(errs, n.entries.Close())
	}
	if n.lock != nil {
		errs = append(errs, n.lock.release())
	}
	return errors.Join(errs...)
}

type closedListener struct{ addr net.Addr }

func (closedListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (closedListener) Close() error              { return nil }
func (l closedListener) Addr() net.Addr          { return l.addr }
