//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

// side is one of the two that are compared: a real Kafka with its own coordinator, or coordd over a Kafka of the same kind.
type side struct {
	name      string
	bootstrap string
	members   map[string]*rig.Probe
	beaten    time.Time
	admin     *kadm.Client
}

// both are the two sides, and the tools that are run against them.
type both struct {
	kafka, coordd *side
	tools         *rig.Tools // nil unless started
	dir           string
}

// comparable settings: no waiting, so that each step of a script leaves the groups in one state only.
var scripted = map[string]any{
	"group.streams.initial.rebalance.delay.ms": 0,
	"group.streams.assignment.interval.ms":     0,
	"group.streams.min.heartbeat.interval.ms":  500,
	"group.streams.heartbeat.interval.ms":      1000,
	"group.streams.num.warmup.replicas":        1,
}

func startBoth(t *testing.T, settings map[string]any, ours map[string]any) *both {
	t.Helper()
	b := &both{dir: place(t)}
	var lines []string
	for k, v := range settings {
		lines = append(lines, fmt.Sprintf("%s=%v", k, v))
	}
	kafkas := make(chan *rig.Kafka, 2)
	for _, c := range []rig.KafkaConfig{
		{Dir: filepath.Join(b.dir, "alone"), Lines: lines},
		{Dir: filepath.Join(b.dir, "behind")},
	} {
		c.Java, c.Nodes, c.Heap = java, 1, "512m"
		go func() {
			k, err := rig.StartKafka(t.Context(), c)
			if k != nil {
				t.Cleanup(k.Stop)
			}
			if err != nil {
				t.Error(err)
			}
			kafkas <- k
		}()
	}
	first, second := <-kafkas, <-kafkas
	if t.Failed() {
		t.FailNow()
	}
	if strings.Contains(first.Nodes[0].Log, "behind") {
		first, second = second, first
	}
	bin, err := coordd()
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]any{"shards": shards}
	for _, more := range []map[string]any{settings, ours} {
		for k, v := range more {
			set[k] = v
		}
	}
	cluster, err := rig.StartCluster(t.Context(), rig.ClusterConfig{Bin: bin, Dir: b.dir, Nodes: 3, Upstream: second.Bootstrap(), Settings: set})
	if cluster != nil {
		t.Cleanup(cluster.Stop)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.kafka = newSide(t, "kafka", first.Bootstrap())
	b.coordd = newSide(t, "coordd", cluster.Bootstrap())
	return b
}

func newSide(t *testing.T, name, bootstrap string) *side {
	t.Helper()
	return &side{name: name, bootstrap: bootstrap, members: map[string]*rig.Probe{}, admin: kadm.NewClient(client(t, bootstrap))}
}

// each does the same on both sides.
func (b *both) each(do func(s *side)) {
	do(b.kafka)
	do(b.coordd)
}

// join lets a member of the script join and takes the group's members through their heartbeats until each owns its tasks.
func (s *side) join(t *testing.T, p rig.Probe) {
	t.Helper()
	p.Bootstrap = strings.Split(s.bootstrap, ",")
	s.members[p.Member] = &p
	s.settle(t, p.Group)
}

// settle heartbeats until nothing changes any more, and waits for internal topics.
func (s *side) settle(t *testing.T, group string) {
	t.Helper()
	quiet, end := 0, time.Now().Add(30*time.Second)
	var last string
	for quiet < 4 {
		var state []string
		for _, id := range sortedKeys(s.members) {
			p := s.members[id]
			if p.Group != group {
				continue
			}
			if err := p.Beat(10 * time.Second); err != nil && !retriable(err) {
				t.Fatalf("%s: member %s of %s: %v", s.name, id, group, err)
			}
			state = append(state, fmt.Sprint(id, p.Epoch, p.Settled()))
		}
		if now := strings.Join(state, " "); now == last && !strings.Contains(now, "false") {
			quiet++
		} else {
			last, quiet = now, 0
		}
		if time.Now().After(end) {
			t.Fatalf("%s: group %s does not settle: %s", s.name, group, last)
		}
		pause(t.Context(), 100*time.Millisecond)
	}
}

// beat keeps the members of the script alive.
func (s *side) beat(t *testing.T) {
	t.Helper()
	if time.Since(s.beaten) < 10*time.Second {
		return
	}
	s.beaten = time.Now()
	for id, p := range s.members {
		if err := p.Beat(10 * time.Second); err != nil && !retriable(err) {
			t.Errorf("%s: member %s of %s: %v", s.name, id, p.Group, err)
			delete(s.members, id)
		}
	}
}

