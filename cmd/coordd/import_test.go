package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/web"
)

func (c cluster) Origin(_ context.Context, group string) (web.GroupOrigin, error) {
	if c.err != nil {
		return web.GroupOrigin{}, c.err
	}
	o := c.origin
	o.Group = group
	return o, nil
}
func (c cluster) LocalOrigin(ctx context.Context, group string) (web.GroupOrigin, error) {
	return c.Origin(ctx, group)
}
func (c cluster) Import(_ context.Context, r web.ImportRequest) (web.Imported, error) {
	if c.origin.NoImport != "" {
		return web.Imported{}, web.Refuse(web.Conflict, "%s", c.origin.NoImport)
	}
	if c.origin.MayBeHeld && !r.FromCoordd {
		return web.Imported{}, web.Refuse(web.Conflict, "may be held")
	}
	return web.Imported{Group: r.Group, Epoch: max(1, c.origin.Epoch), TopologyEpoch: c.origin.TopologyEpoch, Offsets: len(c.origin.Offsets), Settings: c.origin.Settings}, c.err
}
func (c cluster) LocalImport(ctx context.Context, r web.ImportRequest) (web.Imported, error) {
	return c.Import(ctx, r)
}
func (c cluster) Export(_ context.Context, r web.ExportRequest) (web.Exported, error) {
	return web.Exported{Group: r.Group, Offsets: len(c.origin.Offsets)}, nil
}
func (c cluster) LocalExport(ctx context.Context, r web.ExportRequest) (web.Exported, error) {
	return c.Export(ctx, r)
}
func (c cluster) LocalSetOwn(context.Context, web.OwnSettings) error { return c.err }

func originSample() web.GroupOrigin {
	return web.GroupOrigin{
		Type: "streams", Protocol: "streams", State: "Empty", Epoch: 12, TopologyEpoch: 0, Members: []web.OriginMember{},
		Subtopologies: []web.GroupSubtopology{{Subtopology: "0", Tasks: 2, Stateful: true, Sources: []string{"in"},
			Changelogs: []web.InternalTopic{{Topic: "app-count-changelog", Partitions: 2}}}},
		Settings: []web.OriginSetting{{Name: "streams.num.standby.replicas", Value: "1"}, {Name: "streams.session.timeout.ms", Value: "9", Problem: "too small"}},
		Offsets: []web.OriginOffset{{Topic: "in", Partition: 0, Committed: 369, Start: 0, End: 400, Lag: 31},
			{Topic: "in", Partition: 1, Committed: 12, Start: 20, End: -1, Lag: -1, Problem: "before the start of the log"}},
		Lag: 31, LagUnknown: 1, Notes: []string{"a note"},
	}
}

func withOrigin(change func(*web.GroupOrigin)) cluster {
	c := healthy()
	c.origin = originSample()
	if change != nil {
		change(&c.origin)
	}
	return c
}

func running(o *web.GroupOrigin) {
	o.State, o.NoImport, o.Notes = "Stable", "group app is Stable in the Kafka behind: stop the app there first", nil
	o.Settings, o.Subtopologies, o.Offsets, o.Lag, o.LagUnknown = nil, nil, nil, 0, 0
}

func classic(o *web.GroupOrigin) {
	*o = web.GroupOrigin{Type: "classic", Protocol: "consumer", State: "Empty", Epoch: -1, TopologyEpoch: -1, Offsets: o.Offsets[:1], Lag: 31}
}

func coordds(o *web.GroupOrigin) {
	o.Type, o.Protocol, o.Held, o.HeldState, o.HeldStore = "classic", "coordd", true, "Empty", "upstream"
	o.NoImport, o.Notes, o.Settings = "group app is coordd's already", nil, nil
}

