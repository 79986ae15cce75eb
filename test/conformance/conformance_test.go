package conformance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coordd/coordd/devcluster"
	"github.com/coordd/coordd/test/rig"
)

var (
	scenarioFlag = flag.String("scenario", "", "only scenarios whose name matches this regular expression")
	answersFlag  = flag.Bool("answers", false, "log the answers to the steps that differ")
)

const (
	shards     = 8
	atATime    = 8 // scenarios
	moveWithin = 10 * time.Second
)

// notOverKfake are scenarios that only a real Kafka behind can serve; the end-to-end tests run them.
var notOverKfake = map[string]string{
	"list-groups-filters": "kfake lists consumer groups without a protocol type, begins their epochs at 1 and has them Reconciling",
	"types-empty-streams-then-others": "kfake keeps the protocol type of a group that is empty again: where coordd's membership was there " +
		"before, a classic member is refused",
	"session-timeout-default": "takes more than a minute of real time; nothing in it depends on the cluster behind",
}

// start starts three nodes over kfake.
func start(t *testing.T) *devcluster.Cluster {
	t.Helper()
	settings, err := ServerSettings("broker.properties")
	if err != nil {
		t.Fatal(err)
	}
	// Patient timing: on a busy machine an election that nobody planned would be one more thing that members can see.
	set := []string{fmt.Sprintf("shards=%d", shards), "raft.preset=wan"}
	for name, value := range settings {
		set = append(set, name+"="+value)
	}
	port, err := rig.FreePorts(6)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := rig.FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := devcluster.Start(ctx, devcluster.Options{Port: port, AdminPort: admin, DataDir: t.TempDir(), Set: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestAnswers plays every scenario against three nodes.
func TestAnswers(t *testing.T) {
	play(t, start(t), nil, notOverKfake)
}

// TestAnswersWhileTheLeaderMoves plays them again, and between any two steps hands the leadership of the scenario's shards to
// another node.
func TestAnswersWhileTheLeaderMoves(t *testing.T) {
	c := start(t)
	play(t, c, newMover(c).beforeStep, notOverKfake)
}

func play(t *testing.T, c *devcluster.Cluster, beforeStep func(*Scenario, int) (func(), error), exempt map[string]string) {
	scenarios, err := LoadScenarios("scenarios", "")
	if err != nil {
		t.Fatal(err)
	}
	differences, err := LoadDifferences("differences.yaml")
	if err != nil {
		t.Fatal(err)
	}
	only, err := regexp.Compile(*scenarioFlag)
	if err != nil {
		t.Fatal(err)
	}
	options := Options{Bootstrap: strings.Split(c.Bootstrap(), ",")[0], Propagation: 20 * time.Millisecond, Patience: 20 * time.Second, Repeats: true, BeforeStep: beforeStep}
	answers := make([]*Answers, len(scenarios))
	var group errgroup.Group
	group.SetLimit(atATime)
	for i, s := range scenarios {
		if only.MatchString(s.Name) && exempt[s.Name] == "" {
			group.Go(func() error {
				answers[i] = Run(s, options)
				return nil
			})
		}
	}
	_ = group.Wait()
	for i, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) {
			switch {
			case exempt[s.Name] != "":
				t.Skip(exempt[s.Name])
			case answers[i] == nil:
				t.Skip("not asked for")
			}
			compare(t, s, answers[i], differences)
		})
	}
}

func compare(t *testing.T, s *Scenario, got *Answers, differences []Difference) {
	want, err := Golden("golden/kafka-4.4.0", s.Name)
	if err != nil {
		t.Fatal(err)
	}
	mismatches, err := Check(s, want, got, differences, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mismatches {
		t.Errorf("%s\n  %s", m.Step, m.Text)
		if *answersFlag {
			b, _ := Marshal(got.Steps[m.N-1])
			t.Logf("answer:\n%s", b)
		}
	}
}

// TestDifferencesNameScenarios keeps the list of differences in step with the scenarios.
func TestDifferencesNameScenarios(t *testing.T) {
	scenarios, err := LoadScenarios("scenarios", "")
	if err != nil {
		t.Fatal(err)
	}
	differences, err := LoadDifferences("differences.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		if !slices.ContainsFunc(scenarios, func(s *Scenario) bool { return s.Name == d.Scenario && d.Step <= s.NumSteps() }) {
			t.Errorf("there is no step %d of a scenario %q", d.Step, d.Scenario)
		}
	}
}

// mover moves leaders between steps and keeps them in place during steps: a step that was asked twice, since the leader
// moved under it, may rightly be answered as a repeated one.
type mover struct {
	cluster *devcluster.Cluster
	shards  [shards]sync.RWMutex
}

func newMover(c *devcluster.Cluster) *mover { return &mover{cluster: c} }

func (m *mover) beforeStep(s *Scenario, nr int) (func(), error) {
	var of []int
	for _, group := range s.Groups() {
		of = append(of, rig.ShardOf(group, shards))
	}
	slices.Sort(of)
	of = slices.Compact(of)
	if nr > 1 {
		for _, shard := range of {
			if err := m.move(shard); err != nil {
				return nil, err
			}
		}
	}
	for _, shard := range of { // ascending, so that no two scenarios wait for each other
		m.shards[shard].RLock()
	}
	return func() {
		for _, shard := range of {
			m.shards[shard].RUnlock()
		}
	}, nil
}

// move hands a shard to the next node and returns when that one serves.
func (m *mover) move(shard int) error {
	m.shards[shard].Lock()
	defer m.shards[shard].Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), moveWithin)
	defer cancel()
	from, err := m.leader(ctx, shard)
	if err != nil {
		return err
	}
	for {
		to := (from + 1) % len(m.cluster.Nodes())
		failure := m.cluster.Nodes()[from].Transfer(ctx, shard, int32(to))
		now, err := m.leader(ctx, shard)
		switch {
		case err != nil:
			return errors.Join(err, failure)
		case now != from:
			return nil // or the cluster itself moved it: leaderships are spread over the nodes
		case ctx.Err() != nil:
			return fmt.Errorf("shard %d stays at node %d: %w", shard, from, errors.Join(failure, ctx.Err()))
		}
	}
}

// leader waits until a node serves the shard and all nodes know it: what is asked of a former leader is asked of the new one
// afterwards, and a repeated request may rightly be answered as such.
func (m *mover) leader(ctx context.Context, shard int) (int, error) {
	for {
		if node, ok := m.agreed(shard); ok {
			return node, nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("shard %d has no leader: %w", shard, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (m *mover) agreed(shard int) (leader int, ok bool) {
	serving := -1
	named := map[int32]bool{}
	for i, n := range m.cluster.Nodes() {
		for _, s := range n.Local().Shards {
			if s.Shard != shard {
				continue
			}
			named[s.Leader] = true
			if s.Role == "leader" && s.Serving {
				serving = i
			}
		}
	}
	return serving, serving >= 0 && len(named) == 1 && named[int32(serving)]
}
