package topicctl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/topology"
)

func wanted(names ...string) (topics []topology.InternalTopic) {
	for _, n := range names {
		topics = append(topics, topology.InternalTopic{Name: n, Partitions: 2, Configs: []topology.Config{{Key: "cleanup.policy", Value: "compact"}}})
	}
	return topics
}

func TestCreatorCreatesOnceAndRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		w, c := start(t, f)
		time.Sleep(200 * time.Millisecond)
		for g := range 50 {
			c.Create(fmt.Sprintf("g%d", g), wanted("a", "b"))
		}
		synctest.Wait()
		if _, creates := f.attempts(); creates != 1 {
			t.Errorf("%d requests for two topics that 50 groups want", creates)
		}
		if _, ok := w.Image().Topic("b"); !ok {
			t.Error("no refresh after the creation")
		}
		for range 1000 {
			c.Create("g1", wanted("a", "b"))
		}
		time.Sleep(time.Minute)
		if _, creates := f.attempts(); creates != 1 {
			t.Errorf("%d requests for topics that exist", creates)
		}
	})
}

// A topic that is deleted again comes back at once where a group asks for it, and not by itself.
func TestCreatorMakesADeletedTopicAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		w, c := start(t, f)
		missing := func() bool {
			_, there := w.Image().Topic("a")
			return !there
		}
		for range 2 {
			c.Create("g", wanted("a", "b"))
			time.Sleep(time.Second)
			if missing() {
				t.Fatal("not created within a second")
			}
			f.set(func() { delete(f.topics, "a") })
			time.Sleep(time.Minute)
			if !missing() {
				t.Fatal("created although no group asked")
			}
		}
	})
}

// However often heartbeats ask, a failing topic is tried at a pace that slows down, and others are not held up.
func TestCreatorCannotStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		w, c := start(t, f)
		refused := &Refusal{Reason: "INVALID_REPLICATION_FACTOR", Message: "3 > 1"}
		f.refuse["bad"] = refused
		for range 600 { // one minute of a group whose members ask ten times a second
			c.Create("g", wanted("bad", "good"))
			time.Sleep(100 * time.Millisecond)
		}
		_, creates := f.attempts()
		if creates < 8 || creates > 12 { // after 0.5, 1, 2, 4, 8, and then every 10 s
			t.Errorf("%d attempts in a minute", creates)
		}
		if _, ok := w.Image().Topic("good"); !ok || c.Error("good") != "" {
			t.Errorf("good was held up: %q", c.Error("good"))
		}
		if c.Error("bad") != "INVALID_REPLICATION_FACTOR: 3 > 1" {
			t.Errorf("Error = %q", c.Error("bad"))
		}
		f.set(func() { delete(f.refuse, "bad") })
		time.Sleep(11 * time.Second)
		if _, ok := w.Image().Topic("bad"); !ok || c.Error("bad") != "" {
			t.Errorf("not created after the cause went: %q", c.Error("bad"))
		}
	})
}

func TestCreatorRecoversFromOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		w, c := start(t, f)
		f.set(func() { f.down = errors.New("connection refused") })
		c.Create("g", wanted("a"))
		time.Sleep(5 * time.Minute)
		if !strings.Contains(c.Error("a"), "refused") {
			t.Errorf("Error = %q", c.Error("a"))
		}
		if _, creates := f.attempts(); creates < 25 || creates > 40 { // at least every 10 s, at most every 5 s but for the first
			t.Errorf("%d attempts in five minutes without an upstream", creates)
		}
		f.set(func() { f.down = nil })
		time.Sleep(2 * time.Second) // the watch sees it within a second, and that ends the wait
		if _, ok := w.Image().Topic("a"); !ok {
			t.Error("not created after the outage")
		}
	})
}

func TestCreatorOneInFlightInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		f.block = make(chan struct{})
		_, c := start(t, f)
		for i := range 250 {
			c.Create(fmt.Sprint(i), wanted(fmt.Sprintf("t%03d", i)))
		}
		synctest.Wait()
		close(f.block)
		time.Sleep(time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.overlaps != 0 || len(f.topics) != 250 || len(f.creates) > 4 {
			t.Errorf("%d overlaps, %d topics, %d requests", f.overlaps, len(f.topics), len(f.creates))
		}
		for _, batch := range f.creates {
			if len(batch) > 100 {
				t.Errorf("a batch of %d", len(batch))
			}
		}
	})
}

func TestCreatorExistingIsSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		w, c := start(t, f)
		time.Sleep(200 * time.Millisecond)
		f.put("a", 9) // made by another between two polls
		c.Create("g", wanted("a"))
		synctest.Wait()
		if got, ok := w.Image().Topic("a"); !ok || got.Partitions != 9 || c.Error("a") != "" {
			t.Errorf("image %v %v, error %q", got, ok, c.Error("a"))
		}
	})
}

func TestCreatorForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		_, c := start(t, f)
		f.refuse["a"] = errors.New("no")
		c.Create("g", wanted("a"))
		c.Create("h", wanted("a"))
		time.Sleep(time.Second)
		c.Forget("g")
		if c.Error("a") == "" {
			t.Error("forgotten although another group wants it")
		}
		c.Create("h", wanted("b")) // the list replaces the former
		_, before := f.attempts()
		time.Sleep(time.Minute)
		if _, after := f.attempts(); after != before+1 || c.Error("a") != "" {
			t.Errorf("%d attempts after nobody wants it, error %q", after-before, c.Error("a"))
		}
		f.refuse["x"] = errors.New("no")
		c.Create("h", wanted("x"))
		time.Sleep(11 * time.Minute)
		_, before = f.attempts()
		time.Sleep(time.Hour)
		if _, after := f.attempts(); after != before || len(c.topics)+len(c.groups) != 0 {
			t.Errorf("a want that nobody repeats lives on: %d attempts, %v", after-before, c.topics)
		}
	})
}

func TestCreatorIsBounded(t *testing.T) {
	c := NewCreator(CreatorConfig{Source: newFakeSource(), MaxTopics: 10})
	for i := range 100 {
		c.Create(fmt.Sprint(i), wanted(fmt.Sprintf("t%d", i)))
	}
	if len(c.topics) != 10 {
		t.Errorf("%d topics remembered", len(c.topics))
	}
	for i := range 100 {
		c.Forget(fmt.Sprint(i))
	}
	if len(c.topics) != 0 || len(c.groups) != 0 {
		t.Errorf("left: %v %v", c.topics, c.groups)
	}
}

func TestCreatorBackoff(t *testing.T) {
	c := NewCreator(CreatorConfig{Source: newFakeSource()})
	for n, want := range map[int]time.Duration{1: 500 * time.Millisecond, 2: time.Second, 3: 2 * time.Second, 50: 10 * time.Second} {
		if lo, hi := c.backoff(n, 0), c.backoff(n, 1); lo != want/2 || hi != want {
			t.Errorf("failure %d: %v to %v, want %v to %v", n, lo, hi, want/2, want)
		}
	}
}

func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		w := NewWatcher(WatcherConfig{Source: f})
		c := NewCreator(CreatorConfig{Source: f, Watcher: w})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{}, 2)
		go func() { w.Run(ctx); ended <- struct{}{} }()
		go func() { c.Run(ctx); ended <- struct{}{} }()
		cancel()
		<-ended
		<-ended
	})
}
