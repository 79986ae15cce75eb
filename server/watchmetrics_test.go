package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/coordd/coordd/topicctl"
	"github.com/coordd/coordd/topology"
)

// twoTopics is an upstream that answers at first, then leaves a topic out, then is away.
type twoTopics struct {
	topicctl.Source
	polls int
}

func (s *twoTopics) Metadata(context.Context) (*topicctl.Snapshot, error) {
	s.polls++
	topics := []topology.Topic{{Name: "a", Partitions: 1}, {Name: "b", Partitions: 1}}
	switch {
	case s.polls == 2:
		topics = topics[:1]
	case s.polls > 3:
		return nil, errors.New("refused")
	}
	return &topicctl.Snapshot{Brokers: []topicctl.Broker{{ID: 1}}, Topics: topics}, nil
}

func TestTheWatchOfTopicsIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := topicctl.NewWatcher(topicctl.WatcherConfig{Source: &twoTopics{}, Interval: time.Second, Confirm: time.Second})
		registry := prometheus.NewRegistry()
		registry.MustRegister(watchMetrics{w})
		if n := testutil.CollectAndCount(watchMetrics{w}, "coordd_topics_answer_age_seconds"); n != 0 {
			t.Error("the age of an answer that never came")
		}
		ctx, cancel := context.WithCancel(context.Background())
		go w.Run(ctx)
		time.Sleep(4500 * time.Millisecond) // polls at 0, 1, 2, 3 and 4 s
		synctest.Wait()
		if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP coordd_topics Topics of the upstream as this node sees them.
# TYPE coordd_topics gauge
coordd_topics 2
# HELP coordd_topics_answer_age_seconds Time since the last good answer; missing before the first.
# TYPE coordd_topics_answer_age_seconds gauge
coordd_topics_answer_age_seconds 2.5
# HELP coordd_topics_answers_doubted_total Answers of which something was not believed yet.
# TYPE coordd_topics_answers_doubted_total counter
coordd_topics_answers_doubted_total 1
# HELP coordd_topics_changes_total Answers of the upstream by which topics came, went or became different.
# TYPE coordd_topics_changes_total counter
coordd_topics_changes_total 1
# HELP coordd_topics_poll_failures_total Questions for topics without a good answer.
# TYPE coordd_topics_poll_failures_total counter
coordd_topics_poll_failures_total 2
# HELP coordd_topics_poll_seconds_total Time spent on questions for topics, most of it waiting for the upstream.
# TYPE coordd_topics_poll_seconds_total counter
coordd_topics_poll_seconds_total 0
# HELP coordd_topics_polls_total Questions to the upstream for its topics.
# TYPE coordd_topics_polls_total counter
coordd_topics_polls_total 5
`)); err != nil {
			t.Error(err)
		}
		cancel()
	})
}
