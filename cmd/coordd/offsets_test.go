package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/web"
)

func (c cluster) Offsets(_ context.Context, r web.OffsetsRequest) (web.GroupOffsets, error) {
	switch {
	case c.offsets == nil || r.Group != c.offsets.Group:
		return web.GroupOffsets{}, web.Refuse(web.NotFound, "group %q is not one of coordd's", r.Group)
	case c.err != nil:
		return web.GroupOffsets{}, c.err
	}
	g := *c.offsets
	g.Partitions = slices.Clone(g.Partitions)
	for i := range g.Partitions {
		if r.TimeMs != web.NoOffset {
			at := r.TimeMs / 1000 // a record a second
			if at >= g.Partitions[i].End {
				at = web.NoOffset
			}
			g.Partitions[i].AtTime = &at
		}
	}
	return g, nil
}
func (c cluster) LocalOffsets(ctx context.Context, r web.OffsetsRequest) (web.GroupOffsets, error) {
	return c.Offsets(ctx, r)
}
func (c cluster) ResetOffsets(_ context.Context, r web.ResetRequest) (web.ResetDone, error) {
	if c.resetFails != nil {
		return web.ResetDone{}, c.resetFails
	}
	*c.reset = r
	return web.ResetDone{Group: r.Group, Changed: len(r.Offsets)}, nil
}
func (c cluster) LocalResetOffsets(ctx context.Context, r web.ResetRequest) (web.ResetDone, error) {
	return c.ResetOffsets(ctx, r)
}
func (c cluster) MoveOffsets(_ context.Context, r web.MoveOffsetsRequest) (web.OffsetsMoved, error) {
	switch {
	case c.offsets == nil || r.Group != c.offsets.Group:
		return web.OffsetsMoved{}, web.Refuse(web.NotFound, "group %q is not one of coordd's", r.Group)
	case c.offsets.Members > 0:
		return web.OffsetsMoved{}, web.Refuse(web.Conflict, "Group %s has %d members", r.Group, c.offsets.Members)
	case c.err != nil:
		return web.OffsetsMoved{}, c.err
	}
	return web.OffsetsMoved{Group: r.Group, From: c.offsets.Store, To: r.To, Offsets: 3, Left: 1}, nil
}
func (c cluster) LocalMoveOffsets(ctx context.Context, r web.MoveOffsetsRequest) (web.OffsetsMoved, error) {
	return c.MoveOffsets(ctx, r)
}

func reading() cluster {
	c := healthy()
	c.reset = &web.ResetRequest{}
	c.offsets = &web.GroupOffsets{
		GroupSummary: web.GroupSummary{Group: "app", State: "Empty", Epoch: 7, TopologyEpoch: 0, Shard: 3, Coordinator: 1}, Store: "raft", Lag: 16, LagUnknown: 1, Stateful: true,
		Notes: []string{"topic gone does not exist"},
		Partitions: []web.PartitionOffsets{
			{Subtopology: "0", Topic: "in", Partition: 0, Kind: "source", Committed: 90, Start: 10, End: 100, Lag: 10, Member: "m1", ClientID: "c1", Host: "/10.0.0.1"},
			{Subtopology: "0", Topic: "in", Partition: 1, Kind: "source", Committed: -1, Start: 0, End: 50, Lag: -1},
			{Subtopology: "1", Topic: "r", Partition: 0, Kind: "repartition", Committed: 4, Start: 0, End: 10, Lag: 6},
			{Topic: "old", Partition: 2, Kind: "other", Committed: 3, Start: -1, End: -1, Lag: -1, Problem: "the partition does not exist"},
		},
	}
	return c
}

