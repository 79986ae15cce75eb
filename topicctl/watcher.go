package topicctl

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// WatcherConfig configures a Watcher. Source is required; zero durations mean the defaults.
type WatcherConfig struct {
	Source Source
	// Logger gets one line when the upstream goes away and one when it comes back; nil means none.
	Logger hclog.Logger
	// Interval is the time from one poll to the next when nothing is asked for; 700 ms by default, so that together with
	// Confirm and two answers a deletion is seen within a second.
	Interval time.Duration
	// Confirm is the time from an answer that is not believed yet to the question whether it stands; 150 ms by default.
	Confirm time.Duration
	// Lag is for how long a broker that did not answer before is taken for one that may lag behind the image, unless it
	// agrees with it; 5 s by default.
	Lag time.Duration
	// Needed returns the topics that groups need now, there or not, sorted, and whether they may need any other, too. nil
	// means any. The upstream is asked for these alone between questions for all topics where that is worth it, if Source
	// is a [NamedSource].
	Needed func() (names []string, others bool)
	// AllFrom is the number of topics from which on that is worth it, 1000 by default, and AllInterval the time from one
	// question for all topics to the next then, 10 s by default.
	AllFrom     int
	AllInterval time.Duration
	// MinGap is the least time between two polls that [Watcher.Refresh] asks for; 50 ms by default.
	MinGap time.Duration
	// Timeout bounds one poll; 5 s by default.
	Timeout time.Duration
}

// Watcher keeps an Image of the upstream fresh by polling. While the upstream is away the last good image stands.
type Watcher struct {
	cfg     WatcherConfig
	image   atomic.Pointer[Image]
	status  atomic.Pointer[Status]
	asOf    atomic.Pointer[time.Time] // when the last question was asked whose answer is in the image
	counts  counts
	allAt   time.Time // of Run: when all topics were asked for last
	doubts  doubts    // of Run
	owed    bool      // of Run: the last answer about all topics left doubts that matter
	wanted  wantedTopics
	refresh chan struct{}
	urgent  chan struct{}
	ready   chan struct{}

	mu        sync.Mutex
	listeners []func(old, new *Image)
	waiting   []chan struct{} // of Renew, closed after the next poll
}

// Status says how the watch fares.
type Status struct {
	// Reachable says whether the last poll was answered; false before the first.
	Reachable bool
	// Since is when Reachable became what it is; zero before the first poll.
	Since time.Time
	// Err is the last failure while the upstream is away.
	Err error
}

// NewWatcher makes a Watcher; Run makes it poll.
func NewWatcher(cfg WatcherConfig) *Watcher {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	cfg.Interval = orDefault(cfg.Interval, 700*time.Millisecond)
	cfg.Confirm = orDefault(cfg.Confirm, 150*time.Millisecond)
	cfg.AllFrom = orDefault(cfg.AllFrom, 1000)
	cfg.AllInterval = orDefault(cfg.AllInterval, 10*time.Second)
	cfg.Lag = orDefault(cfg.Lag, 5*time.Second)
	cfg.MinGap = orDefault(cfg.MinGap, 50*time.Millisecond)
	cfg.Timeout = orDefault(cfg.Timeout, 5*time.Second)
	w := &Watcher{cfg: cfg, doubts: doubts{lag: cfg.Lag}, refresh: make(chan struct{}, 1), urgent: make(chan struct{}, 1), ready: make(chan struct{})}
	w.image.Store(emptyImage)
	w.status.Store(&Status{})
	w.asOf.Store(&time.Time{})
	return w
}

