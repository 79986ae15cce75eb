package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/web"
)

// resetFlags are the flags of reset-offsets.
type resetFlags struct {
	adminFlags
	execute, dryRun bool
	topics          []string
	export          string
	target          resetTarget
}

func groupsResetOffsetsCommand() *cobra.Command {
	var f resetFlags
	c := &cobra.Command{
		Use:   "reset-offsets GROUP",
		Short: "Have a stopped app read from elsewhere",
		Long: `Changes the committed offsets of a group whose members have left, as Kafka's tools do. Without --execute nothing is changed: it shows
what would be.

Exactly one of these says where to:

  --to-earliest, --to-latest   where the log starts, or ends
  --to-offset N                to that offset
  --to-datetime T              to the first record of that time or later, 2006-01-02T15:04:05.000 (UTC, or with Z, +02:00 or the like)
  --by-duration D              the same, so long ago: P1DT2H30M, or 2h30m
  --shift-by N                 N records on, or back where N is negative
  --from-file FILE             to what the file says: lines of topic,partition,offset, as Kafka's tools export them; the offset -1
                               stands for none, and takes the committed one away

It applies to all source topics of the group, or to those of --topic, of which partitions can be named: --topic orders:0,3. What lies
outside a log is moved to its start or end; a note says so. A group without a topology, as one that was just taken over from a classic
app, tells no source topics: all topics with a committed offset are taken but those with the names of its internal ones.

With --execute the offsets of before are first written to a file, which --from-file takes back: GROUP-offsets-TIME.csv in
the current folder, or the file of --export. It is refused while the group has members, and when an offset changes meanwhile.

State stores, changelogs and repartition topics stay as they are: records that are read again are processed again, on the state that
is there. To start from nothing, delete the local state and the group's internal topics as well.

Changes are only taken from the machine of the node that is asked. The exit code is 1 when there is no such streams group, it has members,
or a topic is not one of its own; 2 for wrong usage; 3 when the group's shard has no leader.`,
		Example: `  coordd groups reset-offsets my-app --to-earliest
  coordd groups reset-offsets my-app --to-datetime 2026-05-01T06:00:00 --execute
  coordd groups reset-offsets my-app --topic orders:0,3 --shift-by -100 --execute
  coordd groups reset-offsets my-app --from-file my-app-offsets-20260501T060000Z.csv --execute`,
		Args: oneGroup,
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	f.register(c)
	flags := c.Flags()
	flags.BoolVar(&f.execute, "execute", false, "change the offsets")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only show what would change; so it is without --execute")
	flags.StringArrayVar(&f.topics, "topic", nil, "topic, or topic:partition,partition; may be repeated; by default all source topics")
	flags.Var(&onceText{into: &f.export}, "export", "with --execute: the file for the offsets of before, which must not exist")
	flags.BoolVar(&f.target.earliest, "to-earliest", false, "to the start of the log")
	flags.BoolVar(&f.target.latest, "to-latest", false, "to the end of the log")
	flags.Int64Var(&f.target.offset, "to-offset", 0, "to this offset")
	flags.Int64Var(&f.target.shift, "shift-by", 0, "by so many records, negative: back")
	flags.Var(&onceText{into: &f.target.datetime}, "to-datetime", "to the first record of this time or later")
	flags.Var(&onceText{into: &f.target.duration}, "by-duration", "to the first record of so long ago or later")
	flags.Var(&onceText{into: &f.target.file}, "from-file", "to what the file says")
	return c
}

func (f *resetFlags) run(c *cobra.Command, group string) error {
	client, err := f.client()
	if err != nil {
		return err
	}
	if f.execute && f.dryRun {
		return &exitError{exitUsage, "--execute and --dry-run contradict each other"}
	}
	if f.export != "" && !f.execute {
		return &exitError{exitUsage, "--export needs --execute"}
	}
	if err := f.target.read(c.Flags().Changed, group); err != nil {
		return err
	}
	scope, err := parseScope(f.topics)
	if err != nil {
		return err
	}
	g, err := client.Offsets(c.Context(), web.OffsetsRequest{Group: group, TimeMs: f.target.timeMs})
	if err != nil {
		return refusalError(err)
	}
	plan, err := planReset(&g, scope, &f.target)
	if err != nil {
		return err
	}
	there := runsBehind(c.Context(), client, &g)
	if there != "" {
		plan.Notes = append(plan.Notes, there)
	}
	if f.execute && there != "" && len(plan.changes()) > 0 {
		return errors.New("nothing was changed: " + there)
	}
	if f.execute {
		if err := f.reset(c.Context(), client, &g, plan); err != nil {
			return err
		}
	}
	admin := ""
	if c.Flags().Changed("admin") {
		admin = c.Flag("admin").Value.String()
	}
	return f.print(c.OutOrStdout(), plan, func(t *table) { resetRows(t, plan, backCommand(plan.Group, plan.Exported, admin)) })
}

// runsBehind says that the app runs in the Kafka behind, where its offsets are; empty where it does not, or that is not known.
func runsBehind(ctx context.Context, client web.Client, g *web.GroupOffsets) string {
	if g.Store != "upstream" || g.Members > 0 {
		return ""
	}
	o, err := client.Origin(ctx, g.Group)
	if err != nil || o.Type == "" || o.Protocol == "coordd" || o.State == "Empty" || o.State == "Dead" {
		return ""
	}
	return fmt.Sprintf("the app runs in the Kafka behind, where group %s is %s: stop it there; 'coordd import --from-upstream %s' shows when it has", g.Group, o.State, g.Group)
}

// reset saves the offsets of before, then changes them.
func (f *resetFlags) reset(ctx context.Context, client web.Client, g *web.GroupOffsets, plan *resetPlan) error {
	if g.Members > 0 {
		return fmt.Errorf("group %q has %s: stop the app, and wait until 'coordd groups describe' shows none", g.Group, plural(g.Members, "member"))
	}
	request := web.ResetRequest{Group: g.Group, Offsets: plan.changes()}
	if len(request.Offsets) == 0 {
		plan.Executed = true
		return nil
	}
	name := f.export
	if name == "" {
		name = exportName(g.Group)
	}
	if err := exportOffsets(name, request.Offsets); err != nil {
		return fmt.Errorf("nothing was changed: the offsets of before cannot be saved: %w", err)
	}
	if _, err := client.ResetOffsets(ctx, request); err != nil {
		return fmt.Errorf("%w\nthe offsets of before are in %s", refusalError(err), name)
	}
	plan.Executed, plan.Exported = true, name
	return nil
}

func resetRows(t *table, p *resetPlan, back string) {
	t.row("GROUP", "STATE", "MEMBERS", "STORE")
	t.row(p.Group, p.State, p.Members, p.Store)
	t.row()
	changed := 0
	t.row("TOPIC", "PARTITION", "COMMITTED", "NEW OFFSET", "CHANGE")
	for _, o := range p.Partitions {
		if o.Before != o.Offset {
			changed++
		}
		t.row(o.Topic, o.Partition, orNoOffset(o.Before), orNoOffset(o.Offset), changeText(o.Before, o.Offset))
	}
	t.row()
	for _, note := range p.Notes {
		t.row("note: " + note)
	}
	switch {
	case changed == 0:
		t.row("nothing to change")
	case !p.Executed:
		t.row("nothing was changed: add --execute to change " + plural(changed, "offset"))
	default:
		t.row(fmt.Sprintf("changed: %s; those of before are in %s", plural(changed, "offset"), p.Exported))
		t.row("back:    " + back)
	}
}

func changeText(before, after int64) string {
	if before < 0 || after < 0 || before == after {
		return "-"
	}
	return fmt.Sprintf("%+d", after-before)
}

// backCommand takes a reset back, from any folder, at the node that was asked where one was named.
func backCommand(group, file, admin string) string {
	if whole, err := filepath.Abs(file); err == nil {
		file = whole
	}
	quote := func(s string) string {
		if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(plainLetters+":/", r) }) {
			return s
		}
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	if admin != "" {
		admin = " --admin " + quote(admin)
	}
	return "coordd groups reset-offsets " + quote(group) + admin + " --from-file " + quote(file) + " --execute"
}

// refuseReset refuses a flag of reset-offsets.
func refuseReset(flag, value, allowed string) error {
	return usageError(&config.Error{Setting: flag, Value: value, Allowed: allowed})
}
