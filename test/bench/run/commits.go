package main

import (
	"context"
	"fmt"
	"strconv"
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
