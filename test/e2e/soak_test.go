//go:build e2e

package e2e

import (
	"context"
	"flag"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/coordd/coordd/test/e2e/content"
	"github.com/coordd/coordd/test/rig"
)

var soakFor = flag.Duration("soak", time.Minute, "how long TestSoak feeds and kills")

// The clock of a soak: what is killed when, and when it is started again. A minute holds three coordinators and two instances.
const (
	soakRate       = 50 // steps of input a second, for each application
	coordinatorsAt = 5 * time.Second
	coordinators   = 20 * time.Second // from one kill of a coordinator to the next
	nodeBack       = 4 * time.Second  // after its kill
	instancesAt    = 10 * time.Second
	instances      = 45 * time.Second // from one kill of an instance to the next

	// An instance comes back in turn before its members are missed, and after its tasks went to others.
	instanceBackSoon, instanceBackLate = time.Second, 16 * time.Second

	soakSettles = 2 * time.Minute // for the rest of the output, on a machine that has other work
)

// soakSettings have a member that was killed be missed between two kills of its coordinator: a new one that does not know of the
// end of its connection waits for its session's.
var soakSettings = map[string]any{
	"group.streams.min.session.timeout.ms": 10_000,
	"group.streams.session.timeout.ms":     10_000,
	"group.streams.disconnect.timeout.ms":  5_000,
}

// exactApps are fed and killed at once: a repartition topic between two subtopologies, and three stores behind two copartitioned
// sources.
var exactApps = []appCase{
	{"soak-wordcount", "wordcount", exactlyOnce},
	{"soak-join", "join", exactlyOnce},
}

// soaks are what is soaked. Where offsets are in the log there are no transactions with offsets: what a kill undid is done again.
var soaks = []struct {
	name, upstream, store string
	apps                  []appCase
}{
	{"kfake", "kfake", "upstream", exactApps},
	{"kafka", "kafka", "upstream", exactApps},
	{oldKafka, oldKafka, "upstream", exactApps},
	{"offsets in the log", "kfake", "raft", []appCase{{"soak-stateless", "stateless", atLeastOnce}}},
}

// TestSoak feeds applications while the coordinators of their groups and their instances are killed with -9, by the clock above,
// and started again. The output of exactly-once applications is exact, nothing is missing from that of others, all that was read
// is committed, and no thread died of it.
func TestSoak(t *testing.T) {
	for _, c := range soaks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSoak(t, c.upstream, c.store, c.apps)
			s.disturb(t, *soakFor)
			s.check(t)
		})
	}
}

// soak is a cluster with applications under it.
type soak struct {
	dir     string
	cluster *rig.Cluster
	apps    []*soaked

	killedNodes     []int // by node, from 1
	killedInstances int
}

// soaked is one of the applications.
type soaked struct {
	appCase
	input     *feeder
	steps     int // of input, once it has ended
	output    *outputWatch
	instances []*rig.App
	ended     []*rig.App // killed ones
}

func newSoak(t *testing.T, upstream, store string, apps []appCase) *soak {
	t.Helper()
	s := &soak{dir: place(t)}
	settings := maps.Clone(soakSettings)
	settings["offsets.store"] = store
	s.cluster = startClusterWith(t, 3, startUpstream(t, upstream, s.dir), s.dir, settings)
	s.killedNodes = make([]int, len(s.cluster.Nodes)+1)
	for _, c := range apps {
		createTopics(t, s.cluster.Bootstrap(), c.name, c.topology)
		a := &soaked{appCase: c, output: watchOutput(t, s.cluster.Bootstrap(), c.name+".out")}
		for _, name := range []string{"one", "two"} {
			a.instances = append(a.instances, s.launch(t, a, c.name+"-"+name))
		}
		s.apps = append(s.apps, a)
	}
	for _, a := range s.apps {
		waitSplit(t, a.instances, tasksOf(a.topology), 2*time.Minute)
	}
	for _, a := range s.apps {
		a.input = feed(t, s.cluster.Bootstrap(), a.name, a.topology, soakRate, -1)
	}
	return s
}

// launch starts an instance, over the state that one of its name has left.
func (s *soak) launch(t *testing.T, a *soaked, name string) *rig.App {
	t.Helper()
	i, err := rig.StartApp(rig.AppConfig{Java: java, Dir: s.dir, Name: name, Bootstrap: s.cluster.Bootstrap(), App: a.name,
		Topology: a.topology, Guarantee: a.guarantee})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Kill)
	return i
}

