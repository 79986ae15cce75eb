package topicctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/topology"
)

// SettingsSource is a cluster that tells the settings of its topics.
type SettingsSource interface {
	// TopicSettings reports the settings with the given names, for each topic (of those that exist). An entry may hold an
	// error of its own; the error says that the call as a whole failed.
	TopicSettings(ctx context.Context, topics map[string][]string) (map[string]TopicSettings, error)
}

// TopicSettings are settings that a topic goes by.
type TopicSettings struct {
	// Configs are the values by name, also where the cluster's default counts.
	Configs map[string]string
	// ReplicationFactor is 0 where it is not known.
	ReplicationFactor int16
	// Err is why the settings are not known: an [ErrNotAllowed], or what may be over at the next call.
	Err error
}

// ErrNotAllowed says that settings of a topic may not be seen.
var ErrNotAllowed = errors.New("settings may not be seen")

// ComparerConfig configures a Comparer. Source is required; zero values mean the defaults.
type ComparerConfig struct {
	Source SettingsSource
	// Logger gets one line for each topic whenever its differences change; nil means none.
	Logger hclog.Logger
	// Gap is the time between two calls, and Retry after one that brought nothing; 100 ms and 10 s by default.
	Gap, Retry time.Duration
	// Timeout bounds one call; 15 s by default.
	Timeout time.Duration
	// MaxBatch is the number of topics in one call; 100 by default.
	MaxBatch int
	// MaxTopics bounds what is remembered, both of topics that wait and of differences that were told; 10,000 by default.
	MaxTopics int
}

// Comparer compares the replication factor and the configs of internal topics that exist with what their app asks for. A
// difference hinders nothing: it is logged once (KIP-1071, topic configuration mismatches).
type Comparer struct {
	cfg  ComparerConfig
	wake chan struct{}

	mu      sync.Mutex
	waiting map[string]comparison
	// differences are the last ones that were told, by topic.
	differences map[string]string
	refused     bool // the right to see settings is missing, which was told; until a call shows all
}

type comparison struct {
	group string
	topic topology.InternalTopic
	// failures are the answers in a row that did not tell the topic's settings.
	failures int
}

var errNothingTold = errors.New("the answer tells no topic's settings")

// NewComparer makes a Comparer; Run makes it work.
func NewComparer(cfg ComparerConfig) *Comparer {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	cfg.Gap = orDefault(cfg.Gap, 100*time.Millisecond)
	cfg.Retry = orDefault(cfg.Retry, 10*time.Second)
	cfg.Timeout = orDefault(cfg.Timeout, 15*time.Second)
	cfg.MaxBatch = orDefault(cfg.MaxBatch, 100)
	cfg.MaxTopics = orDefault(cfg.MaxTopics, 10_000)
	return &Comparer{
		cfg: cfg, wake: make(chan struct{}, 1), waiting: map[string]comparison{}, differences: map[string]string{},
	}
}

// Compare has internal topics of a group compared soon. It does not block, and drops what is too much.
func (c *Comparer) Compare(group string, topics []topology.InternalTopic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	group = strings.Clone(group)
	for _, t := range topics {
		if len(t.Configs) == 0 && t.ReplicationFactor <= 0 {
			continue
		}
		if _, waits := c.waiting[t.Name]; !waits && len(c.waiting) >= c.cfg.MaxTopics {
			break
		}
		t = cloneTopic(t)
		c.waiting[t.Name] = comparison{group: group, topic: t}
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run compares until ctx ends. It must be called once.
func (c *Comparer) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
		for batch := c.take(); len(batch) > 0 && ctx.Err() == nil; batch = c.take() {
			wait := c.cfg.Gap
			if err := c.compare(ctx, batch); err != nil {
				wait = c.cfg.Retry
			}
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
		}
	}
}

// take returns what is compared next, in the order of names; what failed before is behind.
func (c *Comparer) take() []comparison {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch := make([]comparison, 0, len(c.waiting))
	for _, w := range c.waiting {
		batch = append(batch, w)
	}
	slices.SortFunc(batch, func(a, b comparison) int {
		return cmp.Or(cmp.Compare(a.failures, b.failures), strings.Compare(a.topic.Name, b.topic.Name))
	})
	batch = batch[:min(len(batch), c.cfg.MaxBatch)]
	for _, w := range batch {
		delete(c.waiting, w.topic.Name)
	}
	return batch
}

