package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
	"github.com/coordd/coordd/web"
)

// commitRates: both stores beside Kafka, which also is what stands behind coordd.
func commitRates(ctx context.Context, b *bench) error {
	kafka, err := b.startKafka(ctx, "commits-kafka", 3)
	if err != nil {
		return err
	}
	defer kafka.stop()
	for _, store := range []string{"raft", "upstream"} {
		settings := withSettings(answeredAtOnce)
		settings["offsets.store"] = store
		coordd, err := b.startCoorddOver(ctx, "commits-"+store, 3, settings, kafka.bootstrap, func() {})
		if err != nil {
			return err
		}
		for _, c := range []struct {
			flight int
			rate   float64 // bar of the store raft: of Kafka's
		}{{1, 0.5}, {16, 0.8}, {64, 1}} {
			rs, err := b.cb(ctx, append([]string{"commits", "--conc", strconv.Itoa(c.flight), "--rounds", pick(b, "3", "1"),
				"--duration", pick(b, "5s", "2s"), "--warm", pick(b, "5s", "2s")}, versus(coordd, kafka)...)...)
			if err != nil {
				return err
			}
			x, y := bySide(rs, "commits", "")
			rate := bar{}
			if store == "raft" {
				rate = bar{ratioAtLeast, c.rate}
			}
			name := fmt.Sprintf("commits, store %s, %d in flight, three nodes", store, c.flight)
			b.table.add(name, "per s", median(x, "per_s"), median(y, "per_s"), rate)
			b.table.add(name+": p50", "ms", median(x, "p50_ms"), median(y, "p50_ms"), bar{})
			b.table.add(name+": p99", "ms", median(x, "p99_ms"), median(y, "p99_ms"), bar{})
			b.table.add(name+": server CPU", "s per million", median(x, "server_cpu_s_per_1M"), median(y, "server_cpu_s_per_1M"), bar{})
		}
		coordd.stop()
	}
	return nil
}

