package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// brokerPorts is how many upstream brokers a node of the rig can stand for.
const brokerPorts = 4

// ClusterConfig says what coordd nodes to start.
type ClusterConfig struct {
	Bin      string // of cmd/coordd
	Dir      string
	Nodes    int
	Upstream string         // its bootstrap.servers
	Settings map[string]any // more settings, for every node
	Env      []string
}

// Cluster is a coordd cluster of `coordd serve` processes.
type Cluster struct {
	Nodes []*Node
	bin   string
}

// Node is one `coordd serve` process; ID counts from 1.
type Node struct {
	ID     int
	Client string // address for Kafka clients
	Raft   string
	Admin  string
	Dir    string // data.dir

	*Proc
	bin    string
	config string
	env    []string
}

// StartCluster writes a settings file for each node, starts the processes and waits until each says it is ready.
func StartCluster(ctx context.Context, c ClusterConfig) (*Cluster, error) {
	cl := &Cluster{bin: c.Bin}
	var peers []map[string]any
	var bases []int
	for i := range c.Nodes {
		base, err := FreePorts(3 + brokerPorts)
		if err != nil {
			return nil, err
		}
		n := &Node{
			ID: i + 1, Client: Local(base), Raft: Local(base + 1), Admin: Local(base + 2),
			Dir: filepath.Join(c.Dir, fmt.Sprintf("node-%d", i+1), "data"), bin: c.Bin, env: c.Env,
			config: filepath.Join(c.Dir, fmt.Sprintf("node-%d", i+1), "coordd.yaml"),
		}
		cl.Nodes = append(cl.Nodes, n)
		bases = append(bases, base)
		peers = append(peers, map[string]any{"id": n.ID, "raft": n.Raft, "client": n.Client})
	}
	for i, n := range cl.Nodes {
		settings := map[string]any{
			"node.id": n.ID, "data.dir": n.Dir, "peers": peers,
			"raft.listen": n.Raft, "raft.advertised": n.Raft,
			"client.listen": n.Client, "client.advertised.host": "127.0.0.1", "broker.port.base": bases[i] + 3,
			"admin.listen": n.Admin, "upstream.bootstrap.servers": c.Upstream,
		}
		maps.Copy(settings, c.Settings)
		if err := writeYAML(n.config, settings); err != nil {
			return nil, err
		}
		if err := n.Start(); err != nil {
			return cl, err
		}
	}
	return cl, cl.WaitReady(ctx, time.Minute)
}

func writeYAML(file string, v any) error {
	b, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o644)
}

// Start starts the process (again), without waiting for anything.
func (n *Node) Start() (err error) {
	n.Proc, err = start(command{
		name: fmt.Sprintf("coordd-%d", n.ID),
		log:  filepath.Join(filepath.Dir(n.config), "coordd.log"),
		argv: []string{n.bin, "serve", "--config", n.config},
		env:  n.env,
	})
	return err
}

