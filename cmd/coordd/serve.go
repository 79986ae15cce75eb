package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/gateway"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/web"
)

func serveCommand() *cobra.Command {
	var file string
	var set []string
	var settings bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run one node of a cluster",
		Long: `Runs one node. Three nodes form a cluster, in whatever order they start; one node alone is a cluster of one.

Settings come from --set name=value, then the environment (COORDD_ and the name in capitals, dots as underscores), then
the YAML file of --config, one 'name: value' a line. Names that Kafka has are Kafka's.`,
		Example: `  coordd serve --config /etc/coordd/coordd.yaml
  coordd serve --set data.dir=/var/lib/coordd --set upstream.bootstrap.servers=kafka:9092
  coordd serve --help-settings`,
		RunE: func(c *cobra.Command, _ []string) error {
			if settings {
				return printSettings(c.OutOrStdout())
			}
			cfg, unused, err := config.Load(config.Sources{Set: set, Environ: os.Environ(), File: file})
			if err != nil {
				return usageError(err)
			}
			return serve(cfg, unused)
		},
	}
	c.Flags().StringVar(&file, "config", "", "YAML file with settings")
	c.Flags().StringArrayVar(&set, "set", nil, "a setting as name=value; may be repeated")
	c.Flags().BoolVar(&settings, "help-settings", false, "print all settings with defaults and limits, then exit")
	return c
}

// stopTimeout bounds a clean stop; what is not done by then is cut off.
const stopTimeout = 10 * time.Second

// serve runs a node until a signal ends it: the node first, which takes the data folder before any port, so that a second
// process is told of that; then the admin port; and on SIGTERM or Ctrl-C the leaderships move to others before anything
// is closed.
func serve(cfg *config.Node, unused []string) error {
	log := newLogger(cfg.LogLevel, cfg.LogFormat, os.Stderr).With("node", cfg.NodeID)
	for _, name := range unused {
		log.Warn("environment variable is no setting of coordd and is ignored", "name", name)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()

	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	parts := server.Parts{Logger: log, Registry: registry, Fatal: func(err error) { endProcess(log, err) }}
	if cfg.UpstreamQuirks == "kfake" {
		parts.Quirks = gateway.KfakeQuirks
	}
	closed, err := server.UseUpstream(&parts, server.UpstreamOptions{Bootstrap: cfg.UpstreamBootstrap, Logger: log.Named("upstream")})
	if err != nil {
		return err
	}
	defer closed()
	node, err := server.Start(cfg, parts)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", cfg.AdminListen)
	if err != nil {
		return errors.Join(fmt.Errorf("admin.listen: %w", err), stopNode(node))
	}
	admin := &http.Server{Handler: web.Handler(node, registry), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := admin.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the admin port is closed", "error", err)
		}
	}()
	defer func() { _ = admin.Close() }()
	go func() {
		if node.AwaitReady(ctx) == nil {
			log.Info("ready", "bootstrap.servers", cfg.ClientListen, "admin", cfg.AdminListen)
		}
	}()

	<-ctx.Done()
	stop() // a second signal ends the process at once
	log.Info("stopping: leaderships move to other nodes first")
	if err := stopNode(node); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// endProcess ends the process for a disk that failed, as a crash would: what was not acknowledged may be lost, and a new process
// finds what the disk holds. Or it ends one whose release is too old.
func endProcess(log hclog.Logger, err error) {
	if server.Outdated(err) {
		log.Error("this release is too old for what the others wrote; this process ends", "error", err)
		os.Exit(1)
	}
	log.Error("the disk of data.dir failed; this process ends, and one that is started anew goes on from what the disk holds", "error", err)
	os.Exit(1)
}

func stopNode(node *server.Node) error {
	deadline, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := node.Stop(deadline); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

func newLogger(level, format string, to *os.File) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{
		Name: "coordd", Level: hclog.LevelFromString(level), JSONFormat: format == "json", Output: to,
	})
}
