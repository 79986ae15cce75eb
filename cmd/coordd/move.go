package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/web"
)

func leadersMoveCommand() *cobra.Command {
	var f adminFlags
	var shard string
	var to int32
	c := &cobra.Command{
		Use:   "move --shard N --to NODE",
		Short: "Have a node lead a shard",
		Long: `Moves the leadership of one shard to a node and returns when that node serves it. Members and clients notice nothing but a
few milliseconds: what only the leader knows (time-outs, task offsets) is handed over. A node that leads the shard already
is no error.

The shard stays there until the node loses the leadership, by 'leaders move', 'leaders drain', a stop or a failure; then
the shard goes back to its usual node in time. The exit code is 2 when there is no such shard or node, 3 when the shard has no
leader, and 1 when the node does not take it: it is down, drained, or has not caught up.

Changes are only taken from the machine of the node that is asked.`,
		Example: `  coordd leaders move --shard 3 --to 2
  coordd leaders move --shard system --to 1 -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := f.client()
			if err != nil {
				return err
			}
			number, err := shardNumber(shard)
			if err != nil {
				return err
			}
			if !c.Flags().Changed("to") {
				return usageError(&config.Error{Setting: "--to", Allowed: "the id of a node, see 'coordd status'"})
			}
			moved, err := client.MoveLeader(c.Context(), web.MoveRequest{Shard: number, To: to})
			if err != nil {
				return refusalError(err)
			}
			return f.print(c.OutOrStdout(), moved, func(t *table) { movedRows(t, moved) })
		},
	}
	f.register(c)
	c.Flags().StringVar(&shard, "shard", "", "number of the shard, or 'system'")
	c.Flags().Int32Var(&to, "to", 0, "id of the node that is to lead it")
	return c
}

func shardNumber(text string) (int, error) {
	if text == shardName(-1) {
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < -1 || n > math.MaxInt32 {
		return 0, usageError(&config.Error{Setting: "--shard", Value: text, Allowed: "the number of a shard or 'system', see 'coordd leaders'"})
	}
	return n, nil
}

func movedRows(t *table, m web.Moved) {
	if m.From == m.Leader {
		t.row(fmt.Sprintf("shard %s: node %d leads it already and keeps it", shardName(m.Shard), m.Leader))
		return
	}
	t.row(fmt.Sprintf("shard %s: node %d leads it now; before, node %d did", shardName(m.Shard), m.Leader, m.From))
}

func leadersDrainCommand() *cobra.Command {
	var f adminFlags
	var undo bool
	c := &cobra.Command{
		Use:   "drain NODE",
		Short: "Move all that a node leads to others, and keep it so",
		Long: `Moves the leadership of every shard that a node leads to other nodes, and keeps the node from leading until --undo or its
restart: before maintenance of its machine, disk or network. It goes on serving clients and following. Other nodes hand it nothing; what
it comes to lead by an election it hands on as soon as another node can take it. Stopping a node by SIGTERM moves its shards
by itself, without this.

With --undo the node gets its usual shards back by and by. The exit code is 1 when a shard stays for now, since no other node is up
or caught up; the node goes on trying.

Changes are only taken from the machine of the node that is asked.`,
		Example: `  coordd leaders drain 2
  coordd leaders drain 2 --undo`,
		Args: oneNode,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.client()
			if err != nil {
				return err
			}
			node, _ := strconv.ParseInt(args[0], 10, 32) // oneNode has looked
			drained, err := client.DrainNode(c.Context(), web.DrainRequest{Node: int32(node), Undo: undo})
			if err != nil {
				return refusalError(err)
			}
			if err := f.print(c.OutOrStdout(), drained, func(t *table) { drainedRows(t, drained) }); err != nil {
				return err
			}
			return stayError(drained)
		},
	}
	f.register(c)
	c.Flags().BoolVar(&undo, "undo", false, "let the node lead again")
	return c
}

// oneNode wants the id of a node as the only argument.
func oneNode(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one node, not %d; 'coordd status' shows them", len(args))
	}
	if _, err := strconv.ParseUint(args[0], 10, 31); err != nil {
		return fmt.Errorf("node %q is not allowed (allowed: the id of a node, see 'coordd status')", args[0])
	}
	return nil
}

func drainedRows(t *table, d web.Drained) {
	if !d.Drained {
		t.row(fmt.Sprintf("node %d may lead again; its usual shards come back by and by", d.Node))
		return
	}
	t.row(fmt.Sprintf("node %d is drained until 'coordd leaders drain %d --undo' or its restart", d.Node, d.Node))
	if len(d.Shards) == 0 {
		return
	}
	t.row()
	t.row("SHARD", "LEADER")
	for _, s := range d.Shards {
		t.row(shardName(s.Shard), orNone(s.Leader))
	}
}

// stayError tells which shards are still with a drained node.
func stayError(d web.Drained) error {
	var stay []string
	why := ""
	for _, s := range d.Shards {
		if s.Problem != "" {
			stay = append(stay, shardName(s.Shard))
			why = s.Problem
		}
	}
	if len(stay) == 0 {
		return nil
	}
	return fmt.Errorf("node %d still leads shard %s: %s; it goes on trying", d.Node, strings.Join(stay, ", "), why)
}

// refusalError gives a refused change its exit code.
func refusalError(err error) error {
	var refused *web.Refusal
	if errors.As(err, &refused) {
		switch refused.Kind {
		case web.NotAllowed:
			return &exitError{exitUsage, refused.Text}
		case web.NoLeader:
			return &exitError{exitNoQuorum, "no quorum: " + refused.Text}
		}
	}
	return err
}
