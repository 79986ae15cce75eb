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

func (c cluster) Topology(_ context.Context, id string) (web.GroupTopology, bool) {
	return c.LocalTopology(id)
}
func (c cluster) LocalTopology(id string) (web.GroupTopology, bool) {
	for _, t := range c.topologies {
		if t.Group == id {
			return t, true
		}
	}
	return web.GroupTopology{}, false
}

func (c cluster) AbortTopology(_ context.Context, r web.AbortRequest) (web.Aborted, error) {
	if c.err != nil {
		return web.Aborted{}, c.err
	}
	for _, t := range c.topologies {
		if t.Group == r.Group && t.TopologyEpoch == r.Epoch {
			return web.Aborted{Group: r.Group, Aborted: r.Epoch, Restored: t.Back.To, Epoch: r.Epoch + 1}, nil
		}
	}
	return web.Aborted{}, web.Refuse(web.Conflict, "no such epoch")
}
func (c cluster) LocalAbortTopology(ctx context.Context, r web.AbortRequest) (web.Aborted, error) {
	return c.AbortTopology(ctx, r)
}

func topologySample() web.GroupTopology {
	return web.GroupTopology{
		GroupSummary: web.GroupSummary{Group: "app", State: "Stable", Shard: 3, Coordinator: 1, Epoch: 7, AssignmentEpoch: 7, TopologyEpoch: 1, Members: 3},
		Subtopologies: []web.GroupSubtopology{
			{Subtopology: "0", Tasks: 4, Sources: []string{"orders", "prices"}, SourceRegexes: []string{}, RepartitionSources: []web.InternalTopic{},
				RepartitionSinks: []string{"app-by-user-repartition"}, Changelogs: []web.InternalTopic{}},
			{Subtopology: "1", Tasks: 4, Stateful: true, Sources: []string{}, SourceRegexes: []string{},
				RepartitionSources: []web.InternalTopic{{Topic: "app-by-user-repartition", Partitions: 4}}, RepartitionSinks: []string{},
				Changelogs: []web.InternalTopic{{Topic: "app-count-changelog", Partitions: 4}}},
		},
		Missing: []web.MissingTopic{},
		Versions: []web.TopologyVersion{
			{Epoch: 1, Current: true, Declared: 0, Restores: -1, SinceMs: 1790000000123, Members: []web.VersionMember{
				{Member: "m1", ClientID: "c1", Host: "/10.0.0.1", ProcessID: "p1", Tasks: 4}, {Member: "m2", InstanceID: "i2", ClientID: "c2", Host: "/10.0.0.2", ProcessID: "p2", Tasks: 3}}},
			{Epoch: 0, Restores: -1, Members: []web.VersionMember{{Member: "m3", ClientID: "c3", Host: "/10.0.0.3", ProcessID: "p3", Tasks: 1}}},
		},
		RollOut: web.RollOut{Current: 2, Stale: 1, Tasks: 8, CurrentTasks: 6, StaleTasks: 1, Waiting: 1, Leaving: 2},
		Change: &web.TopologyChange{From: 0, To: 1, Kept: []string{"0"}, Changed: []string{"1"}, New: []string{}, Lost: []string{"2"},
			Orphaned: []web.InternalTopic{{Topic: "app-old-changelog", Partitions: 4}}, Counts: []web.PartitionChange{}},
		Back: &web.TopologyChange{From: 1, To: 0, Kept: []string{"0"}, Changed: []string{"1"}, New: []string{"2"}, Lost: []string{},
			Orphaned: []web.InternalTopic{}, Counts: []web.PartitionChange{{Topic: "app-count-changelog", Before: 4, Needed: 2, Exists: 4}}},
	}
}

func withTopology(change func(*web.GroupTopology)) cluster {
	c := healthy()
	t := topologySample()
	if change != nil {
		change(&t)
	}
	c.topologies = []web.GroupTopology{t}
	return c
}

// waiting is a group whose first member has brought a topology that needs topics.
func waiting(t *web.GroupTopology) {
	t.State, t.TopologyEpoch, t.Members, t.Problem = "NotReady", 0, 1, "MISSING_SOURCE_TOPICS: Source topics prices are missing."
	t.Subtopologies[0].Tasks, t.Subtopologies[1].Tasks = -1, -1
	t.Subtopologies[1].RepartitionSources[0].Partitions, t.Subtopologies[1].Changelogs[0].Partitions = -1, -1
	t.Subtopologies[1].SourceRegexes = []string{"eu-.*"}
	t.Missing = []web.MissingTopic{{Topic: "prices", Kind: "source"}, {Topic: "eu-.*", Kind: "pattern"}, {Topic: "app-count-changelog", Kind: "internal"},
		{Topic: "app-a-changelog", Kind: "internal", Partitions: 4, ReplicationFactor: 3, Configs: []string{"cleanup.policy=compact", "x=y"}}, {Topic: "app-b-changelog", Kind: "internal", Partitions: 4, ReplicationFactor: -1, Error: "not authorized"}}
	t.Versions = []web.TopologyVersion{{Current: true, Restores: -1, Members: t.Versions[0].Members[:1]}}
	t.RollOut = web.RollOut{Done: true, Current: 1, Tasks: -1}
	t.Change, t.Back = nil, nil
}

