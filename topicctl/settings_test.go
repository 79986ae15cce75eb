package topicctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/topology"
)

// fakeSettings tells the settings of topics in memory.
type fakeSettings struct {
	mu     sync.Mutex
	topics map[string]TopicSettings
	down   error
	calls  int
	most   int
}

func (f *fakeSettings) TopicSettings(_ context.Context, topics map[string][]string) (map[string]TopicSettings, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	f.most = max(f.most, len(topics))
	if f.down != nil {
		return nil, f.down
	}
	found := map[string]TopicSettings{}
	for name := range topics {
		if s, ok := f.topics[name]; ok {
			found[name] = s
		}
	}
	return found, nil
}

func compareIn(t *testing.T, f *fakeSettings) (*Comparer, *bytes.Buffer) {
	var log bytes.Buffer
	c := NewComparer(ComparerConfig{Source: f, Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
	ctx, cancel := context.WithCancel(t.Context())
	go c.Run(ctx)
	t.Cleanup(func() {
		cancel()
		synctest.Wait()
	})
	return c, &log
}

func asks(name string, rf int16, configs ...string) topology.InternalTopic {
	t := topology.InternalTopic{Name: name, Partitions: 1, ReplicationFactor: rf}
	for _, cfg := range configs {
		key, value, _ := strings.Cut(cfg, "=")
		t.Configs = append(t.Configs, topology.Config{Key: key, Value: value})
	}
	return t
}

func TestComparerTellsEachDifferenceOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSettings{topics: map[string]TopicSettings{
			"cl":   {ReplicationFactor: 1, Configs: map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "7"}},
			"fine": {ReplicationFactor: 3, Configs: map[string]string{"cleanup.policy": "delete, compact"}},
		}}
		c, log := compareIn(t, f)
		topics := []topology.InternalTopic{
			asks("cl", 3, "cleanup.policy=compact", "retention.ms=-1", "unknown=1"),
			asks("fine", 3, "cleanup.policy=compact,delete"), asks("gone", 1), asks("free", 0),
		}
		for range 20 {
			c.Compare("g", topics)
			pass(time.Second)
		}
		want := "cleanup.policy=delete instead of compact, replication factor 1 instead of 3"
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || strings.Contains(log.String(), "topic=fine") {
			t.Errorf("%d lines of the log:\n%s", n, log)
		}
		f.mu.Lock()
		f.topics["cl"] = TopicSettings{ReplicationFactor: 1, Configs: map[string]string{"cleanup.policy": "compact", "retention.ms": "5"}}
		f.mu.Unlock()
		c.Compare("g", topics)
		pass(time.Second)
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "retention.ms=5 instead of -1") {
			t.Errorf("%d lines of the log:\n%s", n, log)
		}
	})
}

func TestComparerIsBoundedAndPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSettings{topics: map[string]TopicSettings{}, down: errors.New("away")}
		c, log := compareIn(t, f)
		c.mu.Lock()
		c.cfg.MaxTopics = 500
		c.mu.Unlock()
		for i := range 1000 {
			name := fmt.Sprintf("t%03d", i)
			f.mu.Lock()
			f.topics[name] = TopicSettings{ReplicationFactor: 1}
			f.mu.Unlock()
			c.Compare("g", []topology.InternalTopic{asks(name, 2)})
		}
		pass(time.Minute)
		f.mu.Lock()
		if f.calls > 8 {
			t.Errorf("%d calls in a minute without an upstream", f.calls)
		}
		f.down = nil
		f.mu.Unlock()
		pass(time.Minute)
		told := strings.Count(log.String(), "replication factor 1 instead of 2")
		if f.most > 100 || told < 400 || told > 600 || len(c.waiting) != 0 {
			t.Errorf("%d topics in a call, %d told, %d wait", f.most, told, len(c.waiting))
		}
	})
}

func TestComparerTellsOnceThatItMayNotLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := TopicSettings{Err: fmt.Errorf("%w: TOPIC_AUTHORIZATION_FAILED", ErrNotAllowed)}
		f := &fakeSettings{topics: map[string]TopicSettings{"a": refused, "b": refused}}
		c, log := compareIn(t, f)
		c.Compare("g", []topology.InternalTopic{asks("a", 1), asks("b", 1)})
		pass(time.Second)
		told := func(want int) {
			t.Helper()
			if n := strings.Count(log.String(), "TOPIC_AUTHORIZATION_FAILED"); n != want || f.calls > 4 {
				t.Errorf("%d lines of the log, want %d, after %d calls:\n%s", n, want, f.calls, log)
			}
		}
		told(1)
		for _, s := range []TopicSettings{{ReplicationFactor: 1}, refused} { // the right is granted, and taken away
			f.mu.Lock()
			f.topics["a"] = s
			f.mu.Unlock()
			c.Compare("g", []topology.InternalTopic{asks("a", 1)})
			pass(time.Minute)
		}
		told(2)
	})
}

// A topic whose settings are not told for another reason is looked at again, and holds up no other one.
func TestComparerLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSettings{topics: map[string]TopicSettings{"a": {Err: errors.New("NOT_CONTROLLER")}, "b": {ReplicationFactor: 1}}}
		c, log := compareIn(t, f)
		c.mu.Lock()
		c.cfg.MaxBatch = 1
		c.mu.Unlock()
		c.Compare("g", []topology.InternalTopic{asks("a", 2), asks("b", 2)})
		pass(15 * time.Second)
		if !strings.Contains(log.String(), "topic=b") || strings.Contains(log.String(), "topic=a") || strings.Contains(log.String(), "cannot") {
			t.Errorf("the log:\n%s", log)
		}
		pass(time.Minute)
		f.mu.Lock()
		if f.calls > 12 {
			t.Errorf("%d calls", f.calls)
		}
		f.topics["a"] = TopicSettings{ReplicationFactor: 1}
		f.mu.Unlock()
		pass(11 * time.Second)
		if !strings.Contains(log.String(), "topic=a") || len(c.waiting) != 0 {
			t.Errorf("%d wait, the log:\n%s", len(c.waiting), log)
		}
	})
}

func TestSameValue(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"compact", "compact", true}, {"compact,delete", " delete, compact", true}, {"compact", "compact,delete", false},
		{"-1", "-1", true}, {"0.5", "0.50", true}, {"1", "1.0", true}, {"TRUE", "true", true}, {"CreateTime", "LogAppendTime", false},
		{"9223372036854775807", "9223372036854775806", false}, {"", "", true}, {"", "1", false},
	} {
		if got := sameValue(c.a, c.b); got != c.same {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}
