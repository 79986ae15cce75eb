package topicctl

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/topology"
)

// brokers are a cluster whose brokers learn of changes at different times. One of them answers.
type brokers struct {
	mu      sync.Mutex
	asked   int
	views   []map[string]topology.Topic
	unclear []string
	polls   int
}

func newBrokers(n int, topics ...topology.Topic) *brokers {
	b := &brokers{}
	for range n {
		view := map[string]topology.Topic{}
		for _, t := range topics {
			view[t.Name] = t
		}
		b.views = append(b.views, view)
	}
	return b
}

func (b *brokers) Metadata(context.Context) (*Snapshot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.polls++
	s := &Snapshot{From: fmt.Sprint("broker ", b.asked), Brokers: []Broker{{ID: 1}}, Unclear: b.unclear}
	for _, t := range b.views[b.asked] {
		s.Topics = append(s.Topics, t)
	}
	return s, nil
}

func (b *brokers) CreateTopics(context.Context, []topology.InternalTopic) (map[string]error, error) {
	return nil, nil
}

// know has brokers learn that a topic is so; without partitions: that it is gone.
func (b *brokers) know(t topology.Topic, who ...int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range who {
		if t.Partitions == 0 {
			delete(b.views[n], t.Name)
		} else {
			b.views[n][t.Name] = t
		}
	}
}

// ask has another broker answer.
func (b *brokers) ask(who int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = who
}

// watching runs a watcher of b until the test ends.
func watching(t *testing.T, b *brokers) *Watcher {
	t.Helper()
	w := NewWatcher(WatcherConfig{Source: b, Logger: hclog.NewNullLogger()})
	ctx, cancel := context.WithCancel(context.Background())
	go w.Run(ctx)
	t.Cleanup(func() {
		cancel()
		synctest.Wait()
	})
	<-w.Ready()
	return w
}

func topicOf(name string, id byte, partitions int32) topology.Topic {
	return topology.Topic{Name: name, ID: [16]byte{id}, Partitions: partitions}
}

// says reports whether the image has the topic as given.
func says(w *Watcher, want topology.Topic) bool {
	got, ok := w.Image().Topic(want.Name)
	return ok == (want.Partitions > 0) && got.Partitions == want.Partitions && (!ok || got.ID == want.ID)
}

// until is how long it takes until the image has the topic as given; at most limit.
func until(w *Watcher, limit time.Duration, want topology.Topic) time.Duration {
	begin := time.Now()
	for time.Since(begin) < limit && !says(w, want) {
		time.Sleep(time.Millisecond)
		synctest.Wait()
	}
	return time.Since(begin)
}

// Every kind of change is noticed within a second, at whatever moment between two polls it happens.
func TestChangesAreNoticedWithinASecond(t *testing.T) {
	changes := map[string]topology.Topic{
		"created":          topicOf("new", 9, 3),
		"deleted":          topicOf("t", 0, 0),
		"made anew":        topicOf("t", 9, 2),
		"made anew, fewer": topicOf("t", 9, 1),
		"grown":            topicOf("t", 1, 4),
		"racks":            {Name: "t", ID: [16]byte{1}, Partitions: 2, Racks: [][]string{{"a"}, {"b"}}},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			for offset := 0 * time.Millisecond; offset < 800*time.Millisecond; offset += 13 * time.Millisecond {
				synctest.Test(t, func(t *testing.T) {
					b := newBrokers(1, topicOf("t", 1, 2), topicOf("other", 2, 1))
					w := watching(t, b)
					time.Sleep(5*time.Second + offset)
					version := w.Image().Version
					b.know(change, 0)
					took := until(w, 10*time.Second, change)
					for ; w.Image().Version == version && took < 10*time.Second; took += time.Millisecond {
						time.Sleep(time.Millisecond)
					}
					if took > time.Second {
						t.Errorf("noticed after %v, %v after a poll", took, offset)
					}
				})
			}
		})
	}
}

