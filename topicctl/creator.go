package topicctl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/topology"
)

// CreatorConfig configures a Creator. Source is required; zero values mean the defaults.
type CreatorConfig struct {
	Source Source
	// Watcher is asked to refresh after a creation, and tells which topics exist already; nil means neither.
	Watcher *Watcher
	// Logger gets one line for each topic that is created, and one when a topic's failure changes; nil means none.
	Logger hclog.Logger
	// Rand returns numbers in [0, 1) for the jitter of the back-off; nil means no jitter.
	Rand func() float64
	// MinBackoff and MaxBackoff bound the wait before a failed topic is tried again, which doubles with each failure;
	// 500 ms and 30 s by default.
	MinBackoff, MaxBackoff time.Duration
	// Timeout bounds one CreateTopics; 15 s by default.
	Timeout time.Duration
	// Settle is how long a created topic may take to show up before it is asked for again; 10 s by default.
	Settle time.Duration
	// Keep is how long a want lives that no Create repeats; 10 minutes by default.
	Keep time.Duration
	// MaxBatch is the number of topics in one CreateTopics; 100 by default.
	MaxBatch int
	// MaxTopics bounds the topics that are remembered; what is beyond is dropped until there is room. 10,000 by default.
	MaxTopics int
}

// Creator creates the internal topics that groups wait for (MISSING_INTERNAL_TOPICS): each topic once however many
// groups ask, one CreateTopics in flight, and a back-off for each topic that fails.
type Creator struct {
	cfg  CreatorConfig
	wake chan struct{}

	mu     sync.Mutex
	topics map[string]*want
	groups map[string]*groupWants
	full   bool // a topic was dropped since there was room last
}

// want is a topic that at least one group waits for.
type want struct {
	topic    topology.InternalTopic
	groups   int // groups that ask for it
	failures int
	err      string
	due      time.Time // not before
}

// groupWants is what one group asked for last.
type groupWants struct {
	topics  []string
	renewed time.Time
}

// NewCreator makes a Creator; Run makes it work.
func NewCreator(cfg CreatorConfig) *Creator {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Rand == nil {
		cfg.Rand = func() float64 { return 1 }
	}
	cfg.MinBackoff = orDefault(cfg.MinBackoff, 500*time.Millisecond)
	cfg.MaxBackoff = orDefault(cfg.MaxBackoff, 30*time.Second)
	cfg.Timeout = orDefault(cfg.Timeout, 15*time.Second)
	cfg.Settle = orDefault(cfg.Settle, 10*time.Second)
	cfg.Keep = orDefault(cfg.Keep, 10*time.Minute)
	cfg.MaxBatch = orDefault(cfg.MaxBatch, 100)
	cfg.MaxTopics = orDefault(cfg.MaxTopics, 10_000)
	c := &Creator{
		cfg: cfg, wake: make(chan struct{}, 1),
		topics: map[string]*want{}, groups: map[string]*groupWants{},
	}
	if cfg.Watcher != nil {
		cfg.Watcher.OnChange(func(_, image *Image) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.fulfil(image)
		})
	}
	return c
}

// Create says which internal topics group lacks now: the whole list, which replaces what it asked for before. It does
// not block; repeating it is cheap and starts nothing that is under way or backing off. A topic is tried until it
// exists, its group asks for others, or nobody has repeated the want for CreatorConfig.Keep.
func (c *Creator) Create(group string, topics []topology.InternalTopic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	old := c.groups[group]
	if old != nil && c.wanted(old.topics, topics) {
		old.renewed = now
		return
	}
	names := make([]string, 0, len(topics))
	fresh := false
	for _, t := range topics {
		w := c.topics[t.Name]
		if w == nil {
			if len(c.topics) >= c.cfg.MaxTopics {
				c.noteFull()
				continue
			}
			w = &want{topic: cloneTopic(t), due: now}
			c.topics[w.topic.Name] = w
			fresh = true
		} else if !equalInternal(w.topic, t) {
			w.topic = cloneTopic(t) // the latest wish counts, at its next attempt
		}
		w.groups++
		names = append(names, w.topic.Name)
	}
	c.release(old)
	delete(c.groups, group)
	if len(names) > 0 {
		c.groups[strings.Clone(group)] = &groupWants{topics: names, renewed: now}
	}
	if fresh {
		c.signal()
	}
}

// Forget drops what group asked for: it is gone, or led elsewhere now.
func (c *Creator) Forget(group string) { c.Create(group, nil) }

// Error is why a topic could not be created the last time it was tried; "" when it was not tried or did not fail.
func (c *Creator) Error(topic string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.topics[topic]; w != nil {
		return w.err
	}
	return ""
}

// wanted reports whether exactly these topics are noted under these names. The lock is held.
func (c *Creator) wanted(names []string, topics []topology.InternalTopic) bool {
	return slices.EqualFunc(names, topics, func(n string, t topology.InternalTopic) bool {
		w := c.topics[n]
		return w != nil && equalInternal(w.topic, t)
	})
}

