package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/coordd/coordd/web"
)

// cluster is what a node would show.
type cluster struct {
	status web.ClusterStatus
	groups []web.GroupDetail
	// topologies are those of groups.
	topologies []web.GroupTopology
	// plan is what a node plans, whatever it is asked; planned is what it was asked.
	plan    web.GroupPlan
	planned *web.PlanRequest
	// offsets are those of one group, reset is what was asked to change of them, and resetFails what is answered to that.
	offsets    *web.GroupOffsets
	reset      *web.ResetRequest
	resetFails error
	// origin is what the Kafka behind has of any group.
	origin web.GroupOrigin
	err    error
}

func (c cluster) Status(context.Context) web.ClusterStatus { return c.status }
func (c cluster) Local() web.NodeStatus                    { return c.status.Nodes[0] }
func (c cluster) Ready() error                             { return c.err }
func (c cluster) Groups() []web.GroupSummary {
	var list []web.GroupSummary
	for _, g := range c.groups {
		list = append(list, g.GroupSummary)
	}
	return list
}
func (c cluster) Group(_ context.Context, id string) (web.GroupDetail, bool) { return c.LocalGroup(id) }
func (c cluster) Journal(_ context.Context, id string) (web.GroupJournal, error) {
	if c.err != nil {
		return web.GroupJournal{}, c.err
	}
	return c.LocalJournal(id)
}
func (c cluster) LocalJournal(id string) (web.GroupJournal, error) {
	g, ok := c.LocalGroup(id)
	if !ok {
		return web.GroupJournal{}, web.ErrNoGroup
	}
	return web.GroupJournal{GroupSummary: g.GroupSummary, Entries: journalSample}, nil
}

func (c cluster) MoveLeader(_ context.Context, r web.MoveRequest) (web.Moved, error) {
	for _, s := range c.status.Shards {
		switch {
		case s.Shard != r.Shard:
		case s.Leader < 0:
			return web.Moved{}, web.Refuse(web.NoLeader, "shard %d has no leader", r.Shard)
		case r.To == 1 && c.err != nil:
			return web.Moved{}, c.err
		case r.To > 1:
			return web.Moved{}, web.Refuse(web.NotAllowed, "node %d is not a member of the cluster", r.To)
		default:
			return web.Moved{Shard: r.Shard, From: s.Leader, Leader: r.To}, nil
		}
	}
	return web.Moved{}, web.Refuse(web.NotAllowed, "shard %d does not exist", r.Shard)
}
func (c cluster) DrainNode(_ context.Context, r web.DrainRequest) (web.Drained, error) {
	d := web.Drained{Node: r.Node, Drained: !r.Undo, Shards: []web.DrainedShard{}}
	if !r.Undo {
		d.Shards = []web.DrainedShard{{Shard: -1, Leader: 1}, {Shard: 0, Leader: 1}}
		if c.err != nil {
			d.Shards[1] = web.DrainedShard{Shard: 0, Leader: r.Node, Problem: c.err.Error()}
		}
	}
	return d, nil
}
func (c cluster) LocalMoveLeader(ctx context.Context, r web.MoveRequest) (web.Moved, error) {
	return c.MoveLeader(ctx, r)
}
func (c cluster) LocalKeepLeader(context.Context, web.KeepRequest) error { return nil }
func (c cluster) LocalDrainNode(ctx context.Context, r web.DrainRequest) (web.Drained, error) {
	return c.DrainNode(ctx, r)
}

var journalSample = []web.JournalEntry{
	{Sequence: 2, FirstEpoch: 3, Epoch: 5, Outcome: "settled", StartedAtMs: 1790000000123, TargetAtMs: 1790000001123, SettledAtMs: 1790000003623,
		SettledAfterMs: 3500, Slowest: "m7", Counts: []web.JournalCount{{Cause: "join", Count: 3}},
		Causes: []web.JournalCause{{Causes: []string{"join"}, Epoch: 3, Member: "m5", Host: "/10.0.0.5"}},
		Moved:  2, Moves: []web.JournalMove{{Task: "0_1", Role: "active", From: "m1", To: "m5"}}},
	{Sequence: 1, FirstEpoch: 2, Epoch: 2, Outcome: "superseded", SettledAfterMs: -1, Counts: []web.JournalCount{{Cause: "topics changed", Count: 1}},
		Causes: []web.JournalCause{{Causes: []string{"topics changed"}, Epoch: 2, Detail: "MISSING_SOURCE_TOPICS"}}},
}