func TestOffsetsRows(t *testing.T) {
	want := strings.TrimPrefix(`
GROUP  STATE  EPOCH  MEMBERS  STORE  LAG  SHARD  COORDINATOR
app    Empty  7      0        raft   16+  3      1
note: topic gone does not exist

TASK  TOPIC  PARTITION  COMMITTED  END  LAG  MEMBER  CLIENT  HOST
0_0   in     0          90         100  10   m1      c1      /10.0.0.1
0_1   in     1          -          50   -    -       -       -
1_0   r      0          4          10   6    -       -       -
-     old    2          3          -    -    -       -       -

note: in:1: no offset is committed; the app begins there by its auto.offset.reset
note: old:2: the partition does not exist
note: LAG is without 1 partition of which it is not known
`, "\n")
	code, stdout, stderr := call(t, reading(), "groups", "offsets", "app", "--admin", "NODE")
	if diff := cmp.Diff(want, stdout); code != exitOK || diff != "" {
		t.Errorf("exit code %d, %s%s", code, diff, stderr)
	}
	silent := reading()
	silent.offsets.Lag, silent.offsets.LagUnknown, silent.offsets.Partitions = -1, 24, nil
	for p := range int32(24) {
		silent.offsets.Partitions = append(silent.offsets.Partitions, web.PartitionOffsets{Subtopology: "0", Topic: "in", Partition: p, Kind: "source",
			Committed: 3, Start: -1, End: -1, Lag: -1, Problem: "no answer"})
	}
	_, stdout, _ = call(t, silent, "groups", "offsets", "app", "--admin", "NODE")
	if !strings.Contains(stdout, "raft   -    3") || !strings.Contains(stdout, "in:8, in:9, 14 more: no answer\n") || !strings.Contains(stdout, "without 24 partitions") {
		t.Errorf("nothing known:\n%s", stdout)
	}
	var g web.GroupOffsets
	code, stdout, _ = call(t, reading(), "groups", "offsets", "app", "--admin", "NODE", "-o", "json")
	if err := json.Unmarshal([]byte(stdout), &g); err != nil || code != exitOK || g.Partitions[0].Lag != 10 || g.Partitions[1].Committed != -1 {
		t.Errorf("exit code %d, %v: %s", code, err, stdout)
	}
}