// manyOffsets: what a million offsets take in one node, and how long nobody is served when that node is killed and started
// again, and when leaderships move between three nodes that hold them.
func manyOffsets(ctx context.Context, b *bench) error {
	if b.null {
		return nil
	}
	groups := pick(b, 1000, 50)
	const each = 1000
	for _, nodes := range []int{1, 3} {
		settings := withSettings(answeredAtOnce)
		settings["offsets.store"] = "raft"
		s, err := b.startCoorddWith(ctx, fmt.Sprintf("offsets-%d", nodes), nodes, settings)
		if err != nil {
			return err
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		rs, err := b.cb(ctx, "offsets", "--bootstrap", s.bootstrap, "--admin", s.admin, "--pid", s.pidList(), "--groups", strconv.Itoa(groups),
			"--partitions", strconv.Itoa(each), "--heap-cmd", fmt.Sprintf("%s inuse %s", self, s.coordd.Nodes[0].Admin))
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%d offsets, %s: ", groups*each, count(nodes))
		if nodes == 1 {
			b.table.add(name+"memory an offset", "bytes in use", median(rs, "heap_bytes_per_offset"), math.NaN(), bar{})
			b.table.add(name+"memory an offset", "bytes of RSS", median(rs, "rss_bytes_per_offset"), math.NaN(), bar{})
		}
		b.table.add(name+"committed, 1,000 in a request", "per s", median(rs, "per_s"), math.NaN(), bar{})
		if nodes == 1 {
			err = b.restartWith(ctx, s, name)
		} else {
			err = b.movesWith(ctx, s, name)
		}
		s.stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// served asks for the offsets of a group of each shard, again and again, and finds the longest time without an answer.
type served struct {
	stop chan struct{}
	wg   sync.WaitGroup
	mu   sync.Mutex
	gap  time.Duration
	lost int // answers that lacked the offset
}

func watchServed(bootstrap string, groups []string) *served {
	w := &served{stop: make(chan struct{})}
	for _, g := range groups {
		w.wg.Go(func() { w.watch(bootstrap, g) })
	}
	return w
}

func (w *served) watch(bootstrap, group string) {
	last := time.Now()
	for {
		offset, err := committedOffset(bootstrap, group)
		now := time.Now()
		if err == nil {
			w.mu.Lock()
			w.gap = max(w.gap, now.Sub(last))
			if offset < 0 {
				w.lost++
			}
			w.mu.Unlock()
			last = now
		}
		select {
		case <-w.stop:
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// end waits until every group was answered once more, and returns the longest time without an answer.
func (w *served) end() (gap time.Duration, err error) {
	close(w.stop)
	w.wg.Wait()
	if w.lost > 0 {
		err = fmt.Errorf("%d answers lacked a committed offset", w.lost)
	}
	return w.gap, err
}

// committedOffset asks the group's coordinator for one of the offsets that cbench committed.
func committedOffset(bootstrap, group string) (int64, error) {
	_, addr, err := rig.FindCoordinator(bootstrap, group, time.Second)
	if err != nil {
		return 0, err
	}
	c, err := rig.Dial(addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.Partitions = "off-kept", []int32{0}
	g.Topics = append(g.Topics, t)
	req.Groups = append(req.Groups, g)
	resp, err := c.DoVersion(req, 8, time.Second)
	if err != nil {
		return 0, err
	}
	for _, g := range resp.(*kmsg.OffsetFetchResponse).Groups {
		if g.ErrorCode != 0 {
			return 0, rig.Code(g.ErrorCode)
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return 0, rig.Code(p.ErrorCode)
				}
				return p.Offset, nil
			}
		}
	}
	return 0, errors.New("no answer for the partition")
}

// oneOfEach is a group of each shard.
func oneOfEach(shards int) (groups []string) {
	found := make([]bool, shards)
	for i := 0; len(groups) < shards; i++ {
		g := fmt.Sprintf("off-%d", i)
		if s := rig.ShardOf(g, shards); !found[s] {
			found[s] = true
			groups = append(groups, g)
		}
	}
	return groups
}

const shippedShards = 8

// restartWith kills the node and starts it again.
func (b *bench) restartWith(ctx context.Context, s *side, name string) error {
	node := s.coordd.Nodes[0]
	for _, how := range []string{"killed with -9", "stopped"} {
		if how == "stopped" {
			if err := node.Stop(30 * time.Second); err != nil {
				return err
			}
		} else {
			node.Kill()
		}
		w := watchServed(s.bootstrap, oneOfEach(shippedShards))
		if err := node.Start(); err != nil {
			return err
		}
		if err := s.coordd.WaitReady(ctx, time.Minute); err != nil {
			return err
		}
		if err := answeredAll(s.bootstrap); err != nil {
			return err
		}
		gap, err := w.end()
		if err != nil {
			return err
		}
		b.table.add(name+how+", from its start until all shards serve", "s", gap.Seconds(), math.NaN(), bar{below, 1})
	}
	return nil
}

// answeredAll waits until a group of each shard is answered.
func answeredAll(bootstrap string) error {
	for _, g := range oneOfEach(shippedShards) {
		for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			_, err := committedOffset(bootstrap, g)
			if err == nil {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("%s is not served: %w", g, err)
			}
		}
	}
	return nil
}

// movesWith moves the leadership of each shard twice.
func (b *bench) movesWith(ctx context.Context, s *side, name string) error {
	w := watchServed(s.bootstrap, oneOfEach(shippedShards))
	admin := web.Client{Address: s.coordd.Nodes[0].Admin}
	for round := range 2 {
		for shard := range shippedShards {
			to := int32(s.coordd.Nodes[(shard+round)%len(s.coordd.Nodes)].ID)
			if _, err := admin.MoveLeader(ctx, web.MoveRequest{Shard: shard, To: to}); err != nil {
				return err
			}
		}
	}
	if err := answeredAll(s.bootstrap); err != nil {
		return err
	}
	gap, err := w.end()
	if err != nil {
		return err
	}
	b.table.add(name+"leadership moves, longest time without an answer", "s", gap.Seconds(), math.NaN(), bar{below, 1})
	w = watchServed(s.bootstrap, oneOfEach(shippedShards))
	victim := s.coordd.Nodes[1]
	victim.Kill()
	if err := answeredAll(s.bootstrap); err != nil {
		return err
	}
	if gap, err = w.end(); err != nil {
		return err
	}
	b.table.add(name+"a node is killed with -9, longest time without an answer", "s", gap.Seconds(), math.NaN(), bar{below, 1})
	return nil
}
