package conformance

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// notOverKfake are scenarios that only a real Kafka behind can serve; the end-to-end tests play them, and
// TestKfakeCannotServeWhatIsLeftOut shows kfake's fault on kfake alone.
var notOverKfake = map[string]string{
	"list-groups-filters": "kfake lists consumer groups without a protocol type; list-groups-streams has the filters on streams groups",
	"types-absent":        "kfake tells nothing of groups of other types that do not exist, and another code for a commit to one",
	"types-empty-streams-then-others": "kfake refuses a classic member of another protocol type than the group had before it was empty, " +
		"which Kafka accepts: here coordd's membership, which holds the group's offsets",
}

// noTakeoverOverKfake are scenarios after which leaders cannot move over kfake, by the fault that is shown for
// types-empty-streams-then-others.
var noTakeoverOverKfake = map[string]string{
	"types-others-then-streams": "its group was a classic one of consumers, in which kfake refuses coordd's membership: no new leader can take the group over",
}

// start starts three nodes over kfake, with more settings than those of the recording, and returns their admin addresses, too.
func start(t *testing.T, more ...string) (c *devcluster.Cluster, admins []string) {
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
	set = append(set, more...)
	admin, port, err := rig.DevPorts()
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
	play(t, c, "", nil, notOverKfake)
}

// TestAnswersWhileTheLeaderMoves plays them again, and between any two steps hands the leadership of the scenario's shards to
// another node.
func TestAnswersWhileTheLeaderMoves(t *testing.T) {
	c, admins := start(t)
	left := maps.Clone(notOverKfake)
	maps.Copy(left, NotWhileLeadersMove)
	maps.Copy(left, noTakeoverOverKfake)
	play(t, c, "", MovingLeaders(rig.NewMover(admins, shards)), left)
}

// TestAnswersWithOffsetsInTheLog plays the scenarios against groups that keep their offsets in coordd's log, with and without
// moves of leaders. No answer is another one, but for those of a list.
func TestAnswersWithOffsetsInTheLog(t *testing.T) {
	c, admins := start(t, "offsets.store=raft")
	left := maps.Clone(notOverKfake)
	delete(left, "types-empty-streams-then-others") // there is no membership upstream
	maps.Copy(left, NotWhileLeadersMove)
	maps.Copy(left, noTakeoverOverKfake)
	t.Run("leaders stay", func(t *testing.T) { play(t, c, "", nil, left, "differences-raft.yaml") })
	t.Run("leaders move", func(t *testing.T) {
		play(t, c, "-moved", MovingLeaders(rig.NewMover(admins, shards)), left, "differences-raft.yaml")
	})
}

// play plays the scenarios but those that are exempt. The suffix makes names that the cluster has not seen; more are lists of
// differences beside the one for all.
func play(t *testing.T, c *devcluster.Cluster, suffix string, beforeStep func(*Scenario, int) (func(), error), exempt map[string]string, more ...string) {
	left := func(s *Scenario) string {
		if s.Slow && testing.Short() {
			return "takes a minute or more; -short is set"
		}
		return exempt[s.Name]
	}
	scenarios, err := LoadScenarios("scenarios", suffix)
	if err != nil {
		t.Fatal(err)
	}
	differences, err := LoadDifferences(append([]string{"differences.yaml"}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	only, err := regexp.Compile(*scenarioFlag)
	if err != nil {
		t.Fatal(err)
	}
	options := Options{Bootstrap: strings.Split(c.Bootstrap(), ",")[0], Propagation: 20 * time.Millisecond, Patience: 20 * time.Second, Repeats: true, BeforeStep: beforeStep}
	answers := make([]*Answers, len(scenarios))
	width := make(chan struct{}, atATime)
	var wg sync.WaitGroup
	for i, s := range scenarios {
		if !only.MatchString(s.Name) || left(s) != "" {
			continue
		}
		wg.Go(func() {
			if !s.Slow { // a slow one sleeps most of the time
				width <- struct{}{}
				defer func() { <-width }()
			}
			answers[i] = Run(s, options)
		})
	}
	wg.Wait()
	for i, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) {
			switch why := left(s); {
			case why != "":
				t.Skip(why)
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

// TestTimedPartsNameSteps keeps the timed parts in step with the scenarios.
func TestTimedPartsNameSteps(t *testing.T) {
	scenarios, err := LoadScenarios("scenarios", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, part := range timedParts {
		if !slices.ContainsFunc(scenarios, func(s *Scenario) bool {
			return s.Name == name && 0 < part.from && part.from < part.to && part.to <= s.NumSteps()
		}) {
			t.Errorf("there are no steps %d to %d of a scenario %q", part.from, part.to, name)
		}
	}
}

// TestDifferencesNameScenarios keeps the list of differences in step with the scenarios.
func TestDifferencesNameScenarios(t *testing.T) {
	scenarios, err := LoadScenarios("scenarios", "")
	if err != nil {
		t.Fatal(err)
	}
	differences, err := LoadDifferences("differences.yaml", "differences-raft.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		if !slices.ContainsFunc(scenarios, func(s *Scenario) bool { return s.Name == d.Scenario && d.Step <= s.NumSteps() }) {
			t.Errorf("there is no step %d of a scenario %q", d.Step, d.Scenario)
		}
	}
}
