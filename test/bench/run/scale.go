package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/coordd/coordd/test/rig"
)

// converge: time and server CPU until one group has come to rest, beside Kafka.
func converge(ctx context.Context, b *bench) error {
	coordd, kafka, stop, err := b.pair(ctx, "converge", 1)
	if err != nil {
		return err
	}
	defer stop()
	for _, c := range []struct {
		members, tasks int
		rounds         string
		join           float64 // bar: time of all joins, of Kafka's
	}{{500, 5000, "3", 0.5}, {100, 1000, "15", 1}} {
		rs, err := b.cb(ctx, append([]string{"joins", "--mode", "converge", "--sizes", fmt.Sprintf("%dx%d", c.members, c.tasks),
			"--hb-interval", "100ms", "--rounds", pick(b, c.rounds, "1"), "--warm", "1"}, versus(coordd, kafka)...)...)
		if err != nil {
			return err
		}
		x, y := bySide(rs, "converge", "")
		name := fmt.Sprintf("%d members × %d tasks", c.members, c.tasks)
		b.table.add(name+" join at once: time", "s", median(x, "join_s"), median(y, "join_s"), bar{ratioAtMost, c.join})
		b.table.add(name+" join at once: server CPU", "s", median(x, "join_cpu_s"), median(y, "join_cpu_s"), bar{ratioAtMost, 0.5})
		// Both are bound by the interval, within which every member must hear of it: the ratio scatters around 1.
		b.table.add(name+", 10% leave: time", "s", median(x, "leave_s"), median(y, "leave_s"), bar{ratioAtMost, 1})
		b.table.add(name+", 10% leave: server CPU", "s", median(x, "leave_cpu_s"), median(y, "leave_cpu_s"), bar{ratioAtMost, 0.5})
		b.table.add(name+": heartbeat errors of all kinds", "count", errorsOf(x), errorsOf(y), bar{atMost, 0})
	}
	return nil
}

// errorsOf counts what the fields join_errors and leave_errors hold.
func errorsOf(rs []result) (n float64) {
	for _, r := range rs {
		for _, field := range []string{"join_errors", "leave_errors"} {
			kinds, _ := r[field].(map[string]any)
			for _, count := range kinds {
				v, _ := count.(float64)
				n += v
			}
		}
	}
	return n
}

// held: rebalances of members at the shipped heartbeat interval, and what a held heartbeat takes.
func held(ctx context.Context, b *bench) error {
	coordd, kafka, stop, err := b.pairWith(ctx, "held", 1, groupSettings)
	if err != nil {
		return err
	}
	rs, err := b.cb(ctx, append([]string{"held", "--members", "100", "--tasks", "1000", "--rounds", pick(b, "2", "1"),
		"--warm", pick(b, "1", "0")}, versus(coordd, kafka)...)...)
	stop()
	if err != nil {
		return err
	}
	for _, c := range []struct {
		what, name string
		bar        float64
	}{{"join", "100 members join at once", 1}, {"one", "one joins the stable group", 0.3}, {"leave", "10 of 100 leave", 0.3}} {
		x, y := bySide(rs, "held", c.what)
		b.table.add("at the shipped interval, "+c.name, "s", median(x, "s"), median(y, "s"), bar{atMost, c.bar})
	}
	return heldMemory(ctx, b)
}

// heldMemory compares the memory of the same members with their heartbeats held and not.
func heldMemory(ctx context.Context, b *bench) error {
	if b.null {
		return nil
	}
	var perMember [2]float64
	for i, settings := range []map[string]any{groupSettings, withSettings(answeredAtOnce)} {
		s, err := b.startCoorddWith(ctx, fmt.Sprintf("held-memory-%d", i), 1, settings)
		if err != nil {
			return err
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		rs, err := b.cb(ctx, "held", "--bootstrap", s.bootstrap, "--admin", s.admin, "--pid", s.pidList(), "--groups", pick(b, "500", "50"),
			"--members", "10", "--tasks", "20", "--rest", "10s", "--heap-cmd", fmt.Sprintf("%s inuse %s", self, s.coordd.Nodes[0].Admin))
		s.stop()
		if err != nil {
			return err
		}
		perMember[i] = median(rs, "heap_kib_per_member")
	}
	b.table.add("memory of a held heartbeat (5,000 at once, one node)", "KiB in use", perMember[0]-perMember[1], math.NaN(), bar{atMost, 2})
	return nil
}

// stackBytes is what a goroutine's stack counts for. What stacks really take depends on how deep each once was, and
// scatters by more than what is measured here.
const stackBytes = 8 << 10

// inUse prints the bytes that a node has in use: its heap after collections that empty pools, and its goroutines.
func inUse(admin string) {
	number := func(page, prefix string) float64 {
		resp, err := http.Get("http://" + admin + "/debug/pprof/" + page)
		fail(err)
		defer func() { _ = resp.Body.Close() }()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			if rest, found := strings.CutPrefix(lines.Text(), prefix); found {
				v, err := strconv.ParseFloat(rest, 64)
				fail(err)
				return v
			}
		}
		fail(fmt.Errorf("no line %q at %s: %v", prefix, page, lines.Err()))
		return 0
	}
	heap := 0.0
	for range 3 {
		heap = number("heap?gc=1&debug=1", "# HeapAlloc = ")
	}
	fmt.Printf("%.0f\n", heap+stackBytes*number("goroutine?debug=1", "goroutine profile: total "))
}

