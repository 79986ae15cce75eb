package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"
)

// pair starts both systems with as many nodes.
func (b *bench) pair(ctx context.Context, name string, nodes int) (coordd, kafka *side, stop func(), err error) {
	return b.pairWith(ctx, name, nodes, withSettings(answeredAtOnce))
}

func (b *bench) pairWith(ctx context.Context, name string, nodes int, settings map[string]any) (coordd, kafka *side, stop func(), err error) {
	kafka, err = b.startKafka(ctx, name+"-kafka", nodes)
	if err != nil {
		return nil, nil, nil, err
	}
	coordd, err = b.startCoorddWith(ctx, name+"-coordd", nodes, settings)
	if err != nil {
		kafka.stop()
		return nil, nil, nil, err
	}
	return coordd, kafka, func() { coordd.stop(); kafka.stop() }, nil
}

// versus are the flags of cbench that name both systems, coordd as A and Kafka as B.
func versus(coordd, kafka *side) []string {
	return []string{"--bootstrap", coordd.bootstrap, "--admin", coordd.admin, "--pid", coordd.pidList(), "--vs", kafka.bootstrap, "--vs-pid", kafka.pidList()}
}

// pick is v, or the short value of a quick run.
func pick[T any](b *bench, v, quick T) T {
	if b.quick {
		return quick
	}
	return v
}

func bySide(rs []result, name, what string) (coordd, kafka []result) {
	of := func(s string) []result {
		return where(rs, func(r result) bool {
			return r.str("bench") == name && r.str("side") == s && (what == "" || r.str("what") == what)
		})
	}
	return of("A"), of("B")
}

// heartbeats: the JVM is warmed by the unrecorded segment that cbench runs first.
func heartbeats(ctx context.Context, b *bench) error {
	shapes := []struct {
		conns, depth int
		cpu          float64 // bar: server CPU, of Kafka's
	}{{64, 1, 0.5}, {8, 16, 0.15}}
	for _, nodes := range b.nodes {
		coordd, kafka, stop, err := b.pair(ctx, fmt.Sprintf("heartbeats-%d", nodes), nodes)
		if err != nil {
			return err
		}
		for _, s := range shapes {
			rs, err := b.cb(ctx, append([]string{"heartbeats", "--groups", "100", "--members", "10",
				"--conns", strconv.Itoa(s.conns), "--depth", strconv.Itoa(s.depth),
				"--warm", pick(b, "10s", "3s"), "--duration", pick(b, "10s", "3s"), "--rounds", pick(b, "3", "1")}, versus(coordd, kafka)...)...)
			if err != nil {
				return err
			}
			x, y := bySide(rs, "heartbeats", "")
			name := fmt.Sprintf("heartbeats, %d × %d, %s", s.conns, s.depth, count(nodes))
			b.table.add(name+": server CPU", "s per million", median(x, "server_cpu_s_per_1M"), median(y, "server_cpu_s_per_1M"), bar{ratioAtMost, s.cpu})
			b.table.add(name+": p99", "ms", median(x, "p99_ms"), median(y, "p99_ms"), bar{ratioAtMost, 1})
			b.table.add(name+": rate", "per s", median(x, "per_s"), median(y, "per_s"), bar{})
		}
		stop()
	}
	return nil
}

func count(nodes int) string {
	if nodes == 1 {
		return "one node"
	}
	return "three nodes"
}

func joins(ctx context.Context, b *bench) error {
	coordd, kafka, stop, err := b.pair(ctx, "joins", 3)
	if err != nil {
		return err
	}
	defer stop()
	for _, c := range []struct {
		flight int
		rate   float64 // bar: of Kafka's
	}{{1, 2}, {16, 2.5}, {64, 3}} {
		rs, err := b.cb(ctx, append([]string{"joins", "--mode", "rate", "--n", pick(b, "2000", "300"), "--conc", strconv.Itoa(c.flight),
			"--rounds", pick(b, "3", "1"), "--warm", "1"}, versus(coordd, kafka)...)...)
		if err != nil {
			return err
		}
		for _, what := range []string{"joins", "acks", "leaves"} {
			x, y := bySide(rs, "joins", what)
			rate := bar{}
			if what == "joins" {
				rate = bar{ratioAtLeast, c.rate}
			}
			name := fmt.Sprintf("%s, %d in flight, three nodes", what, c.flight)
			b.table.add(name, "per s", median(x, "per_s"), median(y, "per_s"), rate)
			if what == "joins" {
				b.table.add(name+": server CPU", "s per million", median(x, "server_cpu_s_per_1M"), median(y, "server_cpu_s_per_1M"), bar{})
			}
		}
	}
	return nil
}

