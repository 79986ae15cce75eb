package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/web"
)

const assignorSetting = "streams.assignor.name"

// maxAddedMembers is how many members nodes let a plan add.
const maxAddedMembers = 10_000

func groupsPlanCommand() *cobra.Command {
	var f adminFlags
	var r web.PlanRequest
	var assignor string
	c := &cobra.Command{
		Use:   "plan GROUP",
		Short: "Show what a change of a group would move, before it is made",
		Long: `Shows which tasks would move, from where to where, and what the receivers would have to restore, if processes came or left, or if
settings of the group were others. It is computed by the leader of the group's shard, by the assignor that would then run, from
what members have reported. Nothing is changed.

All of the change happens at once. Added processes have no state, and as many threads as most of the group's processes have. Without any
change it shows what is still to come. Under the assignor highly_available a plan has several steps: each one follows when the warm-ups of the
step before have caught up.

RESTORE is the number of changelog records that the receiver lacks: "caught up" within streams.acceptable.recovery.lag, "from scratch"
where it has no copy, "unknown" where nobody reported, "-" for tasks without state.

At most 10000 members can be added. All added processes have the same client tags and the same rack. Settings for --set:

  streams.num.standby.replicas
  streams.num.warmup.replicas
  streams.acceptable.recovery.lag
  streams.assignor.name
  streams.rack.aware.assignment.tags
  streams.rack.aware.assignment.strategy

The exit code is 1 when there is no such streams group or its topics do not fit, 2 when a member or a setting does not exist, and 3 when
the group's shard has no leader.`,
		Example: `  coordd groups plan my-app --add 1
  coordd groups plan my-app --add 2 --threads 4 --tag zone=b
  coordd groups plan my-app --remove 5e3c0f1e-8f0e-4a0b-9f3e-0a52cf2ab3a2
  coordd groups plan my-app --set streams.num.standby.replicas=1
  coordd groups plan my-app --assignor highly_available -o json`,
		Args: oneGroup,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.client()
			if err != nil {
				return err
			}
			r.Group = args[0]
			if err := checkPlan(c, &r, assignor); err != nil {
				return err
			}
			p, err := client.Plan(c.Context(), r)
			if err != nil {
				return refusalError(err)
			}
			return f.print(c.OutOrStdout(), p, func(t *table) { planRows(t, &p) })
		},
	}
	f.register(c)
	flags := c.Flags()
	flags.Var(&onceInt{into: &r.Add}, "add", "number of processes that come")
	flags.Var(&onceInt{into: &r.Threads}, "threads", "with --add: threads (members) of each; by default as many as most processes have")
	flags.StringArrayVar(&r.Tags, "tag", nil, "with --add: a client tag of each, key=value; may be repeated")
	flags.Var(&onceText{into: &r.Rack}, "rack", "with --add: the rack of each")
	flags.StringArrayVar(&r.Remove, "remove", nil, "id of a member, an instance or a process that leaves; may be repeated")
	flags.StringArrayVar(&r.Set, "set", nil, "a setting of the group by which assignments are made, name=value; may be repeated")
	flags.Var(&onceText{into: &assignor}, "assignor", "short for --set "+assignorSetting+"=NAME")
	return c
}

// errTwice refuses a flag that would else silently stand for its last value.
var errTwice = errors.New("it is given twice; give it once")

// onceInt is a number of added processes or threads, which may be given once.
type onceInt struct {
	into *int
	set  bool
}

func (v *onceInt) String() string {
	if v.into == nil {
		return "0"
	}
	return strconv.Itoa(*v.into)
}
func (v *onceInt) Type() string { return "int" }
func (v *onceInt) Set(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case v.set:
		return errTwice
	case err != nil:
		return fmt.Errorf("allowed is a whole number from 0 to %d", maxAddedMembers)
	}
	*v.into, v.set = n, true
	return nil
}

// onceText is a text that may be given once.
type onceText struct {
	into *string
	set  bool
}

func (v *onceText) String() string {
	if v.into == nil {
		return ""
	}
	return *v.into
}
func (v *onceText) Type() string { return "string" }
func (v *onceText) Set(text string) error {
	if v.set {
		return errTwice
	}
	*v.into, v.set = text, true
	return nil
}

