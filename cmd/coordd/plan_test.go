package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/web"
)

func (c cluster) Plan(_ context.Context, r web.PlanRequest) (web.GroupPlan, error) {
	if c.err != nil {
		return web.GroupPlan{}, c.err
	}
	if c.planned != nil {
		*c.planned = r
	}
	return c.plan, nil
}

func (c cluster) LocalPlan(ctx context.Context, r web.PlanRequest) (web.GroupPlan, error) {
	return c.Plan(ctx, r)
}

// planSample is the plan of one that leaves and one that comes.
func planSample() web.GroupPlan {
	totals := web.PlanTotals{Active: 2, Standby: 1, Dropped: 1, Records: 1234, Unknown: 1, ActiveRecords: 1234}
	return web.GroupPlan{
		GroupSummary: web.GroupSummary{Group: "app", State: "Stable", Shard: 3, Coordinator: 1, Epoch: 7, AssignmentEpoch: 7, Members: 2},
		Assignor:     "sticky", Threads: 1, Notes: []string{"1 of 2 members have reported offsets of tasks; what the others have to restore is not known"},
		Before:     web.PlanShape{Members: 2, Processes: 2, ActiveMin: 1, ActiveMax: 2, ProcessActiveMin: 1, ProcessActiveMax: 2},
		After:      web.PlanShape{Members: 2, Processes: 2, ActiveMin: 1, ActiveMax: 2, StandbyMax: 1, ProcessActiveMin: 1, ProcessActiveMax: 2},
		PlanTotals: totals, Complete: true, Stateful: true, Reporting: 1,
		MemberList: []web.PlanMember{
			{Member: "m1", ClientID: "c1", Host: "/10.0.0.1", ProcessID: "p1", ActiveBefore: 1, ActiveAfter: 2, StandbyAfter: 1, WarmupBefore: 1},
			{Member: "m2", InstanceID: "i2", ClientID: "c2", Host: "/10.0.0.2", ProcessID: "p2", Removed: true, ActiveBefore: 2},
			{Member: "new-1-1", ProcessID: "new-1", Added: true, ActiveAfter: 1},
		},
		Steps: []web.PlanStep{{PlanTotals: totals, Moves: []web.PlanMove{
			{Task: "0_0", Role: "active", From: "m2", To: "m1", Restore: "caught-up", Records: 3},
			{Task: "0_1", Role: "active", From: "m2", To: "new-1-1", Restore: "from-scratch", Records: 1234},
			{Task: "1_0", Role: "standby", To: "m1", Restore: "unknown", Records: -1},
			{Task: "1_1", Role: "warm-up", From: "m1", Restore: "nothing"},
		}}},
	}
}

func withPlan(change func(*web.GroupPlan)) cluster {
	c := healthy()
	c.plan, c.planned = planSample(), new(web.PlanRequest)
	if change != nil {
		change(&c.plan)
	}
	return c
}

// inSteps is a plan under highly_available.
func inSteps(p *web.GroupPlan) {
	p.Assignor, p.Notes = "highly_available", []string{}
	p.PlanTotals = web.PlanTotals{Active: 1, Warmup: 2, Records: 55}
	p.Steps = []web.PlanStep{
		{PlanTotals: web.PlanTotals{Warmup: 1, Records: 55}, Moves: []web.PlanMove{{Task: "0_1", Role: "warm-up", To: "new-1-1", Restore: "behind", Records: 55}}},
		{PlanTotals: web.PlanTotals{Active: 1, Warmup: 1}, Moves: []web.PlanMove{
			{Task: "0_1", Role: "active", From: "m1", To: "new-1-1", Restore: "caught-up"},
			{Task: "0_2", Role: "warm-up", To: "new-1-1", Restore: "from-scratch", Records: -1},
		}},
	}
}

