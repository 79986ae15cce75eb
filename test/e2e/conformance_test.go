//go:build e2e

package e2e

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/test/conformance"
	"github.com/coordd/coordd/test/rig"
)

const (
	recorded         = "../conformance/"
	conformantShards = 24 // many, so that few scenarios wait for each other's moves
)

// TestConformance plays every scenario that was recorded from Kafka 4.4.0 against three nodes in front of a real Kafka 4.4,
// those included that need its other group types, its topic ids or more than a minute; and once more with the leaders of
// the scenario's shards moved between any two steps.
func TestConformance(t *testing.T) {
	_, c := startConformant(t, recorded+"broker.properties")
	t.Run("leaders stay", func(t *testing.T) { playConformant(t, c, "", nil, nil) })
	t.Run("leaders move", func(t *testing.T) {
		var admins []string
		for _, n := range c.Nodes {
			admins = append(admins, n.Admin)
		}
		mover := rig.NewMover(admins, conformantShards)
		begin := time.Now()
		playConformant(t, c, "-moved", conformance.MovingLeaders(mover), conformance.NotWhileLeadersMove)
		t.Logf("FIGURE conformance: leaders moved %d times in %v", mover.Moves(), time.Since(begin).Round(time.Second))
	})
}

// TestConformanceWithOffsetsInTheLog plays all scenarios against groups that keep their offsets in coordd's log, while leaders
// move. No answer is another one than with offsets upstream, but for those of a list.
func TestConformanceWithOffsetsInTheLog(t *testing.T) {
	_, c := startConformant(t, recorded+"broker.properties", "offsets.store=raft")
	var admins []string
	for _, n := range c.Nodes {
		admins = append(admins, n.Admin)
	}
	playConformant(t, c, "", conformance.MovingLeaders(rig.NewMover(admins, conformantShards)), conformance.NotWhileLeadersMove, recorded+"differences-raft.yaml")
}

// playConformant plays all scenarios but those that are exempt. The suffix makes names that the cluster has not seen; more are
// lists of differences beside the one for all.
func playConformant(t *testing.T, c *rig.Cluster, suffix string, beforeStep func(*conformance.Scenario, int) (func(), error), exempt map[string]string, more ...string) {
	scenarios, err := conformance.LoadScenarios(recorded+"scenarios", suffix)
	if err != nil {
		t.Fatal(err)
	}
	differences, err := conformance.LoadDifferences(append([]string{recorded + "differences.yaml"}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	options := conformance.Options{Bootstrap: c.Nodes[0].Client, Propagation: 150 * time.Millisecond, Patience: 20 * time.Second, Repeats: true, BeforeStep: beforeStep}
	answers := make([]*conformance.Answers, len(scenarios))
	const atATime = 6
	width := make(chan struct{}, atATime)
	var wg sync.WaitGroup
	for i, s := range scenarios {
		if exempt[s.Name] != "" {
			continue
		}
		wg.Go(func() {
			if !s.Slow { // a slow one sleeps most of the time
				width <- struct{}{}
				defer func() { <-width }()
			}
			answers[i] = conformance.Run(s, options)
		})
	}
	wg.Wait()
	for i, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) {
			if why := exempt[s.Name]; why != "" {
				t.Skip(why)
			}
			want, err := conformance.Golden(recorded+"golden/kafka-4.4.0", s.Name)
			if err != nil {
				t.Fatal(err)
			}
			mismatches, err := conformance.Check(s, want, answers[i], differences, true)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range mismatches {
				t.Errorf("%s\n  %s", m.Step, m.Text)
			}
		})
	}
}

// startConformant starts Kafka and three nodes in front of it with the settings that the scenarios were recorded with, and more
// (name=value).
func startConformant(t *testing.T, properties string, more ...string) (*rig.Kafka, *rig.Cluster) {
	t.Helper()
	dir := place(t)
	raw, err := os.ReadFile(properties)
	if err != nil {
		t.Fatal(err)
	}
	k, err := rig.StartKafka(t.Context(), rig.KafkaConfig{Java: java, Dir: dir, Nodes: 1, Heap: "512m", Lines: strings.Split(string(raw), "\n")})
	if k != nil {
		t.Cleanup(k.Stop)
	}
	if err != nil {
		t.Fatal(err)
	}
	bin, err := coordd()
	if err != nil {
		t.Fatal(err)
	}
	settings, err := conformance.ServerSettings(properties)
	if err != nil {
		t.Fatal(err)
	}
	// Patient timing: on a busy machine an election that nobody planned would be one more thing that members can see.
	set := map[string]any{"shards": conformantShards, "raft.preset": "wan"}
	for name, value := range settings {
		set[name] = value
	}
	for _, setting := range more {
		name, value, _ := strings.Cut(setting, "=")
		set[name] = value
	}
	c, err := rig.StartCluster(t.Context(), rig.ClusterConfig{Bin: bin, Dir: dir, Nodes: 3, Upstream: k.Bootstrap(), Settings: set})
	if c != nil {
		t.Cleanup(c.Stop)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := c.WaitSpread(t.Context(), 3*time.Second, time.Minute); err != nil {
		t.Fatal(err)
	}
	return k, c
}