// checkPlan refuses what needs no node to be refused, and puts the assignor among the settings.
func checkPlan(c *cobra.Command, r *web.PlanRequest, assignor string) error {
	changed := func(name string) bool { return c.Flags().Changed(name) }
	refuse := func(setting, value, allowed string) error {
		return usageError(&config.Error{Setting: setting, Value: value, Allowed: allowed})
	}
	switch {
	case r.Add < 0:
		return refuse("--add", fmt.Sprint(r.Add), "0 or more")
	case r.Threads < 0 || changed("threads") && r.Threads == 0:
		return refuse("--threads", fmt.Sprint(r.Threads), "1 or more")
	}
	for _, name := range []string{"threads", "tag", "rack"} {
		if changed(name) && r.Add == 0 {
			return &exitError{exitUsage, "--" + name + " needs --add"}
		}
	}
	if i := slices.Index(r.Remove, ""); i >= 0 {
		return refuse("--remove", "", "the id of a member, an instance or a process, see 'coordd groups describe'")
	}
	for flag, list := range map[string][]string{"--set": r.Set, "--tag": r.Tags} {
		for _, text := range list {
			if name, _, ok := strings.Cut(text, "="); !ok || name == "" {
				return refuse(flag, text, "name=value")
			}
		}
	}
	if !changed("assignor") {
		return nil
	}
	if slices.ContainsFunc(r.Set, func(text string) bool { return strings.HasPrefix(text, assignorSetting+"=") }) {
		return refuse("--assignor", assignor, "not together with --set "+assignorSetting)
	}
	r.Set = append(r.Set, assignorSetting+"="+assignor)
	return nil
}

func planRows(t *table, p *web.GroupPlan) {
	t.row("GROUP", "STATE", "EPOCH", "ASSIGNOR", "SHARD", "COORDINATOR")
	t.row(p.Group, p.State, p.Epoch, p.Assignor, p.Shard, orNone(p.Coordinator))
	t.row()
	t.row("", "MEMBERS", "PROCESSES", "ACTIVE BY MEMBER", "ACTIVE BY PROCESS", "STANDBY BY MEMBER")
	for _, shape := range []struct {
		name string
		web.PlanShape
	}{{"now", p.Before}, {"then", p.After}} {
		t.row(shape.name, shape.Members, shape.Processes, from(shape.ActiveMin, shape.ActiveMax), from(shape.ProcessActiveMin, shape.ProcessActiveMax),
			from(shape.StandbyMin, shape.StandbyMax))
	}
	planMemberRows(t, p)
	names := memberNames(p)
	t.row()
	if nothingMoves(&p.PlanTotals) {
		t.row("nothing moves")
	} else {
		t.row("moves: " + movesText(&p.PlanTotals))
	}
	if underway := len(p.Steps) > 0 && len(p.Steps[0].Underway) > 0; underway || !nothingMoves(&p.PlanTotals) {
		t.row("to restore: " + recordsText(&p.PlanTotals))
	}
	for _, note := range p.Notes {
		t.row("note: " + note)
	}
	for i := range p.Steps {
		planStepRows(t, p, i, names)
	}
}