func orDefault[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// Image is the newest image; Version 0 until the upstream answered once. It is never nil.
func (w *Watcher) Image() *Image { return w.image.Load() }

// AsOf is a moment at which the upstream was as the image says; zero before the first answer.
func (w *Watcher) AsOf() time.Time { return *w.asOf.Load() }

// Status reports whether the upstream answers.
func (w *Watcher) Status() Status { return *w.status.Load() }

// Ready is closed when the upstream has answered once.
func (w *Watcher) Ready() <-chan struct{} { return w.ready }

// OnChange adds a listener. Listeners are called one after another from the goroutine of Run whenever topics, brokers
// or the cluster id changed, with the image already in place; they must not block.
func (w *Watcher) OnChange(f func(old, new *Image)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listeners = append(w.listeners, f)
}

// Refresh asks for a poll of all topics now, and for quick polls after it until the usual pace is reached again, because
// a change takes a moment to reach every broker. Calls that come while one is waiting are one.
func (w *Watcher) Refresh() {
	w.wanted.addAll()
	w.soon()
}

// RefreshNamed is Refresh for the named topics, the brokers, and the topics that groups need: an answer about all of many
// topics costs the upstream much. The names are asked for with the others for some time. Beyond a bound they are left
// to the questions for all topics.
func (w *Watcher) RefreshNamed(names ...string) {
	w.wanted.add(names, time.Now())
	w.soon()
}

func (w *Watcher) soon() {
	select {
	case w.refresh <- struct{}{}:
	default:
	}
}

// Renew returns when the image is no older than the call, when the upstream does not answer, or when ctx ends. It waits for
// no gap between polls: it is for moments such as an election, which are rare.
func (w *Watcher) Renew(ctx context.Context) {
	polled := make(chan struct{})
	w.mu.Lock()
	w.waiting = append(w.waiting, polled)
	w.mu.Unlock()
	select {
	case w.urgent <- struct{}{}:
	default:
	}
	select {
	case <-polled:
	case <-ctx.Done():
	}
}

// Run polls until ctx ends. It must be called once.
func (w *Watcher) Run(ctx context.Context) {
	gap := w.cfg.Interval
	for {
		w.mu.Lock()
		waiting := w.waiting
		w.waiting = nil
		w.mu.Unlock()
		began := time.Now()
		w.poll(ctx, w.wanted.takeAll() || len(waiting) > 0)
		took := time.Since(began)
		for _, polled := range waiting {
			close(polled)
		}
		if ctx.Err() != nil {
			return
		}
		wait := gap
		if w.doubts.fresh { // once for each doubt: a broker that lags is not helped by more questions
			wait = min(gap, max(w.cfg.Confirm, 2*took)) // doubts may go on coming: half of the time the upstream rests
		}
		asked, err := w.sleep(ctx, max(0, wait-took), max(w.cfg.MinGap, took))
		if err != nil {
			return
		}
		if asked {
			gap = w.cfg.MinGap
		} else {
			gap = min(2*gap, w.cfg.Interval)
		}
	}
}

// sleep waits for d, for minGap when a refresh is asked for meanwhile or for nothing when Renew waits, and reports whether
// it was.
func (w *Watcher) sleep(ctx context.Context, d, minGap time.Duration) (asked bool, err error) {
	start := time.Now()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-timer.C:
		return false, nil
	case <-w.urgent:
		return true, nil
	case <-w.refresh:
	}
	timer.Reset(max(0, minGap-time.Since(start)))
	select {
	case <-ctx.Done():
		return true, ctx.Err()
	case <-w.urgent:
		return true, nil
	case <-timer.C:
		return true, nil
	}
}

// poll asks once and takes over what is believed of the answer. Unless all topics are wanted, those that groups need may do.
func (w *Watcher) poll(ctx context.Context, all bool) {
	began := time.Now()
	snapshot, names, err := w.ask(ctx, all)
	if err == nil && len(snapshot.Brokers) == 0 {
		err = errors.New("the upstream names no brokers")
	}
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	w.note(err)
	w.counts.polled(now, now.Sub(began), err)
	if err != nil {
		return
	}
	old := w.image.Load()
	if names != nil {
		snapshot = within(old.topics, snapshot, names)
	}
	topics, changed := w.doubts.settle(old.topics, snapshot, now)
	image := old.follow(snapshot, topics, changed)
	if w.doubts.undecided() {
		w.counts.doubted.Add(1)
	}
	if names == nil {
		w.owed = !w.standsForGroups()
	}
	if names == nil && !w.owed {
		asked := w.allAt
		defer w.asOf.Store(&asked) // after the image
	}
	if image == old {
		return
	}
	w.image.Store(image)
	if old.Version == 0 {
		close(w.ready)
	}
	if old.Version == image.Version && old.ClusterID == image.ClusterID && slices.Equal(old.Brokers, image.Brokers) {
		return // only the controller: KRaft brokers name another one each time
	}
	w.mu.Lock()
	listeners := slices.Clone(w.listeners)
	w.mu.Unlock()
	for _, f := range listeners {
		f(old, image)
	}
}

// note keeps the status and logs when it changes.
func (w *Watcher) note(err error) {
	old := w.status.Load()
	if err == nil && old.Reachable {
		return
	}
	now := time.Now()
	status := &Status{Reachable: err == nil, Since: now, Err: err}
	switch {
	case err != nil && !old.Reachable && !old.Since.IsZero():
		status.Since = old.Since
	case err != nil:
		w.cfg.Logger.Warn("upstream is away", "error", err)
	case old.Since.IsZero():
		w.cfg.Logger.Info("upstream answers")
	default:
		w.cfg.Logger.Info("upstream is back", "away", now.Sub(old.Since))
	}
	w.status.Store(status)
}
