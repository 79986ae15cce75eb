//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/test/e2e/content"
	"github.com/coordd/coordd/test/rig"
)

// versionsRolled: two versions of an application are rolled one over the other under load. Two of the three subtopologies are
// the same in both; an instance of the old version that restarts meanwhile does not start an update back.
func versionsRolled(t *testing.T, s *subject) {
	const tasks = 3 * partitions
	createTopics(t, s.boot, s.name, "rolled")
	input := feed(t, s.boot, s.name, "rolled", 100, -1)
	one, two := s.start(t, "one", "rolled-1", exactlyOnce), s.start(t, "two", "rolled-1", exactlyOnce)
	waitSplit(t, []*rig.App{one, two}, tasks, settled)
	if err := two.Close(closeWithin); err != nil {
		t.Error(err)
	}

	refused := s.start(t, "two", "rolled-2", exactlyOnce) // by the KIP such a topology needs a higher epoch, which no client sends
	thrown := ends(t, refused)
	t.Logf("without the policy: %s: %s", thrown.Class, thrown.Message)
	if !names(thrown.Message, "streams.topology.update.policy") {
		t.Errorf("%s threw %+v", refused.Name, thrown)
	}
	s.config(t, "streams.topology.update.policy", "latest")

	two = s.start(t, "two", "rolled-2", exactlyOnce)
	s.waitTold(t, "the new topology", func(g groupTold) bool { return g.TopologyEpoch == 1 })
	waitSplit(t, []*rig.App{one, two}, tasks, settled) // what the old version may keep runs there or here, all else here
	s.onlyOn(t, two, one, "2_")

	if err := one.Close(closeWithin); err != nil {
		t.Error(err)
	}
	old := s.start(t, "old", "rolled-1", exactlyOnce) // the old version again
	logged(t, old, staleTopology)
	runs(t, two, tasks) // the old one gets nothing new
	if g := s.waitTold(t, "Stable", func(g groupTold) bool { return g.State == "Stable" }); g.TopologyEpoch != 1 {
		t.Errorf("an instance of the old version moved the topology epoch to %d", g.TopologyEpoch)
	}
	runs(t, old, 0)
	s.rollOut(t, false)

	unbroken(t, old)
	if err := old.Close(closeWithin); err != nil {
		t.Error(err)
	}
	one = s.start(t, "one", "rolled-2", exactlyOnce)
	both := []*rig.App{one, two}
	waitSplit(t, both, tasks, settled)
	g := s.waitTold(t, "Stable", func(g groupTold) bool { return g.State == "Stable" })
	if g.TopologyEpoch != 1 {
		t.Errorf("after the roll-out the topology epoch is %d", g.TopologyEpoch)
	}
	s.rollOut(t, true)
	steps := input.stop(t)
	verify(t, s.boot, s.name, "rolled", steps, settled)
	verifyTopic(t, s.boot, s.name+".side-out", content.NewSideCheck(steps), steps, settled)
	closeApps(t, both)
}

// onlyOn waits until one instance runs all tasks of a subtopology, and the other none of them.
func (s *subject) onlyOn(t *testing.T, on, off *rig.App, subtopology string) {
	t.Helper()
	ctx := within(t, settled)
	for count(on, subtopology) != partitions || count(off, subtopology) != 0 {
		if err := waitAny(ctx, []*rig.App{on, off}); err != nil {
			t.Fatalf("tasks %s*: %v: %+v, %+v", subtopology, err, on.State(), off.State())
		}
	}
}

// count is how many active tasks of a subtopology an instance runs.
func count(a *rig.App, subtopology string) (n int) {
	for task := range a.State().Active {
		if strings.HasPrefix(task, subtopology) {
			n++
		}
	}
	return n
}

// staleTopology is the line by which a client logs that it was told of a newer topology than its own.
var staleTopology = regexp.MustCompile(`Membership is in the following statuses: \(0\)`)

// logged waits until an instance has logged something.
func logged(t *testing.T, a *rig.App, what *regexp.Regexp) {
	t.Helper()
	ctx := within(t, settled)
	for {
		log, err := os.ReadFile(a.Log)
		if err != nil {
			t.Fatal(err)
		}
		if what.Match(log) {
			return
		}
		if err := waitAny(ctx, []*rig.App{a}); err != nil {
			t.Fatalf("%s has not logged %q: %v", a.Name, what, err)
		}
	}
}

// rollOut waits until `coordd groups topology` says that a member of an older topology is left, or none.
func (s *subject) rollOut(t *testing.T, done bool) {
	t.Helper()
	ctx := within(t, settled)
	for {
		var g struct {
			RollOut struct {
				Done bool `json:"done"`
			} `json:"rollOut"`
		}
		out, err := s.cluster.CLI(ctx, s.cluster.Nodes[0], "groups", "topology", s.name, "-o", "json")
		if err == nil {
			err = json.Unmarshal([]byte(out), &g)
		}
		if err == nil && g.RollOut.Done == done {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("roll-out of %s, done %v: %v: %s", s.name, done, err, out)
		}
		pause(ctx, 100*time.Millisecond)
	}
}
