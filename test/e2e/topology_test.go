//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

// TestTopologies changes the topics under real applications, over a real Kafka. Each ends RUNNING, with exact output
// wherever no data was deleted, or with a status that says what to do. The cases run at once.
func TestTopologies(t *testing.T) {
	dir := place(t)
	// Where brokers create topics that somebody asks for, they create a deleted changelog with one partition for the
	// producer of the application that wrote it, before anybody else can.
	kafka, err := rig.StartKafka(t.Context(), rig.KafkaConfig{Java: java, Dir: dir, Nodes: 1, Heap: "512m", Lines: []string{"auto.create.topics.enable=false"}})
	if kafka != nil {
		t.Cleanup(kafka.Stop)
	}
	if err != nil {
		t.Fatal(err)
	}
	cluster := startClusterWith(t, 3, kafka.Bootstrap(), dir, map[string]any{"group.streams.topology.grace.ms": int(grace / time.Millisecond)})
	for _, c := range []struct {
		name string
		run  func(*testing.T, *subject)
	}{
		{"source-created-in-time", sourceCreatedInTime},
		{"source-created-late", sourceCreatedLate},
		{"source-grown", sourceGrown},
		{"sources-grown-in-turn", sourcesGrownInTurn},
		{"source-of-stateful-grown", sourceOfStatefulGrown},
		{"versions-rolled", versionsRolled},
		{"changelog-deleted", changelogDeleted},
		{"internal-topic-wrong", internalTopicWrong},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, &subject{name: c.name, boot: cluster.Bootstrap(), cluster: cluster, admin: kadm.NewClient(client(t, cluster.Bootstrap())), dir: place(t)})
		})
	}
}

// subject is an application whose topics are changed.
type subject struct {
	name    string // application id
	boot    string
	cluster *rig.Cluster
	admin   *kadm.Client
	dir     string
}

// grace is how long a group goes on whose topics do not fit any more, and apart is what lies between the growths of two topics
// that belong together.
const (
	grace = 45 * time.Second
	apart = 20 * time.Second
)

const settled = 3 * time.Minute // for what takes seconds when the machine has nothing else to do

