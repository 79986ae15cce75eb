package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

// side is one of the two systems under measurement.
type side struct {
	name      string
	bootstrap string
	admin     string // where cbench creates topics, "" for the side itself
	pids      func() []int
	nodes     map[int32]func() *rig.Proc // by the node id that clients see
	restart   func(ctx context.Context, node int32) error
	stop      func()
	coordd    *rig.Cluster // nil for Kafka
}

// groupSettings take what both systems wait for on purpose out of the figures.
var groupSettings = map[string]any{
	"group.streams.initial.rebalance.delay.ms": 0,
	"group.streams.assignment.interval.ms":     0,
}

// answeredAtOnce is for what measures answers: coordd holds no heartbeat.
var answeredAtOnce = map[string]any{"group.streams.heartbeat.hold.ms": 0}

// withSettings are groupSettings with more of coordd's.
func withSettings(more map[string]any) map[string]any {
	all := maps.Clone(groupSettings)
	maps.Copy(all, more)
	return all
}

func (b *bench) startKafka(ctx context.Context, name string, nodes int) (*side, error) {
	heap := "1g"
	if nodes > 1 {
		heap = "512m"
	}
	var lines []string
	for k, v := range groupSettings {
		lines = append(lines, fmt.Sprintf("%s=%v", k, v))
	}
	k, err := rig.StartKafka(ctx, rig.KafkaConfig{Java: b.java, Dir: filepath.Join(b.dir, name), Nodes: nodes, Heap: heap, Full: true, Lines: lines})
	if err != nil {
		return nil, err
	}
	s := &side{name: "Kafka", bootstrap: k.Bootstrap(), nodes: map[int32]func() *rig.Proc{}, stop: k.Stop}
	for _, n := range k.Nodes {
		s.nodes[int32(n.ID)] = func() *rig.Proc { return n.Proc }
	}
	s.pids = s.allPids
	s.restart = func(_ context.Context, node int32) error { return k.Nodes[node-1].Restart() }
	return s, nil
}

func (b *bench) startCoordd(ctx context.Context, name string, nodes int) (*side, error) {
	return b.startCoorddWith(ctx, name, nodes, withSettings(answeredAtOnce))
}

func (b *bench) startCoorddWith(ctx context.Context, name string, nodes int, settings map[string]any) (*side, error) {
	if b.null {
		return b.startKafka(ctx, name, nodes)
	}
	up, stopUp, err := b.startUpstream(ctx, filepath.Join(b.dir, name))
	if err != nil {
		return nil, err
	}
	return b.startCoorddOver(ctx, name, nodes, settings, up, stopUp)
}

// startCoorddOver starts nodes in front of an upstream, which is stopped with them.
func (b *bench) startCoorddOver(ctx context.Context, name string, nodes int, settings map[string]any, up string, stopUp func()) (*side, error) {
	dir := filepath.Join(b.dir, name)
	c, err := rig.StartCluster(ctx, rig.ClusterConfig{Bin: b.coordd, Dir: dir, Nodes: nodes, Upstream: up, Settings: settings})
	if err != nil {
		return nil, err
	}
	s := &side{name: "coordd", bootstrap: c.Bootstrap(), admin: up, nodes: map[int32]func() *rig.Proc{}, stop: func() { c.Stop(); stopUp() }, coordd: c}
	ids, err := nodeIDs(c.Nodes[0].Client)
	if err != nil {
		return nil, err
	}
	byID := map[int32]*rig.Node{}
	for _, n := range c.Nodes {
		id, ok := ids[n.Client]
		if !ok {
			return nil, fmt.Errorf("metadata shows no node at %s: %v", n.Client, ids)
		}
		byID[id] = n
		s.nodes[id] = func() *rig.Proc { return n.Proc }
	}
	s.pids = s.allPids
	s.restart = func(ctx context.Context, node int32) error {
		if err := byID[node].Start(); err != nil {
			return err
		}
		return c.WaitReady(ctx, time.Minute)
	}
	return s, c.WaitSpread(ctx, spreadQuiet, time.Minute)
}