func TestResetTargets(t *testing.T) {
	for args, want := range map[string]map[string]int64{
		"--to-earliest":                             {"in/0": 10, "in/1": 0},
		"--to-latest":                               {"in/0": 100, "in/1": 50},
		"--to-offset 70":                            {"in/0": 70, "in/1": 50},
		"--to-offset 5 --topic in:0":                {"in/0": 10},
		"--to-datetime 1970-01-01T00:00:30.500":     {"in/0": 30, "in/1": 30},
		"--to-datetime 1970-01-01T01:01:00+01:00":   {"in/0": 60, "in/1": 50},
		"--by-duration PT1M":                        {"in/0": 100, "in/1": 50},
		"--shift-by -100 --topic in:0 --topic r":    {"in/0": 10, "r/0": 0},
		"--shift-by=5 --topic in:0":                 {"in/0": 95},
		"--from-file FILE":                          {"in/1": 7, "old/2": -1, "r/0": 10},
		"--from-file FILE --topic in":               {"in/1": 7},
		"--to-earliest --topic in:1,0 --topic r:0":  {"in/0": 10, "in/1": 0, "r/0": 0},
		"--to-latest --topic in:0,0 --dry-run=true": {"in/0": 100},
	} {
		file := filepath.Join(t.TempDir(), "offsets.csv")
		if err := os.WriteFile(file, []byte("\"in\", 1,7\nold,2,-1\n\napp,r,0,999\nother,in,0,5\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(strings.ReplaceAll(args, "FILE", file))
		code, stdout, stderr := call(t, reading(), append([]string{"groups", "reset-offsets", "app", "--admin", "NODE", "-o", "json"}, fields...)...)
		var p resetPlan
		if err := json.Unmarshal([]byte(stdout), &p); err != nil || code != exitOK || p.Executed {
			t.Errorf("%s: exit code %d, %v, %s%s", args, code, err, stdout, stderr)
			continue
		}
		got := map[string]int64{}
		for _, o := range p.Partitions {
			got[o.Topic+"/"+string(rune('0'+o.Partition))] = o.Offset
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", args, diff)
		}
	}
}

func TestResetRefusals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "offsets.csv")
	write := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	live := reading()
	live.offsets.Members = 2
	unknown := reading()
	unknown.offsets.Partitions[0].End, unknown.offsets.Partitions[0].Problem = -1, "the Kafka cluster behind does not answer"
	unread := reading()
	unread.offsets.Partitions = nil
	headless := reading()
	headless.err = web.Refuse(web.NoLeader, "shard 3 has no leader")
	for _, test := range []struct {
		c             cluster
		args, content string
		code          int
		says          string
	}{
		{reading(), "", "", exitUsage, "say where to: one of --to-earliest"},
		{reading(), "--to-earliest --shift-by 1", "", exitUsage, "--to-earliest and --shift-by contradict each other"},
		{reading(), "--to-earliest=false", "", exitUsage, "--to-earliest"},
		{reading(), "--to-earliest --execute --dry-run", "", exitUsage, "contradict"},
		{reading(), "--to-earliest --export x", "", exitUsage, "--export needs --execute"},
		{reading(), "--to-offset -1", "", exitUsage, "0 or more"},
		{reading(), "--to-offset x", "", exitUsage, "--to-offset"},
		{reading(), "--to-datetime 2026-01-01", "", exitUsage, "2006-01-02T15:04:05.000"},
		{reading(), "--to-datetime 2026-02-30T00:00:00", "", exitUsage, "--to-datetime"},
		{reading(), "--by-duration PT", "", exitUsage, "P1DT2H30M"},
		{reading(), "--by-duration P99999999D", "", exitUsage, "P1DT2H30M"},
		{reading(), "--by-duration -5m", "", exitUsage, "P1DT2H30M"},
		{reading(), "--to-earliest --topic in:x", "", exitUsage, "topic:partition,partition"},
		{reading(), "--to-earliest --topic :1", "", exitUsage, "topic:partition,partition"},
		{reading(), "--to-earliest --topic in --topic in:1", "", exitUsage, "each topic once"},
		{reading(), "--to-earliest --topic out", "", exitFailed, `topic out is not one that group "app" reads or has an offset of (topics: in, r, old)`},
		{reading(), "--to-earliest --topic in:5", "", exitFailed, "partition 5 of topic in does not exist"},
		{reading(), "--to-earliest --topic old", "", exitFailed, "where partition 2 of topic old starts and ends is not known: the partition does not exist"},
		{reading(), "--shift-by 1", "", exitFailed, "partition 1 of topic in has no committed offset"},
		{unknown, "--to-latest", "", exitFailed, "does not answer"},
		{unread, "--to-latest", "", exitFailed, "there is no partition to reset"},
		{headless, "--to-latest", "", exitNoQuorum, "no quorum"},
		{live, "--to-latest --execute", "", exitFailed, "has 2 members: stop the app"},
		{reading(), "--from-file /nonexistent", "", exitFailed, "--from-file"},
		{reading(), "--from-file FILE", "", exitUsage, "has no offsets of group"},
		{reading(), "--from-file FILE", "other,in,0,5\n", exitUsage, "has no offsets of group"},
		{reading(), "--from-file FILE --topic in:1", "in,0,1\nr,0,1\n", exitUsage, "has no offset of what --topic names (it has those of in:0, r:0)"},
		{reading(), "--from-file FILE", "in,0\n", exitUsage, "line 1 of " + file},
		{reading(), "--from-file FILE", "in,0,1\nin,zero,5\n", exitUsage, "line 2 of " + file},
		{reading(), "--from-file FILE", "in,0,-2\n", exitUsage, `offset "-2"`},
		{reading(), "--from-file FILE", "in,0,2\nin,0,3\n", exitUsage, "stands twice"},
		{reading(), "--from-file FILE", "out,0,2\n", exitFailed, "partition 0 of topic out stands in " + file},
	} {
		write(test.content)
		args := strings.Fields(strings.ReplaceAll(test.args, "FILE", file))
		code, _, stderr := call(t, test.c, append([]string{"groups", "reset-offsets", "app", "--admin", "NODE"}, args...)...)
		if code != test.code || !strings.Contains(stderr, test.says) || len(test.c.reset.Offsets) > 0 {
			t.Errorf("%s %q: exit code %d, want %d, %s", test.args, test.content, code, test.code, stderr)
		}
	}
}