// big: Kafka is not asked; it fails to write a target of that size.
func big(ctx context.Context, b *bench) error {
	if b.null {
		return nil
	}
	s, err := b.startCoorddWith(ctx, "big", 3, groupSettings)
	if err != nil {
		return err
	}
	defer s.stop()
	before, err := commits(s.coordd)
	if err != nil {
		return err
	}
	members := pick(b, 5000, 1000)
	rs, err := b.cb(ctx, "big", "--bootstrap", s.bootstrap, "--admin", s.admin, "--pid", s.pidList(),
		"--members", strconv.Itoa(members), "--tasks", strconv.Itoa(2*members))
	if err != nil {
		return err
	}
	after, err := commits(s.coordd)
	if err != nil {
		return err
	}
	shard := int(median(rs, "shard"))
	name := fmt.Sprintf("one group of %d members × %d tasks", members, 2*members)
	nan := math.NaN()
	b.table.add(name+": all join at once until Stable", "s", median(rs, "s"), nan, bar{})
	b.table.add(name+": server CPU, three nodes", "s", median(rs, "cpu_s"), nan, bar{})
	b.table.add(name+": entries of its shard", "count", float64(after[shard]-before[shard]), nan, bar{})
	b.table.add(name+": memory a member and node", "KiB of RSS", median(rs, "rss_kib_per_member")/3, nan, bar{})
	b.table.add(name+": longest answer to other groups of its shard", "ms", largest(rs, "other_max_ms"), nan, bar{atMost, 100})
	b.table.add(name+": p99 of other groups of its shard", "ms", largest(rs, "other_p99_ms"), nan, bar{})
	b.table.add(name+": kinds of errors", "count", sum(rs, "errors"), nan, bar{atMost, 0})
	return nil
}

// commits are the commit indexes by shard.
func commits(c *rig.Cluster) (map[int]uint64, error) {
	resp, err := http.Get("http://" + c.Nodes[0].Admin + "/v1/status")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var status struct {
		Shards []struct {
			Shard       int    `json:"shard"`
			CommitIndex uint64 `json:"commitIndex"`
		} `json:"shards"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		return nil, err
	}
	indexes := map[int]uint64{}
	for _, s := range status.Shards {
		indexes[s.Shard] = s.CommitIndex
	}
	return indexes, nil
}

// size: the same members and connections, in many groups and in one.
func size(ctx context.Context, b *bench) error {
	s, err := b.startCoordd(ctx, "size", 1)
	if err != nil {
		return err
	}
	defer s.stop()
	members := pick(b, 5000, 1000)
	var cpu []float64
	for _, groups := range []int{members / 10, 1} {
		args := []string{"heartbeats", "--bootstrap", s.bootstrap, "--pid", s.pidList(), "--groups", strconv.Itoa(groups),
			"--members", strconv.Itoa(members / groups), "--tasks", strconv.Itoa(2 * members / groups), "--conns", "64", "--depth", "1",
			"--warm", pick(b, "5s", "2s"), "--duration", pick(b, "10s", "3s"), "--rounds", pick(b, "3", "1"), "--form-timeout", "120s"}
		if s.admin != "" {
			args = append(args, "--admin", s.admin)
		}
		rs, err := b.cb(ctx, args...)
		if err != nil {
			return err
		}
		x, _ := bySide(rs, "heartbeats", "")
		cpu = append(cpu, median(x, "server_cpu_s_per_1M"))
		b.table.add(fmt.Sprintf("steady heartbeats, %d members in groups of %d: server CPU", members, members/groups), "s per million", cpu[len(cpu)-1], math.NaN(), bar{})
	}
	b.table.add(fmt.Sprintf("steady heartbeat in a group of %d against one of 10", members), "ratio of CPU", cpu[1]/cpu[0], math.NaN(), bar{below, 1.3})
	return nil
}