func equalInternal(a, b topology.InternalTopic) bool {
	return a.Name == b.Name && a.Partitions == b.Partitions && a.ReplicationFactor == b.ReplicationFactor &&
		slices.Equal(a.Configs, b.Configs)
}

// cloneTopic copies what may alias a request's buffer.
func cloneTopic(t topology.InternalTopic) topology.InternalTopic {
	t.Name = strings.Clone(t.Name)
	t.Configs = slices.Clone(t.Configs)
	for i, c := range t.Configs {
		t.Configs[i] = topology.Config{Key: strings.Clone(c.Key), Value: strings.Clone(c.Value)}
	}
	return t
}

// release takes a group's wants back and forgets topics that nobody wants. The lock is held.
func (c *Creator) release(g *groupWants) {
	if g == nil {
		return
	}
	for _, name := range g.topics {
		if w := c.topics[name]; w != nil {
			if w.groups--; w.groups <= 0 {
				delete(c.topics, name)
				c.full = false
			}
		}
	}
}

// fulfil forgets the topics that exist. One that is deleted afterwards is made again at once when a group asks for it, and
// only then: whoever deletes a group with its internal topics must not get them back. The lock is held.
func (c *Creator) fulfil(image *Image) {
	exists := func(name string) bool {
		_, ok := image.Topic(name)
		return ok
	}
	for id, g := range c.groups {
		if g.topics = slices.DeleteFunc(g.topics, exists); len(g.topics) == 0 {
			delete(c.groups, id)
		}
	}
	for name := range c.topics {
		if exists(name) {
			delete(c.topics, name)
			c.full = false
		}
	}
}

// noteFull logs once that a topic was dropped. The lock is held.
func (c *Creator) noteFull() {
	if !c.full {
		c.full = true
		c.cfg.Logger.Warn("too many topics wait for their creation", "limit", c.cfg.MaxTopics)
	}
}

func (c *Creator) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run creates topics until ctx ends. It must be called once.
func (c *Creator) Run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		batch, wait := c.take()
		if len(batch) > 0 {
			c.attempt(ctx, batch)
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-c.wake:
		}
	}
}

// take returns the topics that are due, or how long to wait.
func (c *Creator) take() ([]topology.InternalTopic, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for name, g := range c.groups {
		if now.Sub(g.renewed) >= c.cfg.Keep {
			c.release(g)
			delete(c.groups, name)
		}
	}
	if c.cfg.Watcher != nil {
		c.fulfil(c.cfg.Watcher.Image())
	}
	var due []*want
	wait := c.cfg.Keep
	for _, w := range c.topics {
		if d := w.due.Sub(now); d > 0 {
			wait = min(wait, d)
		} else {
			due = append(due, w)
		}
	}
	slices.SortFunc(due, func(a, b *want) int {
		if d := a.due.Compare(b.due); d != 0 {
			return d
		}
		return strings.Compare(a.topic.Name, b.topic.Name)
	})
	due = due[:min(len(due), c.cfg.MaxBatch)]
	batch := make([]topology.InternalTopic, len(due))
	for i, w := range due {
		batch[i] = w.topic
	}
	return batch, wait
}

// attempt sends one CreateTopics and books its outcome.
func (c *Creator) attempt(ctx context.Context, batch []topology.InternalTopic) {
	callCtx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	results, err := c.cfg.Source.CreateTopics(callCtx, batch)
	cancel()
	if ctx.Err() != nil {
		return
	}
	if c.book(batch, results, err) && c.cfg.Watcher != nil {
		c.cfg.Watcher.Refresh()
	}
}

// book records the outcome of a batch and reports whether a topic is there that was not known.
func (c *Creator) book(batch []topology.InternalTopic, results map[string]error, callErr error) (created bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, t := range batch {
		err := callErr
		if err == nil {
			var answered bool
			if err, answered = results[t.Name]; !answered {
				err = errors.New("the upstream did not answer for this topic")
			}
		}
		exists := errors.Is(err, ErrTopicExists)
		created = created || err == nil || exists
		w := c.topics[t.Name]
		if w == nil {
			continue // nobody wants it any more
		}
		if err == nil || exists {
			if err == nil {
				c.cfg.Logger.Info("created internal topic", "topic", t.Name, "partitions", t.Partitions)
			}
			w.failures, w.err, w.due = 0, "", now.Add(c.cfg.Settle)
			continue
		}
		w.failures++
		w.due = now.Add(c.backoff(w.failures))
		if text := err.Error(); text != w.err {
			w.err = text
			c.cfg.Logger.Warn("cannot create internal topic", "topic", t.Name, "error", text)
		}
	}
	return created
}

// backoff is the wait after the n-th failure in a row: doubled each time, and between half and all of that.
func (c *Creator) backoff(n int) time.Duration {
	d := c.cfg.MinBackoff
	for ; n > 1 && d < c.cfg.MaxBackoff; n-- {
		d *= 2
	}
	d = min(d, c.cfg.MaxBackoff)
	return d/2 + time.Duration(float64(d/2)*c.cfg.Rand())
}