// TestResetGoesBack saves what was before, changes only what differs, and takes the file back.
func TestResetGoesBack(t *testing.T) {
	t.Chdir(t.TempDir())
	c := reading()
	code, stdout, stderr := call(t, c, "groups", "reset-offsets", "app", "--admin", "NODE", "--to-offset", "90", "--execute")
	if diff := cmp.Diff([]web.NewOffset{{Topic: "in", Partition: 1, Before: -1, Offset: 50}}, c.reset.Offsets); code != exitOK || diff != "" {
		t.Fatalf("exit code %d, %s%s", code, diff, stderr)
	}
	names, _ := filepath.Glob("app-offsets-*.csv")
	if len(names) != 1 {
		t.Fatal(names)
	}
	content, err := os.ReadFile(names[0])
	if err != nil || string(content) != "in,1,-1\n" {
		t.Fatalf("%q %v", content, err)
	}
	for _, says := range []string{"partition 1 of topic in ends at 50: that is taken instead of 90", "changed: 1 offset; those of before are in " + names[0],
		"coordd groups reset-offsets app --admin ", "/" + names[0] + " --execute", "in     0          90         90"} {
		if !strings.Contains(stdout, says) {
			t.Errorf("%q is missing in\n%s", says, stdout)
		}
	}
	c.offsets.Partitions[1].Committed = 50
	code, stdout, _ = call(t, c, "groups", "reset-offsets", "app", "--admin", "NODE", "--from-file", names[0], "--execute", "--export", "then.csv")
	if diff := cmp.Diff([]web.NewOffset{{Topic: "in", Partition: 1, Before: 50, Offset: -1}}, c.reset.Offsets); code != exitOK || diff != "" {
		t.Errorf("exit code %d, %s%s", code, diff, stdout)
	}

	code, _, stderr = call(t, c, "groups", "reset-offsets", "app", "--admin", "NODE", "--to-earliest", "--execute", "--export", "then.csv")
	if code != exitFailed || !strings.Contains(stderr, "nothing was changed: the offsets of before cannot be saved") {
		t.Errorf("over a file that is there: exit code %d, %s", code, stderr)
	}
	if content, _ := os.ReadFile("then.csv"); string(content) != "in,1,50\n" {
		t.Errorf("%q", content)
	}
	c.resetFails = web.Refuse(web.Conflict, "group \"app\" has 1 member")
	code, _, stderr = call(t, c, "groups", "reset-offsets", "app", "--admin", "NODE", "--to-earliest", "--execute", "--export", "late.csv")
	if code != exitFailed || !strings.Contains(stderr, "has 1 member") || !strings.Contains(stderr, "those of before") && !strings.Contains(stderr, "late.csv") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	c = reading()
	code, stdout, _ = call(t, c, "groups", "reset-offsets", "app", "--admin", "NODE", "--to-offset", "90", "--topic", "in:0", "--execute")
	if again, _ := filepath.Glob("app-offsets-*.csv"); code != exitOK || !strings.Contains(stdout, "nothing to change") || len(c.reset.Offsets) > 0 || len(again) != 1 {
		t.Errorf("exit code %d, %s", code, stdout)
	}
}

// TestResetOfAnAppThatRunsBehind: it is told before a file is written, and by the dry run.
func TestResetOfAnAppThatRunsBehind(t *testing.T) {
	t.Chdir(t.TempDir())
	c := reading()
	c.offsets.Store, c.origin = "upstream", web.GroupOrigin{Type: "classic", Protocol: "consumer", State: "Stable"}
	args := []string{"groups", "reset-offsets", "app", "--admin", "NODE", "--to-earliest"}
	if code, stdout, _ := call(t, c, slices.Clone(args)...); code != exitOK || !strings.Contains(stdout, "note: the app runs in the Kafka behind, where group app is Stable: stop it there") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	code, _, stderr := call(t, c, append(slices.Clone(args), "--execute")...)
	if names, _ := filepath.Glob("*"); code != exitFailed || !strings.Contains(stderr, "nothing was changed: the app runs in the Kafka behind") || len(names) > 0 || len(c.reset.Offsets) > 0 {
		t.Errorf("exit code %d, %s, %v", code, stderr, names)
	}
	for _, o := range []web.GroupOrigin{{}, {Type: "classic", Protocol: "consumer", State: "Empty"}, {Type: "classic", Protocol: "coordd", State: "Stable"}} {
		c.origin = o
		if code, _, stderr := call(t, c, append(slices.Clone(args), "--execute")...); code != exitOK {
			t.Errorf("%+v: exit code %d, %s", o, code, stderr)
		}
	}
}

