package topicctl

import (
	"fmt"
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
	// Verify proves that this node still leads the group's shard: done gets nil once that is proven. A topic is created only
	// for a group that is led here when the request is sent. nil means that every group is.
	Verify func(group string, done func(error))
	// Changed is told the groups for which [Creator.Error] says something new that stood for two attempts: what passes in
	// a moment need not interrupt who waits. It is called from the goroutine of Run and must not block; nil means nobody.
	Changed func(group string)
	// Observe is told what became of each attempt, from the goroutine of Run; nil means nobody.
	Observe func(Outcome)
	// Logger gets one line for each topic that is created, and one when what hinders topics changes; nil means none.
	Logger hclog.Logger
	// Rand returns numbers in [0, 1) for the jitter of the back-off; nil means no jitter.
	Rand func() float64
	// MinBackoff and MaxBackoff bound the wait before a failed topic is tried again, which doubles with each failure;
	// 500 ms and 10 s by default (Kafka: twice the heartbeat interval). Failed topics are tried together, at most once
	// every MinBackoff.
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
// groups ask, one CreateTopics in flight, and a back-off for each topic that fails and for an upstream that is away.
type Creator struct {
	cfg   CreatorConfig
	wake  chan struct{}
	start time.Time

	mu     sync.Mutex
	topics map[string]*want
	groups map[string]*groupWants
	full   bool // a topic was dropped since there was room last
	pace   pace
}

// want is a topic that at least one group waits for.
type want struct {
	topic    topology.InternalTopic
	groups   map[string]struct{} // that ask for it
	failures int                 // in a row for which the upstream gave a reason
	// made says that the upstream has the topic, though it may not show it yet.
	made bool
	err  string
	// told is the last err that CreatorConfig.Changed was called for.
	told string
	due  time.Time // not before
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
	cfg.MaxBackoff = orDefault(cfg.MaxBackoff, 10*time.Second)
	cfg.Timeout = orDefault(cfg.Timeout, 15*time.Second)
	cfg.Settle = orDefault(cfg.Settle, 10*time.Second)
	cfg.Keep = orDefault(cfg.Keep, 10*time.Minute)
	cfg.MaxBatch = orDefault(cfg.MaxBatch, 100)
	cfg.MaxTopics = orDefault(cfg.MaxTopics, 10_000)
	c := &Creator{
		cfg: cfg, wake: make(chan struct{}, 1), start: time.Now(), pace: pace{batch: cfg.MaxBatch},
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
	if old == nil && len(topics) == 0 {
		return
	}
	group = strings.Clone(group)
	wants := &groupWants{topics: make([]string, 0, len(topics)), renewed: now}
	named := make(map[string]struct{}, len(topics))
	fresh := false
	for _, t := range topics {
		w := c.topics[t.Name]
		if w == nil {
			if len(c.topics) >= c.cfg.MaxTopics {
				c.noteFull()
				continue
			}
			w = &want{topic: cloneTopic(t), groups: make(map[string]struct{}, 1), due: now}
			c.topics[w.topic.Name] = w
			fresh = true
		} else if !equalInternal(w.topic, t) {
			w.topic = cloneTopic(t) // the latest wish counts, at its next attempt
		}
		w.groups[group] = struct{}{}
		named[w.topic.Name] = struct{}{}
		wants.topics = append(wants.topics, w.topic.Name)
	}
	if old != nil { // after the new ones: what is asked for again keeps its back-off
		c.release(group, old, named)
	}
	if len(wants.topics) > 0 {
		c.groups[group] = wants
	}
	if fresh {
		c.signal()
	}
}

// Forget drops what group asked for: it is gone, or led elsewhere now.
func (c *Creator) Forget(group string) { c.Create(group, nil) }

// Error is why a topic is not there although it was asked for: how the last attempt failed, or that none could be made.
// It is "" when the topic was not tried yet or did not fail.
func (c *Creator) Error(topic string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.topics[topic]
	switch {
	case w != nil:
		return w.err
	case c.full:
		return fmt.Sprintf("not tried: %d other topics wait for their creation, which is the limit", c.cfg.MaxTopics)
	}
	return ""
}

// Wanted is the number of topics that groups wait for.
func (c *Creator) Wanted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.topics)
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

// release takes a group's wants back, but for those in keep, and forgets topics that nobody wants. The lock is held.
func (c *Creator) release(group string, g *groupWants, keep map[string]struct{}) {
	for _, name := range g.topics {
		if _, kept := keep[name]; kept {
			continue
		}
		if w := c.topics[name]; w != nil {
			if delete(w.groups, group); len(w.groups) == 0 {
				delete(c.topics, name)
				c.full = false
			}
		}
	}
	delete(c.groups, group)
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
