package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/web"
)

func leadersCommand() *cobra.Command {
	var f adminFlags
	c := &cobra.Command{
		Use:   "leaders",
		Short: "Show who leads each shard, and move leaderships",
		Long: `Shows, for the system shard and every shard, the node that leads it ("kept" where it was moved there by 'coordd leaders
move'), the term, the applied index, and how many log entries each follower is behind. The exit code is 3 when a shard
has no leader.`,
		Example: `  coordd leaders
  coordd leaders --admin 10.0.0.5:9644 -o json
  coordd leaders move --shard 3 --to 2
  coordd leaders drain 2`,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := f.client()
			if err != nil {
				return err
			}
			status, err := client.Status(c.Context())
			if err != nil {
				return err
			}
			if err := f.print(c.OutOrStdout(), status.Shards, func(t *table) { leaderRows(t, status.Shards) }); err != nil {
				return err
			}
			return quorumError(status)
		},
	}
	f.register(c)
	c.AddCommand(leadersMoveCommand(), leadersDrainCommand())
	return c
}

func leaderRows(t *table, shards []web.ShardView) {
	t.row("SHARD", "LEADER", "TERM", "APPLIED", "FOLLOWERS (ENTRIES BEHIND)")
	for _, s := range shards {
		var followers []string
		for _, f := range s.Followers {
			state := fmt.Sprint(f.Lag)
			if !f.Live {
				state = "silent"
			}
			followers = append(followers, fmt.Sprintf("node %d: %s", f.Node, state))
		}
		leader := orNone(s.Leader)
		if s.Kept {
			leader += " (kept)"
		}
		t.row(shardName(s.Shard), leader, s.Term, s.AppliedIndex, orDash(strings.Join(followers, ", ")))
	}
}

func shardName(number int) string {
	if number < 0 {
		return "system"
	}
	return fmt.Sprint(number)
}

// quorumError tells by the exit code that a shard cannot serve.
func quorumError(s web.ClusterStatus) error {
	if s.Quorum {
		return nil
	}
	var without []string
	for _, v := range s.Shards {
		if v.Leader < 0 {
			without = append(without, shardName(v.Shard))
		}
	}
	subject := "shard " + list(without) + " has"
	if len(without) > 1 {
		subject = "shards " + strings.Join(without, ", ") + " have"
	}
	return &exitError{exitNoQuorum, "no quorum: " + subject + " no leader; more than half of the nodes must be up and reach each other"}
}