func TestResetDryRun(t *testing.T) {
	want := strings.TrimPrefix(`
GROUP  STATE  MEMBERS  STORE
app    Empty  0        raft

TOPIC  PARTITION  COMMITTED  NEW OFFSET  CHANGE
in     0          90         10          -80
in     1          -          0           -

note: topic gone does not exist
note: state stores and their changelogs stay as they are: what is read again is processed again on that state
note: repartition topics hold records that are not processed yet; their offsets stay, and the app goes on with these records
nothing was changed: add --execute to change 2 offsets
`, "\n")
	code, stdout, stderr := call(t, reading(), "groups", "reset-offsets", "app", "--admin", "NODE", "--to-earliest")
	if diff := cmp.Diff(want, stdout); code != exitOK || diff != "" {
		t.Errorf("exit code %d, %s%s", code, diff, stderr)
	}
	live := reading()
	live.offsets.Members = 1
	if _, stdout, _ := call(t, live, "groups", "reset-offsets", "app", "--admin", "NODE", "--to-earliest"); !strings.Contains(stdout, "the group has 1 member: stop the app") {
		t.Error(stdout)
	}
}

// TestResetWithoutTopology: of a group that was just taken over it is not known what it reads, so that topics with the names of its
// internal ones are left alone unless they are named, and what is not known is said.
func TestResetWithoutTopology(t *testing.T) {
	c := reading()
	c.offsets.TopologyEpoch, c.offsets.Stateful, c.offsets.Notes = -1, false, nil
	c.offsets.Partitions = nil
	internal := []string{"app-w-repartition", "app-c-changelog", "app-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000012-topic", "app-j-subscription-registration-topic"}
	for _, topic := range append([]string{"in", "app-in", "other-repartition"}, internal...) {
		c.offsets.Partitions = append(c.offsets.Partitions, web.PartitionOffsets{Topic: topic, Kind: "other", Committed: 5, Start: 0, End: 9, Lag: 4})
	}
	plan := func(args ...string) (topics []string, notes string) {
		code, stdout, stderr := call(t, c, append([]string{"groups", "reset-offsets", "app", "--admin", "NODE", "-o", "json"}, args...)...)
		var p resetPlan
		if err := json.Unmarshal([]byte(stdout), &p); err != nil || code != exitOK {
			t.Fatalf("%v: exit code %d, %v, %s", args, code, err, stderr)
		}
		for _, o := range p.Partitions {
			topics = append(topics, o.Topic)
		}
		return topics, strings.Join(p.Notes, "\n")
	}
	topics, notes := plan("--to-latest")
	if diff := cmp.Diff([]string{"in", "app-in", "other-repartition"}, topics); diff != "" {
		t.Error(diff)
	}
	for _, says := range []string{"does not know the topology of app yet", strings.Join(internal, ", "), "--topic", "state stores and their changelogs", "repartition topics hold records"} {
		if !strings.Contains(notes, says) {
			t.Errorf("%q is missing in %s", says, notes)
		}
	}
	topics, notes = plan("--to-latest", "--topic", internal[0])
	if diff := cmp.Diff(internal[:1], topics); diff != "" || !strings.Contains(notes, "does not know the topology") {
		t.Errorf("%s %s", diff, notes)
	}
	if _, notes = plan("--shift-by", "0"); notes != "" {
		t.Errorf("of nothing to change: %s", notes)
	}
	c.offsets.Partitions = c.offsets.Partitions[3:]
	code, _, stderr := call(t, c, "groups", "reset-offsets", "app", "--admin", "NODE", "--to-latest")
	if code != exitFailed || !strings.Contains(stderr, "no partition to reset") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// TestTimesAreReadAsKafkaReadsThem: Utils.getDateTime and java.time.Duration.parse.
func TestTimesAreReadAsKafkaReadsThem(t *testing.T) {
	for text, want := range map[string]int64{
		"1970-01-01T00:00:01.000": 1000, "1970-01-01T00:00:01": 1000, "1970-01-01T02:00:01.5+02": 1500, "1970-01-01T02:00:00+0200": 0, "1969-12-31T23:00:00-01:00": 0,
		"1970-01-02T00:00:00.001Z": 86_400_001,
	} {
		if got, err := parseDatetime(text); err != nil || got != want {
			t.Errorf("%s: %d %v", text, got, err)
		}
	}
	for text, want := range map[string]time.Duration{
		"P1D": 24 * time.Hour, "PT1H2M3S": time.Hour + 2*time.Minute + 3*time.Second, "p1dt0.5s": 24*time.Hour + 500*time.Millisecond, "PT0S": 0, "90m": 90 * time.Minute,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s: %s %v", text, got, err)
		}
	}
	for _, text := range []string{"", "P", "PT", "P1", "1D", "P1W", "P1DT", "P-1D", "-5m", "P1H", "P400000D"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

func TestNamesOfExports(t *testing.T) {
	for group, want := range map[string]string{"my-app": "my-app-offsets-", "../../etc/x": "_._.._etc_x-offsets-", "-rf": "_rf-offsets-", "a b\x1b": "a_b_-offsets-", strings.Repeat("x", 300): strings.Repeat("x", 100) + "-offsets-"} {
		if got := exportName(group); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "Z.csv") || filepath.Base(got) != got {
			t.Errorf("%q: %q", group, got)
		}
	}
	if got := backCommand("it's", "/d/a b.csv", "h:1"); got != `coordd groups reset-offsets 'it'\''s' --admin h:1 --from-file '/d/a b.csv' --execute` {
		t.Error(got)
	}
}

func TestMoveCommand(t *testing.T) {
	live := reading()
	live.offsets.Members = 2
	headless := reading()
	headless.err = web.Refuse(web.NoLeader, "shard 3 has no leader")
	upstream := reading()
	upstream.offsets.Store = "upstream"
	for _, test := range []struct {
		c              cluster
		args           string
		code           int
		stdout, stderr string
	}{
		{reading(), "app --move-to upstream", exitOK, "group app: 3 offsets moved from store raft to store upstream\nnote: 1 offset left out", ""},
		{upstream, "app --move-to raft", exitOK, "note: apps with processing.guarantee=exactly_once_v2 cannot commit there", ""},
		{reading(), "app --move-to raft", exitOK, "the offsets are in store raft already", ""},
		{reading(), "app --move-to upstream -o json", exitOK, `"left": 1`, ""},
		{reading(), "app --move-to tape", exitUsage, "", "upstream or raft"},
		{reading(), "app --move-to=", exitUsage, "", "upstream or raft"},
		{reading(), "app --move-to raft --move-to upstream", exitUsage, "", "given twice"},
		{reading(), "nope --move-to raft", exitFailed, "", `group "nope" is not one of coordd's`},
		{reading(), "nope", exitFailed, "", `group "nope" is not one of coordd's`},
		{live, "app --move-to upstream", exitFailed, "", "has 2 members"},
		{headless, "app --move-to upstream", exitNoQuorum, "", "no quorum"},
		{headless, "app", exitNoQuorum, "", "no quorum"},
	} {
		code, stdout, stderr := call(t, test.c, append([]string{"groups", "offsets", "--admin", "NODE"}, strings.Fields(test.args)...)...)
		if code != test.code || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) {
			t.Errorf("%s: exit code %d, want %d\n%s%s", test.args, code, test.code, stdout, stderr)
		}
	}
}