// WaitReady waits until every running node answers its readiness page with 200 and the cluster names a leader for every
// shard.
func (c *Cluster) WaitReady(ctx context.Context, within time.Duration) error {
	end := time.Now().Add(within)
	for _, n := range c.Nodes {
		if !n.Alive() {
			continue
		}
		if err := waitFor(n.Proc, time.Until(end), n.Ready); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes {
		if n.Alive() {
			return waitFor(n.Proc, max(time.Until(end), time.Second), func() error {
				_, err := c.Leaders(ctx, n)
				return err
			})
		}
	}
	return nil
}

// WaitSpread waits until no shard has changed its leader for a while: after a start leaderships move to the nodes that
// shall have them, and what kills the leader of a shard must know it.
func (c *Cluster) WaitSpread(ctx context.Context, quiet, within time.Duration) error {
	end := time.Now().Add(within)
	var last map[int]int
	since := time.Now()
	for time.Since(since) < quiet {
		if time.Now().After(end) {
			return fmt.Errorf("leaders still change after %v: %v", within, last)
		}
		if leaders, err := c.Leaders(ctx, c.Nodes[0]); err == nil && !maps.Equal(leaders, last) {
			last, since = leaders, time.Now()
		}
		time.Sleep(250 * time.Millisecond)
	}
	return nil
}

// Ready is nil when the readiness page answers 200.
func (n *Node) Ready() error { return readyz(n.Admin) }

func readyz(admin string) error {
	client := http.Client{Timeout: 2 * time.Second}
	resp, err := client.Get("http://" + admin + "/readyz")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("readyz: %s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return nil
}

// CLI runs a subcommand of coordd against a node and returns its output.
func (c *Cluster) CLI(ctx context.Context, n *Node, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return run(ctx, n.env, "", append([]string{c.bin}, append(args, "--admin", n.Admin)...)...)
}

// Leaders maps every shard to the id of the node that leads it, as `coordd leaders` says. It is an error when a shard has
// no leader.
func (c *Cluster) Leaders(ctx context.Context, n *Node) (map[int]int, error) {
	out, err := c.CLI(ctx, n, "leaders", "-o", "json")
	if err != nil {
		return nil, err
	}
	return parseLeaders([]byte(out))
}

func parseLeaders(b []byte) (map[int]int, error) {
	var shards []struct {
		Shard  int `json:"shard"` // -1 is the system shard
		Leader int `json:"leader"`
	}
	if err := json.Unmarshal(b, &shards); err != nil {
		return nil, fmt.Errorf("coordd leaders: %w: %s", err, b)
	}
	leaders := map[int]int{}
	for _, s := range shards {
		if s.Leader < 0 {
			return nil, fmt.Errorf("shard %d has no leader", s.Shard)
		}
		leaders[s.Shard] = s.Leader
	}
	if len(leaders) == 0 {
		return nil, fmt.Errorf("coordd leaders names no shard: %s", b)
	}
	return leaders, nil
}

// Bootstrap lists the client addresses of all nodes.
func (c *Cluster) Bootstrap() string {
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Client)
	}
	return strings.Join(addrs, ",")
}

// ByClient returns the node whose client address this is, nil if there is none.
func (c *Cluster) ByClient(addr string) *Node {
	for _, n := range c.Nodes {
		if n.Client == addr {
			return n
		}
	}
	return nil
}

// Pids lists the process ids of all nodes.
func (c *Cluster) Pids() (pids []int) {
	for _, n := range c.Nodes {
		pids = append(pids, n.Pid())
	}
	return pids
}

// Stop ends all nodes, each with SIGTERM.
func (c *Cluster) Stop() {
	for _, n := range c.Nodes {
		if n.Proc != nil && n.Alive() {
			_ = n.Stop(15 * time.Second)
		}
	}
}

// Dev is `coordd dev`: three nodes and their upstream in one process.
type Dev struct {
	*Proc
	Bootstrap string
}

// StartDev starts `coordd dev` and waits for the line that says it is ready.
func StartDev(bin, dir string, settings map[string]string) (*Dev, error) {
	admin, port, err := DevPorts()
	if err != nil {
		return nil, err
	}
	argv := []string{bin, "dev", "--port", fmt.Sprint(port), "--admin-port", fmt.Sprint(admin), "--data", filepath.Join(dir, "dev")}
	for name, value := range settings {
		argv = append(argv, "--set", name+"="+value)
	}
	ready := make(chan string, 1)
	const mark = "ready bootstrap.servers="
	d := &Dev{}
	d.Proc, err = start(command{name: "coordd-dev", log: filepath.Join(dir, "dev.log"), argv: argv, lines: func(line []byte) {
		if rest, found := strings.CutPrefix(string(line), mark); found {
			select {
			case ready <- strings.TrimSpace(rest):
			default:
			}
		}
	}})
	if err != nil {
		return nil, err
	}
	err = waitFor(d.Proc, time.Minute, func() error {
		select {
		case d.Bootstrap = <-ready:
			return nil
		default:
			return fmt.Errorf("no line %q on stdout", mark)
		}
	})
	return d, err
}
