package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/web"
)

func statusCommand() *cobra.Command {
	var f adminFlags
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the nodes of the cluster and the Kafka behind it",
		Long: `Shows every node: whether it answers, its addresses, how many shards it leads, its applied index summed over the
shards, and what it sees of the Kafka cluster behind. The exit code is 3 when a shard has no leader.`,
		Example: `  coordd status
  coordd status -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := f.client()
			if err != nil {
				return err
			}
			status, err := client.Status(c.Context())
			if err != nil {
				return err
			}
			if err := f.print(c.OutOrStdout(), status, func(t *table) { statusRows(t, status) }); err != nil {
				return err
			}
			if f.output == "table" {
				_, _ = fmt.Fprint(c.OutOrStdout(), hindranceLine(status))
			}
			return quorumError(status)
		},
	}
	f.register(c)
	return c
}

func statusRows(t *table, s web.ClusterStatus) {
	t.row("NODE", "STATE", "CLIENTS", "RAFT", "LEADS", "APPLIED", "GROUPS", "UP", "KAFKA BEHIND", "VERSION")
	for _, n := range s.Nodes {
		if !n.Reachable {
			t.row(n.Node, "no answer: "+n.Error, "-", "-", "-", "-", "-", "-", "-", "-")
			continue
		}
		leads, groups, applied := 0, 0, uint64(0)
		for _, shard := range n.Shards {
			if shard.Serving {
				leads++
			}
			groups += shard.Groups
			applied += shard.AppliedIndex
		}
		behind := plural(n.Upstream.Brokers, "broker") + ", " + plural(n.Upstream.Topics, "topic")
		if !n.Upstream.Reachable {
			behind = "no answer"
			if n.Upstream.Error != "" {
				behind += ": " + n.Upstream.Error
			}
		}
		up := (time.Duration(n.UptimeMs) * time.Millisecond).Round(time.Second)
		state := "up"
		if n.Drained {
			state += ", drained"
		}
		t.row(n.Node, state, n.ClientAddress, n.RaftAddress, leads, applied, groups, up, behind, n.Version)
	}
}

// hindranceLine is what status says below the table while no group may begin to keep its offsets in the log; "" otherwise.
func hindranceLine(s web.ClusterStatus) string {
	for _, n := range s.Nodes {
		if n.Node == s.AskedNode && n.OffsetsLogHindrance != "" {
			return "\nNew groups keep their offsets upstream: " + n.OffsetsLogHindrance + "\n"
		}
	}
	return ""
}
