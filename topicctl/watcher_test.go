package topicctl

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/topology"
)

func TestWatcherSeesChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		f.put("a", 3)
		w, _ := start(t, f)
		<-w.Ready()
		first := w.Image()
		if first.Version != 1 || first.NumTopics() != 1 || first.Brokers[0].ID != 1 || !w.Status().Reachable {
			t.Fatalf("first image: %+v, status %+v", first, w.Status())
		}
		var versions []uint64
		w.OnChange(func(old, new *Image) { versions = append(versions, old.Version, new.Version) })
		time.Sleep(10 * time.Second)
		if w.Image() != first || len(versions) != 0 {
			t.Error("an unchanged cluster made a new image")
		}
		f.put("b", 1)
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if got, ok := w.Image().Topic("b"); !ok || got.Partitions != 1 {
			t.Errorf("b not seen within the interval: %v", got)
		}
		if len(versions) != 2 || versions[0] != 1 || versions[1] != 2 {
			t.Errorf("listeners saw %v", versions)
		}
		id, _ := w.Image().TopicID("b")
		if name, ok := w.Image().TopicName(id); !ok || name != "b" {
			t.Errorf("TopicName = %q, %v", name, ok)
		}
	})
}

func TestWatcherRefreshIsPromptAndCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		w, _ := start(t, f)
		time.Sleep(300 * time.Millisecond)
		f.put("a", 1)
		w.Refresh()
		synctest.Wait()
		if _, ok := w.Image().Topic("a"); !ok {
			t.Error("refresh did not poll at once")
		}
		before, _ := f.attempts()
		for range 10_000 {
			w.Refresh()
		}
		synctest.Wait()
		time.Sleep(time.Second)
		if after, _ := f.attempts(); after-before > 10 {
			t.Errorf("%d polls in a second after a storm of refreshes", after-before)
		}
	})
}

// Whoever waits for a fresh image gets one at once, even right after another poll.
func TestWatcherRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		w, _ := start(t, f)
		<-w.Ready()
		for i := range 3 {
			topic := string(rune('a' + i))
			f.put(topic, 1)
			begin := time.Now()
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() { w.Renew(t.Context()) })
			}
			wg.Wait()
			if _, ok := w.Image().Topic(topic); !ok {
				t.Errorf("topic %s is not in the renewed image", topic)
			}
			if time.Since(begin) != 0 {
				t.Errorf("waited %v", time.Since(begin))
			}
			if w.AsOf().Before(begin) {
				t.Errorf("renewed at %v, but as of %v", begin, w.AsOf())
			}
		}
		f.set(func() { f.down = errors.New("refused") })
		time.Sleep(time.Minute)
		begin := time.Now()
		w.Renew(t.Context()) // returns although there is no answer
		if !w.AsOf().Before(begin) {
			t.Errorf("no answer since %v, but as of %v", begin, w.AsOf())
		}
		f.set(func() { f.down, f.hidden["a"] = nil, true })
		w.Renew(t.Context())
		if !w.AsOf().Before(begin) {
			t.Errorf("an answer that is not believed counts: as of %v", w.AsOf())
		}
	})
}

func TestWatcherKeepsImageWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		f.put("a", 3)
		w, _ := start(t, f)
		good := w.Image()
		f.set(func() { f.down = errors.New("refused") })
		time.Sleep(time.Minute)
		if w.Image() != good || w.Status().Reachable || w.Status().Err == nil {
			t.Errorf("while away: image kept %v, status %+v", w.Image() == good, w.Status())
		}
		if away := time.Since(w.Status().Since); away < 58*time.Second {
			t.Errorf("away since %v", away)
		}
		f.set(func() { f.down, f.brokers = nil, nil })
		time.Sleep(2 * time.Second)
		if w.Status().Reachable {
			t.Error("an answer without brokers counts as an answer")
		}
		f.set(func() { f.brokers = []Broker{{ID: 7}} })
		time.Sleep(2 * time.Second)
		if _, ok := w.Image().Broker(7); !ok || !w.Status().Reachable || w.Image().Version != good.Version {
			t.Errorf("after: %+v", w.Image())
		}
	})
}

// A broker that lags behind leaves topics out; groups must not lose them for that.
func TestWatcherDoubtsMissingTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		f.put("a", 3)
		f.put("b", 3)
		w, _ := start(t, f)
		good := w.Image()
		f.set(func() { f.hidden["b"] = true })
		time.Sleep(5 * time.Second)
		if w.Image() != good {
			t.Error("a single lagging answer changed the image")
		}
		f.set(func() { delete(f.topics, "b") })
		time.Sleep(2 * time.Second)
		if _, ok := w.Image().Topic("b"); ok || w.Image().Version == good.Version {
			t.Error("a deleted topic stays")
		}
	})
}

func TestImageDiff(t *testing.T) {
	topic := func(partitions int32, id byte, racks ...string) topology.Topic {
		return topology.Topic{Name: "a", ID: [16]byte{id}, Partitions: partitions, Racks: [][]string{racks}}
	}
	snapshot := func(controller int32, t topology.Topic) *Snapshot {
		return &Snapshot{ControllerID: controller, Brokers: []Broker{{ID: 1}}, Topics: []topology.Topic{t}}
	}
	base := NewImage(snapshot(1, topic(1, 1, "r1")), nil)
	for _, c := range []struct {
		name    string
		next    *Snapshot
		version uint64
		same    bool
	}{
		{"nothing", snapshot(1, topic(1, 1, "r1")), 1, true},
		{"controller", snapshot(2, topic(1, 1, "r1")), 1, false},
		{"partitions", snapshot(1, topic(2, 1, "r1")), 2, false},
		{"id", snapshot(1, topic(1, 2, "r1")), 2, false},
		{"racks", snapshot(1, topic(1, 1, "r2")), 2, false},
		{"gone", &Snapshot{ControllerID: 1, Brokers: []Broker{{ID: 1}}}, 2, false},
	} {
		got := NewImage(c.next, base)
		if got.Version != c.version || (got == base) != c.same {
			t.Errorf("%s: version %d, same %v", c.name, got.Version, got == base)
		}
	}
	if empty := NewImage(&Snapshot{}, nil); empty.Version != 1 {
		t.Errorf("first image of an empty cluster has version %d", empty.Version)
	}
}
