//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/coordd/coordd/internal/topologies"
	"github.com/coordd/coordd/test/rig"
	"github.com/coordd/coordd/topology"
)

// internalTopic is what was made of an internal topic.
type internalTopic struct {
	Partitions, Replicas int
	Configs              map[string]string // those that are not the broker's
}

// result is what became of a topology on one side.
type result struct {
	topologies.Outcome
	Topics map[string]internalTopic
	err    error
}

// TestSizing has a member join with each topology of internal/topologies on a real Kafka and on coordd, and compares what is
// answered, which topics are created, with which counts and configs, and how many tasks there are. All of it was worked out by
// hand for both: where they differ, the case and docs/differences.md say why.
func TestSizing(t *testing.T) {
	b := startBoth(t, scripted, map[string]any{"group.streams.heartbeat.hold.ms": 0})
	var cases []topologies.Case
	for i, c := range slices.Concat(topologies.Runnable(), topologies.Waiting(), topologies.Malformed()) {
		cases = append(cases, c.Renamed(fmt.Sprintf("t%02d-", i)))
	}
	results := map[*side][]result{b.kafka: make([]result, len(cases)), b.coordd: make([]result, len(cases))}
	begin := time.Now()
	var sides errgroup.Group
	b.each(func(s *side) {
		sides.Go(func() error { return s.tryAll(t, cases, results[s]) })
	})
	if err := sides.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("FIGURE topologies: %d on each side in %.1f s", len(cases), time.Since(begin).Seconds())
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) { compareResults(t, c, results[b.kafka][i], results[b.coordd][i]) })
	}
	checkRefusedLeaveNoGroup(t, b.coordd, cases)
}

func compareResults(t *testing.T, c topologies.Case, kafka, coordd result) {
	want := c.Want
	if c.Kafka != nil {
		want = *c.Kafka
	}
	for _, side := range []struct {
		name string
		want topologies.Outcome
		got  result
	}{{"kafka", want, kafka}, {"coordd", c.Want, coordd}} {
		if side.got.err != nil {
			t.Errorf("%s: %v", side.name, side.got.err)
			continue
		}
		if d := cmp.Diff(plain(side.want), plain(side.got.Outcome)); d != "" {
			t.Errorf("%s (-worked out +found):\n%s", side.name, d)
		}
	}
	if t.Failed() {
		return
	}
	if c.Kafka != nil {
		t.Logf("differs: %s", c.Why)
	}
	for name, its := range c.Internal() {
		wanted := internalTopic{Partitions: int(its.Partitions), Replicas: 1, Configs: map[string]string{}}
		for _, config := range its.Configs {
			wanted.Configs[config.Key] = config.Value
		}
		if d := cmp.Diff(wanted, coordd.Topics[name]); d != "" {
			t.Errorf("coordd: topic %s (-asked for +made):\n%s", name, d)
		}
	}
	if c.Kafka == nil {
		if d := cmp.Diff(kafka.Topics, coordd.Topics); d != "" {
			t.Errorf("topics (-kafka +coordd):\n%s", d)
		}
	}
}

// plain has no empty maps.
func plain(o topologies.Outcome) topologies.Outcome {
	for _, m := range []*topologies.Counts{&o.Create, &o.Tasks} {
		if len(*m) == 0 {
			*m = nil
		}
	}
	return o
}

