package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

const (
	restartTopics     = 10
	restartPartitions = 100
	restartShards     = 8
	// restartMetadata is as long as what Kafka Streams commits with an offset.
	restartMetadata = 40
	// servesWithin is what a restart and a change of leaders may take, in milliseconds.
	servesWithin = 1000
)

// restart: a million offsets in coordd's log. What they take of a node's memory, and how long it is until offsets are told
// again after nodes were killed and started, and while leaderships move.
func restart(ctx context.Context, b *bench) error {
	if b.null {
		return nil
	}
	for _, nodes := range []int{1, 3} {
		if err := restartOf(ctx, b, nodes); err != nil {
			return fmt.Errorf("%d nodes: %w", nodes, err)
		}
	}
	return nil
}

func restartOf(ctx context.Context, b *bench, nodes int) error {
	groups := pick(b, 1000, 50)
	count := groups * restartTopics * restartPartitions
	s, err := b.startCoorddWith(ctx, fmt.Sprint("restart-", nodes), nodes, withSettings(map[string]any{"offsets.store": "raft"}))
	if err != nil {
		return err
	}
	defer s.stop()
	if err := wideTopics(ctx, s); err != nil {
		return err
	}
	before, err := heapOf(s)
	if err != nil {
		return err
	}
	if err := fillOffsets(s, groups); err != nil {
		return err
	}
	after, err := heapOf(s)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%d offsets in the log, %s: ", count, cluster(nodes))
	b.table.add(name+"memory an offset, 40 bytes of metadata", "bytes in use", (after-before)/float64(count), math.NaN(), bar{atMost, 120})
	rounds := pick(b, 5, 1)
	var all []float64
	for range rounds {
		ms, err := restartAll(ctx, s)
		if err != nil {
			return err
		}
		all = append(all, ms)
	}
	name += fmt.Sprintf("kill -9 and start, longest of %d: ", rounds)
	if nodes == 1 {
		b.table.add(name+"until every shard tells offsets", "ms", slices.Max(all), math.NaN(), bar{atMost, servesWithin})
		return nil
	}
	// No bar: the nodes share the cores, which each of them has for itself where it counts.
	b.table.add(name+"all nodes, until every shard tells offsets", "ms", slices.Max(all), math.NaN(), bar{})
	all = nil
	for range rounds {
		ms, err := restartLast(ctx, s)
		if err != nil {
			return err
		}
		all = append(all, ms)
	}
	b.table.add(name+"one node, until it has caught up and serves", "ms", slices.Max(all), math.NaN(), bar{atMost, servesWithin})
	name = fmt.Sprintf("%d offsets in the log, %s: ", count, cluster(nodes))
	if err := s.coordd.WaitSpread(ctx, spreadQuiet, time.Minute); err != nil {
		return err
	}
	moved, err := silence(s, func() error { return moveAll(s, rounds) })
	if err != nil {
		return err
	}
	b.table.add(name+"moves of leaderships: longest time without an answer", "ms", moved, math.NaN(), bar{atMost, servesWithin})
	killed, err := silence(s, func() error { return killOne(ctx, s) })
	if err != nil {
		return err
	}
	b.table.add(name+"kill -9 of one node: longest time without an answer", "ms", killed, math.NaN(), bar{atMost, servesWithin})
	return nil
}

func cluster(nodes int) string {
	if nodes == 1 {
		return "one node"
	}
	return fmt.Sprint(nodes, " nodes")
}

func restartTopic(n int) string { return fmt.Sprintf("restart-src-%02d", n) }

func restartGroup(n int) string { return fmt.Sprintf("restart-app-%04d", n) }