func TestPlanRows(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*web.GroupPlan)
		want   string
	}{
		{"one step", nil, `
GROUP  STATE   EPOCH  ASSIGNOR  SHARD  COORDINATOR
app    Stable  7      sticky    3      1

      MEMBERS  PROCESSES  ACTIVE BY MEMBER  ACTIVE BY PROCESS  STANDBY BY MEMBER
now   2        2          1 to 2            1 to 2             0
then  2        2          1 to 2            1 to 2             0 to 1

MEMBER           CLIENT  HOST       PROCESS  ACTIVE  STANDBY  WARM-UP
m2       leaves  c2      /10.0.0.2  p2       2 -> 0  0        0
new-1-1  comes   -       -          new-1    0 -> 1  0        0
m1               c1      /10.0.0.1  p1       1 -> 2  0 -> 1   1 -> 0

moves: 2 active, 1 standby, 0 warm-up; 1 given up
to restore: 1234 records by active tasks that stand still until then; what is not known of 1 task by copies in the background
note: 1 of 2 members have reported offsets of tasks; what the others have to restore is not known

TASK  ROLE     FROM         TO           RESTORE
0_0   active   c2/10.0.0.2  c1/10.0.0.1  caught up (3)
0_1   active   c2/10.0.0.2  new-1-1      from scratch (1234)
1_0   standby  nobody       c1/10.0.0.1  unknown
1_1   warm-up  c1/10.0.0.1  nobody       -
`},
		{"steps", inSteps, `
GROUP  STATE   EPOCH  ASSIGNOR          SHARD  COORDINATOR
app    Stable  7      highly_available  3      1

      MEMBERS  PROCESSES  ACTIVE BY MEMBER  ACTIVE BY PROCESS  STANDBY BY MEMBER
now   2        2          1 to 2            1 to 2             0
then  2        2          1 to 2            1 to 2             0 to 1

MEMBER           CLIENT  HOST       PROCESS  ACTIVE  STANDBY  WARM-UP
m2       leaves  c2      /10.0.0.2  p2       2 -> 0  0        0
new-1-1  comes   -       -          new-1    0 -> 1  0        0
m1               c1      /10.0.0.1  p1       1 -> 2  0 -> 1   1 -> 0

moves: 1 active, 0 standby, 2 warm-up
to restore: 55 records by copies in the background

step 1 of 2, at once: 0 active, 0 standby, 1 warm-up; to restore: 55 records by copies in the background
TASK  ROLE     FROM    TO       RESTORE
0_1   warm-up  nobody  new-1-1  55

step 2 of 2, when the warm-ups of step 1 have caught up: 1 active, 0 standby, 1 warm-up; to restore: nothing
TASK  ROLE     FROM         TO       RESTORE
0_1   active   c1/10.0.0.1  new-1-1  caught up
0_2   warm-up  nobody       new-1-1  from scratch
`},
		{"under way", func(p *web.GroupPlan) {
			p.PlanTotals, p.Notes, p.Complete = web.PlanTotals{Records: 55}, []string{}, false
			p.MemberList = []web.PlanMember{{Member: "m1", ClientID: "c", Host: "/10.0.0.1", ProcessID: "p1", WarmupBefore: 1, WarmupAfter: 1}}
			p.Steps = []web.PlanStep{{PlanTotals: p.PlanTotals, Moves: []web.PlanMove{},
				Underway: []web.PlanMove{{Task: "0_1", Role: "warm-up", To: "m1", Restore: "behind", Records: 55}}}}
		}, `
GROUP  STATE   EPOCH  ASSIGNOR  SHARD  COORDINATOR
app    Stable  7      sticky    3      1

      MEMBERS  PROCESSES  ACTIVE BY MEMBER  ACTIVE BY PROCESS  STANDBY BY MEMBER
now   2        2          1 to 2            1 to 2             0
then  2        2          1 to 2            1 to 2             0 to 1

MEMBER    CLIENT  HOST       PROCESS  ACTIVE  STANDBY  WARM-UP
m1        c       /10.0.0.1  p1       0       0        1

nothing moves
to restore: 55 records by copies in the background

TASK  ROLE     FROM       TO          RESTORE
0_1   warm-up  under way  c/10.0.0.1  55
`},
		{"nothing", func(p *web.GroupPlan) {
			p.PlanTotals, p.Steps, p.Notes = web.PlanTotals{}, []web.PlanStep{{Moves: []web.PlanMove{}}}, []string{}
			p.MemberList = []web.PlanMember{
				{Member: "m1", ClientID: "c", Host: "/10.0.0.1", ProcessID: "p1"}, {Member: "m2", ClientID: "c", Host: "/10.0.0.1", ProcessID: "p1"},
			}
		}, `
GROUP  STATE   EPOCH  ASSIGNOR  SHARD  COORDINATOR
app    Stable  7      sticky    3      1

      MEMBERS  PROCESSES  ACTIVE BY MEMBER  ACTIVE BY PROCESS  STANDBY BY MEMBER
now   2        2          1 to 2            1 to 2             0
then  2        2          1 to 2            1 to 2             0 to 1

MEMBER    CLIENT  HOST       PROCESS  ACTIVE  STANDBY  WARM-UP
m1        c       /10.0.0.1  p1       0       0        0
m2        c       /10.0.0.1  p1       0       0        0

nothing moves
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := call(t, withPlan(test.change), "groups", "plan", "app", "--admin", "NODE")
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), stdout); diff != "" || code != exitOK {
				t.Errorf("exit code %d, %s\n%s", code, stderr, diff)
			}
		})
	}
}

// TestPlanTellsMembersApart: two threads of one client are named by their member ids.
func TestPlanTellsMembersApart(t *testing.T) {
	_, stdout, _ := call(t, withPlan(func(p *web.GroupPlan) {
		p.MemberList[1].ClientID, p.MemberList[1].Host = "c1", "/10.0.0.1"
	}), "groups", "plan", "app", "--admin", "NODE")
	if !strings.Contains(stdout, "active   m2      m1") {
		t.Error(stdout)
	}
}

func TestAGroupHasAName(t *testing.T) {
	if err := oneGroup(nil, []string{""}); err == nil || !strings.Contains(err.Error(), "the group's name is empty") {
		t.Error(err)
	}
	if err := oneGroup(nil, []string{"a"}); err != nil {
		t.Error(err)
	}
}

func TestPlanRequests(t *testing.T) {
	for args, want := range map[string]web.PlanRequest{
		"":        {Group: "app"},
		"--add 2": {Group: "app", Add: 2},
		"--add 2 --threads 4 --tag zone=a --tag x=b=c --rack r1":                        {Group: "app", Add: 2, Threads: 4, Tags: []string{"zone=a", "x=b=c"}, Rack: "r1"},
		"--remove m1 --remove p,2":                                                      {Group: "app", Remove: []string{"m1", "p,2"}},
		"--set streams.num.standby.replicas=1":                                          {Group: "app", Set: []string{"streams.num.standby.replicas=1"}},
		"--set streams.rack.aware.assignment.tags=a,b --set streams.assignor.name=auto": {Group: "app", Set: []string{"streams.rack.aware.assignment.tags=a,b", "streams.assignor.name=auto"}},
		"--set streams.num.standby.replicas=1 --assignor auto":                          {Group: "app", Set: []string{"streams.num.standby.replicas=1", "streams.assignor.name=auto"}},
	} {
		c := withPlan(nil)
		code, _, stderr := call(t, c, append([]string{"groups", "plan", "app", "--admin", "NODE"}, strings.Fields(args)...)...)
		if diff := cmp.Diff(want, *c.planned); diff != "" || code != exitOK {
			t.Errorf("%s: exit code %d, %s\n%s", args, code, stderr, diff)
		}
	}
}

func TestExitCodesOfPlans(t *testing.T) {
	refused := func(kind web.RefusalKind, text string) cluster {
		c := withPlan(nil)
		c.err = web.Refuse(kind, "%s", text)
		return c
	}
	for _, test := range []struct {
		name   string
		c      cluster
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"help", withPlan(nil), "--help", exitOK, "Nothing is changed", ""},
		{"no group", withPlan(nil), "--add 1 --admin NODE", exitUsage, "", "name one group"},
		{"fewer than none", withPlan(nil), "app --add -1 --admin NODE", exitUsage, "", `--add: value "-1" is not allowed (allowed: 0 or more)`},
		{"no number", withPlan(nil), "app --add x --admin NODE", exitUsage, "", "--add"},
		{"no threads", withPlan(nil), "app --add 1 --threads 0 --admin NODE", exitUsage, "", "1 or more"},
		{"threads of nobody", withPlan(nil), "app --threads 2 --admin NODE", exitUsage, "", "needs --add"},
		{"tags of nobody", withPlan(nil), "app --tag a=b --admin NODE", exitUsage, "", "needs --add"},
		{"rack of nobody", withPlan(nil), "app --rack a --admin NODE", exitUsage, "", "needs --add"},
		{"added twice", withPlan(nil), "app --add 1 --add 1 --admin NODE", exitUsage, "", "given twice"},
		{"threads twice", withPlan(nil), "app --add 1 --threads 1 --threads 2 --admin NODE", exitUsage, "", "given twice"},
		{"racks", withPlan(nil), "app --add 1 --rack a --rack b --admin NODE", exitUsage, "", "given twice"},
		{"assignor twice", withPlan(nil), "app --assignor auto --assignor sticky --admin NODE", exitUsage, "", "given twice"},
		{"far too many", withPlan(nil), "app --add 99999999999999999999 --admin NODE", exitUsage, "", "from 0 to 10000"},
		{"settings in the help", withPlan(nil), "--help", exitOK, "  streams.acceptable.recovery.lag\n", ""},
		{"exit codes in the help", withPlan(nil), "--help", exitOK, "The exit code is 1", ""},
		{"no tag", withPlan(nil), "app --add 1 --tag a --admin NODE", exitUsage, "", `--tag: value "a" is not allowed (allowed: name=value)`},
		{"no setting", withPlan(nil), "app --set =1 --admin NODE", exitUsage, "", `--set: value "=1" is not allowed`},
		{"two assignors", withPlan(nil), "app --assignor auto --set streams.assignor.name=sticky --admin NODE", exitUsage, "", "not together with --set streams.assignor.name"},
		{"unknown member", refused(web.NotAllowed, `Group app has no member, instance or process "x"`), "app --remove x --admin NODE", exitUsage, "", "no member, instance"},
		{"absent group", refused(web.NotFound, "Group nope not found."), "nope --admin NODE", exitFailed, "", "not found"},
		{"no topics", refused(web.Conflict, "no tasks as long as its topics do not fit"), "app --admin NODE", exitFailed, "", "do not fit"},
		{"without a leader", refused(web.NoLeader, "shard 3 has no leader"), "app --admin NODE", exitNoQuorum, "", "no quorum: shard 3"},
		{"dead node", withPlan(nil), "app --admin 127.0.0.1:1", exitFailed, "", "is the node up"},
		{"output", withPlan(nil), "app -o xml --admin NODE", exitUsage, "", "table or json"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := call(t, test.c, append([]string{"groups", "plan"}, strings.Fields(test.args)...)...)
			if code != test.code || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", code, test.code, stdout, stderr)
			}
		})
	}
}

// TestPlanInJSON: all that the node told, under the names of the documentation.
func TestPlanInJSON(t *testing.T) {
	code, stdout, _ := call(t, withPlan(nil), "groups", "plan", "app", "-o", "json", "--admin", "NODE")
	var got web.GroupPlan
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK {
		t.Fatal(code, err)
	}
	if diff := cmp.Diff(planSample(), got); diff != "" {
		t.Error(diff)
	}
	for _, field := range []string{"group", "epoch", "assignor", "threads", "notes", "before", "after", "members", "processes", "activeMin", "activeMax", "standbyMin",
		"standbyMax", "processActiveMin", "processActiveMax", "movedActive", "movedStandby", "movedWarmup", "dropped", "records", "unknown", "activeRecords", "activeUnknown", "complete", "stateful",
		"reporting", "memberList", "member", "instanceId", "clientId", "host", "processId", "added", "removed", "activeBefore", "activeAfter", "standbyBefore",
		"standbyAfter", "warmupBefore", "warmupAfter", "steps", "moves", "task", "role", "from", "to", "restore"} {
		if !strings.Contains(stdout, `"`+field+`": `) {
			t.Errorf("field %s is missing", field)
		}
	}
}

// TestATableOfALargePlanIsShort: thousands of moves are counted, not listed.
func TestATableOfALargePlanIsShort(t *testing.T) {
	_, stdout, _ := call(t, withPlan(func(p *web.GroupPlan) {
		p.MemberList = nil
		for i := range 500 {
			p.MemberList = append(p.MemberList, web.PlanMember{Member: fmt.Sprint(i), ClientID: fmt.Sprint(i)})
		}
		s := web.PlanStep{PlanTotals: web.PlanTotals{Active: 3000}, Moves: slices.Repeat(p.Steps[0].Moves, 500)}
		p.PlanTotals, p.Steps = web.PlanTotals{Active: 90000}, slices.Repeat([]web.PlanStep{s}, 30)
	}), "groups", "plan", "app", "--admin", "NODE")
	for _, says := range []string{"and 480 more; '-o json'", "and 2900 more; '-o json'", "and 20 steps more; '-o json'"} {
		if !strings.Contains(stdout, says) {
			t.Errorf("%q is missing", says)
		}
	}
	if n := strings.Count(stdout, "\n"); n > 1200 {
		t.Errorf("%d lines", n)
	}
}

func TestNamesOfAPlanCannotWriteToTheTerminal(t *testing.T) {
	evil := func(p *web.GroupPlan) {
		p.Notes = []string{hostile}
		p.MemberList = []web.PlanMember{{Member: hostile, InstanceID: hostile, ClientID: hostile, Host: hostile, ProcessID: hostile}}
		p.Steps[0].Moves = []web.PlanMove{{Task: hostile, Role: "active", From: hostile, To: hostile, Restore: "unknown"}}
	}
	for _, format := range []string{"table", "json"} {
		code, stdout, _ := call(t, withPlan(evil), "groups", "plan", "app", "-o", format, "--admin", "NODE")
		if i := strings.IndexFunc(stdout, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); code != exitOK || i >= 0 {
			t.Errorf("%s: exit code %d: %q", format, code, stdout)
		}
	}
}
