package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitSide is one of the systems whose commits are measured.
type commitSide struct {
	name   string
	cl     *Cluster
	pids   []int
	groups []*Group
	own    []*Cluster // a connection for each group
	next   []int64    // offset to commit, by group
}

// offsetCommit is a commit of rising offsets of partitions from..from+n-1 of a topic, as the group's first member.
func (g *Group) offsetCommit(topic string, from, n int, offset int64, metadata string) *kmsg.OffsetCommitRequest {
	m := g.members[0]
	m.mu.Lock()
	epoch := m.epoch
	m.mu.Unlock()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = g.id, m.id, epoch
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for p := from; p < from+n; p++ {
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.Metadata = int32(p), offset, &metadata
		t.Partitions = append(t.Partitions, rp)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// commitCode is the first error among the partitions.
func commitCode(r kmsg.Response) int16 {
	for _, t := range r.(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return p.ErrorCode
			}
		}
	}
	return 0
}

func (s *commitSide) commit(k int, partitions int) error {
	g := s.groups[k]
	s.next[k]++
	r, err := s.own[k].doGroup(g.id, g.offsetCommit(g.topo.topic, 0, partitions, s.next[k], "BAAAAZ3J8cA0"), commitCode, 10*time.Second)
	if err == nil && commitCode(r) != 0 {
		err = fmt.Errorf("commit %s: error %d", g.id, commitCode(r))
	}
	return err
}

// segment commits in a closed loop with w in flight, each on a connection and in a group of its own.
func (s *commitSide) segment(w, partitions int, d time.Duration) (lat []int64, el, cpu time.Duration, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	c0, t0 := cpuOf(s.pids), time.Now()
	end := t0.Add(d)
	for k := range w {
		wg.Go(func() {
			var l []int64
			for t := time.Now(); t.Before(end); t = time.Now() {
				if e := s.commit(k, partitions); e != nil {
					mu.Lock()
					err = e
					mu.Unlock()
					break
				}
				l = append(l, int64(time.Since(t)))
			}
			mu.Lock()
			lat = append(lat, l...)
			mu.Unlock()
		})
	}
	wg.Wait()
	el, cpu = time.Since(t0), cpuOf(s.pids)-c0
	slices.Sort(lat)
	return
}

func (s *commitSide) measure(w, partitions int, d time.Duration, record bool) error {
	lat, el, cpu, err := s.segment(w, partitions, d)
	if err != nil || !record {
		return err
	}
	n := float64(len(lat))
	r := n / el.Seconds()
	fmt.Printf("%s: commits of %d partitions, %d in flight: %.0f/s, p50 %.2f p99 %.2f max %.2f ms, server CPU %.0f s/1M\n",
		s.name, partitions, w, r, pct(lat, .5), pct(lat, .99), pct(lat, 1), cpu.Seconds()/n*1e6)
	emit(map[string]any{"bench": "commits", "side": s.name, "conc": w, "partitions": partitions, "per_s": r, "p50_ms": pct(lat, .5), "p99_ms": pct(lat, .99),
		"max_ms": pct(lat, 1), "server_cpu_s_per_1M": cpu.Seconds() / n * 1e6})
	return nil
}

func cmdCommits(args []string) {
	f := flag.NewFlagSet("commits", flag.ExitOnError)
	boot := f.String("bootstrap", "127.0.0.1:21000", "system A")
	vs := f.String("vs", "", "system B")
	pid := f.String("pid", "", "server pids of A")
	vpid := f.String("vs-pid", "", "server pids of B")
	admin := f.String("admin", "", "where to create topics for A, e.g. the Kafka behind coordd (default: A itself)")
	vadmin := f.String("vs-admin", "", "where to create topics for B (default: B itself)")
	conc := f.String("conc", "1,16,64", "commits in flight, each of a group of its own")
	partitions := f.Int("partitions", 1, "partitions of a commit")
	d := f.Duration("duration", 5*time.Second, "a segment")
	warm := f.Duration("warm", 5*time.Second, "an unrecorded segment first")
	rounds := f.Int("rounds", 3, "recorded segments (ABAB with --vs)")
	rf := f.Int("rf", -1, "replication factor of the topic")
	_ = f.Parse(args) // exits on errors
	sides := []*commitSide{{name: "A", cl: newCluster(*boot), pids: parsePids(*pid)}}
	sides[0].cl.admin = *admin
	if *vs != "" {
		sides = append(sides, &commitSide{name: "B", cl: newCluster(*vs), pids: parsePids(*vpid)})
		sides[1].cl.admin = *vadmin
	}
	var levels []int
	for _, c := range strings.Split(*conc, ",") {
		w := 0
		_, err := fmt.Sscan(c, &w)
		die(err)
		levels = append(levels, w)
	}
	topo := Topo{topic: fmt.Sprintf("cm-src-%d", max(4, *partitions)), tasks: max(4, *partitions)}
	run := time.Now().UnixMilli() % 1e8
	for _, s := range sides {
		die(s.cl.createTopic(topo.topic, topo.tasks, int16(*rf)))
		for i := range slices.Max(levels) {
			id := fmt.Sprintf("cm-%s-%d-%d", s.name, run, i) // A may stand in front of B
			s.groups = append(s.groups, newGroup(s.cl, id, topo, 1))
		}
		die(form(s.cl, s.groups, 8, 60*time.Second))
		s.next = make([]int64, len(s.groups))
		for _, g := range s.groups {
			own := s.cl.clone()
			a, err := own.coordAddr(g.id)
			die(err)
			_, err = own.conn(a) // connection set-up is not measured
			die(err)
			s.own = append(s.own, own)
		}
	}
	stop := make(chan struct{})
	for _, s := range sides {
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Second):
				}
				keepAlive(s.groups, 10*time.Second)
			}
		}()
	}
	for _, w := range levels {
		for r := -1; r < *rounds; r++ {
			length := *d
			if r < 0 {
				length = *warm
			}
			for _, s := range sides {
				die(s.measure(w, *partitions, length, r >= 0))
			}
		}
	}
	close(stop)
	for _, s := range sides {
		leaveAll(s.groups)
		for _, c := range s.own {
			c.close()
		}
	}
}