// spreadQuiet is how long leaders must have stayed where they are before anything is measured.
const spreadQuiet = 6 * time.Second

func (b *bench) startUpstream(ctx context.Context, dir string) (bootstrap string, stop func(), err error) {
	if b.upstream == "kafka" {
		k, err := rig.StartKafka(ctx, rig.KafkaConfig{Java: b.java, Dir: dir, Nodes: 1, Heap: "1g", Full: true})
		if err != nil {
			return "", nil, err
		}
		return k.Bootstrap(), k.Stop, nil
	}
	k, err := rig.StartKfake(b.kfake, dir, 1)
	if err != nil {
		return "", nil, err
	}
	return k.Bootstrap(), k.Stop, nil
}

// nodeIDs maps the addresses that Metadata shows to node ids.
func nodeIDs(addr string) (map[string]int32, error) {
	c, err := rig.Dial(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := c.Do(req, 10*time.Second)
	if err != nil {
		return nil, err
	}
	ids := map[string]int32{}
	for _, b := range resp.(*kmsg.MetadataResponse).Brokers {
		ids[net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))] = b.NodeID
	}
	return ids, nil
}

func (s *side) allPids() (pids []int) {
	for _, p := range s.nodes {
		pids = append(pids, p().Pid())
	}
	return pids
}

// pidList is what cbench takes with --pid.
func (s *side) pidList() string {
	var l []string
	for _, p := range s.pids() {
		l = append(l, strconv.Itoa(p))
	}
	return strings.Join(l, ",")
}

// nodeList is what cbench takes with --nodes.
func (s *side) nodeList() string {
	var l []string
	for id, p := range s.nodes {
		l = append(l, fmt.Sprintf("%d=%d", id, p().Pid()))
	}
	return strings.Join(l, ",")
}

// result is one RESULT line of cbench.
type result map[string]any

func (r result) num(name string) float64 {
	v, ok := r[name].(float64)
	if !ok {
		return 0
	}
	return v
}

func (r result) str(name string) string { s, _ := r[name].(string); return s }

// cb runs cbench, shows its output and returns its results.
func (b *bench) cb(ctx context.Context, args ...string) ([]result, error) {
	fmt.Println("+ cbench", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, b.cbench, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, os.Stdout), os.Stderr
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("cbench %s: %w", args[0], err)
	}
	var rs []result
	lines := bufio.NewScanner(&out)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		rest, found := strings.CutPrefix(lines.Text(), "RESULT ")
		if !found {
			continue
		}
		var r result
		if err := json.Unmarshal([]byte(rest), &r); err != nil {
			return nil, fmt.Errorf("cbench result %q: %w", rest, err)
		}
		rs = append(rs, r)
	}
	return rs, lines.Err()
}

// restarter serves restarts over HTTP: cbench restarts a node by a command, but the process has to be a child of ours.
// The command it is given is this program with `ask URL`.
func (s *side) restarter(ctx context.Context) (command string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/restart/{node}", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("node"))
		if err == nil && s.nodes[int32(id)] == nil {
			err = fmt.Errorf("no node %d", id)
		}
		if err == nil {
			err = s.restart(ctx, int32(id))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprintln(w, s.nodes[int32(id)]().Pid())
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = srv.Serve(l) }()
	return fmt.Sprintf("%s ask http://%s/restart/{node}", self, l.Addr()), func() { _ = srv.Close() }, nil
}

// ask is the command that restarter names: it prints what the URL answers.
func ask(url string) {
	resp, err := http.Get(url)
	fail(err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	fail(err)
	if resp.StatusCode != http.StatusOK {
		fail(fmt.Errorf("%s: %s", resp.Status, body))
	}
	fmt.Print(string(body))
}
