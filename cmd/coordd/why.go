package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/web"
)

func groupsWhyCommand() *cobra.Command {
	var f adminFlags
	var last int
	var moves bool
	c := &cobra.Command{
		Use:   "why GROUP",
		Short: "Show why a group rebalanced, the newest first",
		Example: `  coordd groups why my-app
  coordd groups why my-app --last 1 --moves
  coordd groups why my-app -o json`,
		Args: oneGroup,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.client()
			if err != nil {
				return err
			}
			if last < 0 {
				return usageError(&config.Error{Setting: "--last", Value: fmt.Sprint(last), Allowed: "0 (all) or more"})
			}
			j, err := client.Journal(c.Context(), args[0])
			if err == nil {
				if last > 0 {
					j.Entries = j.Entries[:min(last, len(j.Entries))]
				}
				err = f.print(c.OutOrStdout(), j, func(t *table) { journalRows(t, j, moves) })
			}
			return quorumFirst(c.Context(), client, err)
		},
	}
	f.register(c)
	c.Flags().IntVar(&last, "last", 0, "only the newest so many; 0 for all that are kept")
	c.Flags().BoolVar(&moves, "moves", false, "list the tasks that moved")
	return c
}

func journalRows(t *table, j web.GroupJournal, moves bool) {
	t.row("GROUP", "STATE", "EPOCH", "ASSIGNMENT EPOCH", "SHARD", "COORDINATOR")
	t.row(j.Group, j.State, j.Epoch, j.AssignmentEpoch, j.Shard, orNone(j.Coordinator))
	t.row()
	t.row("AT", "EPOCHS", "CAUSE", "MEMBER", "HOST", "MOVED", "TARGET AFTER", "OUTCOME", "SLOWEST", "DETAIL")
	for i := range j.Entries {
		e := &j.Entries[i]
		first := web.JournalCause{}
		if len(e.Causes) > 0 {
			first = e.Causes[0]
		}
		t.row(at(e.StartedAtMs), epochs(e), causes(e), orDash(first.Member), orDash(first.Host), e.Moved, targetAfter(e), outcome(e),
			orDash(e.Slowest), orDash(first.Detail))
		if moves {
			for _, m := range e.Moves {
				t.row("", "", "  "+m.Role+" "+m.Task, orNobody(m.From)+" -> "+orNobody(m.To), "", "", "", "", "", "")
			}
			if more := int(e.Moved) - len(e.Moves); more > 0 {
				t.row("", "", fmt.Sprintf("  and %d more", more), "", "", "", "", "", "", "")
			}
		}
	}
}

func at(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

func epochs(e *web.JournalEntry) string {
	if e.FirstEpoch == e.Epoch {
		return fmt.Sprint(e.Epoch)
	}
	return fmt.Sprintf("%d-%d", e.FirstEpoch, e.Epoch)
}

func causes(e *web.JournalEntry) string {
	var parts []string
	for _, c := range e.Counts {
		if c.Count == 1 {
			parts = append(parts, c.Cause)
		} else {
			parts = append(parts, fmt.Sprintf("%d x %s", c.Count, c.Cause))
		}
	}
	return strings.Join(parts, ", ")
}

func targetAfter(e *web.JournalEntry) string {
	if e.TargetAtMs == 0 {
		return "-"
	}
	return span(max(0, e.TargetAtMs-e.StartedAtMs))
}

func outcome(e *web.JournalEntry) string {
	if e.SettledAfterMs >= 0 {
		return "settled after " + span(e.SettledAfterMs)
	}
	return e.Outcome
}

func span(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func orNobody(s string) string {
	if s == "" {
		return "nobody"
	}
	return s
}
