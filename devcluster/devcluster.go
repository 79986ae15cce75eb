package devcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/gateway"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/web"
)

// nodes is the number of nodes of a development cluster.
const nodes = 3

// Options are what a development cluster is made of.
type Options struct {
	// Port is the client port of node 0; node i is at Port+i, upstream broker k behind node i at Port+3+3k+i.
	Port int
	// AdminPort is the admin port of node 0; node i is at AdminPort+i.
	AdminPort int
	// DataDir holds everything; a temporary folder, removed at the end, when empty.
	DataDir string
	// Set are settings as name=value, for all nodes.
	Set []string
	// Environ is the environment to read settings from.
	Environ []string
	Logger  hclog.Logger
}

// Cluster is a running development cluster.
type Cluster struct {
	kafka     *kfake.Cluster
	nodes     []*server.Node
	admin     []*http.Server
	closed    []func()
	temporary string
	bootstrap []string
}

// Start starts the cluster and returns when clients can use it, or ctx ends.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{}
	if err := c.start(ctx, o); err != nil {
		_ = c.Stop(context.Background()) // why it did not start is what to tell
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, o Options) error {
	if o.Port < 1 || o.Port+2*nodes > 65535 {
		return &config.Error{Setting: "--port", Value: fmt.Sprint(o.Port), Allowed: fmt.Sprintf("1 to %d", 65535-2*nodes)}
	}
	if o.AdminPort < 1 || o.AdminPort+nodes > 65536 {
		return &config.Error{Setting: "--admin-port", Value: fmt.Sprint(o.AdminPort), Allowed: fmt.Sprintf("1 to %d", 65536-nodes)}
	}
	if o.DataDir == "" {
		dir, err := os.MkdirTemp("", "coordd-dev-")
		if err != nil {
			return fmt.Errorf("a temporary data folder: %w", err)
		}
		c.temporary, o.DataDir = dir, dir
	}
	if err := c.startKafka(o.DataDir); err != nil {
		return err
	}
	raft, err := listenRaft(o.Port)
	if err != nil {
		return err
	}
	defer raft.closeUnused()
	for i := range nodes {
		if err := c.startNode(o, i, raft); err != nil {
			return err
		}
	}
	return c.awaitReady(ctx)
}

// startKafka starts the embedded Kafka on a port of its own choice; clients never see it.
func (c *Cluster) startKafka(dir string) error {
	kafkaDir := filepath.Join(dir, "kafka")
	if err := os.MkdirAll(kafkaDir, 0o750); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(kafkaDir), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(1))
	if err != nil {
		return fmt.Errorf("embedded Kafka in %s: %w", kafkaDir, err)
	}
	c.kafka = kafka
	return nil
}

// raftPorts are ports for Raft, opened before the nodes start since every node must know all addresses.
type raftPorts struct {
	mu        sync.Mutex
	addresses []string
	listeners map[string]net.Listener
}

// clientPorts is how many ports from Options.Port on are the clients': the system must not choose one of them for Raft.
const clientPorts = 128

func listenRaft(clients int) (*raftPorts, error) {
	p := &raftPorts{listeners: map[string]net.Listener{}}
	for len(p.addresses) < nodes {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.closeUnused()
			return nil, fmt.Errorf("a port for Raft: %w", err)
		}
		if port := ln.Addr().(*net.TCPAddr).Port; port >= clients && port < clients+clientPorts {
			defer func() { _ = ln.Close() }()
			continue
		}
		p.addresses = append(p.addresses, ln.Addr().String())
		p.listeners[ln.Addr().String()] = ln
	}
	return p, nil
}

// listen hands out the port that is open already, or opens another one.
func (p *raftPorts) listen(address string) (net.Listener, error) {
	p.mu.Lock()
	ln := p.listeners[address]
	delete(p.listeners, address)
	p.mu.Unlock()
	if ln != nil {
		return ln, nil
	}
	return net.Listen("tcp", address)
}

func (p *raftPorts) closeUnused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ln := range p.listeners {
		_ = ln.Close()
	}
	clear(p.listeners)
}

func (c *Cluster) settings(o Options, i int, raft *raftPorts) []string {
	var peers []string
	for n := range nodes {
		peers = append(peers, fmt.Sprintf("%d=%s/127.0.0.1:%d", n, raft.addresses[n], o.Port+n))
	}
	return append(slices.Clone(o.Set),
		fmt.Sprintf("node.id=%d", i),
		"data.dir="+filepath.Join(o.DataDir, fmt.Sprintf("node-%d", i)),
		"raft.listen="+raft.addresses[i],
		"raft.advertised="+raft.addresses[i],
		"peers="+strings.Join(peers, ","),
		fmt.Sprintf("client.listen=127.0.0.1:%d", o.Port+i),
		fmt.Sprintf("broker.port.base=%d", o.Port+nodes+i),
		fmt.Sprintf("broker.port.step=%d", nodes),
		fmt.Sprintf("admin.listen=127.0.0.1:%d", o.AdminPort+i),
		"upstream.bootstrap.servers="+strings.Join(c.kafka.ListenAddrs(), ","),
	)
}

func (c *Cluster) startNode(o Options, i int, raft *raftPorts) error {
	cfg, _, err := config.Load(config.Sources{Set: c.settings(o, i, raft), Environ: o.Environ})
	if err != nil {
		return err
	}
	logger := o.Logger
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	logger = logger.With("node", i)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	parts := server.Parts{Logger: logger, Registry: registry, Listen: raft.listen, Quirks: gateway.KfakeQuirks}
	closed, err := server.UseUpstream(&parts, server.UpstreamOptions{Bootstrap: cfg.UpstreamBootstrap, Logger: logger.Named("upstream")})
	if err != nil {
		return err
	}
	c.closed = append(c.closed, closed)
	ln, err := net.Listen("tcp", cfg.AdminListen)
	if err != nil {
		return fmt.Errorf("admin port (--admin-port): %w", err)
	}
	node, err := server.Start(cfg, parts)
	if err != nil {
		_ = ln.Close()
		return err
	}
	c.nodes = append(c.nodes, node)
	c.bootstrap = append(c.bootstrap, cfg.ClientListen)
	admin := &http.Server{Addr: cfg.AdminListen, Handler: web.Handler(node, registry), ReadHeaderTimeout: 10 * time.Second}
	c.admin = append(c.admin, admin)
	go func() {
		if err := admin.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("the admin port is closed", "error", err)
		}
	}()
	return nil
}

// awaitReady returns when every node is ready.
func (c *Cluster) awaitReady(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := n.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Bootstrap is what clients set as bootstrap.servers.
func (c *Cluster) Bootstrap() string { return strings.Join(c.bootstrap, ",") }

// Nodes are the running nodes; node i has the id i.
func (c *Cluster) Nodes() []*server.Node { return c.nodes }

// Stop stops the nodes one after another, then the embedded Kafka.
func (c *Cluster) Stop(ctx context.Context) error {
	var errs []error
	for _, a := range c.admin {
		_ = a.Close()
	}
	var wg sync.WaitGroup
	results := make([]error, len(c.nodes))
	for i, n := range c.nodes {
		wg.Go(func() { results[i] = n.Stop(ctx) })
	}
	wg.Wait()
	errs = append(errs, results...)
	for _, closed := range c.closed {
		closed()
	}
	if c.kafka != nil {
		c.kafka.Close()
	}
	if c.temporary != "" {
		errs = append(errs, os.RemoveAll(c.temporary))
	}
	return errors.Join(errs...)
}