// wideTopics creates the topics upstream.
func wideTopics(ctx context.Context, s *side) error {
	up, err := rig.Dial(strings.Split(s.admin, ",")[0])
	if err != nil {
		return err
	}
	defer up.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 60_000
	for n := range restartTopics {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = restartTopic(n), restartPartitions, 1
		req.Topics = append(req.Topics, t)
	}
	resp, err := up.Do(req, time.Minute)
	if err != nil {
		return err
	}
	for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("topic %s: %w", t.Topic, err)
		}
	}
	return awaitTopics(ctx, s, restartTopics)
}

// heapOf is what the first node has in use.
func heapOf(s *side) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	out, err := exec.Command(self, "inuse", s.coordd.Nodes[0].Admin).Output()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

// fillOffsets makes the groups, each by a member that joins and leaves, and commits their offsets as an administrator does.
func fillOffsets(s *side, groups int) error {
	var wg sync.WaitGroup
	next := make(chan int)
	failed := make(chan error, 8)
	for range cap(failed) {
		wg.Go(func() {
			for n := range next {
				if err := fillGroup(s, restartGroup(n)); err != nil {
					failed <- err
					for range next { // so that nobody waits for this one
					}
				}
			}
		})
	}
	for n := range groups {
		next <- n
	}
	close(next)
	wg.Wait()
	close(failed)
	return <-failed
}

func fillGroup(s *side, group string) error {
	p := rig.NewProbe(s.bootstrap, group, restartTopic(0))
	if err := p.Settle(time.Minute); err != nil {
		return err
	}
	if err := p.Leave(); err != nil {
		return err
	}
	err := commitGroup(s, group)
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); err = commitGroup(s, group) {
		time.Sleep(50 * time.Millisecond) // leaderships move on a busy machine
	}
	return err
}

func commitGroup(s *side, group string) error {
	_, addr, err := rig.FindCoordinator(s.bootstrap, group, 10*time.Second)
	if err != nil {
		return err
	}
	c, err := rig.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	metadata := strings.Repeat("m", restartMetadata)
	for n := range restartTopics {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = restartTopic(n)
		for i := range int32(restartPartitions) {
			part := kmsg.NewOffsetCommitRequestTopicPartition()
			part.Partition, part.Offset, part.Metadata = i, restartOffset(n, i), &metadata
			t.Partitions = append(t.Partitions, part)
		}
		req.Topics = append(req.Topics, t)
	}
	resp, err := c.DoVersion(req, 9, 30*time.Second) // the last version that names topics instead of ids
	if err != nil {
		return err
	}
	for _, t := range resp.(*kmsg.OffsetCommitResponse).Topics {
		for _, part := range t.Partitions {
			if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
				return fmt.Errorf("commit of %s for %s-%d: %w", group, t.Topic, part.Partition, err)
			}
		}
	}
	return nil
}

func restartOffset(topic int, partition int32) int64 { return int64(topic)*1000 + int64(partition) }

// samples is one group of each shard.
func samples() []string {
	var groups []string
	seen := map[int]bool{}
	for n := 0; len(groups) < restartShards; n++ {
		if shard := rig.ShardOf(restartGroup(n), restartShards); !seen[shard] {
			seen[shard] = true
			groups = append(groups, restartGroup(n))
		}
	}
	return groups
}