// tryAll fills in what becomes of each case.
func (s *side) tryAll(t *testing.T, cases []topologies.Case, results []result) error {
	if err := s.createExisting(t, cases); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	var work errgroup.Group
	work.SetLimit(4)
	for i := range cases {
		work.Go(func() error {
			results[i] = s.try(t, cases[i], fmt.Sprintf("t%02d", i))
			return nil
		})
	}
	_ = work.Wait()
	if err := s.describeCreated(t, cases, results); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// createExisting creates the topics that exist before anybody joins, and waits until a member that reads the last of them runs.
func (s *side) createExisting(t *testing.T, cases []topologies.Case) error {
	ctx := within(t, time.Minute)
	byCount := map[int32][]string{}
	for _, c := range cases {
		for name, n := range c.Topics {
			byCount[n] = append(byCount[n], name)
		}
	}
	for n, names := range byCount {
		resp, err := s.admin.CreateTopics(ctx, n, 1, nil, names...)
		if err = errors.Join(err, resp.Error()); err != nil {
			return err
		}
	}
	if _, err := s.admin.CreateTopic(ctx, 1, 1, nil, "last"); err != nil {
		return err
	}
	// A group of Kafka that is made while its coordinator learns of the topic may never notice it: then another one does.
	for i := 0; ; i++ {
		p := rig.NewProbe(s.bootstrap, fmt.Sprint("first-", i), "last")
		err := p.Settle(5 * time.Second)
		if left := p.Leave(); err == nil {
			err = left
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// try lets a member join and heartbeat until its group runs or is told what is wrong.
func (s *side) try(t *testing.T, c topologies.Case, group string) (r result) {
	p := rig.NewProbe(s.bootstrap, group, "")
	p.Joining = func(req *kmsg.StreamsGroupHeartbeatRequest) { req.Topology = wire(&c.Topology) }
	end := time.Now().Add(time.Minute) // the machine may be busy
	var first bool
	for {
		err := p.Beat(10 * time.Second)
		var code rig.Code
		switch {
		case errors.As(err, &code) && !code.Retriable():
			r.Error = int16(code)
			return r
		case err == nil && !first:
			first = true
			if kind := problem(p); kind != 0 && kind != topology.MissingInternalTopics {
				r.Problem = kind
				r.err = p.Leave()
				return r
			}
		case err == nil && problem(p) == topology.IncorrectlyPartitionedTopics:
			r.After = topology.IncorrectlyPartitionedTopics
			r.err = p.Leave()
			return r
		case err == nil && problem(p) == 0 && p.Settled() && len(p.Active()) > 0:
			r.Tasks = topologies.Counts{}
			for id, partitions := range p.Active() {
				r.Tasks[id] = int32(len(partitions))
			}
			r.err = p.Leave()
			return r
		}
		if time.Now().After(end) {
			r.err = fmt.Errorf("no end: status %v, error %w", p.Told, err)
			return r
		}
		pause(t.Context(), 50*time.Millisecond)
	}
}

// problem is the status that says what is wrong with the topics, 0 when nothing is.
func problem(p *rig.Probe) topology.ProblemKind {
	for _, st := range p.Told {
		if st.StatusCode >= 1 && st.StatusCode <= 3 {
			return topology.ProblemKind(st.StatusCode)
		}
	}
	return 0
}

// describeCreated adds to the results which topics were created, and how.
func (s *side) describeCreated(t *testing.T, cases []topologies.Case, results []result) error {
	ctx := within(t, 30*time.Second)
	details, err := s.admin.ListTopics(ctx)
	if err != nil {
		return err
	}
	configs, err := s.admin.DescribeTopicConfigs(ctx, details.Names()...)
	if err != nil {
		return err
	}
	for i := range results {
		r := &results[i]
		r.Topics, r.Create = map[string]internalTopic{}, topologies.Counts{}
		for _, d := range details {
			if !strings.HasPrefix(d.Topic, fmt.Sprintf("t%02d-", i)) {
				continue
			}
			if _, there := cases[i].Topics[d.Topic]; there {
				continue
			}
			made := internalTopic{Partitions: len(d.Partitions), Replicas: d.Partitions.NumReplicas(), Configs: map[string]string{}}
			if c, err := configs.On(d.Topic, nil); err == nil {
				for _, kv := range c.Configs {
					if kv.Source == kmsg.ConfigSourceDynamicTopicConfig && kv.Value != nil {
						made.Configs[kv.Key] = *kv.Value
					}
				}
			}
			r.Topics[d.Topic] = made
			r.Create[d.Topic] = int32(len(d.Partitions))
		}
	}
	return nil
}

// checkRefusedLeaveNoGroup: a topology that was refused made no group.
func checkRefusedLeaveNoGroup(t *testing.T, s *side, cases []topologies.Case) {
	groups, err := s.admin.ListGroups(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for i, c := range cases {
		if group := fmt.Sprintf("t%02d", i); c.Want.Error != 0 && slices.Contains(groups.Groups(), group) {
			left = append(left, group)
		}
	}
	if len(left) > 0 {
		t.Errorf("%s: groups of which every join was refused: %v", s.name, left)
	}
}

// wire is a topology as it is sent.
func wire(top *topology.Topology) *kmsg.StreamsGroupHeartbeatRequestTopology {
	out := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	out.Epoch = top.Epoch
	infos := func(topics []topology.InternalTopic) (list []kmsg.TopicInfo) {
		for _, it := range topics {
			info := kmsg.TopicInfo{Topic: it.Name, NumPartitions: it.Partitions, ReplicationFactor: it.ReplicationFactor}
			for _, c := range it.Configs {
				info.Configs = append(info.Configs, kmsg.TopicInfoConfig{Key: c.Key, Value: c.Value})
			}
			list = append(list, info)
		}
		return list
	}
	for i := range top.Subtopologies {
		s := &top.Subtopologies[i]
		out.Subtopologies = append(out.Subtopologies, subtopology(s.ID, s.SourceTopics, func(o *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) {
			o.RepartitionSinkTopics = s.RepartitionSinkTopics
			o.RepartitionSourceTopics, o.StateChangelogTopics = infos(s.RepartitionSourceTopics), infos(s.StateChangelogTopics)
			for _, g := range s.CopartitionGroups {
				group := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup()
				group.SourceTopics, group.RepartitionSourceTopics = g.SourceTopics, g.RepartitionSourceTopics
				o.CopartitionGroups = append(o.CopartitionGroups, group)
			}
		}))
	}
	return &out
}
