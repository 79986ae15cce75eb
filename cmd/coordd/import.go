package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/web"
)

func importCommand() *cobra.Command {
	var f adminFlags
	var group string
	var yes, fromCoordd bool
	c := &cobra.Command{
		Use:   "import --from-upstream GROUP",
		Short: "Take the group of an app over from the Kafka behind",
		Long: `Takes over what the coordinator of the Kafka behind has of an app that is to run with coordd from now on: a classic group (an app
with group.protocol=classic), or a streams group of Kafka 4.2 or newer. The app must be stopped. Its committed offsets stay where they
are, in the Kafka behind; a streams group's epochs, topology and settings (streams.*) come along.

Without --yes it only shows what would be taken over: the offsets, how much is left to read, and what the app will meet. The exit code is 1
when there is no such group, when its app still runs, or when the group cannot be taken over for another reason.

A group that a coordd cluster had last may be another cluster's still, which cannot be seen while its app is stopped. Give it back
there first, or, when no cluster has it any more, add --from-coordd.

Changes are only taken from the machine of the node that is asked.`,
		Example: `  coordd import --from-upstream my-app
  coordd import --from-upstream my-app --yes`,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := f.client()
			if err != nil {
				return err
			}
			if err := groupFlag("--from-upstream", group); err != nil {
				return err
			}
			if yes {
				done, err := client.Import(c.Context(), web.ImportRequest{Group: group, FromCoordd: fromCoordd})
				if err != nil {
					return refusalError(err)
				}
				return f.print(c.OutOrStdout(), done, func(t *table) { importedRows(t, &done) })
			}
			return previewMove(c, &f, client, group, false)
		},
	}
	f.register(c)
	c.Flags().StringVar(&group, "from-upstream", "", "id of the group in the Kafka behind (the app's application.id)")
	c.Flags().BoolVar(&yes, "yes", false, "take the group over, do not only show it")
	c.Flags().BoolVar(&fromCoordd, "from-coordd", false, "with --yes: also a group that a coordd cluster had last; make sure that none has it any more")
	return c
}

func exportCommand() *cobra.Command {
	var f adminFlags
	var group string
	var yes bool
	c := &cobra.Command{
		Use:   "export --to-upstream GROUP",
		Short: "Give the group of an app back to the Kafka behind",
		Long: `Gives the group of an app back, so that the app can run without coordd again: with group.protocol=classic, or with
group.protocol=streams where the Kafka behind is newer than 4.2.0. The app must be stopped. Its committed offsets are in the Kafka behind
already, or are written there (offsets.store=raft). What coordd knows besides is forgotten: epochs, topology, journal. Settings of the group
stay in coordd for the case that it comes back.

Without --yes it only shows what would be given back. The exit code is 1 when there is no such group, or when it has members.

Changes are only taken from the machine of the node that is asked.`,
		Example: `  coordd export --to-upstream my-app
  coordd export --to-upstream my-app --yes`,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := f.client()
			if err != nil {
				return err
			}
			if err := groupFlag("--to-upstream", group); err != nil {
				return err
			}
			if yes {
				return export(c, &f, client, group)
			}
			return previewMove(c, &f, client, group, true)
		},
	}
	f.register(c)
	c.Flags().StringVar(&group, "to-upstream", "", "id of the group (the app's application.id)")
	c.Flags().BoolVar(&yes, "yes", false, "give the group back, do not only show it")
	return c
}

func groupFlag(flag, group string) error {
	if group == "" {
		return usageError(&config.Error{Setting: flag, Allowed: "the id of a group, which is the application.id of its app"})
	}
	return nil
}

func export(c *cobra.Command, f *adminFlags, client web.Client, group string) error {
	o, err := client.Origin(c.Context(), group)
	if err != nil {
		return refusalError(err)
	}
	if o.NoExport != "" {
		return errors.New(o.NoExport)
	}
	done, err := client.Export(c.Context(), web.ExportRequest{Group: group})
	if err != nil {
		return refusalError(err)
	}
	return f.print(c.OutOrStdout(), done, func(t *table) {
		t.row(fmt.Sprintf("group %s is no longer coordd's; the Kafka behind has %s of it", done.Group, plural(done.Offsets, "committed offset")))
		t.row("start the app with bootstrap.servers of that Kafka, and with group.protocol=classic, or streams where it is newer than 4.2.0")
	})
}