func (c cluster) LocalGroup(id string) (web.GroupDetail, bool) {
	for _, g := range c.groups {
		if g.Group == id {
			return g, true
		}
	}
	return web.GroupDetail{}, false
}

func healthy() cluster {
	return cluster{
		status: web.ClusterStatus{ClusterID: "c", Quorum: true,
			Nodes: []web.NodeStatus{{Node: 0, Reachable: true, ClientAddress: "h:9092", Upstream: web.UpstreamStatus{Reachable: true, Brokers: 3}},
				{Node: 1, Error: "connection refused"}},
			Shards: []web.ShardView{{Shard: -1, Leader: 0, Followers: []web.FollowerView{{Node: 1, Lag: 7}}}, {Shard: 0, Leader: 0, Followers: []web.FollowerView{}}}},
		groups: []web.GroupDetail{{GroupSummary: web.GroupSummary{Group: "app", State: "Stable", Epoch: 3, Members: 1},
			MemberList: []web.GroupMember{{Member: "m", Epoch: 3, Active: []string{"0_0", "0_1"}}}}},
	}
}

// call runs a command line against a node that shows c and returns exit code and output.
func call(t *testing.T, c cluster, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	node := httptest.NewServer(web.Handler(c, nil))
	defer node.Close()
	for i, a := range args {
		args[i] = strings.ReplaceAll(a, "NODE", strings.TrimPrefix(node.URL, "http://"))
	}
	var files [2]*os.File
	var out [2]string
	for i := range files {
		f, err := os.CreateTemp(t.TempDir(), "out")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		files[i] = f
	}
	code = run(args, files[0], files[1])
	for i, f := range files {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = string(b)
	}
	return code, out[0], out[1]
}

