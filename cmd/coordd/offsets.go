package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/web"
)

func groupsOffsetsCommand() *cobra.Command {
	var f adminFlags
	c := &cobra.Command{
		Use:   "offsets GROUP",
		Short: "Show how far a group has read: committed offset, end and lag of each task",
		Long: `Shows, for each partition that tasks of the group read, the committed offset, the offset at which the partition ends, how many
offsets are left between the two (LAG), and the member that has the task. Partitions that no task reads are listed, without a task, where
the group has an offset of them. "-" stands for what is not there or not known; a note says why.

A transaction that is open has committed nothing yet. Offsets count records and the markers of transactions.

STORE is where the offsets are kept: in the Kafka behind (upstream) or in coordd's own log (raft).

The exit code is 1 when there is no such streams group, and 3 when the group's shard has no leader.`,
		Example: `  coordd groups offsets my-app
  coordd groups offsets my-app -o json`,
		Args: oneGroup,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.client()
			if err != nil {
				return err
			}
			g, err := client.Offsets(c.Context(), web.OffsetsRequest{Group: args[0], TimeMs: web.NoOffset})
			if err != nil {
				return refusalError(err)
			}
			return f.print(c.OutOrStdout(), g, func(t *table) { offsetsRows(t, &g) })
		},
	}
	f.register(c)
	return c
}

func offsetsRows(t *table, g *web.GroupOffsets) {
	t.row("GROUP", "STATE", "EPOCH", "MEMBERS", "STORE", "LAG", "SHARD", "COORDINATOR")
	t.row(g.Group, g.State, g.Epoch, g.Members, g.Store, g.Lag, g.Shard, orNone(g.Coordinator))
	for _, note := range g.Notes {
		t.row("note: " + note)
	}
	t.row()
	if len(g.Partitions) == 0 {
		t.row("nothing is committed, and no topology of the group is known")
		return
	}
	t.row("TASK", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "CLIENT", "HOST")
	for i := range g.Partitions {
		p := &g.Partitions[i]
		t.row(offsetTask(p), p.Topic, p.Partition, orNoOffset(p.Committed), orNoOffset(p.End), orNoOffset(p.Lag), orDash(p.Member), orDash(p.ClientID), orDash(p.Host))
	}
	for i := range g.Partitions {
		if p := &g.Partitions[i]; p.Problem != "" {
			t.row(fmt.Sprintf("note: partition %d of topic %s: %s", p.Partition, p.Topic, p.Problem))
		}
	}
}

// offsetTask is the task that reads a partition.
func offsetTask(p *web.PartitionOffsets) string {
	if p.Subtopology == "" {
		return "-"
	}
	return fmt.Sprintf("%s_%d", p.Subtopology, p.Partition)
}

func orNoOffset(n int64) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
