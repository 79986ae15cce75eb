//go:build e2e

package e2e

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/coordd/coordd/test/e2e/content"
)

// outputWatch reads the committed output of an application while it runs.
type outputWatch struct {
	topic   string
	mu      sync.Mutex
	records []*kgo.Record
	last    time.Time     // of the newest record
	silence time.Duration // the longest between two fetches that brought records
	silent  time.Time     // when it began
	changed chan struct{} // closed by the next record
}

func watchOutput(t *testing.T, bootstrap, topic string) *outputWatch {
	t.Helper()
	w := &outputWatch{topic: topic, changed: make(chan struct{})}
	cl := client(t, bootstrap, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(250*time.Millisecond))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			w.add(cl.PollFetches(ctx).Records())
		}
	}()
	return w
}

func (w *outputWatch) add(records []*kgo.Record) {
	if len(records) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !w.last.IsZero() {
		if d := now.Sub(w.last); d > w.silence {
			w.silence, w.silent = d, w.last
		}
	}
	w.last = now
	w.records = append(w.records, records...)
	close(w.changed)
	w.changed = make(chan struct{})
}

// since returns what came after the first n records, and what is closed when more comes.
func (w *outputWatch) since(n int) (more []*kgo.Record, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records[n:], w.changed
}

// verify compares what was read with what the steps must give, once that is complete and nothing further comes. Up to so many
// records may come again, if they are the same.
func (w *outputWatch) verify(t *testing.T, topology string, steps, again int, limit time.Duration) {
	t.Helper()
	begin := time.Now()
	check := content.NewCheck(topology, steps)
	read, repeated, seen := 0, 0, map[string]bool{}
	timeout, complete := time.After(limit), false
	for over := false; !over; {
		more, changed := w.since(read)
		read += len(more)
		for _, r := range more {
			if kv := string(r.Key) + "=" + string(r.Value); again > 0 && seen[kv] {
				repeated++
				continue
			} else if again > 0 {
				seen[kv] = true
			}
			check.Add(string(r.Key), r.Value)
		}
		if !complete && check.Complete() {
			complete, timeout = true, time.After(quiet)
			t.Logf("%s: output complete %.1f s after the end of its input", w.topic, time.Since(begin).Seconds())
		}
		select {
		case <-changed:
		case <-timeout:
			over = true
		}
	}
	if err := check.Err(); err != nil {
		t.Errorf("output %s of %d steps of input is wrong: %v", w.topic, steps, err)
		return
	}
	if repeated > again {
		t.Errorf("%s: %d records came again, more than %d", w.topic, repeated, again)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("FIGURE %s: %d steps of input gave %d output records, exact but for %d repeated; longest time without any %.1f s, from %s on", w.topic, steps, read, repeated,
		w.silence.Seconds(), w.silent.Format(time.TimeOnly))
}