// compare makes one call. Topics that it does not tell of wait again; the error says that it told of none.
func (c *Comparer) compare(ctx context.Context, batch []comparison) error {
	names := make(map[string][]string, len(batch))
	for _, w := range batch {
		keys := make([]string, len(w.topic.Configs))
		for i, cfg := range w.topic.Configs {
			keys[i] = cfg.Key
		}
		names[w.topic.Name] = keys
	}
	callCtx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	found, err := c.cfg.Source.TopicSettings(callCtx, names)
	cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	again, shown, refused := 0, false, false
	for _, w := range batch {
		s, ok := found[w.topic.Name]
		switch {
		case errors.Is(s.Err, ErrNotAllowed):
			refused = true
			c.noteRefused(w, s)
		case err != nil || s.Err != nil:
			again++
			w.failures++
			if _, newer := c.waiting[w.topic.Name]; !newer {
				c.waiting[w.topic.Name] = w
			}
		case ok:
			shown = true
			c.note(w, s)
		}
	}
	if shown && !refused {
		c.refused = false // should the right be taken away later, that is told again
	}
	if err == nil && again == len(batch) {
		err = errNothingTold
	}
	return err
}

// noteRefused tells once that settings may not be seen. The lock is held.
func (c *Comparer) noteRefused(w comparison, s TopicSettings) {
	if !c.refused {
		c.refused = true
		c.cfg.Logger.Info("settings of internal topics cannot be compared with what apps ask for", "topic", w.topic.Name, "error", cut(s.Err.Error()))
	}
}

// note tells how a topic differs, if that was not told. The lock is held.
func (c *Comparer) note(w comparison, s TopicSettings) {
	text := differences(w.topic, s)
	if text == c.differences[w.topic.Name] {
		return
	}
	if text == "" {
		delete(c.differences, w.topic.Name)
		return
	}
	if len(c.differences) >= c.cfg.MaxTopics {
		clear(c.differences) // rather a line twice than memory without a bound
	}
	c.differences[w.topic.Name] = text
	c.cfg.Logger.Warn("internal topic has other settings than the app asks for", "group", w.group, "topic", w.topic.Name, "differences", text)
}

// maxDifferences bounds the differences that are told of one topic.
const maxDifferences = 10

// differences lists in which of the settings that the app asks for a topic differs.
func differences(want topology.InternalTopic, have TopicSettings) string {
	var list []string
	if want.ReplicationFactor > 0 && have.ReplicationFactor > 0 && want.ReplicationFactor != have.ReplicationFactor {
		list = append(list, fmt.Sprintf("replication factor %d instead of %d", have.ReplicationFactor, want.ReplicationFactor))
	}
	for _, cfg := range want.Configs {
		if value, ok := have.Configs[cfg.Key]; ok && !sameValue(value, cfg.Value) {
			list = append(list, fmt.Sprintf("%s=%s instead of %s", cut(cfg.Key), cut(value), cut(cfg.Value)))
		}
	}
	slices.Sort(list)
	if n := len(list) - maxDifferences; n > 0 {
		list = append(list[:maxDifferences], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(list, ", ")
}

// sameValue compares values as Kafka reads them: lists in any order, numbers in any notation, words in any case.
func sameValue(a, b string) bool { return a == b || slices.Equal(canonical(a), canonical(b)) }

func canonical(value string) []string {
	items := strings.Split(value, ",")
	for i, item := range items {
		item = strings.ToLower(strings.TrimSpace(item))
		if n, err := strconv.ParseInt(item, 10, 64); err == nil {
			item = strconv.FormatInt(n, 10)
		} else if f, err := strconv.ParseFloat(item, 64); err == nil {
			item = strconv.FormatFloat(f, 'g', -1, 64)
		}
		items[i] = item
	}
	slices.Sort(items)
	return slices.Compact(items)
}
