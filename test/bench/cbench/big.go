package main

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"time"
)

// watch sends heartbeats of a one-member group in a closed loop with a pause and keeps how long each answer took.
type watch struct {
	m    *Member
	took []int64
	errs map[string]int
}

func (w *watch) run(stop <-chan struct{}, pause time.Duration) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(pause):
		}
		t := time.Now()
		_, err := w.m.beat()
		w.took = append(w.took, int64(time.Since(t)))
		if err != nil {
			w.errs[err.Error()]++
		}
	}
}

// javaHash is String.hashCode of an ASCII string.
func javaHash(s string) (h int32) {
	for _, b := range []byte(s) {
		h = 31*h + int32(b)
	}
	return h
}

// cmdBig has one big group form while others of the same shard go on with their heartbeats.
func cmdBig(args []string) {
	f := flag.NewFlagSet("big", flag.ExitOnError)
	boot := f.String("bootstrap", "127.0.0.1:21000", "system under test")
	pid := f.String("pid", "", "server pids")
	admin := f.String("admin", "", "where to create topics, e.g. the Kafka behind coordd (default: the system itself)")
	M := f.Int("members", 5000, "members of the group")
	T := f.Int("tasks", 10000, "tasks of the group")
	W := f.Int("watched", 8, "other groups of the same shard, one member each")
	shards := f.Int("shards", 8, "shards, by which the other groups are named")
	pause := f.Duration("pause", 10*time.Millisecond, "between two heartbeats of another group")
	every := f.Duration("hb-interval", 0, "heartbeat interval of the big group's idle members (0: as the answers tell)")
	wait := f.Duration("timeout", 150*time.Second, "limit until the group is stable")
	rf := f.Int("rf", -1, "replication factor of the topics")
	_ = f.Parse(args) // exits on errors
	cl := newCluster(*boot)
	cl.admin = *admin
	pids := parsePids(*pid)
	topo, small := Topo{topic: fmt.Sprintf("big-src-%d", *T), tasks: *T}, Topo{topic: "big-src-4", tasks: 4}
	die(cl.createTopic(topo.topic, *T, int16(*rf)))
	die(cl.createTopic(small.topic, small.tasks, int16(*rf)))
	run := time.Now().UnixMilli() % 1e8
	big := newLiveGroup(cl, fmt.Sprintf("big-%d", run), topo, *M, *every)
	shard := func(id string) int { return int(uint32(javaHash(id))&0x7fffffff) % *shards }
	var others []*Group
	for i := 0; len(others) < *W; i++ {
		if id := fmt.Sprintf("small-%d-%d", run, i); shard(id) == shard(big.id) {
			others = append(others, newGroup(cl.clone(), id, small, 1))
		}
	}
	die(cl.findAll([]string{big.id}, 60*time.Second))
	var watches []*watch
	for _, g := range others {
		die(g.cl.findAll([]string{g.id}, 60*time.Second))
		die(g.form(30 * time.Second))
		watches = append(watches, &watch{m: g.members[0], errs: map[string]int{}})
	}
	die(big.connect(big.members))
	before := observe(watches, *pause, 2*time.Second)
	rss0, cpu0 := rssOf(pids), cpuOf(pids)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, w := range watches {
		wg.Go(func() { w.run(stop, *pause) })
	}
	start := time.Now()
	big.start(big.members, 0)
	took, err := big.awaitSettled(start, *wait)
	die(err)
	cpu, rss := (cpuOf(pids) - cpu0).Seconds(), rssOf(pids)
	time.Sleep(time.Second)
	close(stop)
	wg.Wait()
	during := latencies(watches)
	errs := map[string]int{}
	for _, w := range watches {
		for e, n := range w.errs {
			errs[e] += n
		}
	}
	fmt.Printf("%d members x %d tasks Stable after %.2f s: %d heartbeats, server CPU %.2f s, rss +%.2f KiB a member, errors %v; %d other groups of its shard: p50 %.2f p99 %.2f longest %.1f ms (before: p50 %.2f p99 %.2f longest %.1f ms), errors %v\n",
		*M, *T, took.Seconds(), big.beats.Load(), cpu, float64(rss-rss0)/float64(*M), big.errs, *W, pct(during, .5), pct(during, .99), pct(during, 1), pct(before, .5), pct(before, .99), pct(before, 1), errs)
	emit(map[string]any{"bench": "big", "members": *M, "tasks": *T, "s": took.Seconds(), "beats": big.beats.Load(), "cpu_s": cpu,
		"rss_kib_per_member": float64(rss-rss0) / float64(*M), "shard": shard(big.id), "errors": len(big.errs) + len(errs), "what": big.errs,
		"other_p50_ms": pct(during, .5), "other_p99_ms": pct(during, .99), "other_max_ms": pct(during, 1), "idle_max_ms": pct(before, 1)})
	big.leave(big.members)
	big.end()
	leaveAll(others)
}

// observe watches for a while and forgets.
func observe(watches []*watch, pause, d time.Duration) []int64 {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, w := range watches {
		wg.Go(func() { w.run(stop, pause) })
	}
	time.Sleep(d)
	close(stop)
	wg.Wait()
	all := latencies(watches)
	for _, w := range watches {
		w.took = nil
	}
	return all
}

func latencies(watches []*watch) (all []int64) {
	for _, w := range watches {
		all = append(all, w.took...)
	}
	slices.Sort(all)
	return all
}