// failover measures the two one after the other: each alone, as a node that is away leaves its share of the cores to the
// rest.
func failover(ctx context.Context, b *bench) error {
	kafka, err := b.startKafka(ctx, "failover-kafka", 3)
	if err != nil {
		return err
	}
	y, err := b.failoverOf(ctx, kafka, pick(b, "2", "1"), "8s", "--prefer", "nonleader")
	kafka.stop()
	if err != nil {
		return err
	}
	coordd, err := b.startCoordd(ctx, "failover-coordd", 3)
	if err != nil {
		return err
	}
	x, err := b.failoverOf(ctx, coordd, pick(b, "5", "1"), "2s")
	coordd.stop()
	if err != nil {
		return err
	}
	b.table.add("failover: kill to first heartbeat, median", "s", medianOf(gaps(x)), medianOf(gaps(y)), bar{below, 1})
	b.table.add("failover: kill to first heartbeat, longest", "s", largest(x, "gap_max_s"), largest(y, "gap_max_s"), bar{})
	b.table.add("failover: kill to first commit, longest", "s", largest(x, "commit_gap_max_s"), largest(y, "commit_gap_max_s"), bar{})
	b.table.add("failover: longest silence of groups whose leader lives", "s", largest(x, "other_silence_max_s"), largest(y, "other_silence_max_s"), bar{atMost, 0.2})
	for _, f := range []struct{ field, what string }{{"fenced", "members fenced"}, {"unknown", "members unknown"}, {"epoch_bumps", "epoch bumps"},
		{"moved", "tasks moved"}, {"lost", "groups with lost commits"}, {"never", "groups never back"}} {
		b.table.add("failover: "+f.what, "count", sum(x, f.field), sum(y, f.field), bar{atMost, 0})
	}
	return nil
}

func (b *bench) failoverOf(ctx context.Context, s *side, rounds, settle string, more ...string) ([]result, error) {
	restart, stop, err := s.restarter(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	args := []string{"failover", "--bootstrap", s.bootstrap, "--nodes", s.nodeList(), "--restart-cmd", restart, "--repeat", rounds,
		"--after", "5s", "--settle", settle, "--rf", "-1"}
	if s.admin != "" {
		args = append(args, "--admin", s.admin, "--leader-cmd", "echo -1")
	}
	return b.cb(ctx, append(args, more...)...)
}

// gaps are those of all groups over all rounds.
func gaps(rs []result) (all []float64) {
	for _, r := range rs {
		l, _ := r["gaps_s"].([]any)
		for _, g := range l {
			if v, ok := g.(float64); ok {
				all = append(all, v)
			}
		}
	}
	return all
}

func memory(ctx context.Context, b *bench) error {
	perMember := func(s *side, nodes int) (float64, error) {
		time.Sleep(2 * time.Second) // let what the start used be given back
		args := []string{"memory", "--bootstrap", s.bootstrap, "--pid", s.pidList(), "--groups", pick(b, "500", "50"), "--members", "10", "--tasks", "20"}
		if s.admin != "" {
			args = append(args, "--admin", s.admin)
		}
		rs, err := b.cb(ctx, args...)
		return median(rs, "rss_kib_per_member") / float64(nodes), err
	}
	one, err := b.startKafka(ctx, "memory-kafka", 1)
	if err != nil {
		return err
	}
	kafka, err := perMember(one, 1)
	one.stop()
	if err != nil {
		return err
	}
	for _, nodes := range []int{1, 3} {
		s, err := b.startCoordd(ctx, fmt.Sprintf("memory-coordd-%d", nodes), nodes)
		if err != nil {
			return err
		}
		v, err := perMember(s, nodes)
		s.stop()
		if err != nil {
			return err
		}
		theirs := kafka
		if nodes > 1 {
			theirs = math.NaN()
		}
		b.table.add(fmt.Sprintf("memory per member and node, %s", count(nodes)), "KiB of RSS", v, theirs, bar{atMost, 8})
	}
	return nil
}
