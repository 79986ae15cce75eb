package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// watched is how long answers took that a watcher waited for.
type watched struct {
	P50    float64        `json:"p50"`
	P99    float64        `json:"p99"`
	Max    float64        `json:"max"`
	Errors map[string]int `json:"errors"`
}

// watcher describes one-member groups, each in a closed loop with a pause, in a process of its own: in the process of a
// thousand other members it would wait for them rather than for the server.
type watcher struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startWatcher(args ...string) (*watcher, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &watcher{cmd: exec.Command(self, append([]string{"watch"}, args...)...)}
	w.cmd.Stderr = os.Stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewReader(out)
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	_, err = w.out.ReadString('\n') // its groups have formed
	return w, err
}

// since returns what was seen since the last call.
func (w *watcher) since() (seen watched, err error) {
	if _, err = fmt.Fprintln(w.in, "since"); err != nil {
		return seen, err
	}
	line, err := w.out.ReadBytes('\n')
	if err != nil {
		return seen, err
	}
	return seen, json.Unmarshal(line, &seen)
}

// end lets the groups go.
func (w *watcher) end() error {
	_ = w.in.Close()
	return w.cmd.Wait()
}

// cmdWatch is the process of a watcher: it answers every line on stdin, and ends with it.
func cmdWatch(args []string) {
	f := flag.NewFlagSet("watch", flag.ExitOnError)
	boot := f.String("bootstrap", "127.0.0.1:21000", "system under test")
	ids := f.String("groups", "", "groups of one member each")
	topic := f.String("topic", "", "their topic")
	tasks := f.Int("tasks", 4, "its partitions")
	pause := f.Duration("pause", 10*time.Millisecond, "between two questions about a group")
	_ = f.Parse(args) // exits on errors
	cl := newCluster(*boot)
	var groups []*Group
	for _, id := range strings.Split(*ids, ",") {
		g := newGroup(cl.clone(), id, Topo{topic: *topic, tasks: *tasks}, 1)
		die(g.cl.findAll([]string{id}, 60*time.Second))
		die(g.form(30 * time.Second))
		g.cl = g.cl.clone() // before it existed, its coordinator may have been another one
		die(g.cl.findAll([]string{id}, 60*time.Second))
		groups = append(groups, g)
	}
	// Answers to heartbeats may be held: they keep the members alive, and how long the shard takes to answer is seen by
	// describing the groups, which takes the same way.
	var mu sync.Mutex
	var took []int64
	errs := map[string]int{}
	for _, g := range groups {
		alive := g.cl.clone()
		m := g.members[0]
		m.mu.Lock()
		m.g = &Group{cl: alive, id: g.id, topo: g.topo}
		m.mu.Unlock()
		go func() {
			for {
				_, _ = m.beat() // a member that is gone shows in the description
				time.Sleep(time.Second)
			}
		}()
		go func() {
			for {
				time.Sleep(*pause)
				t := time.Now()
				d, err := g.cl.describe([]string{g.id})
				spent := int64(time.Since(t))
				switch {
				case err != nil:
				case d[g.id].ErrorCode != 0:
					err = fmt.Errorf("describe error %d", d[g.id].ErrorCode)
				case len(d[g.id].Members) != 1:
					err = fmt.Errorf("%d members", len(d[g.id].Members))
				}
				mu.Lock()
				took = append(took, spent)
				if err != nil {
					errs[err.Error()]++
				}
				mu.Unlock()
			}
		}()
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		mu.Lock()
		slices.Sort(took)
		seen := watched{Errors: errs}
		if len(took) > 0 {
			seen.P50, seen.P99, seen.Max = pct(took, .5), pct(took, .99), pct(took, 1)
		}
		took, errs = nil, map[string]int{}
		mu.Unlock()
		b, err := json.Marshal(seen)
		die(err)
		fmt.Println(string(b))
	}
	leaveAll(groups)
}
