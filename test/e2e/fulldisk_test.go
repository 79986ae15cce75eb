//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

const (
	diskSize     = "64m"
	diskParts    = 4 // partitions of the topic that is committed
	committers   = 4 // groups that commit, of as many shards
	fullWithin   = 90 * time.Second
	goesOnWithin = 15 * time.Second
	backWithin   = 30 * time.Second
)

// TestFullDisk fills the disk of one node's data folder, and then of two, while members commit and groups are made. What was
// acknowledged is there in the end; the cluster goes on while a majority has room, and by itself when there is room again.
func TestFullDisk(t *testing.T) {
	for _, store := range []string{"upstream", "raft"} {
		t.Run(store, func(t *testing.T) {
			d := newFullDisk(t, store)
			d.one(t)
			d.two(t)
			d.broken(t)
			d.verify(t)
		})
	}
}

type fullDisk struct {
	store   string
	cluster *rig.Cluster
	topic   string
	cancel  context.CancelFunc
	work    sync.WaitGroup

	mu      sync.Mutex
	tried   map[string]int64 // by group that commits: the last offset sent
	acked   map[string]int64 // and the last acknowledged
	made    map[string]int32 // groups that were made: the epoch that was acknowledged
	refused error
}

func newFullDisk(t *testing.T, store string) *fullDisk {
	t.Helper()
	dir := place(t)
	for i := range 3 {
		mountDisk(t, filepath.Join(dir, fmt.Sprintf("node-%d", i+1), "data"))
	}
	d := &fullDisk{store: store, topic: "disk.in", tried: map[string]int64{}, acked: map[string]int64{}, made: map[string]int32{}}
	d.cluster = startClusterWith(t, 3, startUpstream(t, "kfake", dir), dir, map[string]any{"offsets.store": store})
	createSized(t, d.cluster.Bootstrap(), diskParts, d.topic)
	ctx, cancel := context.WithCancel(t.Context())
	d.cancel = cancel
	t.Cleanup(func() { cancel(); d.work.Wait() })
	for n, shard := 0, 0; shard < committers; n++ {
		if group := fmt.Sprintf("disk-%d", n); rig.ShardOf(group, shards) == shard {
			shard++
			d.work.Go(func() { d.commit(ctx, group) })
		}
	}
	d.work.Go(func() { d.make(ctx) })
	d.goesOn(t, "at the beginning")
	return d
}