// TestMovesAsPeopleSeeThem: what is shown, what is done, and the exit code that scripts go by.
func TestMovesAsPeopleSeeThem(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*web.GroupOrigin)
		args   string
		code   int
		out    string
		err    string
	}{
		{"streams group", nil, "import --from-upstream app", 0, `
GROUP  TYPE     STATE  EPOCH  TOPOLOGY EPOCH  OFFSETS  LAG
app    streams  Empty  12     0               2        31+

TOPIC  PARTITION  COMMITTED  END  LAG  PROBLEM
in     0          369        400  31   -
in     1          12         -    -    before the start of the log

SUBTOPOLOGY  TASKS  STATE     SOURCES  REPARTITION SOURCES  REPARTITION SINKS  CHANGELOGS
0            2      stateful  in       -                    -                  app-count-changelog (2)

SETTING                       VALUE  PROBLEM
streams.num.standby.replicas  1      -
streams.session.timeout.ms    9      too small

note: a note

nothing was changed: add --yes to take the group over
`, ""},
		{"classic group", classic, "import --from-upstream app", 0, `
GROUP  TYPE     STATE  EPOCH  TOPOLOGY EPOCH  OFFSETS  LAG
app    classic  Empty  none   none            1        31

TOPIC  PARTITION  COMMITTED  END  LAG  PROBLEM
in     0          369        400  31   -

nothing was changed: add --yes to take the group over
`, ""},
		{"perhaps another cluster's", func(o *web.GroupOrigin) { classic(o); o.Protocol, o.MayBeHeld = "coordd", true }, "import --from-upstream app", 0, `
GROUP  TYPE     STATE  EPOCH  TOPOLOGY EPOCH  OFFSETS  LAG
app    classic  Empty  none   none            1        31

TOPIC  PARTITION  COMMITTED  END  LAG  PROBLEM
in     0          369        400  31   -

nothing was changed: add --yes --from-coordd to take the group over, when no other coordd cluster has it any more
`, ""},
		{"perhaps another cluster's, taken over", func(o *web.GroupOrigin) { classic(o); o.MayBeHeld = true }, "import --from-upstream app --yes", 1, "", "may be held"},
		{"nobody's any more", func(o *web.GroupOrigin) { classic(o); o.MayBeHeld = true }, "import --from-upstream app --yes --from-coordd", 0, `
group app is coordd's now, at epoch 1, without a topology, which its first member brings; its committed offset stays in the Kafka behind
start the app with bootstrap.servers of coordd and group.protocol=streams: it goes on where it stopped
`, ""},
		{"streams group, taken over", nil, "import --from-upstream app --yes", 0, `
group app is coordd's now, at epoch 12, with topology epoch 0; its 2 committed offsets stay in the Kafka behind
settings taken over: streams.num.standby.replicas=1, streams.session.timeout.ms=9
start the app with bootstrap.servers of coordd and group.protocol=streams: it goes on where it stopped
`, ""},
		{"classic group, taken over", classic, "import --from-upstream app --yes", 0, `
group app is coordd's now, at epoch 1, without a topology, which its first member brings; its committed offset stays in the Kafka behind
start the app with bootstrap.servers of coordd and group.protocol=streams: it goes on where it stopped
`, ""},
		{"running", running, "import --from-upstream app", 1, `
GROUP  TYPE     STATE   EPOCH  TOPOLOGY EPOCH  OFFSETS  LAG
app    streams  Stable  12     0               0        0
`, "stop the app there first"},
		{"running, taken over", running, "import --from-upstream app --yes", 1, "", "stop the app there first"},
		{"back", coordds, "export --to-upstream app", 0, `
GROUP  STATE  STORE     UPSTREAM  OFFSETS  LAG
app    Empty  upstream  classic   2        31+

TOPIC  PARTITION  COMMITTED  END  LAG  PROBLEM
in     0          369        400  31   -
in     1          12         -    -    before the start of the log

nothing was changed: add --yes to give the group back
`, ""},
		{"back, done", coordds, "export --to-upstream app --yes", 0, `
group app is no longer coordd's; the Kafka behind has 2 committed offsets of it
start the app with bootstrap.servers of that Kafka, and with group.protocol=classic, or streams where it is newer than 4.2.0
`, ""},
		{"back, with members", func(o *web.GroupOrigin) { coordds(o); o.NoExport = "group app has members: stop the app first" }, "export --to-upstream app --yes", 1, "", "has members"},
		{"no group", nil, "import", 2, "", "--from-upstream"},
		{"no group to give back", nil, "export", 2, "", "--to-upstream"},
		{"too much", nil, "import app", 2, "", "too much"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, err := call(t, withOrigin(test.change), strings.Fields(test.args+" --admin NODE")...)
			if code != test.code || !strings.Contains(err, test.err) || test.err == "" && err != "" {
				t.Errorf("exit code %d, %q", code, err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(test.out, "\n"), out); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	c := withOrigin(nil)
	c.err = web.Refuse(web.NoLeader, "shard 3 has no leader")
	if code, _, _ := call(t, c, "import", "--from-upstream", "app", "--admin", "NODE"); code != 3 {
		t.Errorf("exit code %d without a leader", code)
	}
}

// TestMovesAsScriptsSeeThem: the JSON is what the node says, also where the group cannot be moved.
func TestMovesAsScriptsSeeThem(t *testing.T) {
	for name, change := range map[string]func(*web.GroupOrigin){"import": running, "export": coordds} {
		flag := map[string]string{"import": "--from-upstream", "export": "--to-upstream"}[name]
		_, out, _ := call(t, withOrigin(change), name, flag, "app", "-o", "json", "--admin", "NODE")
		var o web.GroupOrigin
		if err := json.Unmarshal([]byte(out), &o); err != nil || o.Group != "app" || o.State == "" {
			t.Errorf("%s: %v in %s", name, err, out)
		}
	}
}
