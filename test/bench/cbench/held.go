package main

import (
	"flag"
	"fmt"
	"time"
)

// heldPhases measures what a rebalance takes with members at the interval that the coordinator tells: all join at once,
// one more joins the stable group, 10% leave.
func (s *joinSide) heldPhases(id string, topo Topo, K int, rest, wait time.Duration, record bool) error {
	if err := s.cl.findAll([]string{id}, 60*time.Second); err != nil {
		return err
	}
	g := newLiveGroup(s.cl, id, topo, K, 0)
	defer g.end()
	late := newMember(g.Group)
	if err := g.connect(append(g.members[:K:K], late)); err != nil {
		return err
	}
	phase := func(what string, begin func()) error {
		c0, n0, start := cpuOf(s.pids), g.beats.Load(), time.Now()
		begin()
		took, err := g.awaitSettled(start, wait)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		cpu := (cpuOf(s.pids) - c0).Seconds()
		time.Sleep(rest) // until every member is in the middle of an interval again
		if !record {
			return nil
		}
		s.put(what+" s", took.Seconds())
		g.mu.Lock()
		defer g.mu.Unlock()
		fmt.Printf("%s: %d members x %d tasks: %s: %.3f s, %d heartbeats with %v after it, server CPU %.2f s, errors %v\n",
			s.name, K, topo.tasks, what, took.Seconds(), g.beats.Load()-n0, rest, cpu, g.errs)
		emit(map[string]any{"bench": "held", "side": s.name, "what": what, "members": K, "tasks": topo.tasks, "s": took.Seconds(),
			"beats": g.beats.Load() - n0, "cpu_s": cpu, "errors": g.errs})
		return nil
	}
	if err := phase("join", func() { g.start(g.members, 0) }); err != nil {
		return err
	}
	if err := phase("one", func() {
		g.members = append(g.members, late)
		g.start([]*Member{late}, 0)
	}); err != nil {
		return err
	}
	if err := phase("leave", func() {
		leavers := g.members[:K/10]
		g.members = g.members[K/10:]
		g.leave(leavers)
	}); err != nil {
		return err
	}
	g.leave(g.members)
	return nil
}

func cmdHeld(args []string) {
	f := flag.NewFlagSet("held", flag.ExitOnError)
	boot := f.String("bootstrap", "127.0.0.1:21000", "system A")
	vs := f.String("vs", "", "system B; ratios are A / B")
	pid := f.String("pid", "", "server pids of A")
	vpid := f.String("vs-pid", "", "server pids of B")
	admin := f.String("admin", "", "where to create topics for A, e.g. the Kafka behind coordd (default: A itself)")
	K := f.Int("members", 100, "members of the group")
	T := f.Int("tasks", 1000, "tasks of the group")
	rounds := f.Int("rounds", 3, "recorded repetitions (ABAB with --vs)")
	warm := f.Int("warm", 1, "unrecorded repetitions first")
	rest := f.Duration("rest", 7*time.Second, "between two phases: more than a heartbeat interval")
	wait := f.Duration("timeout", 60*time.Second, "limit of one phase")
	rf := f.Int("rf", -1, "replication factor of topics")
	G := f.Int("groups", 0, "measure memory instead: so many groups, whose members send heartbeats until they are asked for")
	heap := f.String("heap-cmd", "", "with --groups: prints the bytes in use")
	_ = f.Parse(args) // exits on errors
	sides := []*joinSide{{name: "A", cl: newCluster(*boot), pids: parsePids(*pid), vals: map[string][]float64{}}}
	sides[0].cl.admin = *admin
	if *vs != "" {
		sides = append(sides, &joinSide{name: "B", cl: newCluster(*vs), pids: parsePids(*vpid), vals: map[string][]float64{}})
	}
	topo := Topo{topic: fmt.Sprintf("held-src-%d", *T), tasks: *T}
	run := time.Now().UnixMilli() % 1e8
	for _, s := range sides {
		die(s.cl.createTopic(topo.topic, *T, int16(*rf)))
	}
	if *G > 0 {
		die(sides[0].heldMemory(fmt.Sprintf("held-%d", run), topo, *G, *K, *heap, *rest, *wait))
		return
	}
	for r := -*warm; r < *rounds; r++ {
		for _, s := range sides {
			die(s.heldPhases(fmt.Sprintf("held-%d-%d", run, r+10), topo, *K, *rest, *wait, r >= 0))
		}
	}
	for _, s := range sides {
		for _, k := range sortedKeys(s.vals) {
			fmt.Printf("%s %s: %s\n", s.name, k, minMedMax(s.vals[k]))
		}
	}
}

// heldMemory measures what G groups of M members each take while all their heartbeats wait for their answers, or, where
// the coordinator does not hold them, for their next turn.
func (s *joinSide) heldMemory(prefix string, topo Topo, G, M int, heap string, rest, wait time.Duration) error {
	var groups []*liveGroup
	var ids []string
	for i := range G {
		g := newLiveGroup(s.cl, fmt.Sprintf("%s-%d", prefix, i), topo, M, 0)
		defer g.end()
		groups, ids = append(groups, g), append(ids, g.id)
	}
	if err := s.cl.findAll(ids, 60*time.Second); err != nil {
		return err
	}
	before := liveBytes(heap)
	for _, g := range groups {
		if err := g.connect(g.members); err != nil {
			return err
		}
	}
	start := time.Now()
	for _, g := range groups {
		g.start(g.members, 3*time.Second)
	}
	for _, g := range groups {
		if _, err := g.awaitSettled(start, wait); err != nil {
			return err
		}
	}
	time.Sleep(rest)
	after, rss := liveBytes(heap), rssOf(s.pids)
	n := float64(G * M)
	beats := int64(0)
	for _, g := range groups {
		beats -= g.beats.Load()
	}
	time.Sleep(rest)
	for _, g := range groups {
		beats += g.beats.Load()
	}
	fmt.Printf("%s: %d groups x %d members: in use %.1f -> %.1f MiB (%.2f KiB a member), rss %d MiB, %.1f heartbeats a member and minute\n",
		s.name, G, M, before/(1<<20), after/(1<<20), (after-before)/n/1024, rss>>10, float64(beats)/n/rest.Minutes())
	emit(map[string]any{"bench": "held-memory", "side": s.name, "groups": G, "members": M, "heap0": before, "heap1": after,
		"heap_kib_per_member": (after - before) / n / 1024, "rss_kb": rss, "beats_per_member_minute": float64(beats) / n / rest.Minutes()})
	for _, g := range groups {
		g.leave(g.members)
	}
	return nil
}
