package main

import (
	"flag"
	"fmt"
	"strings"
	"time"
)

// javaHash is String.hashCode of an ASCII string.
func javaHash(s string) (h int32) {
	for _, b := range []byte(s) {
		h = 31*h + int32(b)
	}
	return h
}

// cmdBig has one big group form while others of the same shard are asked about.
func cmdBig(args []string) {
	f := flag.NewFlagSet("big", flag.ExitOnError)
	boot := f.String("bootstrap", "127.0.0.1:21000", "system under test")
	pid := f.String("pid", "", "server pids")
	admin := f.String("admin", "", "where to create topics, e.g. the Kafka behind coordd (default: the system itself)")
	M := f.Int("members", 5000, "members of the group")
	T := f.Int("tasks", 10000, "tasks of the group")
	W := f.Int("watched", 8, "other groups of the same shard, one member each")
	shards := f.Int("shards", 8, "shards, by which the other groups are named")
	pause := f.Duration("pause", 10*time.Millisecond, "between two questions about another group")
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
	var others []string
	for i := 0; len(others) < *W; i++ {
		if id := fmt.Sprintf("small-%d-%d", run, i); shard(id) == shard(big.id) {
			others = append(others, id)
		}
	}
	die(cl.findAll([]string{big.id}, 60*time.Second))
	w, err := startWatcher("--bootstrap", *boot, "--groups", strings.Join(others, ","), "--topic", small.topic, "--pause", pause.String())
	die(err)
	die(big.connect(big.members))
	_, err = w.since()
	die(err)
	time.Sleep(2 * time.Second)
	before, err := w.since()
	die(err)
	rss0, cpu0 := rssOf(pids), cpuOf(pids)
	start := time.Now()
	big.start(big.members, 0)
	took, err := big.awaitSettled(start, *wait)
	die(err)
	cpu, rss := (cpuOf(pids) - cpu0).Seconds(), rssOf(pids)
	time.Sleep(time.Second)
	during, err := w.since()
	die(err)
	die(w.end())
	fmt.Printf("%d members x %d tasks Stable after %.2f s: %d heartbeats, server CPU %.2f s, rss +%.2f KiB a member, errors %v; %d other groups of its shard: p50 %.2f p99 %.2f longest %.1f ms (before: p50 %.2f p99 %.2f longest %.1f ms), errors %v\n",
		*M, *T, took.Seconds(), big.beats.Load(), cpu, float64(rss-rss0)/float64(*M), big.errs, *W, during.P50, during.P99, during.Max, before.P50, before.P99, before.Max, during.Errors)
	emit(map[string]any{"bench": "big", "members": *M, "tasks": *T, "s": took.Seconds(), "beats": big.beats.Load(), "cpu_s": cpu,
		"rss_kib_per_member": float64(rss-rss0) / float64(*M), "shard": shard(big.id), "errors": len(big.errs) + len(during.Errors), "what": big.errs,
		"other_p50_ms": during.P50, "other_p99_ms": during.P99, "other_max_ms": during.Max, "idle_max_ms": before.Max})
	big.leave(big.members)
	big.end()
}
