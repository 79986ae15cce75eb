//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// sourceCreatedInTime: the client waits for a missing source topic, two heartbeat intervals long; when it comes by then, nothing ends.
func sourceCreatedInTime(t *testing.T, s *subject) {
	s.config(t, "streams.heartbeat.interval.ms", "15000")
	createSized(t, s.boot, partitions, s.name+".out")
	a := s.start(t, "one", "stateless", atLeastOnce)
	s.problem(t, "MISSING_SOURCE_TOPICS", s.name+".in")
	createSized(t, s.boot, partitions, s.name+".in")
	runs(t, a, partitions)
	verify(t, s.boot, s.name, "stateless", feed(t, s.boot, s.name, "stateless", 300, 300).wait(t), settled)
	unbroken(t, a)
	if err := a.Close(closeWithin); err != nil {
		t.Error(err)
	}
}

const closeWithin = 40 * time.Second

// sourceCreatedLate: the application ends with what the status told it, and runs when it is started again with the topic there.
func sourceCreatedLate(t *testing.T, s *subject) {
	s.config(t, "streams.disconnect.timeout.ms", "10000") // threads that end by an exception may not leave the group
	createSized(t, s.boot, partitions, s.name+".out")
	a := s.start(t, "one", "stateless", atLeastOnce)
	thrown := ends(t, a)
	if thrown.Class != "org.apache.kafka.streams.errors.MissingSourceTopicException" || !names(thrown.Message, s.name+".in") {
		t.Errorf("%s threw %+v", a.Name, thrown)
	}
	t.Logf("%s: %s", thrown.Class, thrown.Message)
	createSized(t, s.boot, partitions, s.name+".in")
	a = s.start(t, "one", "stateless", atLeastOnce)
	runs(t, a, partitions)
	verify(t, s.boot, s.name, "stateless", feed(t, s.boot, s.name, "stateless", 300, 300).wait(t), settled)
	unbroken(t, a)
	if err := a.Close(closeWithin); err != nil {
		t.Error(err)
	}
}

// sourceGrown: a source grows from two partitions to four under load, before a repartition topic of a size of its own.
func sourceGrown(t *testing.T, s *subject) {
	createSized(t, s.boot, 2, s.name+".in")
	createSized(t, s.boot, partitions, s.name+".out")
	input := feedFirst(t, 2, s.boot, s.name, "fixed", 100)
	a := s.start(t, "one", "fixed", exactlyOnce)
	runs(t, a, 2+3)
	s.grow(t, 4, s.name+".in")
	runs(t, a, 4+3)
	input.widen(t, s.name, "fixed", 4)
	at := input.steps.Load()
	waitSteps(t, input, at+300)
	verify(t, s.boot, s.name, "fixed", input.stop(t), settled)
	unbroken(t, a)
	if err := a.Close(closeWithin); err != nil {
		t.Error(err)
	}
}

// sourcesGrownInTurn: two copartitioned sources grow one after the other under load. Meanwhile the application goes on as it was.
func sourcesGrownInTurn(t *testing.T, s *subject) {
	left, right := s.name+".left", s.name+".right"
	createSized(t, s.boot, 2, left, right)
	createSized(t, s.boot, partitions, s.name+".out")
	input := feedFirst(t, 2, s.boot, s.name, "match", 100)
	a := s.start(t, "one", "match", exactlyOnce)
	runs(t, a, 2)
	s.waitTold(t, "Stable", func(g groupTold) bool { return g.State == "Stable" })
	mark := a.Mark()
	began := time.Now()
	s.grow(t, 4, left)
	g := s.waitTold(t, "that it goes on", func(g groupTold) bool {
		return g.GraceLeftMs > 0 && names(g.Problem, "INCORRECTLY_PARTITIONED_TOPICS", left, right, "2", "4")
	})
	t.Logf("describe: %s: %s", g.State, g.Problem)
	if g.State != "Stable" {
		t.Errorf("the group that goes on is %s", g.State)
	}
	pause(t.Context(), apart/2)
	s.comes(t, map[string]bool{fmt.Sprint(input.steps.Load()): true})
	pause(t.Context(), apart-time.Since(began))
	for _, e := range a.Events(mark) {
		t.Errorf("%s between the two: %+v", a.Name, e)
	}
	s.grow(t, 4, right)
	runs(t, a, 4)
	s.waitTold(t, "that all is well", func(g groupTold) bool { return g.State == "Stable" && g.Problem == "" && g.GraceLeftMs == 0 })
	input.widen(t, s.name, "match", 4)
	waitSteps(t, input, input.steps.Load()+300)
	verify(t, s.boot, s.name, "match", input.stop(t), settled)
	unbroken(t, a)
	if err := a.Close(closeWithin); err != nil {
		t.Error(err)
	}
}

