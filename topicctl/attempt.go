package topicctl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/topology"
)

// Outcome is what became of one attempt to create topics, in numbers of topics.
type Outcome struct {
	// Created were created, Existed were there already.
	Created, Existed int
	// Failed were not created, by the reason of the [Refusal].
	Failed map[string]int
	// NotSent says that no request was sent, since the cluster behind had asked for patience; the numbers are 0 then.
	NotSent bool
}

// pace says when the next attempt may be made, whatever is due.
type pace struct {
	// notBefore is when the upstream wants to be asked again, or may be after it did not answer.
	notBefore time.Time
	// failures are the calls in a row that got no answer, failedAt is when the last of them ended.
	failures int
	failedAt time.Time
	// batch is how many topics a call may have. It is halved with each call that got no answer and doubled with each that
	// got one: should it be the call itself that the upstream cannot take, a topic holds up no others for long.
	batch int
}

// Run creates topics until ctx ends. It must be called once.
func (c *Creator) Run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		batch, groups, wait := c.take()
		if len(batch) > 0 {
			c.attempt(ctx, batch, groups)
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

// lookForUpstream is how often it is looked whether an upstream that did not answer is back.
const lookForUpstream = 250 * time.Millisecond

// take returns the topics that are due, with one group that asks for each, or how long to wait.
func (c *Creator) take() (batch []topology.InternalTopic, groups [][]string, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for name, g := range c.groups {
		if now.Sub(g.renewed) >= c.cfg.Keep {
			c.release(name, g, nil)
		}
	}
	if c.cfg.Watcher != nil {
		c.fulfil(c.cfg.Watcher.Image())
	}
	if len(c.topics) == 0 {
		return nil, nil, c.cfg.Keep
	}
	if wait := c.rest(now); wait > 0 {
		return nil, nil, wait
	}
	var due []*want
	wait = c.cfg.Keep
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
	for _, w := range due[:min(len(due), c.pace.batch)] {
		asking := make([]string, 0, len(w.groups))
		for group := range w.groups {
			asking = append(asking, group)
		}
		batch, groups = append(batch, w.topic), append(groups, asking)
	}
	return batch, groups, wait
}

// rest is how long no attempt may be made. An upstream that has come back since the last call failed is asked at once. The
// lock is held.
func (c *Creator) rest(now time.Time) time.Duration {
	left := c.pace.notBefore.Sub(now)
	if left <= 0 || c.pace.failures == 0 || c.cfg.Watcher == nil {
		return max(0, left)
	}
	if s := c.cfg.Watcher.Status(); s.Reachable && s.Since.After(c.pace.failedAt) {
		return 0
	}
	return min(left, lookForUpstream)
}

// attempt sends one CreateTopics and books its outcome.
func (c *Creator) attempt(ctx context.Context, batch []topology.InternalTopic, groups [][]string) {
	batch = c.ledHere(ctx, batch, groups)
	if len(batch) == 0 || ctx.Err() != nil {
		return
	}
	callCtx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	results, err := c.cfg.Source.CreateTopics(callCtx, batch)
	cancel()
	if ctx.Err() != nil {
		return
	}
	outcome, changed := c.book(batch, results, err)
	if outcome.Created+outcome.Existed > 0 && c.cfg.Watcher != nil {
		c.cfg.Watcher.Refresh()
	}
	if c.cfg.Observe != nil {
		c.cfg.Observe(outcome)
	}
	if c.cfg.Changed != nil {
		for _, group := range changed {
			c.cfg.Changed(group)
		}
	}
}

// verifyPatience bounds the proof that the groups of an attempt are led here.
const verifyPatience = 2 * time.Second

// ledHere leaves of a batch the topics for which a group still asks that this node leads, as is proven now. The others are
// looked at again soon: a leader that was deposed is about to take their wants back.
func (c *Creator) ledHere(ctx context.Context, batch []topology.InternalTopic, groups [][]string) []topology.InternalTopic {
	if c.cfg.Verify == nil {
		return batch
	}
	type proof struct {
		group string
		err   error
	}
	asked := map[string]bool{}
	for _, list := range groups {
		for _, group := range list {
			asked[group] = false
		}
	}
	proofs := make(chan proof, len(asked))
	for group := range asked {
		c.cfg.Verify(group, func(err error) { proofs <- proof{group, err} })
	}
	patience := time.NewTimer(verifyPatience)
	defer patience.Stop()
	for range len(asked) {
		select {
		case p := <-proofs:
			asked[p.group] = p.err == nil
			continue
		case <-patience.C:
		case <-ctx.Done():
		}
		break
	}
	led := batch[:0:0]
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range batch {
		w := c.topics[batch[i].Name]
		if w == nil {
			continue // it was taken back meanwhile, or is there
		}
		proven := func(group string) bool {
			_, asks := w.groups[group]
			return asks && asked[group]
		}
		if slices.ContainsFunc(groups[i], proven) {
			led = append(led, w.topic) // as it is wanted by now
		} else {
			w.due = c.onGrid(time.Now().Add(c.cfg.MinBackoff))
		}
	}
	return led
}

// book records the outcome of a batch. changed are the groups to be told of it.
func (c *Creator) book(batch []topology.InternalTopic, results map[string]error, callErr error) (o Outcome, changed []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, jitter := time.Now(), c.cfg.Rand()
	c.bookCall(now, jitter, callErr)
	o.Failed = map[string]int{}
	news := newLogged()
	groups := map[string]struct{}{}
	for _, t := range batch {
		err := callErr
		if err == nil {
			var answered bool
			if err, answered = results[t.Name]; !answered {
				err = &Refusal{Reason: Unanswered, Message: "the answer of the Kafka cluster behind leaves this topic out"}
			}
		}
		w := c.topics[t.Name]
		exists := errors.Is(err, ErrTopicExists)
		if exists && w != nil && w.made { // it had its time to show up
			exists, err = false, notShown(t.Name)
		}
		var refusal *Refusal
		switch {
		case exists:
			o.Existed++
		case err == nil:
			o.Created++
			news.created(t)
		default:
			refusal = refusalOf(err)
			if refusal.NotSent {
				o.NotSent = true
			} else {
				o.Failed[refusal.Reason]++
			}
		}
		if w == nil {
			continue // nobody wants it any more
		}
		if refusal == nil {
			w.failures, w.made, w.err, w.told, w.due = 0, true, "", "", now.Add(c.cfg.Settle)
			continue
		}
		before := w.err
		c.bookFailure(w, now, jitter, refusal, callErr != nil)
		if w.err != before {
			news.failed(t.Name, w.err, refusal)
		} else if w.err != w.told {
			w.told = w.err
			for group := range w.groups {
				groups[group] = struct{}{}
			}
		}
	}
	news.write(c.cfg.Logger)
	for group := range groups {
		changed = append(changed, group)
	}
	return o, changed
}

// bookCall sets the pace by the outcome of a call. The lock is held.
func (c *Creator) bookCall(now time.Time, jitter float64, err error) {
	if err == nil {
		c.pace = pace{batch: min(2*c.pace.batch, c.cfg.MaxBatch)}
		return
	}
	c.pace.failures++
	c.pace.failedAt = now
	c.pace.notBefore = now.Add(c.backoff(c.pace.failures, jitter))
	c.pace.batch = max(1, c.pace.batch/2)
}

// bookFailure notes why a topic was not created and when it is tried again. While calls get no answer the pace alone
// counts. The lock is held.
func (c *Creator) bookFailure(w *want, now time.Time, jitter float64, r *Refusal, unanswered bool) {
	w.err = r.Error()
	if unanswered {
		w.due = now // behind those that were not tried
		return
	}
	if !r.NotSent {
		w.failures++
	}
	w.due = c.onGrid(now.Add(max(c.backoff(w.failures, jitter), min(r.RetryAfter, MaxRetryAfter))))
	if until := now.Add(min(r.RetryAfter, MaxRetryAfter)); until.After(c.pace.notBefore) {
		c.pace.notBefore = until
	}
}

// onGrid moves the time of a further attempt to a multiple of MinBackoff, so that topics that failed at different times
// are tried together.
func (c *Creator) onGrid(t time.Time) time.Time {
	n := (t.Sub(c.start) + c.cfg.MinBackoff - 1) / c.cfg.MinBackoff
	return c.start.Add(n * c.cfg.MinBackoff)
}

// backoff is the wait after the n-th failure in a row: doubled each time, and between half and all of that.
func (c *Creator) backoff(n int, jitter float64) time.Duration {
	d := c.cfg.MinBackoff
	for ; n > 1 && d < c.cfg.MaxBackoff; n-- {
		d *= 2
	}
	d = min(d, c.cfg.MaxBackoff)
	return d/2 + time.Duration(float64(d/2)*jitter)
}

func notShown(topic string) error {
	return &Refusal{
		Reason:  NotShown,
		Message: "the Kafka cluster behind has the topic and does not show it to coordd",
		Advice:  "give coordd's principal the right DESCRIBE on Topic " + topic + ", or wait until the topic's deletion is over",
	}
}