// previewMove shows what would be moved. Why it cannot be is an error.
func previewMove(c *cobra.Command, f *adminFlags, client web.Client, group string, back bool) error {
	o, err := client.Origin(c.Context(), group)
	if err != nil {
		return refusalError(err)
	}
	why, next := o.NoImport, "nothing was changed: add --yes to take the group over"
	if o.MayBeHeld {
		next = "nothing was changed: add --yes --from-coordd to take the group over, when no other coordd cluster has it any more"
	}
	if back {
		why, next = o.NoExport, "nothing was changed: add --yes to give the group back"
	}
	if f.output == "json" || o.Type != "" || o.Held {
		if err := f.print(c.OutOrStdout(), o, func(t *table) { originRows(t, &o, back, why == "", next) }); err != nil {
			return err
		}
	}
	if why != "" {
		return errors.New(why)
	}
	return nil
}

func importedRows(t *table, i *web.Imported) {
	topology := "without a topology, which its first member brings"
	if i.TopologyEpoch >= 0 {
		topology = fmt.Sprintf("with topology epoch %d", i.TopologyEpoch)
	}
	t.row(fmt.Sprintf("group %s is coordd's now, at epoch %d, %s; %s in the Kafka behind", i.Group, i.Epoch, topology, stays(i.Offsets)))
	if len(i.Settings) > 0 {
		t.row("settings taken over: " + settingList(i.Settings))
	}
	t.row("start the app with bootstrap.servers of coordd and group.protocol=streams: it goes on where it stopped")
}

func stays(offsets int) string {
	if offsets == 1 {
		return "its committed offset stays"
	}
	return fmt.Sprintf("its %d committed offsets stay", offsets)
}

func originRows(t *table, o *web.GroupOrigin, back, may bool, next string) {
	if back {
		t.row("GROUP", "STATE", "STORE", "UPSTREAM", "OFFSETS", "LAG")
		t.row(o.Group, orDash(o.HeldState), orDash(o.HeldStore), orDash(o.Type), len(o.Offsets), lagText(o.Lag, o.LagUnknown))
	} else {
		t.row("GROUP", "TYPE", "STATE", "EPOCH", "TOPOLOGY EPOCH", "OFFSETS", "LAG")
		t.row(o.Group, orDash(o.Type), orDash(o.State), orNone(o.Epoch), orNone(o.TopologyEpoch), len(o.Offsets), lagText(o.Lag, o.LagUnknown))
	}
	if len(o.Offsets) > 0 {
		t.row()
		t.row("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "PROBLEM")
		for i := range o.Offsets {
			p := &o.Offsets[i]
			t.row(p.Topic, p.Partition, orNoOffset(p.Committed), orNoOffset(p.End), orNoOffset(p.Lag), orDash(p.Problem))
		}
	}
	if len(o.Subtopologies) > 0 && !back {
		subtopologyRows(t, o.Subtopologies)
	}
	if !back {
		originSettingRows(t, o.Settings)
	}
	if len(o.Notes) > 0 {
		t.row()
	}
	for _, note := range o.Notes {
		t.row("note: " + note)
	}
	if may {
		t.row()
		t.row(next)
	}
}

func originSettingRows(t *table, settings []web.OriginSetting) {
	if len(settings) == 0 {
		return
	}
	t.row()
	t.row("SETTING", "VALUE", "PROBLEM")
	for _, s := range settings {
		t.row(s.Name, s.Value, orDash(s.Problem))
	}
}

func settingList(settings []web.OriginSetting) string {
	var list []string
	for _, s := range settings {
		list = append(list, s.Name+"="+s.Value)
	}
	return strings.Join(list, ", ")
}
