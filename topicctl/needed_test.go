package topicctl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// namedBrokers are brokers that can be asked for some topics alone.
type namedBrokers struct {
	*brokers
	asked [][]string
}

func (b *namedBrokers) NamedMetadata(ctx context.Context, names []string) (*Snapshot, error) {
	s, err := b.Metadata(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.polls--
	b.asked = append(b.asked, names)
	all := s.Topics
	s.Topics = nil
	for _, t := range all {
		if slices.Contains(names, t.Name) {
			s.Topics = append(s.Topics, t)
		}
	}
	return s, err
}

// In a cluster of many topics, those that groups need are asked for alone most of the time. Every change of one of them is
// noticed within a second, of another one when all are asked for.
func TestNeededTopicsAreAskedForAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &namedBrokers{brokers: newBrokers(2)}
		for n := range 2000 {
			b.know(topicOf(fmt.Sprintf("t%04d", n), byte(n), 1), 0, 1)
		}
		needed, others := []string{"t0001", "t0002", "to-come"}, false
		w := NewWatcher(WatcherConfig{Source: b, Needed: func() ([]string, bool) { return needed, others }})
		ctx, cancel := context.WithCancel(context.Background())
		go w.Run(ctx)
		t.Cleanup(func() {
			cancel()
			synctest.Wait()
		})
		<-w.Ready()
		time.Sleep(time.Minute)
		synctest.Wait()
		if c := w.Counts(); b.polls > 7 || len(b.asked) < 75 || c.Polls != uint64(b.polls+len(b.asked)) || c.Named != uint64(len(b.asked)) {
			t.Fatalf("asked for all %d times and for some %d times in a minute; %+v", b.polls, len(b.asked), c)
		}
		if first := b.asked[0]; !slices.Equal(first, needed) || w.Image().NumTopics() != 2000 || w.Image().Version != 1 {
			t.Fatalf("asked for %q; %d topics, version %d", first, w.Image().NumTopics(), w.Image().Version)
		}
		asOf := w.AsOf()
		for _, change := range []struct {
			name string
			id   byte
			n    int32
		}{{"to-come", 9, 2}, {"to-come", 9, 4}, {"to-come", 10, 4}, {"to-come", 0, 0}, {"t0001", 0, 0}, {"t0002", 7, 3}} {
			topic := topicOf(change.name, change.id, change.n)
			b.know(topic, 0, 1)
			if took := until(w, 10*time.Second, topic); took > time.Second {
				t.Errorf("%+v noticed after %v", change, took)
			}
			if since := time.Since(w.AsOf()); since > 11*time.Second || w.AsOf().Before(asOf) {
				t.Errorf("as of %v ago", since)
			}
		}
		other := topicOf("t0500", 0, 0)
		b.know(other, 0, 1)
		if took := until(w, time.Minute, other); took > 11*time.Second {
			t.Errorf("another topic's deletion noticed after %v", took)
		}
		// Whoever asks for a fresh image gets all of it.
		newcomer := topicOf("newcomer", 77, 1)
		b.know(newcomer, 0, 1)
		w.Refresh()
		if took := until(w, time.Minute, newcomer); took > 100*time.Millisecond {
			t.Errorf("noticed after %v although a refresh was asked for", took)
		}
		b.know(topicOf("newcomer", 77, 3), 0, 1)
		before := time.Now()
		w.Renew(t.Context())
		if !says(w, topicOf("newcomer", 77, 3)) || w.AsOf().Before(before) {
			t.Error("renewed by some topics alone")
		}
		// Another broker is asked for all before anything it says counts.
		b.know(topicOf("t0700", 0, 0), 0)
		time.Sleep(15 * time.Second)
		b.ask(1)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if !says(w, topicOf("t0700", 0, 0)) {
			t.Error("a broker of the past brought a topic back")
		}
		// Groups that read by patterns may need any topic.
		b.know(topicOf("t0700", 0, 0), 1)
		time.Sleep(15 * time.Second)
		others = true
		time.Sleep(time.Second)
		last := topicOf("last", 78, 1)
		b.know(last, 0, 1)
		if took := until(w, time.Minute, last); took > time.Second {
			t.Errorf("noticed after %v although any topic may be needed", took)
		}
	})
}