// restored is a group of which an update was taken back after others.
func restored(t *web.GroupTopology) {
	t.TopologyEpoch, t.Members, t.Subtopologies = 9, 2, t.Subtopologies[:1]
	t.Versions = []web.TopologyVersion{{Epoch: 9, Current: true, Restores: 7, Members: t.Versions[0].Members[:1]},
		{Epoch: 8, Aborted: true, Restores: -1, Declared: 1, Members: t.Versions[1].Members}}
	for epoch := int32(7); epoch > 0; epoch-- {
		t.Versions = append(t.Versions, web.TopologyVersion{Epoch: epoch, Restores: -1, Members: []web.VersionMember{}})
	}
	t.Versions = append(t.Versions, web.TopologyVersion{Epoch: -1, Declared: -1, Restores: -1, Members: []web.VersionMember{}})
	t.RollOut = web.RollOut{Current: 1, Stale: 1, Tasks: 4, CurrentTasks: 3, Waiting: 1, Leaving: 1}
	t.Change = &web.TopologyChange{From: 8, To: 9, Kept: []string{"0"}, Counts: []web.PartitionChange{
		{Topic: "a", Before: 2, Needed: 1, Exists: -1}, {Topic: "b", Before: 2, Needed: 1, Exists: 1}}}
}

func TestTopologyAsPeopleSeeIt(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*web.GroupTopology)
		want   string
	}{
		{"roll-out", nil, `
GROUP  STATE   EPOCH  TOPOLOGY EPOCH  MEMBERS  SHARD  COORDINATOR
app    Stable  7      1               3        3      1

SUBTOPOLOGY  TASKS  STATE      SOURCES        REPARTITION SOURCES          REPARTITION SINKS        CHANGELOGS
0            4      stateless  orders,prices  -                            app-by-user-repartition  -
1            4      stateful   -              app-by-user-repartition (4)  -                        app-count-changelog (4)

TOPOLOGY EPOCH  OF THE APP  SINCE                     STATE    MEMBERS
1               0           2026-09-21T14:13:20.123Z  current  2
0               0           -                         earlier  1

MEMBER  TOPOLOGY EPOCH  INSTANCE  CLIENT  HOST       TASKS
m1      1               -         c1      /10.0.0.1  4
m2      1               i2        c2      /10.0.0.2  3
m3      0               -         c3      /10.0.0.3  1

change from topology epoch 0 to 1:
  subtopologies kept: 0; changed: 1; new: -; lost: 2
  topics without a use, which nobody deletes: app-old-changelog (4)

roll-out: 2 of 3 members run the group's topology; of 8 tasks 6 are with them, 1 with the others and 1 with nobody yet; 2 tasks of the topology before are still to be given up
`},
		{"waiting for topics", waiting, `
GROUP  STATE     EPOCH  TOPOLOGY EPOCH  MEMBERS  SHARD  COORDINATOR
app    NotReady  7      0               1        3      1

problem: MISSING_SOURCE_TOPICS: Source topics prices are missing.

SUBTOPOLOGY  TASKS  STATE      SOURCES        REPARTITION SOURCES      REPARTITION SINKS        CHANGELOGS
0            ?      stateless  orders,prices  -                        app-by-user-repartition  -
1            ?      stateful   /eu-.*/        app-by-user-repartition  -                        app-count-changelog

MISSING TOPIC        KIND      PARTITIONS  REPLICATION FACTOR  CONFIGS                     STATE
prices               source    -           -                   -                           create it, or correct its name in the app
eu-.*                pattern   -           -                   -                           create a topic that it matches, or correct it in the app
app-count-changelog  internal  -           -                   -                           is created when the other topics are right
app-a-changelog      internal  4           3                   cleanup.policy=compact,x=y  is being created
app-b-changelog      internal  4           default             -                           could not be created, is tried again: not authorized

TOPOLOGY EPOCH  OF THE APP  SINCE  STATE    MEMBERS
0               0           -      current  1

MEMBER  TOPOLOGY EPOCH  INSTANCE  CLIENT  HOST       TASKS
m1      0               -         c1      /10.0.0.1  4

roll-out: done, the only member runs it
`},
		{"no topology", func(t *web.GroupTopology) {
			t.State, t.TopologyEpoch, t.Members = "Empty", -1, 0
			t.Subtopologies, t.Versions, t.RollOut, t.Change, t.Back = []web.GroupSubtopology{}, []web.TopologyVersion{}, web.RollOut{Done: true}, nil, nil
		}, `
GROUP  STATE  EPOCH  TOPOLOGY EPOCH  MEMBERS  SHARD  COORDINATOR
app    Empty  7      none            0        3      1

the group has no topology: the next member that joins brings one
`},
		{"nobody", func(t *web.GroupTopology) {
			t.State, t.Members, t.Subtopologies = "Empty", 0, t.Subtopologies[:1]
			t.Versions = []web.TopologyVersion{{Epoch: 1, Current: true, Restores: -1, Members: []web.VersionMember{}}}
			t.RollOut, t.Change, t.Back = web.RollOut{Done: true}, nil, nil
		}, `
GROUP  STATE  EPOCH  TOPOLOGY EPOCH  MEMBERS  SHARD  COORDINATOR
app    Empty  7      1               0        3      1

SUBTOPOLOGY  TASKS  STATE      SOURCES        REPARTITION SOURCES  REPARTITION SINKS        CHANGELOGS
0            4      stateless  orders,prices  -                    app-by-user-repartition  -

TOPOLOGY EPOCH  OF THE APP  SINCE  STATE    MEMBERS
1               0           -      current  0

roll-out: no member runs
`},
		{"taken back, after others", restored, `
GROUP  STATE   EPOCH  TOPOLOGY EPOCH  MEMBERS  SHARD  COORDINATOR
app    Stable  7      9               2        3      1

SUBTOPOLOGY  TASKS  STATE      SOURCES        REPARTITION SOURCES  REPARTITION SINKS        CHANGELOGS
0            4      stateless  orders,prices  -                    app-by-user-repartition  -

TOPOLOGY EPOCH  OF THE APP  SINCE  STATE                MEMBERS
9               0           -      current, as epoch 7  1
8               1           -      taken back           1
7               0           -      earlier              0
6               0           -      earlier              0
5               0           -      earlier              0
4               0           -      earlier              0
3               0           -      earlier              0
and 3 more that nobody runs; '-o json' lists all

MEMBER  TOPOLOGY EPOCH  INSTANCE  CLIENT  HOST       TASKS
m1      9               -         c1      /10.0.0.1  4
m3      8               -         c3      /10.0.0.3  1

change from topology epoch 8 to 9:
  subtopologies kept: 0; changed: -; new: -; lost: -
  topic a needs 1 partition, before 2
  topic b needs 1 partition, before 2

roll-out: 1 of 2 members run the group's topology; of 4 tasks 3 are with them, 0 with the others and 1 with nobody yet; 1 task of the topology before is still to be given up
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := call(t, withTopology(test.change), "groups", "topology", "app", "--admin", "NODE")
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), stdout); diff != "" || code != exitOK {
				t.Errorf("exit code %d, %s\n%s", code, stderr, diff)
			}
		})
	}
}

func TestExitCodesOfTopology(t *testing.T) {
	refused := func(kind web.RefusalKind, text string) cluster {
		c := withTopology(nil)
		c.err = web.Refuse(kind, "%s", text)
		return c
	}
	headless := withTopology(nil)
	headless.status.Quorum = false
	headless.status.Shards[1].Leader = -1
	for _, test := range []struct {
		name   string
		c      cluster
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"help", healthy(), "groups topology --help", exitOK, "which topics it waits for", ""},
		{"abort without being sure", withTopology(nil), "groups topology app --abort --admin NODE", exitUsage,
			"group app would go from topology epoch 1 back to the topology of epoch 0, as epoch 2:", "nothing was changed: add --yes"},
		{"what an abort changes", withTopology(nil), "groups topology app --abort --admin NODE", exitUsage,
			"topic app-count-changelog needs 2 partitions, before 4; it has 4: delete it or go back", ""},
		{"who an abort concerns", withTopology(nil), "groups topology app --abort --admin NODE", exitUsage, "1 member runs that topology; 2 members run another one", ""},
		{"abort in json, without being sure", withTopology(nil), "groups topology app --abort --admin NODE -o json", exitUsage, `"from": 1`, "nothing was changed"},
		{"abort", withTopology(nil), "groups topology app --abort --yes --admin NODE", exitOK,
			"group app: the topology of epoch 1 is taken back; that of epoch 0 is the group's again, as epoch 2", ""},
		{"abort, json", withTopology(nil), "groups topology app --abort --yes -o json --admin NODE", exitOK, `"restored": 0`, ""},
		{"abort of the first", withTopology(waiting), "groups topology app --abort --yes --admin NODE", exitFailed, "", "has no earlier topology to go back to"},
		{"abort of an absent group", withTopology(nil), "groups topology nope --abort --yes --admin NODE", exitFailed, "", `group "nope" is not one of coordd's`},
		{"abort that is late", refused(web.Conflict, "the topology epoch is 2 by now"), "groups topology app --abort --yes --admin NODE", exitFailed, "", "is 2 by now"},
		{"abort of a group that goes", refused(web.NotFound, "Group app not found."), "groups topology app --abort --yes --admin NODE", exitFailed, "", "not found"},
		{"abort without a leader", refused(web.NoLeader, "shard 3 has no leader"), "groups topology app --abort --yes --admin NODE", exitNoQuorum, "", "no quorum: shard 3"},
		{"yes alone", withTopology(nil), "groups topology app --yes --admin NODE", exitUsage, "", "together with --abort"},
		{"absent group", withTopology(nil), "groups topology nope --admin NODE", exitFailed, "", `group "nope" is not one of coordd's`},
		{"no group", withTopology(nil), "groups topology --admin NODE", exitUsage, "", "name one group"},
		{"without quorum", headless, "groups topology app --admin NODE", exitNoQuorum, "app-count-changelog", "no quorum"},
		{"dead node", healthy(), "groups topology app --admin 127.0.0.1:1", exitFailed, "", "is the node up"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := call(t, test.c, strings.Fields(test.args)...)
			if code != test.code || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", code, test.code, stdout, stderr)
			}
		})
	}
}