// start starts an instance with two threads, so that tasks move within it.
func (s *subject) start(t *testing.T, instance, topology, guarantee string) *rig.App {
	t.Helper()
	a, err := rig.StartApp(rig.AppConfig{Java: java, Dir: s.dir, Name: instance, Bootstrap: s.boot, App: s.name, Topology: topology, Guarantee: guarantee, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Kill)
	return a
}

// runs waits until an instance is RUNNING with n active tasks.
func runs(t *testing.T, a *rig.App, n int) {
	t.Helper()
	err := a.Wait(within(t, settled), fmt.Sprintf("RUNNING with %d tasks", n), func(s rig.AppState) bool {
		return s.Client == "RUNNING" && len(s.Active) == n && allRunning(s)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func allRunning(s rig.AppState) bool {
	for _, state := range s.Threads {
		if state != "RUNNING" {
			return false
		}
	}
	return len(s.Threads) > 0
}

// ends waits until an instance has ended by itself, and returns what it threw.
func ends(t *testing.T, a *rig.App) rig.Event {
	t.Helper()
	select {
	case <-a.Done():
	case <-within(t, settled).Done():
		t.Fatalf("%s has not ended: %+v", a.Name, a.State())
	}
	for _, e := range a.Events(0) {
		if e.Event == "exception" {
			return e
		}
	}
	t.Fatalf("%s ended without an exception: %v\n%s", a.Name, a.Err(), a.Tail(20))
	return rig.Event{}
}

// unbroken checks that no thread of an instance has ended.
func unbroken(t *testing.T, a *rig.App) {
	t.Helper()
	for _, e := range a.Events(0) {
		if e.Event == "exception" || e.State == "DEAD" {
			t.Errorf("%s: %+v", a.Name, e)
		}
	}
}

// groupTold is what `coordd groups describe` says.
type groupTold struct {
	State         string       `json:"state"`
	TopologyEpoch int32        `json:"topologyEpoch"`
	Problem       string       `json:"problem"`
	GraceLeftMs   int64        `json:"graceLeftMs"`
	MemberList    []memberTold `json:"memberList"`
}

type memberTold struct {
	Member string   `json:"member"`
	Active []string `json:"active"`
	Warmup []string `json:"warmup"`
}

func (s *subject) told(ctx context.Context) (g groupTold, err error) {
	out, err := s.cluster.CLI(ctx, s.cluster.Nodes[0], "groups", "describe", s.name, "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &g)
	}
	return g, err
}

// waitTold waits until `coordd groups describe` says something.
func (s *subject) waitTold(t *testing.T, what string, ok func(groupTold) bool) groupTold {
	t.Helper()
	ctx := within(t, settled)
	for {
		g, err := s.told(ctx)
		if err == nil && ok(g) {
			return g
		}
		if ctx.Err() != nil {
			t.Fatalf("group %s: describe does not say %s: %+v %v", s.name, what, g, err)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// problem waits until describe tells a problem that names all words.
func (s *subject) problem(t *testing.T, words ...string) {
	t.Helper()
	g := s.waitTold(t, fmt.Sprint(words), func(g groupTold) bool { return names(g.Problem, words...) })
	t.Logf("describe: %s: %s", g.State, g.Problem)
}

// names reports whether a text has all words in it.
func names(text string, words ...string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

func (s *subject) grow(t *testing.T, n int, topic string) {
	t.Helper()
	resp, err := s.admin.UpdatePartitions(within(t, 30*time.Second), n, topic)
	if err = errors.Join(err, resp.Error()); err != nil {
		t.Fatalf("grow %s to %d partitions: %v", topic, n, err)
	}
}

func (s *subject) remove(t *testing.T, topic string) {
	t.Helper()
	if _, err := s.admin.DeleteTopic(within(t, 30*time.Second), topic); err != nil {
		t.Fatalf("delete %s: %v", topic, err)
	}
}

// topic is a topic as the cluster behind shows it, once it fits.
func (s *subject) topic(t *testing.T, topic string, ok func(kadm.TopicDetail) bool) kadm.TopicDetail {
	t.Helper()
	ctx := within(t, settled)
	for {
		all, err := s.admin.ListTopics(ctx, topic)
		if err == nil && all[topic].Err == nil && ok(all[topic]) {
			return all[topic]
		}
		if ctx.Err() != nil {
			t.Fatalf("topic %s: %v %v", topic, all, err)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// topicConfig is the value of a setting of a topic.
func (s *subject) topicConfig(t *testing.T, topic, name string) string {
	t.Helper()
	ctx := within(t, settled)
	for {
		all, err := s.admin.DescribeTopicConfigs(ctx, topic)
		if err == nil {
			r, err := all.On(topic, nil)
			for _, c := range r.Configs {
				if err == nil && r.Err == nil && c.Key == name {
					return c.MaybeValue()
				}
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("%s of topic %s: %v %v", name, topic, all, err)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// config changes a setting of the group.
func (s *subject) config(t *testing.T, name, value string) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, s.name
	r.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Value: kmsg.StringPtr(value)}}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(within(t, 30*time.Second), client(t, s.boot))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resp.Resources {
		if r.ErrorCode != 0 {
			t.Fatalf("set %s=%s of group %s: %v %v", name, value, s.name, rig.Code(r.ErrorCode), r.ErrorMessage)
		}
	}
}

// flows waits until the output has counts of words that are made up now: what is written now is processed. It is written to
// the partitions that the source began with.
func (s *subject) flows(t *testing.T, word string) {
	t.Helper()
	in := client(t, s.boot, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	want := map[string]bool{}
	for i := range 12 { // enough to reach each partition behind the repartition topic
		w := fmt.Sprintf("%s-%d", word, i)
		want[w] = true
		if err := in.ProduceSync(within(t, settled), &kgo.Record{Topic: s.name + ".in", Key: []byte(w), Value: []byte(w), Partition: int32(i % partitions)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	s.comes(t, want)
}

// comes waits until the committed output has records of all keys.
func (s *subject) comes(t *testing.T, keys map[string]bool) {
	t.Helper()
	out := client(t, s.boot, kgo.ConsumeTopics(s.name+".out"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer out.Close()
	ctx := within(t, settled)
	for len(keys) > 0 && ctx.Err() == nil {
		out.PollFetches(ctx).EachRecord(func(r *kgo.Record) { delete(keys, string(r.Key)) })
	}
	if len(keys) > 0 {
		t.Fatalf("%s: no output for %v", s.name, keys)
	}
}