func TestExitCodes(t *testing.T) {
	headless := healthy()
	headless.status.Quorum = false
	headless.status.Shards[1].Leader = -1
	waiting := healthy()
	waiting.groups[0].State, waiting.groups[0].Problem = "NotReady", "MISSING_SOURCE_TOPICS: Source topics in are missing."
	lagging := healthy()
	lagging.err = web.Refuse(web.Conflict, "node 1 is 7 entries behind in shard 0")
	kept := healthy()
	kept.status.Shards[1].Kept, kept.status.Nodes[0].Drained = true, true
	split := healthy()
	split.status.Quorum = false
	split.status.Shards[0].Leader, split.status.Shards[1].Leader = -1, -1
	for _, test := range []struct {
		name   string
		c      cluster
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"help", healthy(), "--help", exitOK, "coordd serve", ""},
		{"no arguments", healthy(), "", exitOK, "Available Commands", ""},
		{"leaders", healthy(), "leaders --admin NODE", exitOK, "node 1: silent", ""},
		{"leaders without quorum", headless, "leaders --admin NODE", exitNoQuorum, "none", "shard 0 has no leader"},
		{"leaders without any", split, "leaders --admin NODE", exitNoQuorum, "none", "shards system, 0 have no leader"},
		{"leaders, kept", kept, "leaders --admin NODE", exitOK, "0 (kept)", ""},
		{"status, drained", kept, "status --admin NODE", exitOK, "up, drained", ""},
		{"move", healthy(), "leaders move --shard 0 --to 1 --admin NODE", exitOK, "shard 0: node 1 leads it now; before, node 0 did", ""},
		{"move of the system shard", healthy(), "leaders move --shard system --to 1 --admin NODE -o json", exitOK, `"shard": -1`, ""},
		{"move of nothing", healthy(), "leaders move --shard 0 --to 0 --admin NODE", exitOK, "shard 0: node 0 leads it already", ""},
		{"move to a stranger", healthy(), "leaders move --shard 0 --to 5 --admin NODE", exitUsage, "", "node 5 is not a member"},
		{"move of an unknown shard", healthy(), "leaders move --shard 12 --to 1 --admin NODE", exitUsage, "", "shard 12 does not exist"},
		{"move without a leader", headless, "leaders move --shard 0 --to 1 --admin NODE", exitNoQuorum, "", "no quorum: shard 0 has no leader"},
		{"move to a node that lags", lagging, "leaders move --shard 0 --to 1 --admin NODE", exitFailed, "", "7 entries behind"},
		{"move by a dead node", healthy(), "leaders move --shard 0 --to 1 --admin 127.0.0.1:1", exitFailed, "", "is the node up"},
		{"move without a shard", healthy(), "leaders move --to 1 --admin NODE", exitUsage, "", "--shard"},
		{"move of no number", healthy(), "leaders move --shard x --to 1 --admin NODE", exitUsage, "", "the number of a shard or 'system'"},
		{"move without a node", healthy(), "leaders move --shard 0 --admin NODE", exitUsage, "", "--to"},
		{"move to no number", healthy(), "leaders move --shard 0 --to x --admin NODE", exitUsage, "", "--to"},
		{"drain", healthy(), "leaders drain 0 --admin NODE", exitOK, "system  1", ""},
		{"drain, undone", healthy(), "leaders drain 0 --undo --admin NODE", exitOK, "node 0 may lead again", ""},
		{"drain, json", healthy(), "leaders drain 0 --admin NODE -o json", exitOK, `"drained": true`, ""},
		{"drain with what stays", lagging, "leaders drain 0 --admin NODE", exitFailed, "node 0 is drained", "node 0 still leads shard 0: node 1 is 7 entries behind"},
		{"drain of nobody", healthy(), "leaders drain --admin NODE", exitUsage, "", "name one node"},
		{"drain of no number", healthy(), "leaders drain two --admin NODE", exitUsage, "", `node "two" is not allowed`},
		{"unknown command of leaders", healthy(), "leaders movee", exitUsage, "", "did you mean move?"},
		{"status without quorum", headless, "status --admin NODE -o json", exitNoQuorum, `"quorum": false`, "no quorum"},
		{"status", healthy(), "status --admin NODE", exitOK, "no answer: connection refused", ""},
		{"groups", healthy(), "groups list --admin NODE", exitOK, "app", ""},
		{"groups in another state", healthy(), "groups list --admin NODE --state empty -o json", exitOK, "[]", ""},
		{"groups in an unknown state", healthy(), "groups list --admin NODE --state bogus", exitUsage, "", "Empty, NotReady"},
		{"group", healthy(), "groups describe app --admin NODE", exitOK, "0_0,0_1", ""},
		{"group that waits for topics", waiting, "groups describe app --admin NODE", exitOK, "problem: MISSING_SOURCE_TOPICS: Source topics in are missing.", ""},
		{"absent group", healthy(), "groups describe nope --admin NODE", exitFailed, "", `group "nope" is not one of coordd's`},
		{"groups without quorum", headless, "groups list --admin NODE", exitNoQuorum, "app", "shard 0 has no leader"},
		{"group without quorum", headless, "groups describe app --admin NODE -o json", exitNoQuorum, "0_0", "no quorum"},
		{"absent group without quorum", headless, "groups describe nope --admin NODE", exitNoQuorum, "", "no quorum"},
		{"why", healthy(), "groups why app --admin NODE", exitOK, "2026-09-21T14:13:20.123Z  3-5", ""},
		{"why, settled", healthy(), "groups why app --admin NODE", exitOK, "settled after 3.5s", ""},
		{"why, moves", healthy(), "groups why app --moves --admin NODE", exitOK, "m1 -> m5", ""},
		{"why, json", healthy(), "groups why app -o json --last 1 --admin NODE", exitOK, `"settledAfterMs": 3500`, ""},
		{"why, bad number", healthy(), "groups why app --last -1 --admin NODE", exitUsage, "", "0 (all) or more"},
		{"why of an absent group", healthy(), "groups why nope --admin NODE", exitFailed, "", `group "nope" is not one of coordd's`},
		{"why without quorum", headless, "groups why app --admin NODE", exitNoQuorum, "app", "no quorum"},
		{"why of no group", healthy(), "groups why --admin NODE", exitUsage, "", "--help"},
		{"no group named", healthy(), "groups describe --admin NODE", exitUsage, "", "name one group"},
		{"dead node", healthy(), "leaders --admin 127.0.0.1:1", exitFailed, "", "is the node up"},
		{"unknown command", healthy(), "leader", exitUsage, "", "unknown command \"leader\" for \"coordd\"; did you mean leaders?"},
		{"unknown command of groups", healthy(), "groups delete", exitUsage, "", "unknown command \"delete\" for \"coordd groups\"; see"},
		{"unknown flag", healthy(), "leaders --nope", exitUsage, "", "--nope"},
		{"unknown output", healthy(), "leaders -o xml --admin NODE", exitUsage, "", "table or json"},
		{"unknown setting", healthy(), "serve --set shard=3", exitUsage, "", "did you mean shards"},
		{"setting out of range", healthy(), "serve --set shards=100 --set data.dir=/x --set upstream.bootstrap.servers=h:1", exitUsage, "", "1 to 64"},
		{"missing file", healthy(), "serve --config /nonexistent.yaml", exitFailed, "", "does not exist"},
		{"settings", healthy(), "serve --help-settings", exitOK, "group.streams.session.timeout.ms", ""},
		{"superfluous argument", healthy(), "serve coordd.yaml", exitUsage, "", "takes flags only"},
		{"dev with an unknown log level", healthy(), "dev --log-level loud --port 1", exitUsage, "", "trace, debug, info, warn, error"},
		{"dev on a bad port", healthy(), "dev --port 70000", exitUsage, "", "--port"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := call(t, test.c, strings.Fields(test.args)...)
			for line := range strings.Lines(stdout) {
				if trimmed := strings.TrimRight(line, "\n"); strings.HasSuffix(trimmed, " ") {
					t.Errorf("blanks at the end of %q", trimmed)
				}
			}
			if code != test.code || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", code, test.code, stdout, stderr)
			}
		})
	}
}