// restartAll kills all nodes, starts them, and returns how long it takes until the offsets of every shard are told.
func restartAll(ctx context.Context, s *side) (ms float64, err error) {
	for _, n := range s.coordd.Nodes {
		n.Kill()
	}
	began := time.Now()
	for _, n := range s.coordd.Nodes {
		if err := n.Start(); err != nil {
			return 0, err
		}
	}
	for _, group := range samples() {
		for {
			if err = fetchOne(s, group); err == nil {
				break
			}
			if time.Since(began) > time.Minute || ctx.Err() != nil {
				return 0, fmt.Errorf("offsets of %s: %w", group, err)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	took := time.Since(began)
	return 1000 * took.Seconds(), s.coordd.WaitReady(ctx, time.Minute)
}

// restartLast kills the last node, starts it, and returns how long it takes until it is ready: it has what the others have.
func restartLast(ctx context.Context, s *side) (ms float64, err error) {
	n := s.coordd.Nodes[len(s.coordd.Nodes)-1]
	n.Kill()
	time.Sleep(3 * time.Second) // the others have taken over
	began := time.Now()
	if err := n.Start(); err != nil {
		return 0, err
	}
	for n.Ready() != nil {
		if time.Since(began) > time.Minute || ctx.Err() != nil {
			return 0, fmt.Errorf("the node is not ready: %w", n.Ready())
		}
		time.Sleep(2 * time.Millisecond)
	}
	return 1000 * time.Since(began).Seconds(), nil
}

// fetchOne asks for an offset as a client that knows nothing.
func fetchOne(s *side, group string) error {
	_, addr, err := rig.FindCoordinator(s.bootstrap, group, 0)
	if err != nil {
		return err
	}
	c, err := rig.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	return fetch(c, group)
}

func fetch(c *rig.Conn, group string) error {
	const topic, partition = restartTopics - 1, int32(restartPartitions - 1)
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.Partitions = restartTopic(topic), []int32{partition}
	g.Topics = append(g.Topics, t)
	req.Groups = append(req.Groups, g)
	resp, err := c.DoVersion(req, 9, 5*time.Second)
	if err != nil {
		return err
	}
	for _, g := range resp.(*kmsg.OffsetFetchResponse).Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return err
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if p.Offset != restartOffset(topic, partition) {
					return fmt.Errorf("offset %d, error %d", p.Offset, p.ErrorCode)
				}
				return nil
			}
		}
	}
	return errors.New("an answer without the partition")
}

// silence is the longest time in milliseconds for which the offsets of a shard were not told while f runs, asked all the time.
func silence(s *side, f func() error) (ms float64, err error) {
	done := make(chan struct{})
	var mu sync.Mutex
	var longest time.Duration
	var wg sync.WaitGroup
	for _, group := range samples() {
		wg.Go(func() {
			most := silenceOf(s, group, done)
			mu.Lock()
			longest = max(longest, most)
			mu.Unlock()
		})
	}
	time.Sleep(200 * time.Millisecond)
	err = f()
	time.Sleep(2 * time.Second)
	close(done)
	wg.Wait()
	return 1000 * longest.Seconds(), err
}

func silenceOf(s *side, group string, done <-chan struct{}) (longest time.Duration) {
	var c *rig.Conn
	defer func() { c.Close() }()
	for last := time.Now(); ; {
		select {
		case <-done:
			return longest
		case <-time.After(2 * time.Millisecond):
		}
		if c == nil {
			if _, addr, err := rig.FindCoordinator(s.bootstrap, group, 0); err == nil {
				c, _ = rig.Dial(addr)
			}
		}
		if c == nil {
			continue
		}
		if err := fetch(c, group); err != nil {
			c.Close()
			c = nil
			continue
		}
		now := time.Now()
		longest, last = max(longest, now.Sub(last)), now
	}
}

// moveAll moves the leadership of every shard some times.
func moveAll(s *side, rounds int) error {
	var admins []string
	for _, n := range s.coordd.Nodes {
		admins = append(admins, n.Admin)
	}
	m := rig.NewMover(admins, restartShards)
	for range rounds {
		if err := m.Move(samples()); err != nil {
			return err
		}
	}
	return nil
}

// killOne kills the node that leads the first shard, and starts it again when another one leads.
func killOne(ctx context.Context, s *side) error {
	_, addr, err := rig.FindCoordinator(s.bootstrap, samples()[0], 10*time.Second)
	if err != nil {
		return err
	}
	n := s.coordd.ByClient(addr)
	if n == nil {
		return fmt.Errorf("no node at %s", addr)
	}
	n.Kill()
	time.Sleep(3 * time.Second)
	if err := n.Start(); err != nil {
		return err
	}
	return s.coordd.WaitReady(ctx, time.Minute)
}
