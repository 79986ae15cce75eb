//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

// moveCase is an app that runs directly on a Kafka, moves to coordd in front of it, and goes back.
type moveCase struct {
	kafka, protocol, guarantee string
	// conf are settings of the classic app.
	conf map[string]string
	// store is where coordd keeps the offsets while it has the group.
	store string
}

// TestAppsMoveAndGoBack moves a Streams app with state from the coordinator of a real Kafka to coordd and back, while its input goes
// on, as docs/moving.md says. The output is exact at the end: nothing is read twice, nothing is left out.
func TestAppsMoveAndGoBack(t *testing.T) {
	// Members of a classic app stay for their session after it has stopped.
	classic := map[string]string{"session.timeout.ms": "6000", "heartbeat.interval.ms": "1500"}
	for _, c := range []moveCase{
		{rig.KafkaVersion, "classic", exactlyOnce, classic, "upstream"},
		{rig.KafkaVersion, "streams", exactlyOnce, nil, "upstream"},
		{rig.KafkaVersion, "streams", atLeastOnce, nil, "raft"},
		{rig.OldKafka, "classic", exactlyOnce, classic, "upstream"},
	} {
		t.Run(c.kafka+" "+c.protocol+" "+c.store, func(t *testing.T) {
			t.Parallel()
			moveAndGoBack(t, c)
		})
	}
}

func moveAndGoBack(t *testing.T, c moveCase) {
	m := startMove(t, c)
	m.settings(t)
	input := feed(t, m.kafka, m.name, "wordcount", 100, -1)

	apps := m.start(t, m.kafka, c.protocol)
	for _, args := range [][]string{nil, {"--yes"}} { // it runs
		m.refused(t, "stop the app there first", append([]string{"import", "--from-upstream", m.name}, args...)...)
	}
	closeApps(t, apps)
	m.takeOver(t)
	if m.store == "raft" {
		m.moveOffsets(t)
	}

	apps = m.start(t, m.cluster.Bootstrap(), "streams")
	if c.protocol == "streams" && !slices.ContainsFunc(apps, func(a *rig.App) bool { return len(a.State().Standby) > 0 }) {
		t.Error("the app has no standbys: the setting of its group did not come along")
	}
	m.refused(t, "coordd's already", "import", "--from-upstream", m.name, "--yes")
	m.refused(t, "has members: stop the app first", "export", "--to-upstream", m.name, "--yes")
	closeApps(t, apps)
	m.giveBack(t)

	apps = m.start(t, m.kafka, c.protocol)
	verify(t, m.kafka, m.name, "wordcount", input.stop(t), 2*time.Minute)
	closeApps(t, apps)
}

// move is one app with its Kafka and coordd.
type move struct {
	moveCase
	name    string
	dir     string
	kafka   string
	cluster *rig.Cluster
	// upstream asks the Kafka for offsets, and admin whoever has them now.
	upstream, admin *kadm.Client
}

func startMove(t *testing.T, c moveCase) *move {
	t.Helper()
	m := &move{moveCase: c, name: "moving", dir: place(t)}
	j := java
	if c.kafka != rig.KafkaVersion {
		var err error
		if j, err = java.Version(t.Context(), c.kafka); err != nil {
			t.Fatal(err)
		}
	}
	k, err := rig.StartKafka(t.Context(), rig.KafkaConfig{Java: j, Dir: m.dir, Nodes: 1, Heap: "512m"})
	if k != nil {
		t.Cleanup(k.Stop)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.kafka = k.Bootstrap()
	m.cluster = startCluster(t, 3, m.kafka, m.dir)
	m.upstream = kadm.NewClient(client(t, m.kafka))
	m.admin = m.upstream
	createTopics(t, m.kafka, m.name, "wordcount")
	return m
}

// settings gives a streams group a standby, which it must keep.
func (m *move) settings(t *testing.T) {
	t.Helper()
	if m.protocol != "streams" {
		return
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, m.name
	resource.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "streams.num.standby.replicas", Value: kmsg.StringPtr("1")}}
	req.Resources = append(req.Resources, resource)
	if resp, err := req.RequestWith(within(t, 10*time.Second), client(t, m.kafka)); err != nil || resp.Resources[0].ErrorCode != 0 {
		t.Fatalf("%+v %v", resp, err)
	}
}

