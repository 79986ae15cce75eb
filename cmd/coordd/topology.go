package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/web"
)

func groupsTopologyCommand() *cobra.Command {
	var f adminFlags
	var abort, yes bool
	c := &cobra.Command{
		Use:   "topology GROUP",
		Short: "Show the topology of a group, its topics, who runs which, and take an update back",
		Long: `Shows the group's topology with its subtopologies, tasks and topics, which topics it waits for, which topologies it had before,
which members run which, what the last change was, and how far its roll-out is. Partition counts stand in parentheses, where they
are known. The exit code is 1 when there is no such streams group.

With --abort the last update is taken back: the topology of before is the group's again, under a new topology epoch. Members that
run it go on as before and get all its tasks; those of the topology that is taken back give up the tasks that differ, and should be
replaced by the version of before. No topic and no offset is deleted. Without --yes it only says what would change. Changes are only
taken from the machine of the node that is asked.`,
		Example: `  coordd groups topology my-app
  coordd groups topology my-app -o json
  coordd groups topology my-app --abort
  coordd groups topology my-app --abort --yes`,
		Args: oneGroup,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.client()
			if err != nil {
				return err
			}
			if yes && !abort {
				return usageError(&config.Error{Setting: "--yes", Allowed: "together with --abort"})
			}
			g, err := client.Topology(c.Context(), args[0])
			switch {
			case err != nil:
			case abort:
				return abortTopology(c, &f, client, g, yes)
			default:
				err = f.print(c.OutOrStdout(), g, func(t *table) { topologyRows(t, g) })
			}
			return quorumFirst(c.Context(), client, err)
		},
	}
	f.register(c)
	c.Flags().BoolVar(&abort, "abort", false, "take the last update of the topology back")
	c.Flags().BoolVar(&yes, "yes", false, "with --abort: do it")
	return c
}

// abortTopology takes the last update back, or says what that would change.
func abortTopology(c *cobra.Command, f *adminFlags, client web.Client, g web.GroupTopology, yes bool) error {
	if g.Back == nil {
		return fmt.Errorf("group %q has no earlier topology to go back to: its members can only be replaced by a newer version of the app, or, "+
			"when all have left, by any", g.Group)
	}
	if !yes {
		if err := f.print(c.OutOrStdout(), g.Back, func(t *table) { backRows(t, g) }); err != nil {
			return err
		}
		return &exitError{exitUsage, "nothing was changed: add --yes to take the update back"}
	}
	aborted, err := client.AbortTopology(c.Context(), web.AbortRequest{Group: g.Group, Epoch: g.TopologyEpoch})
	if err != nil {
		return refusalError(err)
	}
	return f.print(c.OutOrStdout(), aborted, func(t *table) {
		t.row(fmt.Sprintf("group %s: the topology of epoch %d is taken back; that of epoch %d is the group's again, as epoch %d", aborted.Group, aborted.Aborted,
			aborted.Restored, aborted.Epoch))
		t.row("replace the members that 'coordd groups topology' shows with another topology by the version of before")
	})
}

func backRows(t *table, g web.GroupTopology) {
	t.row(fmt.Sprintf("group %s would go from topology epoch %d back to the topology of epoch %d, as epoch %d:", g.Group, g.Back.From, g.Back.To, g.Back.From+1))
	changeRows(t, g.Back)
	ready, others := 0, 0
	for _, v := range g.Versions {
		if v.Epoch == g.Back.To {
			ready += len(v.Members)
		} else {
			others += len(v.Members)
		}
	}
	t.row(fmt.Sprintf("  %s that topology; %s another one and would give up the tasks of subtopologies that are changed or lost",
		runs(ready), runs(others)))
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
	memberRows(t, g.Versions)
	if g.Change != nil {
		t.row()
		t.row(fmt.Sprintf("change from topology epoch %d to %d:", g.Change.From, g.Change.To))
		changeRows(t, g.Change)
	}
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
	t.row("MISSING TOPIC", "KIND", "PARTITIONS", "REPLICATION FACTOR", "CONFIGS", "STATE")
	for _, m := range missing {
		partitions, factor, state := "-", "-", "create it, or correct its name in the app"
		switch m.Kind {
		case "pattern":
			state = "create a topic that it matches, or correct it in the app"
		case "internal":
			switch {
			case m.Error != "":
				state = "could not be created, is tried again: " + m.Error
			case m.Partitions > 0:
				state = "is being created"
			default:
				state = "is created when the other topics are right"
			}
			if m.Partitions > 0 {
				partitions, factor = fmt.Sprint(m.Partitions), "default"
			}
			if m.ReplicationFactor > 0 {
				factor = fmt.Sprint(m.ReplicationFactor)
			}
		}
		t.row(m.Topic, m.Kind, partitions, factor, list(m.Configs), state)
	}
}