// from writes a range of numbers.
func from(low, high int) string {
	if low == high {
		return strconv.Itoa(low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}

// planMemberRows lists those first who come or leave.
func planMemberRows(t *table, p *web.GroupPlan) {
	t.row()
	t.row("MEMBER", "", "CLIENT", "HOST", "PROCESS", "ACTIVE", "STANDBY", "WARM-UP")
	members := slices.Clone(p.MemberList)
	rank := func(m *web.PlanMember) int {
		switch {
		case m.Removed:
			return 0
		case m.Added:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(members, func(a, b web.PlanMember) int { return rank(&a) - rank(&b) })
	for i := range members[:min(len(members), maxListedMembers)] {
		m := &members[i]
		what := [...]string{"leaves", "comes", ""}[rank(m)]
		t.row(m.Member, what, orDash(m.ClientID), orDash(m.Host), m.ProcessID, change(m.ActiveBefore, m.ActiveAfter), change(m.StandbyBefore, m.StandbyAfter),
			change(m.WarmupBefore, m.WarmupAfter))
	}
	if more := len(members) - maxListedMembers; more > 0 {
		t.row(fmt.Sprintf("and %d more; '-o json' lists all", more), "", "", "", "", "", "", "")
	}
}

func change(before, after int) string {
	if before == after {
		return strconv.Itoa(before)
	}
	return fmt.Sprintf("%d -> %d", before, after)
}

const (
	// maxListedSteps bounds the steps that a table shows, and maxListedMoves the moves of a step.
	maxListedSteps = 10
	maxListedMoves = 100
)

func planStepRows(t *table, p *web.GroupPlan, i int, names map[string]string) {
	s := &p.Steps[i]
	switch {
	case len(p.Steps) == 1 && nothingMoves(&s.PlanTotals) && len(s.Underway) == 0:
		return
	case i > maxListedSteps:
		return
	case i == maxListedSteps:
		t.row()
		t.row(fmt.Sprintf("and %s more; '-o json' lists all", plural(len(p.Steps)-i, "step")))
		return
	}
	t.row()
	if len(p.Steps) > 1 {
		when := "at once"
		if i > 0 {
			when = fmt.Sprintf("when the warm-ups of step %d have caught up", i)
		}
		t.row(fmt.Sprintf("step %d of %d, %s: %s; to restore: %s", i+1, len(p.Steps), when, movesText(&s.PlanTotals), recordsText(&s.PlanTotals)))
	}
	t.row("TASK", "ROLE", "FROM", "TO", "RESTORE")
	for _, m := range s.Underway[:min(len(s.Underway), maxListedMoves)] {
		t.row(m.Task, m.Role, "under way", nameOf(names, m.To), restoreText(m))
	}
	for _, m := range s.Moves[:min(len(s.Moves), maxListedMoves)] {
		t.row(m.Task, m.Role, nameOf(names, m.From), nameOf(names, m.To), restoreText(m))
	}
	if more := s.Active + s.Standby + s.Warmup + s.Dropped - min(len(s.Moves), maxListedMoves) + max(0, len(s.Underway)-maxListedMoves); more > 0 {
		t.row(fmt.Sprintf("and %d more; '-o json' lists all", more), "", "", "", "")
	}
}

// memberNames are short names of a plan's members: the client id and the host, where these tell a member from all others, else the
// member id.
func memberNames(p *web.GroupPlan) map[string]string {
	short := func(m *web.PlanMember) string {
		if m.Added || m.ClientID == "" {
			return m.Member
		}
		return m.ClientID + "/" + strings.TrimPrefix(m.Host, "/")
	}
	names, taken := make(map[string]string, len(p.MemberList)), map[string]int{}
	for i := range p.MemberList {
		taken[short(&p.MemberList[i])]++
	}
	for i := range p.MemberList {
		m := &p.MemberList[i]
		names[m.Member] = m.Member
		if name := short(m); taken[name] == 1 {
			names[m.Member] = name
		}
	}
	return names
}

func nameOf(names map[string]string, id string) string {
	if name := names[id]; name != "" {
		return name
	}
	return orNobody(id)
}

func restoreText(m web.PlanMove) string {
	switch {
	case m.Restore == "nothing":
		return "-"
	case m.Restore == "caught-up" && m.Records == 0:
		return "caught up"
	case m.Restore == "caught-up":
		return fmt.Sprintf("caught up (%d)", m.Records)
	case m.Restore == "from-scratch" && m.Records < 0:
		return "from scratch"
	case m.Restore == "from-scratch":
		return fmt.Sprintf("from scratch (%d)", m.Records)
	case m.Restore == "behind":
		return strconv.FormatInt(m.Records, 10)
	}
	return m.Restore
}

func nothingMoves(n *web.PlanTotals) bool { return n.Active+n.Standby+n.Warmup+n.Dropped == 0 }

func movesText(n *web.PlanTotals) string {
	text := fmt.Sprintf("%d active, %d standby, %d warm-up", n.Active, n.Standby, n.Warmup)
	if n.Dropped > 0 {
		text += fmt.Sprintf("; %d given up", n.Dropped)
	}
	return text
}

// recordsText tells active tasks, which stand still until they are restored, from copies.
func recordsText(n *web.PlanTotals) string {
	var parts []string
	if n.ActiveRecords > 0 || n.ActiveUnknown > 0 {
		parts = append(parts, lackText(n.ActiveRecords, n.ActiveUnknown)+" by active tasks that stand still until then")
	}
	if records, unknown := n.Records-n.ActiveRecords, n.Unknown-n.ActiveUnknown; records > 0 || unknown > 0 {
		parts = append(parts, lackText(records, unknown)+" by copies in the background")
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}

func lackText(records int64, unknown int) string {
	text := strconv.FormatInt(records, 10) + " records"
	if records == 1 {
		text = "1 record"
	}
	switch {
	case unknown > 0 && records == 0:
		return "what is not known of " + plural(unknown, "task")
	case unknown > 0:
		return text + ", and what is not known of " + plural(unknown, "task")
	}
	return text
}