func TestJSONIsWhatTheDocumentationLists(t *testing.T) {
	for args, fields := range map[string][]string{
		"leaders --admin NODE -o json":                       {"shard", "leader", "term", "commitIndex", "appliedIndex", "kept", "followers"},
		"leaders move --shard 0 --to 1 --admin NODE -o json": {"shard", "from", "leader"},
		"leaders drain 0 --admin NODE -o json":               {"node", "drained", "shards"},
		"groups list --admin NODE -o json":                   {"group", "state", "shard", "coordinator", "epoch", "assignmentEpoch", "topologyEpoch", "members"},
		"groups describe app --admin NODE -o json":           {"group", "memberList"},
		"status --admin NODE -o json":                        {"clusterId", "askedNode", "quorum", "shards", "nodes"},
	} {
		code, stdout, _ := call(t, healthy(), strings.Fields(args)...)
		var value any
		if err := json.Unmarshal([]byte(stdout), &value); err != nil || code != exitOK {
			t.Errorf("%s: exit code %d, %v", args, code, err)
			continue
		}
		if list, ok := value.([]any); ok {
			value = list[0]
		}
		object, _ := value.(map[string]any)
		for _, f := range fields {
			if _, ok := object[f]; !ok {
				t.Errorf("%s: field %s is missing", args, f)
			}
		}
	}
}

func TestExitCodeOfOtherErrors(t *testing.T) {
	if exitCode(errors.New("x")) != exitFailed || exitCode(nil) != exitOK {
		t.Fatal("exit codes")
	}
}