// disturb kills by the clock for a time, and returns when all that was killed has been started again.
func (s *soak) disturb(t *testing.T, long time.Duration) {
	t.Helper()
	ctx := within(t, long)
	var done sync.WaitGroup
	done.Go(func() {
		everyFrom(ctx, coordinatorsAt, coordinators, func(n int) { s.killCoordinator(t, s.apps[n%len(s.apps)]) })
	})
	done.Go(func() {
		everyFrom(ctx, instancesAt, instances, func(n int) { s.killInstance(t, n) })
	})
	done.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// everyFrom calls f with 0, 1, 2, … by a clock, until the context ends. A call that takes longer than a beat delays the next.
func everyFrom(ctx context.Context, first, beat time.Duration, f func(n int)) {
	begin := time.Now()
	for n := 0; ; n++ {
		pause(ctx, time.Until(begin.Add(first+time.Duration(n)*beat)))
		if ctx.Err() != nil {
			return
		}
		f(n)
	}
}

// killCoordinator kills the node that coordinates the group of an application, and starts it again. It fails the test when the
// node had ended by itself, or is not ready in time.
func (s *soak) killCoordinator(t *testing.T, a *soaked) {
	_, addr, err := rig.FindCoordinator(s.cluster.Bootstrap(), a.name, 20*time.Second)
	if err != nil {
		t.Error(err)
		return
	}
	n := s.cluster.ByClient(addr)
	if n == nil || !n.Alive() {
		t.Errorf("the coordinator of %s is at %s, where no node of the cluster runs", a.name, addr)
		return
	}
	n.Kill()
	t.Logf("%s node %d killed, coordinator of %s", time.Now().Format(time.TimeOnly), n.ID, a.name)
	s.killedNodes[n.ID]++
	pause(t.Context(), nodeBack)
	if err := n.Start(); err != nil {
		t.Error(err)
		return
	}
	if err := s.cluster.WaitReady(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
}

// killInstance kills an instance, the n-th time any, and starts it again.
func (s *soak) killInstance(t *testing.T, n int) {
	a := s.apps[n%len(s.apps)]
	i := n / len(s.apps) % len(a.instances)
	victim := a.instances[i]
	if !victim.Alive() {
		t.Errorf("%s has ended by itself: %v\n%s", victim.Name, victim.Err(), victim.Tail(20))
		return
	}
	victim.Kill()
	t.Logf("%s %s killed", time.Now().Format(time.TimeOnly), victim.Name)
	s.killedInstances++
	a.ended = append(a.ended, victim)
	back := instanceBackSoon
	if n%4 == 1 || n%4 == 2 { // each application has both
		back = instanceBackLate
	}
	pause(t.Context(), back)
	again, err := rig.StartApp(rig.AppConfig{Java: java, Dir: s.dir, Name: victim.Name, Bootstrap: s.cluster.Bootstrap(), App: a.name,
		Topology: a.topology, Guarantee: a.guarantee})
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(again.Kill)
	a.instances[i] = again
}

// check ends the input and looks at everything.
func (s *soak) check(t *testing.T) {
	t.Helper()
	s.checkKills(t)
	for _, a := range s.apps {
		a.steps = a.input.stop(t)
	}
	for _, a := range s.apps {
		a.check(t, s)
	}
	for _, n := range s.cluster.Nodes {
		if !n.Alive() {
			t.Errorf("node %d has ended by itself: %v\n%s", n.ID, n.Err(), n.Tail(20))
		}
	}
}

// checkKills holds the soak to its clock: a run in which little was killed shows little.
func (s *soak) checkKills(t *testing.T) {
	t.Helper()
	nodes := s.kills()
	due := func(first, beat time.Duration) int { return int((*soakFor-first)/beat) + 1 }
	t.Logf("FIGURE soak: %v, coordinators killed %d times (by node %v), instances %d times", *soakFor, nodes, s.killedNodes[1:], s.killedInstances)
	// A tenth may be missing where a start took longer than a beat.
	if want := due(coordinatorsAt, coordinators); nodes*10 < want*9 {
		t.Errorf("coordinators were killed %d times, not %d", nodes, want)
	}
	if want := due(instancesAt, instances); s.killedInstances*10 < want*9 {
		t.Errorf("instances were killed %d times, not %d", s.killedInstances, want)
	}
}

// kills is how often a node was killed.
func (s *soak) kills() (n int) {
	for _, of := range s.killedNodes {
		n += of
	}
	return n
}

// redone is what one kill may have an at-least-once application do again: the input of some commit intervals.
const redone = 5 * soakRate

func (a *soaked) check(t *testing.T, s *soak) {
	t.Helper()
	if want := int(soakFor.Seconds()) * soakRate; a.steps < want/2 {
		t.Errorf("%s: %d steps of input, of about %d", a.name, a.steps, want)
	}
	again := 0
	if a.guarantee == atLeastOnce { // nobody went back further than to what was committed a moment before
		again = redone * (s.killedInstances + s.kills())
	}
	a.output.verify(t, a.topology, a.steps, again, soakSettles)
	waitSplit(t, a.instances, tasksOf(a.topology), soakSettles)
	closeApps(t, a.instances)
	for _, i := range a.ended {
		for _, e := range i.Events(0) {
			if e.Event == "exception" {
				t.Errorf("%s: %s: %s (%s)", i.Name, e.Class, e.Message, e.Root)
			}
		}
	}
	a.checkCommitted(t, s.cluster)
}

// checkCommitted compares the offsets of the group with the ends of the sources: all input was read, and an app that closes
// commits what it has read.
func (a *soaked) checkCommitted(t *testing.T, c *rig.Cluster) {
	t.Helper()
	ctx := within(t, time.Minute)
	adm := kadm.NewClient(client(t, c.Bootstrap()))
	topics := content.Topics(a.topology)
	var sources []string
	for _, suffix := range topics[:len(topics)-1] {
		sources = append(sources, a.name+suffix)
	}
	ends, err := adm.ListEndOffsets(ctx, sources...)
	if err != nil {
		t.Errorf("ends of %v: %v", sources, err)
		return
	}
	committed, err := adm.FetchOffsets(ctx, a.name)
	if err != nil {
		t.Errorf("offsets of %s: %v", a.name, err)
		return
	}
	ends.Each(func(end kadm.ListedOffset) {
		at, ok := committed.Lookup(end.Topic, end.Partition)
		if end.Offset > 0 && (!ok || at.At != end.Offset) {
			t.Errorf("%s: %s-%d ends at %d, committed is %d (%v)", a.name, end.Topic, end.Partition, end.Offset, at.At, ok)
		}
	})
}
