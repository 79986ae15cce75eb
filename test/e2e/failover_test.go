//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/test/rig"
)

const (
	kills        = 5
	restartAfter = 10 * time.Second      // of the first node that is killed
	beatEvery    = 20 * time.Millisecond // of the probe
	answerWithin = 3 * time.Second       // a node may park a request this long while its shard has no leader
	silenceLimit = time.Second           // median of the time from a kill to the first heartbeat answered
	settleAfter  = 3 * time.Second       // for clients to meet all nodes again
	groupsBack   = 20 * time.Second      // for all nodes killed and started again
)

// TestFailover keeps an exactly-once application running while nodes are killed and stopped under it.
func TestFailover(t *testing.T) {
	for _, kind := range []string{"kfake", "kafka"} {
		t.Run(kind, func(t *testing.T) { newDisturbed(t, kind).run(t) })
	}
}

// disturbed is a cluster with an application and a probe whose groups belong to one shard.
type disturbed struct {
	cluster *rig.Cluster
	app     appCase
	apps    []*rig.App
	input   *feeder
	probe   *pulse

	before map[string]*rig.Group // by group
	marks  []int                 // of apps
}

func newDisturbed(t *testing.T, kind string) *disturbed {
	t.Helper()
	dir := place(t)
	d := &disturbed{app: appCase{"wordcount-eos", "wordcount", exactlyOnce}}
	d.cluster = startCluster(t, 3, startUpstream(t, kind, dir), dir)
	boot := d.cluster.Bootstrap()
	createTopics(t, boot, d.app.name, d.app.topology)
	d.input = feed(t, boot, d.app.name, d.app.topology, 100, -1)
	d.apps = startApps(t, boot, d.app, "", dir)
	waitSplit(t, d.apps, tasksOf(d.app.topology), time.Minute)
	d.probe = startPulse(t, boot, groupInShardOf(d.app.name), d.app.name+".in")
	d.waitStable(t)
	return d
}

// groupInShardOf makes up a group id that belongs to the shard of another group.
func groupInShardOf(group string) string {
	for i := 0; ; i++ {
		if id := fmt.Sprintf("probe-%d", i); rig.ShardOf(id, shards) == rig.ShardOf(group, shards) {
			return id
		}
	}
}

// waitStable takes the picture of the groups that must stay.
func (d *disturbed) waitStable(t *testing.T) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	for _, group := range []string{d.app.name, d.probe.group} {
		for {
			g, err := rig.DescribeGroup(d.cluster.Bootstrap(), group, 10*time.Second)
			if err == nil && g.State == "Stable" {
				if d.before == nil {
					d.before = map[string]*rig.Group{}
				}
				d.before[group] = g
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("group %s is not stable: %+v %v", group, g, err)
			}
			pause(ctx, 100*time.Millisecond)
		}
	}
	for _, a := range d.apps {
		d.marks = append(d.marks, a.Mark())
	}
}

