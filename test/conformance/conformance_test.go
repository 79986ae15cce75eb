package conformance

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
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
	shards  = 8
	atATime = 8 // scenarios
)

// notOverKfake are scenarios that only a real Kafka behind can serve; the end-to-end tests run them.
var notOverKfake = map[string]string{
	"list-groups-filters": "kfake lists consumer groups without a protocol type, begins their epochs at 1 and has them Reconciling",
	"types-empty-streams-then-others": "kfake keeps the protocol type of a group that is empty again: where coordd's membership was there " +
		"before, a classic member is refused",
	"session-timeout-default": "takes more than a minute of real time; nothing in it depends on the cluster behind",
}

// start starts three nodes over kfake, and returns their admin addresses, too.
func start(t *testing.T) (c *devcluster.Cluster, admins []string) {
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
	c, err = devcluster.Start(ctx, devcluster.Options{Port: port, AdminPort: admin, DataDir: t.TempDir(), Set: set})
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
	for i := range c.Nodes() {
		admins = append(admins, rig.Local(admin+i))
	}
	return c, admins
}

// TestAnswers plays every scenario against three nodes.
func TestAnswers(t *testing.T) {
	c, _ := start(t)
	play(t, c, nil, notOverKfake)
}

// TestAnswersWhileTheLeaderMoves plays them again, and between any two steps hands the leadership of the scenario's shards to
// another node.
func TestAnswersWhileTheLeaderMoves(t *testing.T) {
	c, admins := start(t)
	play(t, c, MovingLeaders(rig.NewMover(admins, shards)), notOverKfake)
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