// TestTopologyInJSON: all that the node told, under the names of the documentation.
func TestTopologyInJSON(t *testing.T) {
	change := func(t *web.GroupTopology) {
		whole := *t
		waiting(t)
		t.Change, t.Back = whole.Change, whole.Back
	}
	code, stdout, _ := call(t, withTopology(change), "groups", "topology", "app", "-o", "json", "--admin", "NODE")
	var got web.GroupTopology
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK {
		t.Fatal(code, err)
	}
	want := topologySample()
	change(&want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, field := range []string{"group", "state", "topologyEpoch", "problem", "subtopologies", "subtopology", "tasks", "stateful", "sources",
		"sourceRegexes", "repartitionSources", "repartitionSinks", "changelogs", "topic", "partitions", "missing", "kind", "replicationFactor", "configs", "error", "versions", "epoch", "current",
		"member", "clientId", "host", "processId", "rollOut", "done", "stale", "currentTasks", "staleTasks", "waiting",
		"leaving", "declared", "restores", "aborted", "sinceMs", "change", "back", "from", "to", "kept", "changed", "new", "lost", "orphaned", "counts", "before", "needed", "exists"} {
		if !strings.Contains(stdout, `"`+field+`": `) {
			t.Errorf("field %s is missing", field)
		}
	}
}

// TestATableOfManyMembersIsShort: thousands of members are counted, not listed.
func TestATableOfManyMembersIsShort(t *testing.T) {
	many := func(t *web.GroupTopology) {
		t.Members = 5000
		members := make([]web.VersionMember, t.Members)
		for i := range members {
			members[i].Member = fmt.Sprintf("m%04d", i)
		}
		t.Versions = []web.TopologyVersion{{Epoch: 1, Current: true, Members: members}}
		t.RollOut, t.Change = web.RollOut{Done: true, Current: len(members)}, nil
	}
	_, stdout, _ := call(t, withTopology(many), "groups", "topology", "app", "--admin", "NODE")
	if n := strings.Count(stdout, "\n"); n > 40 || !strings.Contains(stdout, "and 4980 more") || !strings.Contains(stdout, "all 5000 members run it") {
		t.Errorf("%d lines: %s", n, stdout)
	}
}

func TestNamesOfATopologyCannotWriteToTheTerminal(t *testing.T) {
	evil := func(t *web.GroupTopology) {
		names, topics := []string{hostile}, []web.InternalTopic{{Topic: hostile, Partitions: 1}}
		t.Problem = hostile
		t.Subtopologies = []web.GroupSubtopology{{Subtopology: hostile, Sources: names, SourceRegexes: slices.Clone(names), RepartitionSources: topics,
			RepartitionSinks: names, Changelogs: topics}}
		t.Missing = []web.MissingTopic{{Topic: hostile, Kind: "internal", Error: hostile}}
		t.Versions = []web.TopologyVersion{{Epoch: 1, Current: true, Members: []web.VersionMember{{Member: hostile, InstanceID: hostile, ClientID: hostile, Host: hostile}}}}
		t.Change = &web.TopologyChange{Kept: names, Changed: names, New: names, Lost: names, Orphaned: topics, Counts: []web.PartitionChange{{Topic: hostile}}}
	}
	for _, format := range []string{"table", "json"} {
		code, stdout, _ := call(t, withTopology(evil), "groups", "topology", "app", "-o", format, "--admin", "NODE")
		if i := strings.IndexFunc(stdout, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); code != exitOK || i >= 0 {
			t.Errorf("%s: exit code %d: %q", format, code, stdout)
		}
	}
}
