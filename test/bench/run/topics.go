package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

// watched is what a node has used up to a moment.
type watched struct {
	cpu    time.Duration // of the process
	polls  float64
	asking float64 // seconds
	inUse  float64 // bytes
}

// topics: what the watch of the upstream's topics takes of a node, with 20 groups of one member each.
func topics(ctx context.Context, b *bench) error {
	if b.null {
		return nil
	}
	const groups = 20
	many := pick(b, 50_000, 5000)
	window := pick(b, 20*time.Second, 5*time.Second)
	s, err := b.startCoorddWith(ctx, "topics", 1, groupSettings)
	if err != nil {
		return err
	}
	defer s.stop()
	up, err := rig.Dial(strings.Split(s.admin, ",")[0])
	if err != nil {
		return err
	}
	defer up.Close()
	if err := createTopics(up, "group", groups); err != nil {
		return err
	}
	if err := awaitTopics(ctx, s, groups); err != nil {
		return err
	}
	stop, err := members(s, groups)
	if err != nil {
		return err
	}
	defer stop()
	few, err := during(s, window, nil)
	if err != nil {
		return err
	}
	if err := createTopics(up, "team.service.events", many); err != nil {
		return err
	}
	if err := awaitTopics(ctx, s, groups+many); err != nil {
		return err
	}
	same, err := during(s, window, nil)
	if err != nil {
		return err
	}
	n := 0
	changing, err := during(s, window, func() error {
		n++
		return createTopics(up, fmt.Sprint("change-", n), 1)
	})
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%d topics × 3 partitions, %d groups: ", many, groups)
	cpu := func(w watched) float64 { return 1000 * w.cpu.Seconds() / w.polls }
	b.table.add(name+"memory a topic", "bytes in use", (same.inUse-few.inUse)/float64(many), math.NaN(), bar{atMost, 256})
	b.table.add(name+"CPU of a poll without a change, all else of the node included", "ms", cpu(same), math.NaN(), bar{})
	b.table.add(name+"the same with no more than the groups' topics", "ms", cpu(few), math.NaN(), bar{})
	b.table.add(name+"CPU of a poll while a topic is created every second", "ms", cpu(changing), math.NaN(), bar{})
	b.table.add(name+"share of a core", "%", 100*(same.cpu-few.cpu).Seconds()/window.Seconds(), math.NaN(), bar{atMost, 5})
	b.table.add(name+"time of a poll, upstream included", "ms", 1000*same.asking/same.polls, math.NaN(), bar{})
	return nil
}

// members has a member join each group and send heartbeats until stop is called.
func members(s *side, groups int) (stop func(), err error) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	stop = func() {
		close(done)
		wg.Wait()
	}
	for n := range groups {
		p := rig.NewProbe(s.bootstrap, fmt.Sprint("watching-", n), fmt.Sprintf("group-%05d", n))
		if err := p.Settle(30 * time.Second); err != nil {
			stop()
			return nil, err
		}
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(2500 * time.Millisecond):
					_ = p.Beat(10 * time.Second) // the next one tells
				}
			}
		})
	}
	return stop, nil
}

// during measures a window; change, if any, is called every second.
func during(s *side, window time.Duration, change func() error) (watched, error) {
	before, err := used(s)
	if err != nil {
		return watched{}, err
	}
	for end := time.Now().Add(window); time.Now().Before(end); time.Sleep(time.Second) {
		if change != nil {
			if err := change(); err != nil {
				return watched{}, err
			}
		}
	}
	after, err := used(s)
	if err != nil {
		return watched{}, err
	}
	// Last: it has the garbage collected.
	self, err := os.Executable()
	if err != nil {
		return watched{}, err
	}
	inUse := math.Inf(1)
	for range 3 { // the least: an answer with all topics may be in flight
		out, err := exec.Command(self, "inuse", s.coordd.Nodes[0].Admin).Output()
		if err != nil {
			return watched{}, err
		}
		bytes, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		if err != nil {
			return watched{}, err
		}
		inUse = min(inUse, bytes)
		time.Sleep(time.Second)
	}
	return watched{after.cpu - before.cpu, after.polls - before.polls, after.asking - before.asking, inUse}, nil
}

// used is what the node has used since it started.
func used(s *side) (w watched, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pids()[0]))
	if err != nil {
		return w, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the state on
	for _, field := range fields[11:13] {
		ticks, err := strconv.Atoi(field)
		if err != nil {
			return w, err
		}
		w.cpu += time.Duration(ticks) * 10 * time.Millisecond
	}
	if w.polls, err = metric(s, "coordd_topics_polls_total"); err != nil {
		return w, err
	}
	w.asking, err = metric(s, "coordd_topics_poll_seconds_total")
	return w, err
}

// metric reads one of the node's metrics without labels.
func metric(s *side, name string) (float64, error) {
	resp, err := http.Get("http://" + s.coordd.Nodes[0].Admin + "/metrics")
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if rest, found := strings.CutPrefix(lines.Text(), name+" "); found {
			return strconv.ParseFloat(rest, 64)
		}
	}
	return 0, fmt.Errorf("no metric %s", name)
}

func awaitTopics(ctx context.Context, s *side, n int) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		if seen, err := metric(s, "coordd_topics"); err != nil || seen >= float64(n) {
			return err
		}
	}
	return fmt.Errorf("the node does not see %d topics within a minute", n)
}

// createTopics creates n topics of 3 partitions.
func createTopics(c *rig.Conn, prefix string, n int) error {
	for from := 0; from < n; from += 500 {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 60_000
		for i := from; i < min(n, from+500); i++ {
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = fmt.Sprintf("%s-%05d", prefix, i), 3, 1
			req.Topics = append(req.Topics, t)
		}
		resp, err := c.Do(req, time.Minute)
		if err != nil {
			return err
		}
		for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
			if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
				return fmt.Errorf("topic %s: %w", t.Topic, err)
			}
		}
	}
	return nil
}