// Each of several deletions is noticed within a second, whatever else is in doubt when it happens.
func TestDeletionsInARowAreNoticedWithinASecond(t *testing.T) {
	for gap := 50 * time.Millisecond; gap <= 900*time.Millisecond; gap += 50 * time.Millisecond {
		for offset := 0 * time.Millisecond; offset < 700*time.Millisecond; offset += 70 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				b := newBrokers(1, topicOf("stays", 9, 1))
				for n := range 5 {
					b.know(topicOf(fmt.Sprint("t", n), byte(n+1), 1), 0)
				}
				w := watching(t, b)
				time.Sleep(5*time.Second + offset)
				var wg sync.WaitGroup
				for n := range 5 {
					gone := topicOf(fmt.Sprint("t", n), 0, 0)
					wg.Go(func() {
						time.Sleep(time.Duration(n) * gap)
						b.know(gone, 0)
						time.Sleep(time.Second + time.Millisecond)
						if !says(w, gone) {
							t.Errorf("deletions every %v, %v after a poll: %s is there after a second", gap, offset, gone.Name)
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// slowBrokers take some time for an answer.
type slowBrokers struct{ *brokers }

func (b slowBrokers) Metadata(ctx context.Context) (*Snapshot, error) {
	time.Sleep(170 * time.Millisecond)
	return b.brokers.Metadata(ctx)
}

// An upstream that takes long to answer is not asked all the time while topics are deleted one after the other.
func TestSlowAnswersAreConfirmedWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrokers(1)
		for n := range 200 {
			b.know(topicOf(fmt.Sprint("t", n), byte(n), 1), 0)
		}
		w := NewWatcher(WatcherConfig{Source: slowBrokers{b}})
		ctx, cancel := context.WithCancel(context.Background())
		go w.Run(ctx)
		for n := range 200 {
			time.Sleep(50 * time.Millisecond)
			b.know(topicOf(fmt.Sprint("t", n), 0, 0), 0)
		}
		cancel()
		time.Sleep(time.Second) // the last answer comes
		synctest.Wait()
		if b.polls > 33 {
			t.Errorf("asked %d times in 10 s", b.polls)
		}
	})
}

// A broker that lags behind is asked after the one that told of the changes died. What it does not know of yet must not be
// undone, whatever kind of change it is; what is new is believed.
func TestLaggingBrokerUndoesNothing(t *testing.T) {
	news := []topology.Topic{
		topicOf("created", 11, 3), topicOf("deleted", 0, 0), topicOf("made-anew", 12, 2), topicOf("grown", 4, 4),
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBrokers(2, topicOf("deleted", 2, 2), topicOf("made-anew", 3, 2), topicOf("grown", 4, 2), topicOf("stays", 5, 1))
		w := watching(t, b)
		for _, change := range news {
			b.know(change, 0)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		asOf := w.AsOf()
		version := w.Image().Version
		b.ask(1)
		b.know(topicOf("young", 13, 1), 1) // whatever is new is told by the other at once
		for range 4000 {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			for _, change := range news {
				if !says(w, change) {
					got, ok := w.Image().Topic(change.Name)
					t.Fatalf("%s became %v %v", change.Name, got, ok)
				}
			}
		}
		if !says(w, topicOf("young", 13, 1)) || w.Image().Version != version+1 {
			t.Errorf("a new topic is not believed, or more: version %d after %d", w.Image().Version, version)
		}
		if w.AsOf().Sub(asOf) > 700*time.Millisecond {
			t.Error("the image counts as current, although the answers say otherwise")
		}
		for _, change := range news {
			b.know(change, 1)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if since := time.Since(w.AsOf()); since > time.Second || w.Image().Version != version+1 {
			t.Errorf("when the broker has caught up: as of %v ago, version %d after %d", since, w.Image().Version, version)
		}
		// From now on it is believed as the one before.
		b.know(topicOf("stays", 0, 0), 1)
		if took := until(w, 10*time.Second, topicOf("stays", 0, 0)); took > time.Second {
			t.Errorf("deletion noticed after %v", took)
		}
	})
}

// A broker that goes on saying so is right in the end: the cluster behind may have been set back.
func TestAnotherBrokerIsBelievedInTheEnd(t *testing.T) {
	for name, old := range map[string]topology.Topic{
		"deleted": topicOf("t", 0, 0), "fewer": topicOf("t", 1, 1), "made anew": topicOf("t", 9, 2),
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBrokers(2, topicOf("t", 1, 2), topicOf("u", 2, 2))
			w := watching(t, b)
			b.know(old, 1)
			time.Sleep(3 * time.Second)
			b.ask(1)
			if took := until(w, time.Minute, old); took < 4*time.Second || took > 7*time.Second {
				t.Errorf("%s: believed after %v", name, took)
			}
		})
	}
}

// A topic that was taken for deleted by a broker that lags for long is back at once when that one has caught up, and not
// before when another one of the past is asked.
func TestWhatWasGoneComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic, gone := topicOf("t", 1, 2), topicOf("t", 0, 0)
		b := newBrokers(3, topic)
		w := watching(t, b)
		b.know(gone, 0)
		time.Sleep(2 * time.Second)
		b.ask(1)
		for range 3000 {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if !says(w, gone) {
				t.Fatal("back by the word of a broker of the past")
			}
		}
		b.ask(0)
		time.Sleep(10 * time.Second)
		b.know(topic, 0)
		if took := until(w, time.Minute, topic); took > time.Second {
			t.Errorf("back after %v", took)
		}
	})
}