// sourceOfStatefulGrown: behind a source that grows there are internal topics, which nobody grows. The application goes on for
// the grace, then ends with a status that names topic and counts; without the internal topics, which is what a reset of the
// application does, it runs.
func sourceOfStatefulGrown(t *testing.T, s *subject) {
	const grown = 2 * partitions
	s.config(t, "streams.disconnect.timeout.ms", "10000")
	createTopics(t, s.boot, s.name, "wordcount")
	a := s.start(t, "one", "wordcount", atLeastOnce)
	runs(t, a, tasksOf("wordcount"))
	s.flows(t, "before")
	mark, repartition := a.Mark(), s.name+"-by-word-repartition"
	s.grow(t, grown, s.name+".in")
	g := s.waitTold(t, "that it goes on", func(g groupTold) bool {
		return g.GraceLeftMs > 0 && names(g.Problem, "INCORRECTLY_PARTITIONED_TOPICS", repartition, fmt.Sprint(partitions), fmt.Sprint(grown))
	})
	t.Logf("describe: %s: %s", g.State, g.Problem)
	s.flows(t, "in-grace")
	for _, e := range a.Events(mark) {
		t.Errorf("%s within the grace: %+v", a.Name, e)
	}
	thrown := ends(t, a)
	if thrown.Class != topologyException || !names(thrown.Message, repartition, fmt.Sprint(partitions), fmt.Sprint(grown), "delete such a topic") {
		t.Errorf("%s threw %+v", a.Name, thrown)
	}
	t.Logf("%s: %s", thrown.Class, thrown.Message)
	s.remove(t, repartition)
	s.remove(t, s.name+"-counts-changelog")
	a = s.start(t, "two", "wordcount", atLeastOnce)
	runs(t, a, 2*grown)
	s.flows(t, "after")
	unbroken(t, a)
	if err := a.Close(closeWithin); err != nil {
		t.Error(err)
	}
}

const topologyException = "org.apache.kafka.streams.errors.TopologyException"

// waitSteps waits until so many steps were produced.
func waitSteps(t *testing.T, f *feeder, n int64) {
	t.Helper()
	ctx := within(t, settled)
	for f.steps.Load() < n {
		if ctx.Err() != nil {
			t.Fatalf("only %d steps of input, not %d", f.steps.Load(), n)
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// changelogDeleted: the changelog of a store is deleted under load. It is made again as the application wants it, and the application goes
// on; what was counted before is not asked for, since it was deleted. (With exactly-once the broker fails the transaction that writes to the
// deleted topic, which ends the client before any coordinator is asked.)
func changelogDeleted(t *testing.T, s *subject) {
	createTopics(t, s.boot, s.name, "wordcount")
	input := feed(t, s.boot, s.name, "wordcount", 100, -1)
	a := s.start(t, "one", "wordcount", atLeastOnce)
	runs(t, a, tasksOf("wordcount"))
	s.flows(t, "before")
	changelog := s.name + "-counts-changelog"
	old := s.topic(t, changelog, func(d kadm.TopicDetail) bool { return len(d.Partitions) == partitions })
	s.remove(t, changelog)
	s.topic(t, changelog, func(d kadm.TopicDetail) bool { return d.ID != old.ID && len(d.Partitions) == partitions })
	if policy := s.topicConfig(t, changelog, "cleanup.policy"); policy != "compact" {
		t.Errorf("%s was made again with cleanup.policy=%s", changelog, policy)
	}
	s.flows(t, "after")
	runs(t, a, tasksOf("wordcount"))
	s.waitTold(t, "Stable", func(g groupTold) bool { return g.State == "Stable" && g.Problem == "" })
	input.stop(t)
	unbroken(t, a)
	if err := a.Close(closeWithin); err != nil {
		t.Error(err)
	}
}

// internalTopicWrong: internal topics exist with other partition counts. The application ends with a status that names the topic and
// both counts; without that topic it runs.
func internalTopicWrong(t *testing.T, s *subject) {
	s.config(t, "streams.disconnect.timeout.ms", "10000")
	createTopics(t, s.boot, s.name, "wordcount")
	for _, topic := range []string{s.name + "-by-word-repartition", s.name + "-counts-changelog"} {
		createSized(t, s.boot, 7, topic)
		a := s.start(t, "one", "wordcount", exactlyOnce)
		thrown := ends(t, a)
		if thrown.Class != topologyException || !names(thrown.Message, topic, "7", "3", "delete such a topic") {
			t.Errorf("%s threw %+v", a.Name, thrown)
		}
		t.Logf("%s: %s", thrown.Class, thrown.Message)
		s.remove(t, topic)
	}
	a := s.start(t, "one", "wordcount", exactlyOnce)
	runs(t, a, tasksOf("wordcount"))
	verify(t, s.boot, s.name, "wordcount", feed(t, s.boot, s.name, "wordcount", 300, 300).wait(t), settled)
	unbroken(t, a)
	if err := a.Close(closeWithin); err != nil {
		t.Error(err)
	}
}