// mountDisk mounts a small file system, which only root can.
func mountDisk(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+diskSize); err != nil {
		t.Skipf("a file system of limited size cannot be mounted (root can): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func ballast(n *rig.Node) string { return filepath.Join(n.Dir, "ballast") }

// fill takes all room of a node's disk.
func fill(t *testing.T, n *rig.Node) {
	t.Helper()
	f, err := os.Create(ballast(n))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, size := range []int{1 << 20, 4 << 10, 1} {
		for b := make([]byte, size); err == nil; {
			_, err = f.Write(b)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		err = nil
	}
}

// makeRoom gives the room back.
func makeRoom(t *testing.T, n *rig.Node) {
	t.Helper()
	if err := os.Remove(ballast(n)); err != nil {
		t.Fatal(err)
	}
}

// commit commits for one group, offset by offset, as a member of it.
func (d *fullDisk) commit(ctx context.Context, group string) {
	p := rig.NewProbe(d.cluster.Bootstrap(), group, d.topic)
	for n := int64(1); ctx.Err() == nil; pause(ctx, 10*time.Millisecond) {
		if err := p.Beat(answerWithin); err != nil || !p.Settled() || len(p.Active()) == 0 {
			d.note(group, "heartbeat", err)
			continue
		}
		offsets := map[int32]int64{}
		for part := range int32(diskParts) {
			offsets[part] = n
		}
		d.mu.Lock()
		d.tried[group] = n
		d.mu.Unlock()
		err := p.Commit(d.topic, offsets)
		if err != nil {
			d.note(group, "commit", err)
			continue
		}
		d.mu.Lock()
		d.acked[group] = n
		d.mu.Unlock()
		n++
	}
}

// note keeps a refusal, which no member may get here.
func (d *fullDisk) note(group, what string, err error) {
	var code rig.Code
	if errors.As(err, &code) && !code.Retriable() && code != 27 { // REBALANCE_IN_PROGRESS: the commit is sent again too
		d.mu.Lock()
		d.refused = errors.Join(d.refused, fmt.Errorf("%s of %s: %w", what, group, err))
		d.mu.Unlock()
	}
}

// make makes groups with large topologies, one after another, so that the log grows by megabytes in a few seconds.
func (d *fullDisk) make(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		group := fmt.Sprintf("large-%d", i)
		p := rig.NewProbe(d.cluster.Bootstrap(), group, d.topic)
		p.Joining = func(r *kmsg.StreamsGroupHeartbeatRequest) {
			for s := range 500 {
				sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
				sub.SubtopologyID, sub.SourceTopics = fmt.Sprintf("%d-%s", s+1, strings.Repeat("x", 90)), []string{d.topic}
				r.Topology.Subtopologies = append(r.Topology.Subtopologies, sub)
			}
		}
		for ctx.Err() == nil && p.Epoch == 0 {
			if err := p.Beat(answerWithin); err != nil {
				d.note(group, "join", err)
				pause(ctx, 50*time.Millisecond)
			}
		}
		if p.Epoch > 0 {
			d.mu.Lock()
			d.made[group] = p.Epoch
			d.mu.Unlock()
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// progress is what was acknowledged so far: the sum of offsets of each group, and the number of groups made.
func (d *fullDisk) progress() (offsets map[string]int64, groups int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.acked), len(d.made)
}

// goesOn waits until every group has committed again and another group was made.
func (d *fullDisk) goesOn(t *testing.T, when string) {
	t.Helper()
	offsets, groups := d.progress()
	begin := time.Now()
	for ; time.Since(begin) < goesOnWithin; pause(t.Context(), 20*time.Millisecond) {
		now, made := d.progress()
		further := made > groups && len(now) == committers
		for g, n := range now {
			further = further && n > offsets[g]
		}
		if further {
			t.Logf("%s: commits of all groups and a new group after %v", when, ms(time.Since(begin)))
			return
		}
	}
	now, made := d.progress()
	t.Fatalf("%s: nothing goes on for %v: offsets %v, then %v; groups made %d, then %d", when, goesOnWithin, offsets, now, groups, made)
}

// awaitFull waits until a node says that it has no room.
func (d *fullDisk) awaitFull(t *testing.T, n *rig.Node) {
	t.Helper()
	begin := time.Now()
	for {
		err := n.Ready()
		if err != nil && strings.Contains(err.Error(), "no room for another log segment") && strings.Contains(err.Error(), n.Dir) {
			break
		}
		if !n.Alive() || time.Since(begin) > fullWithin {
			t.Fatalf("node %d, whose disk is full, says %v after %v (alive: %v)", n.ID, err, time.Since(begin), n.Alive())
		}
		pause(t.Context(), 50*time.Millisecond)
	}
	b, _ := os.ReadFile(n.Log)
	for _, line := range []string{"no room for the next log segment", "the log is full and there is no room for another segment"} {
		if !strings.Contains(string(b), line) {
			t.Errorf("the log of node %d lacks %q", n.ID, line)
		}
	}
	_, made := d.progress()
	t.Logf("node %d is full after %v and %d groups", n.ID, ms(time.Since(begin)), made)
}

// awaitBack waits until a node is ready, and starts its process again where it has ended, as a supervisor would.
func (d *fullDisk) awaitBack(t *testing.T, n *rig.Node) {
	t.Helper()
	begin := time.Now()
	starts := 0
	for n.Ready() != nil {
		if time.Since(begin) > backWithin {
			t.Fatalf("node %d is not back %v after there was room: %v\n%s", n.ID, backWithin, n.Ready(), n.Tail(20))
		}
		if !n.Alive() {
			starts++
			if err := n.Start(); err != nil {
				t.Fatal(err)
			}
		}
		pause(t.Context(), 200*time.Millisecond)
	}
	t.Logf("node %d is back %v after there was room, with %d starts", n.ID, ms(time.Since(begin)), starts)
}

// one fills the disk of one node, which leads shards.
func (d *fullDisk) one(t *testing.T) {
	full, other := d.cluster.Nodes[0], d.cluster.Nodes[1]
	fill(t, full)
	d.awaitFull(t, full)
	d.goesOn(t, "with one full disk")
	makeRoom(t, full)
	d.awaitBack(t, full)
	other.Kill()
	d.goesOn(t, "on the node that has room again and one other")
	d.awaitBack(t, other)
}

// two fills the disks of two nodes: nothing is acknowledged until one of them has room. One is killed while its disk is full.
func (d *fullDisk) two(t *testing.T) {
	a, b := d.cluster.Nodes[1], d.cluster.Nodes[2]
	fill(t, a)
	fill(t, b)
	d.awaitFull(t, a)
	d.awaitFull(t, b)
	pause(t.Context(), answerWithin) // for answers on their way
	offsets, groups := d.progress()
	pause(t.Context(), 5*time.Second)
	// Commits to the Kafka behind need no room: a leader goes on with them, since followers whose logs are full confirm it.
	if now, made := d.progress(); d.store == "raft" && !maps.Equal(now, offsets) || made != groups {
		t.Errorf("acknowledged without a majority: offsets %v, then %v; groups %d, then %d", offsets, now, groups, made)
	}
	makeRoom(t, a)
	d.awaitBack(t, a)
	d.goesOn(t, "with room on a majority")
	b.Kill()
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	d.goesOn(t, "with a node that starts on a full disk")
	makeRoom(t, b)
	d.awaitBack(t, b)
	d.goesOn(t, "with room everywhere")
}

// broken has a write of the log fail, on a disk that lacks the blocks which the log had reserved: the process ends, says
// why, and one that is started anew goes on when the disk is well again.
func (d *fullDisk) broken(t *testing.T) {
	n := d.cluster.Nodes[0]
	if err := n.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(n.Dir, "log", "*.seg"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("log segments of node %d: %v, %v", n.ID, segments, err)
	}
	for _, s := range segments {
		loseBlocks(t, s)
	}
	fill(t, n)
	if err := n.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-n.Done():
	case <-time.After(fullWithin):
		t.Fatalf("node %d goes on with a log that cannot be written\n%s", n.ID, n.Tail(20))
	}
	const line = "the disk of data.dir failed; this process ends"
	if b, _ := os.ReadFile(n.Log); !strings.Contains(string(b), line) || n.Err() == nil {
		t.Errorf("node %d ended with %v and without %q in its log", n.ID, n.Err(), line)
	}
	d.goesOn(t, "with a node that ended over its disk")
	makeRoom(t, n)
	d.awaitBack(t, n)
	d.goesOn(t, "with the node back")
}

// loseBlocks makes a hole of what was not written of a file yet, which reads as before but has no blocks.
func loseBlocks(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	end := (len(bytes.TrimRight(b, "\x00")) + page - 1) / page * page
	if end >= len(b) {
		return
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	const punchHole, keepSize = 2, 1
	if err := syscall.Fallocate(int(f.Fd()), punchHole|keepSize, int64(end), int64(len(b)-end)); err != nil {
		t.Fatal(err)
	}
}

// verify compares what was acknowledged with what there is.
func (d *fullDisk) verify(t *testing.T) {
	d.cancel()
	d.work.Wait()
	if d.refused != nil {
		t.Errorf("members were refused: %v", d.refused)
	}
	for group, least := range d.acked {
		got := fetchOffsets(t, d.cluster.Bootstrap(), group, d.topic, diskParts)
		if out, err := d.cluster.CLI(t.Context(), d.cluster.Nodes[0], "groups", "offsets", group, "-o", "json"); err != nil || !strings.Contains(out, fmt.Sprintf(`"store": %q`, d.store)) {
			t.Errorf("group %s is to have its offsets in store %s: %v\n%s", group, d.store, err, out)
		}
		for part, n := range got {
			if n < least || n > d.tried[group] {
				t.Errorf("%s-%d of %s is at %d; %d was acknowledged and %d the last that was sent", d.topic, part, group, n, least, d.tried[group])
			}
		}
	}
	for group, epoch := range d.made {
		g, err := rig.DescribeGroup(d.cluster.Bootstrap(), group, 20*time.Second)
		if err != nil || g.Epoch < epoch {
			t.Errorf("group %s, which was told epoch %d: %+v, %v", group, epoch, g, err)
		}
	}
	t.Logf("%d groups made, offsets acknowledged: %v", len(d.made), slices.Sorted(maps.Values(d.acked)))
}

// fetchOffsets are the committed offsets of a topic's first partitions, as the group's coordinator tells them.
func fetchOffsets(t *testing.T, bootstrap, group, topic string, parts int32) map[int32]int64 {
	t.Helper()
	ctx := within(t, 20*time.Second)
	for {
		offsets, err := fetchOnce(bootstrap, group, topic, parts)
		if err == nil {
			return offsets
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

func fetchOnce(bootstrap, group, topic string, parts int32) (map[int32]int64, error) {
	_, addr, err := rig.FindCoordinator(bootstrap, group, 0)
	if err != nil {
		return nil, err
	}
	c, err := rig.Dial(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	req := kmsg.NewPtrOffsetFetchRequest()
	g, of := kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroupTopic()
	g.Group, of.Topic = group, topic
	for part := range parts {
		of.Partitions = append(of.Partitions, part)
	}
	g.Topics = append(g.Topics, of)
	req.Groups = append(req.Groups, g)
	resp, err := c.DoVersion(req, 9, 10*time.Second)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, g := range resp.(*kmsg.OffsetFetchResponse).Groups {
		err = errors.Join(err, codeError(g.ErrorCode))
		for _, of := range g.Topics {
			for _, part := range of.Partitions {
				err = errors.Join(err, codeError(part.ErrorCode))
				offsets[part.Partition] = part.Offset
			}
		}
	}
	if err == nil && len(offsets) != int(parts) {
		err = fmt.Errorf("offsets of %s in the answer: %v", group, offsets)
	}
	return offsets, err
}

func codeError(code int16) error {
	if code == 0 {
		return nil
	}
	return rig.Code(code)
}
