package topicctl

import (
	"sync/atomic"
	"time"
)

// Counts is what a watch has done since it began.
type Counts struct {
	// Polls are the questions to the upstream, and Failures those of them without a good answer.
	Polls, Failures uint64
	// Named are the questions for no more than the topics that groups need.
	Named uint64
	// Doubted are the answers of which something was not believed, because it was said for the first time or by a broker
	// that may lag.
	Doubted uint64
	// Answered is when the last good answer came; zero before the first.
	Answered time.Time
	// Busy is the time spent on all polls.
	Busy time.Duration
}

type counts struct {
	polls, failures, named, doubted atomic.Uint64
	answered                        atomic.Pointer[time.Time]
	busy                            atomic.Int64 // ns
}

func (c *counts) polled(now time.Time, took time.Duration, err error) {
	c.polls.Add(1)
	c.busy.Add(int64(took))
	if err != nil {
		c.failures.Add(1)
		return
	}
	c.answered.Store(&now)
}

// Counts reports what the watch has done.
func (w *Watcher) Counts() Counts {
	c := Counts{
		Polls: w.counts.polls.Load(), Failures: w.counts.failures.Load(), Named: w.counts.named.Load(), Doubted: w.counts.doubted.Load(),
		Busy: time.Duration(w.counts.busy.Load()),
	}
	if at := w.counts.answered.Load(); at != nil {
		c.Answered = *at
	}
	return c
}
