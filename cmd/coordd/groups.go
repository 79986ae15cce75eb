package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/web"
)

func groupsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "groups",
		Short: "Show streams groups, and change their offsets",
		Example: `  coordd groups list --state Stable
  coordd groups describe my-app
  coordd groups topology my-app
  coordd groups why my-app
  coordd groups plan my-app --add 1
  coordd groups offsets my-app
  coordd groups reset-offsets my-app --to-earliest`,
	}
	c.AddCommand(groupsListCommand(), groupsDescribeCommand(), groupsTopologyCommand(), groupsWhyCommand(), groupsPlanCommand(),
		groupsOffsetsCommand(), groupsResetOffsetsCommand())
	return c
}

func groupsListCommand() *cobra.Command {
	var f adminFlags
	var state string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the groups with their states and epochs",
		Long: `Lists the streams groups with their states and epochs. The states are Kafka's:

  Empty        no members
  NotReady     topics are missing or do not fit ('coordd groups describe' says which)
  Assigning    a new assignment is due or being computed
  Reconciling  members are giving up and taking over tasks
  Stable       every member has its tasks

The exit code is 3 when a shard has no leader.`,
		Example: `  coordd groups list
  coordd groups list --state Empty -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := f.client()
			if err != nil {
				return err
			}
			if state != "" && !slices.ContainsFunc(web.States, func(s string) bool { return strings.EqualFold(s, state) }) {
				return usageError(&config.Error{Setting: "--state", Value: state, Allowed: strings.Join(web.States, ", ")})
			}
			groups, err := client.Groups(c.Context(), state)
			if err != nil {
				return err
			}
			return quorumFirst(c.Context(), client, f.print(c.OutOrStdout(), groups, func(t *table) {
				t.row("GROUP", "STATE", "EPOCH", "ASSIGNMENT EPOCH", "TOPOLOGY EPOCH", "MEMBERS", "SHARD", "COORDINATOR")
				for _, g := range groups {
					t.row(g.Group, g.State, g.Epoch, g.AssignmentEpoch, g.TopologyEpoch, g.Members, g.Shard, orNone(g.Coordinator))
				}
			}))
		},
	}
	f.register(c)
	c.Flags().StringVar(&state, "state", "", "only groups in this state: Empty, NotReady, Assigning, Reconciling or Stable")
	return c
}

func groupsDescribeCommand() *cobra.Command {
	var f adminFlags
	c := &cobra.Command{
		Use:   "describe GROUP",
		Short: "Show a group with its members and tasks",
		Long: `Shows a group's state and epochs, which topics it waits for, and each member with the tasks that it has (ACTIVE, STANDBY,
WARM-UP), those that it is giving up (REVOKING), and those that it is to have next (TARGET). A warm-up is a copy of a task that moves to
the member when it has caught up. A task is written subtopology_partition. The exit code is 1 when there is no such streams group.`,
		Example: `  coordd groups describe my-app
  coordd groups describe my-app -o json`,
		Args: oneGroup,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.client()
			if err != nil {
				return err
			}
			g, err := client.Group(c.Context(), args[0])
			if err == nil {
				err = f.print(c.OutOrStdout(), g, func(t *table) { groupRows(t, g) })
			}
			return quorumFirst(c.Context(), client, err)
		},
	}
	f.register(c)
	return c
}

// oneGroup wants the id of a group as the only argument.
func oneGroup(_ *cobra.Command, args []string) error {
	if len(args) == 1 && args[0] == "" {
		return errors.New("the group's name is empty; 'coordd groups list' shows the groups")
	}
	if len(args) != 1 {
		return fmt.Errorf("name one group, not %d; 'coordd groups list' shows them", len(args))
	}
	return nil
}

// quorumFirst puts the lack of a quorum before another outcome: without a leader what is shown of groups is only what the
// asked node knows.
func quorumFirst(ctx context.Context, client web.Client, err error) error {
	if status, failed := client.Status(ctx); failed == nil {
		if none := quorumError(status); none != nil {
			return none
		}
	}
	return err
}

func groupRows(t *table, g web.GroupDetail) {
	t.row("GROUP", "STATE", "EPOCH", "ASSIGNMENT EPOCH", "TOPOLOGY EPOCH", "SHARD", "COORDINATOR")
	t.row(g.Group, g.State, g.Epoch, g.AssignmentEpoch, g.TopologyEpoch, g.Shard, orNone(g.Coordinator))
	t.row()
	if g.Problem != "" {
		t.row("problem: " + g.Problem)
		t.row()
	}
	t.row("MEMBER", "EPOCH", "STATE", "CLIENT", "HOST", "ACTIVE", "STANDBY", "WARM-UP", "REVOKING", "TARGET ACTIVE", "TARGET STANDBY",
		"TARGET WARM-UP")
	for _, m := range g.MemberList {
		t.row(m.Member, m.Epoch, m.State, m.ClientID, m.Host, list(m.Active), list(m.Standby), list(m.Warmup),
			list(m.Revoking), list(m.TargetActive), list(m.TargetStandby), list(m.TargetWarmup))
	}
}
