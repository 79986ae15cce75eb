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
			{Epoch: 1, Current: true, Members: []web.VersionMember{
				{Member: "m1", ClientID: "c1", Host: "/10.0.0.1", ProcessID: "p1", Tasks: 4}, {Member: "m2", InstanceID: "i2", ClientID: "c2", Host: "/10.0.0.2", ProcessID: "p2", Tasks: 3}}},
			{Epoch: 0, Members: []web.VersionMember{{Member: "m3", ClientID: "c3", Host: "/10.0.0.3", ProcessID: "p3", Tasks: 1}}},
		},
		RollOut: web.RollOut{Current: 2, Stale: 1, StaleTasks: 1},
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
	t.Missing = []web.MissingTopic{{Topic: "prices", Kind: "source"}, {Topic: "app-count-changelog", Kind: "internal"},
		{Topic: "app-a-changelog", Kind: "internal", Partitions: 4}, {Topic: "app-b-changelog", Kind: "internal", Partitions: 4, Error: "not authorized"}}
	t.Versions = []web.TopologyVersion{{Current: true, Members: t.Versions[0].Members[:1]}}
	t.RollOut = web.RollOut{Done: true, Current: 1}
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

TOPOLOGY EPOCH  MEMBER  INSTANCE  CLIENT  HOST       TASKS
1 (current)     m1      -         c1      /10.0.0.1  4
1 (current)     m2      i2        c2      /10.0.0.2  3
0               m3      -         c3      /10.0.0.3  1

roll-out: 2 of 3 members run it; 1 member runs an older one still and has 1 task
`},
		{"waiting for topics", waiting, `
GROUP  STATE     EPOCH  TOPOLOGY EPOCH  MEMBERS  SHARD  COORDINATOR
app    NotReady  7      0               1        3      1

problem: MISSING_SOURCE_TOPICS: Source topics prices are missing.

SUBTOPOLOGY  TASKS  STATE      SOURCES        REPARTITION SOURCES      REPARTITION SINKS        CHANGELOGS
0            ?      stateless  orders,prices  -                        app-by-user-repartition  -
1            ?      stateful   /eu-.*/        app-by-user-repartition  -                        app-count-changelog

MISSING TOPIC        KIND      PARTITIONS  STATE
prices               source    -           create it, or correct its name in the app
app-count-changelog  internal  -           is created when the other topics are right
app-a-changelog      internal  4           is being created
app-b-changelog      internal  4           could not be created, is tried again: not authorized

TOPOLOGY EPOCH  MEMBER  INSTANCE  CLIENT  HOST       TASKS
0 (current)     m1      -         c1      /10.0.0.1  4

roll-out: done, the only member runs it
`},
		{"no topology", func(t *web.GroupTopology) {
			t.State, t.TopologyEpoch, t.Members = "Empty", -1, 0
			t.Subtopologies, t.Versions, t.RollOut = []web.GroupSubtopology{}, []web.TopologyVersion{}, web.RollOut{Done: true}
		}, `
GROUP  STATE  EPOCH  TOPOLOGY EPOCH  MEMBERS  SHARD  COORDINATOR
app    Empty  7      none            0        3      1

the group has no topology: the next member that joins brings one
`},
		{"nobody", func(t *web.GroupTopology) {
			t.State, t.Members, t.Subtopologies = "Empty", 0, t.Subtopologies[:1]
			t.Versions = []web.TopologyVersion{{Epoch: 1, Current: true, Members: []web.VersionMember{}}}
			t.RollOut = web.RollOut{Done: true}
		}, `
GROUP  STATE  EPOCH  TOPOLOGY EPOCH  MEMBERS  SHARD  COORDINATOR
app    Empty  7      1               0        3      1

SUBTOPOLOGY  TASKS  STATE      SOURCES        REPARTITION SOURCES  REPARTITION SINKS        CHANGELOGS
0            4      stateless  orders,prices  -                    app-by-user-repartition  -

TOPOLOGY EPOCH  MEMBER  INSTANCE  CLIENT  HOST  TASKS
1 (current)     nobody

roll-out: no member runs
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
	code, stdout, _ := call(t, withTopology(waiting), "groups", "topology", "app", "-o", "json", "--admin", "NODE")
	var got web.GroupTopology
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK {
		t.Fatal(code, err)
	}
	want := topologySample()
	waiting(&want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, field := range []string{"group", "state", "topologyEpoch", "problem", "subtopologies", "subtopology", "tasks", "stateful", "sources",
		"sourceRegexes", "repartitionSources", "repartitionSinks", "changelogs", "topic", "partitions", "missing", "kind", "error", "versions", "epoch", "current",
		"member", "clientId", "host", "processId", "rollOut", "done", "stale", "staleTasks"} {
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
		t.RollOut = web.RollOut{Done: true, Current: len(members)}
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
	}
	for _, format := range []string{"table", "json"} {
		code, stdout, _ := call(t, withTopology(evil), "groups", "topology", "app", "-o", format, "--admin", "NODE")
		if i := strings.IndexFunc(stdout, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); code != exitOK || i >= 0 {
			t.Errorf("%s: exit code %d: %q", format, code, stdout)
		}
	}
}
