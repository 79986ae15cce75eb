package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/devcluster"
)

func devCommand() *cobra.Command {
	var o devcluster.Options
	var level string
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run three nodes and an embedded Kafka in one process",
		Long: `Runs a whole cluster in one process, with nothing else installed: three nodes with their Raft logs on disk, and an
embedded Kafka behind them. Topics are created when they are first produced to.

Prints one line 'ready bootstrap.servers=…' when clients can use it. Ctrl-C stops it.`,
		Example: `  coordd dev
  coordd dev --port 19092 --data ./coordd-data
  coordd dev --set group.streams.initial.rebalance.delay.ms=0`,
		RunE: func(c *cobra.Command, _ []string) error {
			if !slices.Contains(logLevels, level) {
				return usageError(&config.Error{Setting: "--log-level", Value: level, Allowed: "one of " + strings.Join(logLevels, ", ")})
			}
			o.Logger = newLogger(level, "text", os.Stderr)
			o.Environ = os.Environ()
			return dev(c, o)
		},
	}
	c.Flags().IntVar(&o.Port, "port", 9092, "port of node 0; node i is at port+i, upstream broker k behind node i at port+3+3k+i")
	c.Flags().IntVar(&o.AdminPort, "admin-port", 9644, "admin port of node 0; node i is at admin-port+i")
	c.Flags().StringVar(&o.DataDir, "data", "", "folder for all data (default: a temporary one, removed at the end)")
	c.Flags().StringArrayVar(&o.Set, "set", nil, "a setting as name=value, for all nodes; may be repeated")
	c.Flags().StringVar(&level, "log-level", "warn", "least severe log line to write: trace, debug, info, warn, error")
	return c
}

var logLevels = []string{"trace", "debug", "info", "warn", "error"}

const devStartTimeout = 60 * time.Second

func dev(c *cobra.Command, o devcluster.Options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	starting, cancel := context.WithTimeout(ctx, devStartTimeout)
	cluster, err := devcluster.Start(starting, o)
	cancel()
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return usageError(err)
	}
	_, _ = fmt.Fprintf(c.OutOrStdout(), "ready bootstrap.servers=%s\n", cluster.Bootstrap())
	<-ctx.Done()
	stop()
	deadline, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return cluster.Stop(deadline)
}