// start starts two instances at a coordinator, over the state that they had before, and returns when both run and have gone on
// reading.
func (m *move) start(t *testing.T, bootstrap, protocol string) []*rig.App {
	t.Helper()
	ctx := within(t, 3*time.Minute)
	before := m.offsets(ctx, t)
	conf := map[string]string{}
	if protocol == "classic" {
		conf = m.conf
	}
	var apps []*rig.App
	for _, name := range []string{"one", "two"} {
		a, err := rig.StartApp(rig.AppConfig{Java: java, Dir: m.dir, Name: name, Bootstrap: bootstrap, App: m.name,
			Topology: "wordcount", Guarantee: m.guarantee, Protocol: protocol, Conf: conf})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Kill)
		apps = append(apps, a)
	}
	waitSplit(t, apps, tasksOf("wordcount"), 2*time.Minute)
	for !ahead(before, m.offsets(ctx, t)) {
		if err := waitAny(ctx, apps); err != nil {
			t.Fatalf("the app does not go on from %v, at %v: %v", before, m.offsets(t.Context(), t), err)
		}
	}
	return apps
}

// ahead says that every partition of now is further than before, and that there is one.
func ahead(before, now map[string]int64) bool {
	for p, at := range now {
		if was, ok := before[p]; ok && at <= was {
			return false
		}
	}
	return len(now) >= max(2*partitions, len(before))
}

// offsets are those that are committed, by topic[partition].
func (m *move) offsets(ctx context.Context, t *testing.T) map[string]int64 {
	t.Helper()
	committed := map[string]int64{}
	fetched, err := m.admin.FetchOffsets(ctx, m.name)
	for ; err != nil; fetched, err = m.admin.FetchOffsets(ctx, m.name) { // a new Kafka makes its topic of offsets first
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	fetched.Each(func(o kadm.OffsetResponse) {
		if o.At >= 0 {
			committed[fmt.Sprintf("%s[%d]", o.Topic, o.Partition)] = o.At
		}
	})
	return committed
}

func (m *move) command(args ...string) (string, error) {
	return m.cluster.CLI(context.Background(), m.cluster.Nodes[1], args...)
}

func (m *move) refused(t *testing.T, why string, args ...string) {
	t.Helper()
	if _, err := m.command(args...); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%v: %v, want %q", args, err, why)
	}
}

// preview is what import and export show.
type preview struct {
	Type, Protocol, State string
	Epoch                 int32
	Held                  bool
	Subtopologies         []struct{ Subtopology string }
	Settings              []struct{ Name, Value, Problem string }
	Offsets               []struct {
		Topic     string
		Partition int32
		Committed int64
		End       int64
		Problem   string
	}
	Notes []string
}

