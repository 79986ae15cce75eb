package convergence

import (
	"fmt"
	"strings"
)

// row is one line of the table.
type row struct {
	scenario *scenario
	standbys int32
	assignor string
	outcome  *outcome
}

const (
	tableBegin = "<!-- table of test/convergence: go test ./test/convergence -rewrite -->\n"
	tableEnd   = "<!-- end of the table -->\n"
)

// table prints the rows in Markdown.
func table(rows []row) string {
	var b strings.Builder
	b.WriteString("| what happens | standbys | assignor | nobody processes a task: longest | sum over tasks | moves | copies from nothing | million records restored | group epochs | at rest after |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		o := r.outcome
		if o == nil {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s | %s | %d | %d | %.1f | %d | %s |\n", r.scenario.name, r.scenario.shown(r.standbys), r.assignor,
			seconds(o.longest), seconds(o.total), o.moves, o.fresh, float64(o.restored)/1e6, o.epochs, seconds(o.settled))
	}
	return b.String()
}

// shown is the number of standbys as the table has it.
func (s *scenario) shown(standbys int32) string {
	if s.standbysAfter != nil {
		return fmt.Sprintf("%d → %d", standbys, *s.standbysAfter)
	}
	return fmt.Sprint(standbys)
}

func seconds(ms int64) string {
	if ms < 100_000 {
		return fmt.Sprintf("%.1f s", float64(ms)/1000)
	}
	return fmt.Sprintf("%d s", (ms+500)/1000)
}

// within returns what is between the marks of a text, and the text with the replacement there.
func within(text, replacement string) (old, changed string, ok bool) {
	head, rest, ok := strings.Cut(text, tableBegin)
	if !ok {
		return "", "", false
	}
	old, tail, ok := strings.Cut(rest, tableEnd)
	return old, head + tableBegin + replacement + tableEnd + tail, ok
}