func retriable(err error) bool {
	var code rig.Code
	return !errors.As(err, &code) || code.Retriable()
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// leave takes all members out of a group.
func (s *side) leave(t *testing.T, group string) {
	t.Helper()
	for id, p := range s.members {
		if p.Group == group {
			if err := p.Leave(); err != nil {
				t.Errorf("%s: %s leaves %s: %v", s.name, id, group, err)
			}
			delete(s.members, id)
		}
	}
}

// fill creates topics and writes n records to each partition, with times that are the same on both sides.
func (s *side) fill(t *testing.T, n int, topics map[string]int32) {
	t.Helper()
	cl := client(t, s.bootstrap, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	admin := kadm.NewClient(cl)
	ctx := within(t, 30*time.Second)
	for topic, parts := range topics {
		if _, err := admin.CreateTopic(ctx, parts, 1, nil, topic); err != nil {
			t.Fatalf("%s: create %s: %v", s.name, topic, err)
		}
	}
	for topic, parts := range topics {
		for i := range n * int(parts) {
			r := &kgo.Record{Topic: topic, Partition: int32(i) % parts, Value: fmt.Append(nil, i), Timestamp: time.UnixMilli(1_790_000_000_000 + 1000*int64(i))}
			if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
				t.Fatalf("%s: produce to %s: %v", s.name, topic, err)
			}
		}
	}
}

// otherTypes makes groups of other types, which are the upstream's.
func (s *side) otherTypes(t *testing.T) {
	t.Helper()
	cl := client(t, s.bootstrap, kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("other"), kgo.InstanceID("reader"))
	ctx := within(t, 30*time.Second)
	if err := cl.PollFetches(ctx).Err0(); err != nil {
		t.Fatalf("%s: consume: %v", s.name, err)
	}
	var offsets kadm.Offsets
	offsets.AddOffset("other", 0, 2, -1)
	if err := kadm.NewClient(client(t, s.bootstrap)).CommitAllOffsets(ctx, "simple", offsets); err != nil {
		t.Fatalf("%s: commit for a group without members: %v", s.name, err)
	}
}

// command is a command line of one of Kafka's tools. Its exit code and what it prints must be the same on both sides.
type command struct {
	line string // the script without kafka- and .sh, and its arguments; the servers are added

	changes   bool // it is run once; others are run again while the sides differ, since topics and groups take their time
	unordered bool // its lines come in any order
	// differs, when set, is why coordd prints something else, which then is what it prints.
	differs string
	want    string // with differs: a part of what coordd prints
	more    bool   // coordd's messages go on where Kafka's end
}

var (
	spaces  = regexp.MustCompile(`[ \t]+`)
	address = regexp.MustCompile(`127\.0\.0\.1:\d+ \(\d+\)`)
	servers = regexp.MustCompile(`127\.0\.0\.1:\d+(,127\.0\.0\.1:\d+)*`)
	topicID = regexp.MustCompile(`TopicId: \S+`)
	// assignors is coordd's list where Kafka's stands: as a synonym of streams.assignor.name, and where another name is refused.
	assignors = regexp.MustCompile(`(group\.streams\.assignors=|Registered assignors are: \[)(sticky),\s?highly_available,\s?auto`)
	frames    = regexp.MustCompile(`(?m)^\s+(at|\.\.\.) .*\n`)
)

// normal takes out what is another on every cluster: addresses, node ids, topic ids, and the width of columns that follows
// from them. Of a stack trace the messages are left.
func normal(out rig.ToolOutput, unordered bool) rig.ToolOutput {
	for _, s := range []*string{&out.Stdout, &out.Stderr} {
		*s = frames.ReplaceAllString(*s, "")
		*s = spaces.ReplaceAllString(*s, " ")
		*s = address.ReplaceAllString(*s, "HOST:PORT (ID)")
		*s = servers.ReplaceAllString(*s, "SERVERS")
		*s = topicID.ReplaceAllString(*s, "TopicId: ID")
		*s = assignors.ReplaceAllString(*s, "$1$2") // Kafka has one
		lines := strings.Split(*s, "\n")
		for i := range lines {
			lines[i] = strings.TrimRight(lines[i], " ")
		}
		if unordered {
			slices.Sort(lines)
		}
		*s = strings.Join(lines, "\n")
	}
	return out
}

const sameWithin = 6 * time.Second // two clusters learn of the same change

// compare runs commands on both sides.
func (b *both) compare(t *testing.T, commands ...command) {
	t.Helper()
	for _, c := range commands {
		b.each(func(s *side) { s.beat(t) })
		end := time.Now().Add(sameWithin)
		for {
			kafka, coordd := b.run(t, b.kafka, c), b.run(t, b.coordd, c)
			if c.more && saysMore(kafka.Stderr, coordd.Stderr) {
				coordd.Stderr = kafka.Stderr
			}
			diff := cmp.Diff(kafka, coordd)
			if c.differs != "" && diff != "" && strings.Contains(coordd.Stdout+coordd.Stderr, c.want) {
				t.Logf("kafka-%s: %s", c.line, c.differs)
				break
			}
			if diff == "" && c.differs == "" {
				t.Logf("kafka-%s: same, exit code %d, %d lines", c.line, coordd.Exit, strings.Count(coordd.Stdout, "\n"))
				break
			}
			if c.changes || time.Now().After(end) {
				t.Errorf("kafka-%s differs (-kafka +coordd):\n%s\nwhole output of Kafka: %s", c.line, diff, pretty(kafka))
				break
			}
			pause(t.Context(), 300*time.Millisecond)
		}
	}
}

// saysMore says whether each line repeats Kafka's, and some line then goes on, with the refused value for instance.
func saysMore(kafka, coordd string) bool {
	theirs, ours := strings.Split(kafka, "\n"), strings.Split(coordd, "\n")
	if len(theirs) != len(ours) || kafka == coordd {
		return false
	}
	for i := range ours {
		if !strings.HasPrefix(ours[i], strings.TrimSuffix(theirs[i], ".")) {
			return false
		}
	}
	return true
}

func pretty(v any) string {
	b, _ := json.MarshalIndent(v, "", " ")
	return strings.ReplaceAll(string(b), `\n`, "\n")
}

func (b *both) run(t *testing.T, s *side, c command) rig.ToolOutput {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	words := strings.Fields(c.line)
	args := append([]string{"--bootstrap-server", s.bootstrap}, words[1:]...)
	out, err := b.tools.Run(ctx, words[0], args...)
	if err != nil {
		t.Fatal(err)
	}
	return normal(out, c.unordered)
}

// subtopology is a shorthand for the topologies of the script.
func subtopology(id string, sources []string, change func(*kmsg.StreamsGroupHeartbeatRequestTopologySubtopology)) kmsg.StreamsGroupHeartbeatRequestTopologySubtopology {
	s := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	s.SubtopologyID, s.SourceTopics = id, sources
	if change != nil {
		change(&s)
	}
	return s
}