// A topic on which the broker has no word stays as it is; one that never was does not appear.
func TestUnclearTopicsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrokers(1, topicOf("t", 1, 2), topicOf("u", 2, 1))
		w := watching(t, b)
		b.mu.Lock()
		delete(b.views[0], "t")
		b.unclear = []string{"t", "nothing"}
		b.mu.Unlock()
		b.know(topicOf("v", 3, 1), 0)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if !says(w, topicOf("t", 1, 2)) || !says(w, topicOf("nothing", 0, 0)) || !says(w, topicOf("v", 3, 1)) {
			t.Errorf("topics %v", w.Image().Names())
		}
		b.mu.Lock()
		b.unclear = nil
		b.mu.Unlock()
		if took := until(w, time.Minute, topicOf("t", 0, 0)); took > time.Second {
			t.Errorf("gone after %v", took)
		}
	})
}

// Each topic is confirmed by itself: what is missing for the first time in the second answer is not believed with the rest.
func TestEachLossIsConfirmed(t *testing.T) {
	d := doubts{lag: time.Second}
	base := NewImage(&Snapshot{Topics: []topology.Topic{topicOf("a", 1, 1), topicOf("b", 2, 1), topicOf("c", 3, 3)}}, nil)
	now := time.Unix(1000, 0)
	old := base.topics
	step := func(want string, answer ...topology.Topic) {
		t.Helper()
		now = now.Add(time.Millisecond)
		topics, changed := d.settle(old, &Snapshot{Topics: answer}, now)
		got := ""
		for _, topic := range topics {
			got += fmt.Sprintf("%s%d ", topic.Name, topic.Partitions)
		}
		if got != want || len(changed) == 0 != (NewImage(&Snapshot{Topics: topics}, &Image{Version: 1, topics: old, lists: new(lists)}).Version == 1) {
			t.Errorf("got %q changed %v, want %q", got, changed, want)
		}
		old = topics
	}
	step("a1 b1 c3 ", topicOf("b", 2, 1), topicOf("c", 3, 3))                     // a is missing
	step("b1 c3 ", topicOf("c", 3, 3))                                            // a again, and b
	step("b1 c3 ", topicOf("b", 2, 1), topicOf("c", 3, 3))                        // b is back
	step("b1 c3 ", topicOf("c", 3, 3))                                            // and missing for the first time again
	step("b1 c3 ", topicOf("b", 2, 1), topicOf("c", 3, 2))                        // c has fewer
	step("b1 c3 ", topicOf("b", 2, 1), topicOf("c", 3, 1))                        // and another number: not the same word
	step("b1 c1 ", topicOf("b", 2, 1), topicOf("c", 3, 1))                        // again
	step("b1 c2 d1 ", topicOf("d", 4, 1), topicOf("b", 2, 1), topicOf("c", 9, 2)) // c made anew, d created
}

// The ids of topics that are gone are remembered, the latest ones.
func TestDeadTopicsAreBounded(t *testing.T) {
	var d deadTopics
	id := func(n int) [16]byte { return [16]byte{byte(n), byte(n >> 8), 1} }
	for n := range maxDead + 10 {
		d.note(&topology.Topic{ID: id(n)}, nil)
	}
	if len(d.ids) != maxDead || d.has(id(9)) || !d.has(id(10)) || !d.has(id(maxDead+9)) {
		t.Errorf("%d ids", len(d.ids))
	}
	d.note(nil, &topology.Topic{ID: id(20)})
	d.note(&topology.Topic{}, nil)
	if d.has(id(20)) || d.has([16]byte{}) {
		t.Error("a topic that is there counts as gone")
	}
}