// preview shows what would be moved once the group is free: at once, or when the session of a member is over that could not say
// that it leaves.
func (m *move) preview(t *testing.T, args ...string) preview {
	t.Helper()
	ctx := within(t, 90*time.Second)
	for {
		out, err := m.command(append(args, m.name, "-o", "json")...)
		if err == nil {
			var p preview
			if err := json.Unmarshal([]byte(out), &p); err != nil {
				t.Fatalf("%v: %v in %s", args, err, out)
			}
			return p
		}
		if pause(ctx, 250*time.Millisecond); ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func (p *preview) committed() map[string]int64 {
	all := map[string]int64{}
	for _, o := range p.Offsets {
		all[fmt.Sprintf("%s[%d]", o.Topic, o.Partition)] = o.Committed
	}
	return all
}

// takeOver imports the group of the app that has stopped, and compares what it says with what is there.
func (m *move) takeOver(t *testing.T) {
	t.Helper()
	began := time.Now()
	p := m.preview(t, "import", "--from-upstream")
	t.Logf("free to be moved %.1f s after the app stopped", time.Since(began).Seconds())
	want := m.offsets(t.Context(), t)
	if diff := cmp.Diff(want, p.committed()); diff != "" || len(want) == 0 {
		t.Errorf("offsets (-upstream +shown):\n%s", diff)
	}
	for _, o := range p.Offsets {
		if o.Problem != "" || o.End < o.Committed {
			t.Errorf("%+v", o)
		}
	}
	streams := m.protocol == "streams"
	if p.State != "Empty" || p.Held || p.Type != m.protocol || streams != (len(p.Subtopologies) == 2) || streams != (len(p.Settings) == 1) || len(p.Notes) > 0 {
		t.Errorf("%+v", p)
	}
	m.listed(t, false)
	if out, err := m.command("import", "--from-upstream", m.name, "--yes"); err != nil || !strings.Contains(out, "is coordd's now") {
		t.Fatalf("%v\n%s", err, out)
	}
	if diff := cmp.Diff(want, m.offsets(t.Context(), t)); diff != "" {
		t.Errorf("offsets after the import (-before +after):\n%s", diff)
	}
	m.listed(t, true)
	topology, err := m.command("groups", "topology", m.name)
	if err != nil || streams != strings.Contains(topology, m.name+"-by-word-repartition (3)") {
		t.Errorf("%v\n%s", err, topology)
	}
}

// listed waits until the asked node, which need not lead, knows whether coordd has the group, without members.
func (m *move) listed(t *testing.T, want bool) {
	t.Helper()
	ctx := within(t, 20*time.Second)
	for {
		list, err := m.command("groups", "list", "--state", "Empty")
		if err == nil && strings.Contains(list, m.name) == want {
			return
		}
		if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
			t.Fatalf("listed is not %v: %v\n%s", want, err, list)
		}
	}
}

// moveOffsets brings the offsets of the group into coordd's log.
func (m *move) moveOffsets(t *testing.T) {
	t.Helper()
	before := m.offsets(t.Context(), t)
	if out, err := m.command("groups", "offsets", m.name, "--move-to", "raft"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m.admin = kadm.NewClient(client(t, m.cluster.Bootstrap()))
	if after := m.offsets(t.Context(), t); !maps.Equal(before, after) {
		t.Errorf("offsets in the log (-before +after):\n%s", cmp.Diff(before, after))
	}
	if list, err := m.upstream.ListGroups(t.Context()); err != nil || list[m.name].Group != "" {
		t.Errorf("the Kafka has the group still: %+v %v", list[m.name], err)
	}
}

// giveBack exports the group of the app that has stopped.
func (m *move) giveBack(t *testing.T) {
	t.Helper()
	m.preview(t, "export", "--to-upstream")
	before := m.offsets(t.Context(), t)
	m.admin = m.upstream
	if out, err := m.command("export", "--to-upstream", m.name, "--yes"); err != nil || !strings.Contains(out, "no longer coordd's") {
		t.Fatalf("%v\n%s", err, out)
	}
	if after := m.offsets(t.Context(), t); !maps.Equal(before, after) {
		t.Errorf("offsets after the export (-before +after):\n%s", cmp.Diff(before, after))
	}
	m.listed(t, false)
	m.refused(t, "coordd has no group", "export", "--to-upstream", m.name)
}

// TestAnAppRunsInOnePlace: whoever comes to the other place while members of the group run is refused there, and nowhere else. A
// group that went back without an export is still known to coordd, which must not take that for leave to run it.
func TestAnAppRunsInOnePlace(t *testing.T) {
	m := startMove(t, moveCase{kafka: rig.KafkaVersion, protocol: "streams"})
	ctx := within(t, time.Minute)
	topic := m.name + ".in"
	there, here := rig.NewProbe(m.kafka, m.name, topic), rig.NewProbe(m.cluster.Bootstrap(), m.name, topic)
	settle := func(p *rig.Probe) {
		t.Helper()
		if err := p.Settle(20 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	leave := func(p *rig.Probe) {
		t.Helper()
		if err := p.Leave(); err != nil {
			t.Fatal(err)
		}
	}

	settle(there)
	refused(t, m.cluster.Bootstrap(), m.name, topic)
	leave(there)
	if out, err := m.command("import", "--from-upstream", m.name, "--yes"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	there = rig.NewProbe(m.kafka, m.name, topic)
	settle(there) // nobody has come to coordd yet
	refused(t, m.cluster.Bootstrap(), m.name, topic)
	leave(there)

	settle(here)
	for { // at its first commit, or a second later, coordd is the member there
		list, err := m.upstream.ListGroups(ctx)
		if err == nil && list[m.name].ProtocolType == "coordd" && list[m.name].State == "Stable" {
			break
		}
		if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
			t.Fatalf("%+v %v", list[m.name], err)
		}
		if err := here.Beat(10 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, m.kafka, m.name, topic)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = m.name, "consumer", 10_000, 10_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "stream", Metadata: []byte{}}}
	if resp, err := join.RequestWith(ctx, client(t, m.kafka)); err != nil || rig.Code(resp.ErrorCode) != 23 { // INCONSISTENT_GROUP_PROTOCOL
		t.Errorf("a classic member joins there: %+v %v", resp, err)
	}
	leave(here)
}