func (d *disturbed) run(t *testing.T) {
	var gaps []time.Duration
	for round := range kills {
		victim := d.leader(t)
		gap := d.kill(t, victim)
		gaps = append(gaps, gap)
		t.Logf("node %d, which led the shard, killed: first heartbeat answered after %v", victim.ID, gap.Round(time.Millisecond))
		if round == 0 {
			pause(t.Context(), restartAfter)
		} else {
			pause(t.Context(), time.Second)
		}
		d.restart(t, victim)
		if round == 0 {
			d.stopAndRestart(t)
			d.drainAndMove(t)
		}
		d.unchanged(t)
	}
	slices.Sort(gaps)
	median := gaps[len(gaps)/2]
	t.Logf("FIGURE failover: kill to first heartbeat answered: min %v, median %v, max %v of %d", ms(gaps[0]), ms(median), ms(gaps[len(gaps)-1]), len(gaps))
	if median >= silenceLimit {
		t.Errorf("median of %v is not below %v", median, silenceLimit)
	}
	d.killAll(t)
	pause(t.Context(), settleAfter)
	d.unchanged(t)
	d.probe.stop(t)
	delete(d.before, d.probe.group) // it has left
	steps := d.input.stop(t)
	verify(t, d.cluster.Bootstrap(), d.app.name, d.app.topology, steps, time.Minute)
	d.unchanged(t)
	closeApps(t, d.apps)
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// leader is the node that leads the shard of the application's group, once a client and `coordd leaders` are told the
// same. Shortly after a start they need not be: a node may still take the group for a foreign one and name the port of an
// upstream broker (which serves the group too), and shards may be between two leaders.
func (d *disturbed) leader(t *testing.T) *rig.Node {
	t.Helper()
	ctx := within(t, 20*time.Second)
	for {
		n, err := d.agreedLeader(ctx)
		if err == nil {
			return n
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

func (d *disturbed) agreedLeader(ctx context.Context) (*rig.Node, error) {
	_, addr, err := rig.FindCoordinator(d.cluster.Bootstrap(), d.app.name, 0)
	if err != nil {
		return nil, err
	}
	n := d.cluster.ByClient(addr)
	if n == nil {
		return nil, fmt.Errorf("the coordinator of %s is at %s, which is no node of the cluster", d.app.name, addr)
	}
	leaders, err := d.cluster.Leaders(ctx, n)
	if err != nil {
		return nil, err
	}
	if got := leaders[rig.ShardOf(d.app.name, shards)]; got != n.ID {
		return nil, fmt.Errorf("coordd leaders names node %d for the shard of %s, FindCoordinator node %d: %v", got, d.app.name, n.ID, leaders)
	}
	return n, nil
}

// kill ends a node with SIGKILL and returns how long the probe then had no answer.
func (d *disturbed) kill(t *testing.T, n *rig.Node) time.Duration {
	t.Helper()
	d.probe.waitAnswer(t, time.Now(), 10*time.Second) // it is answered before, so what follows is the kill's doing
	begin := time.Now()
	n.Kill()
	return d.probe.waitAnswer(t, time.Now(), 30*time.Second).Sub(begin)
}

func (d *disturbed) restart(t *testing.T, n *rig.Node) {
	t.Helper()
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	if err := d.cluster.WaitReady(t.Context(), groupsBack); err != nil {
		t.Fatal(err)
	}
}

// stopAndRestart stops the leader of the shard as an operator does, with SIGTERM.
func (d *disturbed) stopAndRestart(t *testing.T) {
	t.Helper()
	n := d.leader(t)
	begin := time.Now()
	if err := n.Stop(20 * time.Second); err != nil {
		t.Error(err)
	}
	if err := n.Err(); err != nil {
		t.Errorf("node %d ended with %v after SIGTERM", n.ID, err)
	}
	t.Logf("node %d stopped with SIGTERM in %v; longest time between two answered heartbeats since: %v",
		n.ID, ms(time.Since(begin)), ms(d.probe.longestGap(t, begin)))
	d.restart(t, n)
}

// drainAndMove drains the leader of the shard, takes it back, and moves the shard to it, as an operator does.
func (d *disturbed) drainAndMove(t *testing.T) {
	t.Helper()
	n := d.leader(t)
	id, shard := fmt.Sprint(n.ID), fmt.Sprint(rig.ShardOf(d.app.name, shards))
	begin := time.Now()
	command := func(args ...string) {
		t.Helper()
		if out, err := d.cluster.CLI(t.Context(), d.cluster.Nodes[0], append([]string{"leaders"}, args...)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	command("drain", id)
	if now := d.leader(t); now.ID == n.ID {
		t.Errorf("node %d is drained and leads the shard", n.ID)
	}
	command("drain", id, "--undo")
	command("move", "--shard", shard, "--to", id)
	if now := d.leader(t); now.ID != n.ID {
		t.Errorf("node %d leads the shard, which was moved to node %d", now.ID, n.ID)
	}
	t.Logf("shard moved away from node %d and back: longest time between two answered heartbeats %v", n.ID, ms(d.probe.longestGap(t, begin)))
	d.unchanged(t)
}

// killAll ends all nodes at once and starts them again.
func (d *disturbed) killAll(t *testing.T) {
	t.Helper()
	var gone sync.WaitGroup
	for _, n := range d.cluster.Nodes {
		gone.Go(n.Kill)
	}
	gone.Wait()
	begin := time.Now()
	for _, n := range d.cluster.Nodes {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.cluster.WaitReady(t.Context(), groupsBack); err != nil {
		t.Fatal(err)
	}
	back := d.probe.waitAnswer(t, time.Now(), groupsBack)
	t.Logf("all nodes killed and started again: heartbeats answered %v after the start", ms(back.Sub(begin)))
	if out, err := d.cluster.CLI(t.Context(), d.cluster.Nodes[0], "groups", "describe", d.app.name, "-o", "json"); err != nil {
		t.Errorf("coordd groups describe: %v\n%s", err, out)
	}
}

// unchanged checks that groups, epochs, members and tasks are as before, that no thread left RUNNING, and that the probe
// was never refused.
func (d *disturbed) unchanged(t *testing.T) {
	t.Helper()
	for group, before := range d.before {
		now, err := rig.DescribeGroup(d.cluster.Bootstrap(), group, 20*time.Second)
		if err != nil {
			t.Errorf("describe %s: %v", group, err)
		} else if !reflect.DeepEqual(before, now) {
			t.Errorf("group %s changed:\nbefore %+v\nnow    %+v", group, *before, *now)
		}
	}
	for i, a := range d.apps {
		for _, e := range a.Events(d.marks[i]) {
			t.Errorf("%s: %+v", a.Name, e)
		}
		d.marks[i] = a.Mark()
		if s := a.State(); s.Client != "RUNNING" {
			t.Errorf("%s is %s", a.Name, s.Client)
		}
	}
	d.probe.check(t)
}

// pulse is a probe that heartbeats from its own goroutine.
type pulse struct {
	group string
	epoch int32

	mu      sync.Mutex
	answers []answer
	refused error
	changed chan struct{}
	cancel  context.CancelFunc
	done    chan struct{}
}

// answer is a heartbeat that was answered: when it was sent, when the answer came.
type answer struct{ sent, came time.Time }

func startPulse(t *testing.T, bootstrap, group, topic string) *pulse {
	t.Helper()
	p := rig.NewProbe(bootstrap, group, topic)
	if err := p.Settle(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &pulse{group: group, epoch: p.Epoch, changed: make(chan struct{}), cancel: cancel, done: make(chan struct{})}
	t.Cleanup(cancel)
	go l.run(ctx, p)
	return l
}

func (l *pulse) run(ctx context.Context, p *rig.Probe) {
	defer close(l.done)
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = p.Leave()
			return
		case <-tick.C:
		}
		sent := time.Now()
		err := p.Beat(answerWithin)
		l.note(sent, err, p.Epoch)
	}
}

func (l *pulse) note(sent time.Time, err error, epoch int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var code rig.Code
	switch {
	case errors.As(err, &code) && !code.Retriable():
		l.refused = errors.Join(l.refused, fmt.Errorf("heartbeat refused: %w", code))
	case err == nil && epoch != l.epoch:
		l.refused = errors.Join(l.refused, fmt.Errorf("epoch moved from %d to %d", l.epoch, epoch))
		l.epoch = epoch
	}
	if err != nil {
		return
	}
	l.answers = append(l.answers, answer{sent, time.Now()})
	close(l.changed)
	l.changed = make(chan struct{})
}

// waitAnswer waits for the answer to a heartbeat that was sent after a moment, and returns when it came.
func (l *pulse) waitAnswer(t *testing.T, after time.Time, limit time.Duration) time.Time {
	t.Helper()
	timeout := time.After(limit)
	for {
		l.mu.Lock()
		changed, answers, refused := l.changed, l.answers, l.refused
		l.mu.Unlock()
		for i := len(answers) - 1; i >= 0 && answers[i].sent.After(after); i-- {
			if i == 0 || !answers[i-1].sent.After(after) {
				return answers[i].came
			}
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("no heartbeat of %s answered within %v (%v)", l.group, limit, refused)
		}
	}
}

// longestGap is the longest time between two answers since a moment.
func (l *pulse) longestGap(t *testing.T, since time.Time) (longest time.Duration) {
	t.Helper()
	l.waitAnswer(t, time.Now(), 10*time.Second)
	l.mu.Lock()
	defer l.mu.Unlock()
	last := since
	for _, a := range l.answers {
		if a.came.After(since) {
			longest = max(longest, a.came.Sub(last))
			last = a.came
		}
	}
	return longest
}

// check fails the test when the probe was refused.
func (l *pulse) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused != nil {
		t.Errorf("probe %s: %v", l.group, l.refused)
	}
	l.refused = nil
}

func (l *pulse) stop(t *testing.T) {
	t.Helper()
	l.check(t)
	l.cancel()
	<-l.done
}

// pause waits, or less when the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