// maxListedMembers bounds how many members of a topology a table lists.
const maxListedMembers = 20

// maxListedVersions bounds how many topologies that nobody runs a table lists.
const maxListedVersions = 5

func versionRows(t *table, versions []web.TopologyVersion) {
	t.row()
	t.row("TOPOLOGY EPOCH", "OF THE APP", "SINCE", "STATE", "MEMBERS")
	idle := 0
	for i := range versions {
		v := &versions[i]
		if len(v.Members) == 0 && !v.Current {
			if idle++; idle > maxListedVersions {
				continue
			}
		}
		since := "-"
		if v.SinceMs != 0 {
			since = at(v.SinceMs)
		}
		t.row(orNone(v.Epoch), orNone(v.Declared), since, versionState(v), len(v.Members))
	}
	if more := idle - maxListedVersions; more > 0 {
		t.row(fmt.Sprintf("and %d more that nobody runs; '-o json' lists all", more))
	}
}

func versionState(v *web.TopologyVersion) string {
	state := "earlier"
	switch {
	case v.Current:
		state = "current"
	case v.Epoch < 0:
		state = "unknown"
	case v.Aborted:
		state = "taken back"
	}
	if v.Restores >= 0 {
		state += fmt.Sprintf(", as epoch %d", v.Restores)
	}
	return state
}

func memberRows(t *table, versions []web.TopologyVersion) {
	header := false
	for _, v := range versions {
		if len(v.Members) > 0 && !header {
			header = true
			t.row()
			t.row("MEMBER", "TOPOLOGY EPOCH", "INSTANCE", "CLIENT", "HOST", "TASKS")
		}
		for _, m := range v.Members[:min(len(v.Members), maxListedMembers)] {
			t.row(m.Member, orNone(v.Epoch), orDash(m.InstanceID), m.ClientID, m.Host, m.Tasks)
		}
		if more := len(v.Members) - maxListedMembers; more > 0 {
			t.row(fmt.Sprintf("and %d more", more), orNone(v.Epoch), "", "", "", "")
		}
	}
}

func changeRows(t *table, c *web.TopologyChange) {
	t.row("  subtopologies kept: " + list(c.Kept) + "; changed: " + list(c.Changed) + "; new: " + list(c.New) + "; lost: " + list(c.Lost))
	if len(c.Orphaned) > 0 {
		t.row("  topics without a use, which nobody deletes: " + topicList(c.Orphaned))
	}
	for _, change := range c.Counts {
		text := fmt.Sprintf("  topic %s needs %s, before %d", change.Topic, plural(int(change.Needed), "partition"), change.Before)
		if change.Exists >= 0 && change.Exists != change.Needed {
			text += fmt.Sprintf("; it has %d: delete it or go back", change.Exists)
		}
		t.row(text)
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
	text := fmt.Sprintf("%d of %s the group's topology", r.Current, runs(r.Current+r.Stale))
	if r.Tasks >= 0 {
		text += fmt.Sprintf("; of %s %d are with them, %d with the others and %d with nobody yet", plural(int(r.Tasks), "task"), r.CurrentTasks,
			r.StaleTasks, r.Waiting)
	}
	if r.Leaving > 0 {
		text += fmt.Sprintf("; %s of the topology before %s still to be given up", plural(int(r.Leaving), "task"), areOrIs(r.Leaving))
	}
	return text
}

func areOrIs(n int32) string {
	if n == 1 {
		return "is"
	}
	return "are"
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

func orUnknown(n int32) string {
	if n < 0 {
		return "?"
	}
	return fmt.Sprint(n)
}