// manyTopics are watched: a and b, which groups need, and 2000 others, t0000 to t1999.
func manyTopics(t *testing.T) (*namedBrokers, *Watcher) {
	t.Helper()
	b := &namedBrokers{brokers: newBrokers(2, topicOf("a", 1, 1), topicOf("b", 2, 1))}
	for n := range 2000 {
		b.know(topicOf(fmt.Sprintf("t%04d", n), byte(n), 1), 0, 1)
	}
	w := NewWatcher(WatcherConfig{Source: b, Needed: func() ([]string, bool) { return []string{"a", "b"}, false }})
	ctx, cancel := context.WithCancel(context.Background())
	go w.Run(ctx)
	t.Cleanup(func() {
		cancel()
		synctest.Wait()
	})
	<-w.Ready()
	time.Sleep(5 * time.Second)
	synctest.Wait()
	return b, w
}

// A topic that somebody names is asked for by name, however often, and is found as soon as it is there.
func TestWantedTopicsAreAskedForByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := manyTopics(t)
		polls := b.polls
		for range 600 {
			w.RefreshNamed("gone")
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if n := b.polls - polls; n > 7 {
			t.Errorf("asked for all topics %d times in a minute", n)
		}
		gone := topicOf("gone", 9, 1)
		b.know(gone, 0, 1)
		w.RefreshNamed("gone")
		if took := until(w, time.Minute, gone); took > 100*time.Millisecond {
			t.Errorf("noticed after %v", took)
		}
		// For some time it is asked for again without another word.
		w.RefreshNamed("later")
		time.Sleep(3 * time.Second)
		later := topicOf("later", 10, 1)
		b.know(later, 0, 1)
		if took := until(w, time.Minute, later); took > time.Second {
			t.Errorf("noticed after %v", took)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if last := b.asked[len(b.asked)-1]; !slices.Equal(last, []string{"a", "b"}) {
			t.Errorf("in the end asked for %q", last)
		}
		for n := range 2000 {
			w.RefreshNamed(fmt.Sprint("absent-", n), "", strings.Repeat("x", maxTopicName+1))
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if last := b.asked[len(b.asked)-1]; len(last) != 2+maxWanted {
			t.Errorf("asked for %d topics", len(last))
		}
	})
}

// What is said of some topics is confirmed by asking for these.
func TestNamedAnswersAreConfirmedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := manyTopics(t)
		polls := b.polls
		gone := topicOf("a", 0, 0)
		b.know(gone, 0, 1)
		if took := until(w, time.Minute, gone); took > time.Second {
			t.Errorf("noticed after %v", took)
		}
		if b.polls != polls {
			t.Errorf("asked for all topics %d times", b.polls-polls)
		}
		// A doubt that matters of an answer about all is settled for AsOf by another one.
		w.Renew(t.Context())
		polls = b.polls
		b.know(topicOf("b", 0, 0), 0, 1)
		before := time.Now()
		w.Renew(t.Context())
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if b.polls != polls+2 || w.AsOf().Before(before) || !says(w, topicOf("b", 0, 0)) {
			t.Errorf("asked for all topics %d times, as of %v ago", b.polls-polls, time.Since(w.AsOf()))
		}
	})
}

// While somebody deletes topics that no group needs, one after the other, the image counts as current, and few questions
// are for all topics.
func TestDoubtsOfOthersDoNotHoldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := manyTopics(t)
		polls := b.polls
		for n := range 200 {
			b.know(topicOf(fmt.Sprintf("t%04d", n), 0, 0), 0, 1)
			if n%20 == 0 {
				before := time.Now()
				w.Renew(t.Context())
				if w.AsOf().Before(before) {
					t.Fatalf("%d topics deleted: as of %v before", n, before.Sub(w.AsOf()))
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := b.polls - polls; n > 15 {
			t.Errorf("asked for all topics %d times in 20 s, 10 of them for a fresh image", n)
		}
	})
}

// Few topics are asked for together: that costs little.
func TestFewTopicsAreAskedForTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &namedBrokers{brokers: newBrokers(1, topicOf("a", 1, 1))}
		w := NewWatcher(WatcherConfig{Source: b, Needed: func() ([]string, bool) { return nil, false }})
		ctx, cancel := context.WithCancel(context.Background())
		go w.Run(ctx)
		time.Sleep(time.Minute)
		cancel()
		synctest.Wait()
		if len(b.asked) != 0 || b.polls < 80 {
			t.Errorf("asked for some %d times, for all %d times", len(b.asked), b.polls)
		}
	})
}
