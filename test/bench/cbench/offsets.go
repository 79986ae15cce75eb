package main

import (
	"flag"
	"fmt"
	"sync/atomic"
	"time"
)

// cmdOffsets fills a coordinator with committed offsets: groups of one member that commits offsets of a topic which it does
// not read, so that the assignments stay small beside the offsets. The groups stay.
func cmdOffsets(args []string) {
	f := flag.NewFlagSet("offsets", flag.ExitOnError)
	boot := f.String("bootstrap", "127.0.0.1:21000", "system under test")
	pid := f.String("pid", "", "server pids")
	admin := f.String("admin", "", "where to create topics, e.g. the Kafka behind coordd (default: the system itself)")
	G := f.Int("groups", 1000, "groups")
	P := f.Int("partitions", 1000, "offsets of each group")
	prefix := f.String("prefix", "off", "group ids are PREFIX-0, PREFIX-1, ...")
	metadata := f.String("metadata", "", "metadata of each offset")
	rf := f.Int("rf", -1, "replication factor of topics")
	heap := f.String("heap-cmd", "", "prints the live heap in bytes (run before and after)")
	_ = f.Parse(args) // exits on errors
	cl := newCluster(*boot)
	cl.admin = *admin
	pids := parsePids(*pid)
	topo := Topo{topic: "off-src", tasks: 1}
	const kept = "off-kept"
	die(cl.createTopic(topo.topic, 1, int16(*rf)))
	die(cl.createTopic(kept, *P, int16(*rf)))
	var gs []*Group
	for i := range *G {
		gs = append(gs, newGroup(cl, fmt.Sprintf("%s-%d", *prefix, i), topo, 1))
	}
	die(form(cl, gs, 8, 60*time.Second))
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Second):
			}
			keepAlive(gs, 15*time.Second)
		}
	}()
	h0, r0 := liveBytes(*heap), rssOf(pids)
	const batch = 1000
	per := (*P + batch - 1) / batch
	var offsets atomic.Int64
	lat, el, err := closedLoop(*G*per, 8, func(_, i int) error {
		g, from := gs[i/per], i%per*batch
		n := min(batch, *P-from)
		r, err := cl.doGroup(g.id, g.offsetCommit(kept, from, n, int64(1_000_000+i), *metadata), commitCode, 30*time.Second)
		if err == nil && commitCode(r) != 0 {
			err = fmt.Errorf("commit %s: error %d", g.id, commitCode(r))
		}
		offsets.Add(int64(n))
		return err
	})
	die(err)
	close(stop)
	keepAlive(gs, 0)
	h1, r1 := liveBytes(*heap), rssOf(pids)
	n := float64(offsets.Load())
	fmt.Printf("%d groups x %d offsets committed in %.1f s (%.0f offsets/s, commits of %d: p50 %.1f p99 %.1f ms); rss %d -> %d MiB", *G, *P, el.Seconds(), n/el.Seconds(), min(batch, *P), pct(lat, .5), pct(lat, .99), r0>>10, r1>>10)
	if *heap != "" {
		fmt.Printf(", live heap %.1f -> %.1f MiB (+%.1f bytes an offset)", h0/(1<<20), h1/(1<<20), (h1-h0)/n)
	}
	fmt.Println()
	emit(map[string]any{"bench": "offsets", "groups": *G, "offsets": n, "s": el.Seconds(), "per_s": n / el.Seconds(), "rss_bytes_per_offset": float64(r1-r0) * 1024 / n, "heap_bytes_per_offset": (h1 - h0) / n})
}
