package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/web"
)

func groupsTopologyCommand() *cobra.Command {
	var f adminFlags
	c := &cobra.Command{
		Use:   "topology GROUP",
		Short: "Show the topology of a group, its topics, and who runs which",
		Long: `Shows the group's topology with its subtopologies, tasks and topics, which topics it waits for, and which members run it and
which still run an older one. Partition counts stand in parentheses, where they are known. The exit code is 1 when there is no
such streams group.`,
		Example: `  coordd groups topology my-app
  coordd groups topology my-app -o json`,
		Args: oneGroup,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.client()
			if err != nil {
				return err
			}
			g, err := client.Topology(c.Context(), args[0])
			if err == nil {
				err = f.print(c.OutOrStdout(), g, func(t *table) { topologyRows(t, g) })
			}
			return quorumFirst(c.Context(), client, err)
		},
	}
	f.register(c)
	return c
}

func topologyRows(t *table, g web.GroupTopology) {
	t.row("GROUP", "STATE", "EPOCH", "TOPOLOGY EPOCH", "MEMBERS", "SHARD", "COORDINATOR")
	t.row(g.Group, g.State, g.Epoch, orNone(g.TopologyEpoch), g.Members, g.Shard, orNone(g.Coordinator))
	if g.Problem != "" {
		t.row()
		t.row("problem: " + g.Problem)
	}
	if len(g.Subtopologies) == 0 {
		t.row()
		t.row("the group has no topology: the next member that joins brings one")
		return
	}
	subtopologyRows(t, g.Subtopologies)
	missingRows(t, g.Missing)
	versionRows(t, g.Versions)
	t.row()
	t.row("roll-out: " + rollOutText(g))
}

func subtopologyRows(t *table, subtopologies []web.GroupSubtopology) {
	t.row()
	t.row("SUBTOPOLOGY", "TASKS", "STATE", "SOURCES", "REPARTITION SOURCES", "REPARTITION SINKS", "CHANGELOGS")
	for _, s := range subtopologies {
		state := "stateless"
		if s.Stateful {
			state = "stateful"
		}
		sources := s.Sources
		for _, pattern := range s.SourceRegexes {
			sources = append(sources, "/"+pattern+"/")
		}
		t.row(s.Subtopology, orUnknown(s.Tasks), state, list(sources), topicList(s.RepartitionSources), list(s.RepartitionSinks), topicList(s.Changelogs))
	}
}

func topicList(topics []web.InternalTopic) string {
	var names []string
	for _, topic := range topics {
		if topic.Partitions < 0 {
			names = append(names, topic.Topic)
		} else {
			names = append(names, fmt.Sprintf("%s (%d)", topic.Topic, topic.Partitions))
		}
	}
	return list(names)
}

func missingRows(t *table, missing []web.MissingTopic) {
	if len(missing) == 0 {
		return
	}
	t.row()
	t.row("MISSING TOPIC", "KIND", "PARTITIONS", "STATE")
	for _, m := range missing {
		partitions, state := "-", "create it, or correct its name in the app"
		if m.Kind != "source" {
			switch {
			case m.Error != "":
				state = "could not be created, is tried again: " + m.Error
			case m.Partitions > 0:
				state = "is being created"
			default:
				state = "is created when the other topics are right"
			}
			if m.Partitions > 0 {
				partitions = fmt.Sprint(m.Partitions)
			}
		}
		t.row(m.Topic, m.Kind, partitions, state)
	}
}

// maxListedMembers bounds how many members of a topology a table lists.
const maxListedMembers = 20

func versionRows(t *table, versions []web.TopologyVersion) {
	t.row()
	t.row("TOPOLOGY EPOCH", "MEMBER", "INSTANCE", "CLIENT", "HOST", "TASKS")
	for _, v := range versions {
		epoch := orNone(v.Epoch)
		if v.Current {
			epoch += " (current)"
		}
		if len(v.Members) == 0 {
			t.row(epoch, "nobody", "", "", "", "")
		}
		for _, m := range v.Members[:min(len(v.Members), maxListedMembers)] {
			t.row(epoch, m.Member, orDash(m.InstanceID), m.ClientID, m.Host, m.Tasks)
		}
		if more := len(v.Members) - maxListedMembers; more > 0 {
			t.row(epoch, fmt.Sprintf("and %d more; '-o json' lists all", more), "", "", "", "")
		}
	}
}

func rollOutText(g web.GroupTopology) string {
	r := g.RollOut
	switch {
	case g.Members == 0:
		return "no member runs"
	case r.Done:
		return "done, " + allOf(r.Current) + " it"
	}
	return fmt.Sprintf("%d of %s it; %s an older one still and %s %s", r.Current, runs(r.Current+r.Stale), runs(r.Stale), has(r.Stale),
		plural(r.StaleTasks, "task"))
}

func allOf(n int) string {
	if n == 1 {
		return "the only member runs"
	}
	return fmt.Sprintf("all %d members run", n)
}

func runs(n int) string {
	if n == 1 {
		return "1 member runs"
	}
	return fmt.Sprintf("%d members run", n)
}

func has(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

func orUnknown(n int32) string {
	if n < 0 {
		return "?"
	}
	return fmt.Sprint(n)
}
