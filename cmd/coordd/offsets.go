package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/web"
)

func groupsOffsetsCommand() *cobra.Command {
	var f adminFlags
	var to string
	c := &cobra.Command{
		Use:   "offsets GROUP",
		Short: "Show how far a group has read, by task, and move its offsets to another store",
		Long: `Shows, for each partition that tasks of the group read, the committed offset, the offset at which the partition ends, how many
offsets are left between the two (LAG), and the member that has the task. Partitions that no task reads are listed, without a task, where
the group has an offset of them. "-" stands for what is not there or not known; a note says why. The LAG of the group is the sum: 125+ where some are not
known, "-" where none is.

A transaction that is open has committed nothing yet. Offsets count records and the markers of transactions.

STORE is where the offsets are kept: in the Kafka behind (upstream) or in coordd's own log (raft). With --move-to they are moved: copied, read
again and compared, and only then deleted in the old place. The group must have no members; who joins meanwhile waits. The command
can be repeated until it succeeds. Apps with processing.guarantee=exactly_once_v2 need their offsets upstream. Changes are only taken
from the machine of the node that is asked.

The exit code is 1 when there is no such streams group, or the offsets cannot be moved now, 2 for an unknown store, and 3 when the group's
shard has no leader.`,
		Example: `  coordd groups offsets my-app
  coordd groups offsets my-app -o json
  coordd groups offsets my-app --move-to raft`,
		Args: oneGroup,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.client()
			if err != nil {
				return err
			}
			if c.Flags().Changed("move-to") {
				return moveOffsets(c, &f, client, web.MoveOffsetsRequest{Group: args[0], To: to})
			}
			g, err := client.Offsets(c.Context(), web.OffsetsRequest{Group: args[0], TimeMs: web.NoOffset})
			if err != nil {
				return refusalError(err)
			}
			return f.print(c.OutOrStdout(), g, func(t *table) { offsetsRows(t, &g) })
		},
	}
	f.register(c)
	c.Flags().Var(&onceText{into: &to}, "move-to", "keep the offsets of the group, which must have no members, in store upstream or raft")
	return c
}

func moveOffsets(c *cobra.Command, f *adminFlags, client web.Client, r web.MoveOffsetsRequest) error {
	if r.To != "upstream" && r.To != "raft" {
		return usageError(&config.Error{Setting: "--move-to", Value: r.To, Allowed: "upstream or raft"})
	}
	moved, err := client.MoveOffsets(c.Context(), r)
	if err != nil {
		return refusalError(err)
	}
	return f.print(c.OutOrStdout(), moved, func(t *table) {
		if moved.From == moved.To {
			t.row(fmt.Sprintf("group %s: the offsets are in store %s already", moved.Group, moved.To))
			return
		}
		t.row(fmt.Sprintf("group %s: %s moved from store %s to store %s", moved.Group, plural(moved.Offsets, "offset"), moved.From, moved.To))
		if moved.Left > 0 {
			t.row(fmt.Sprintf("note: %s left out, as their topics or partitions do not exist any more", plural(moved.Left, "offset")))
		}
		if moved.To == "raft" {
			t.row("note: apps with processing.guarantee=exactly_once_v2 cannot commit there; for them move the offsets back before they start")
		}
	})
}

func offsetsRows(t *table, g *web.GroupOffsets) {
	t.row("GROUP", "STATE", "EPOCH", "MEMBERS", "STORE", "LAG", "SHARD", "COORDINATOR")
	t.row(g.Group, g.State, g.Epoch, g.Members, g.Store, lagText(g.Lag, g.LagUnknown), g.Shard, orNone(g.Coordinator))
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
	notes := partitionNotes(g)
	if len(notes) > 0 {
		t.row()
	}
	for _, note := range notes {
		t.row("note: " + note)
	}
}

// partitionNotes say why there is a "-", each reason once with the partitions that it holds for.
func partitionNotes(g *web.GroupOffsets) (notes []string) {
	var reasons []string
	named := map[string][]string{}
	for i := range g.Partitions {
		p := &g.Partitions[i]
		reason := p.Problem
		if reason == "" && p.Committed < 0 {
			reason = "no offset is committed; the app begins there by its auto.offset.reset"
		}
		if reason == "" {
			continue
		}
		if named[reason] == nil {
			reasons = append(reasons, reason)
		}
		if name := fmt.Sprintf("%s:%d", p.Topic, p.Partition); !slices.Contains(named[reason], name) {
			named[reason] = append(named[reason], name)
		}
	}
	for _, reason := range reasons {
		names := named[reason]
		if more := len(names) - maxNoted; more > 0 {
			names = append(names[:maxNoted:maxNoted], fmt.Sprintf("%d more", more))
		}
		notes = append(notes, strings.Join(names, ", ")+": "+reason)
	}
	if g.LagUnknown > 0 {
		notes = append(notes, fmt.Sprintf("LAG is without %s of which it is not known", plural(g.LagUnknown, "partition")))
	}
	return notes
}

// maxNoted is how many partitions a note names.
const maxNoted = 10

// lagText shows a sum of lags, with a + where some are not known.
func lagText(lag int64, unknown int) string {
	if lag >= 0 && unknown > 0 {
		return fmt.Sprintf("%d+", lag)
	}
	return orNoOffset(lag)
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
