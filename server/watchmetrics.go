package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coordd/coordd/topicctl"
)

// watchMetrics tells how the watch of the upstream's topics fares. It is a prometheus.Collector.
type watchMetrics struct{ watcher *topicctl.Watcher }

var (
	descTopics = prometheus.NewDesc("coordd_topics",
		"Topics of the upstream as this node sees them.", nil, nil)
	descTopicChanges = prometheus.NewDesc("coordd_topics_changes_total",
		"Answers of the upstream by which topics came, went or became different.", nil, nil)
	descTopicPolls = prometheus.NewDesc("coordd_topics_polls_total",
		"Questions to the upstream for its topics.", nil, nil)
	descTopicFailures = prometheus.NewDesc("coordd_topics_poll_failures_total",
		"Questions for topics without a good answer.", nil, nil)
	descTopicDoubts = prometheus.NewDesc("coordd_topics_answers_doubted_total",
		"Answers of which something was not believed yet.", nil, nil)
	descTopicSeconds = prometheus.NewDesc("coordd_topics_poll_seconds_total",
		"Time spent on questions for topics, most of it waiting for the upstream.", nil, nil)
	descTopicAge = prometheus.NewDesc("coordd_topics_answer_age_seconds",
		"Time since the last good answer; missing before the first.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m watchMetrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements prometheus.Collector.
func (m watchMetrics) Collect(ch chan<- prometheus.Metric) {
	tell := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
		ch <- prometheus.MustNewConstMetric(d, kind, v)
	}
	image, counts := m.watcher.Image(), m.watcher.Counts()
	tell(descTopics, prometheus.GaugeValue, float64(image.NumTopics()))
	tell(descTopicChanges, prometheus.CounterValue, float64(image.Version))
	tell(descTopicPolls, prometheus.CounterValue, float64(counts.Polls))
	tell(descTopicFailures, prometheus.CounterValue, float64(counts.Failures))
	tell(descTopicDoubts, prometheus.CounterValue, float64(counts.Doubted))
	tell(descTopicSeconds, prometheus.CounterValue, counts.Busy.Seconds())
	if !counts.Answered.IsZero() {
		tell(descTopicAge, prometheus.GaugeValue, time.Since(counts.Answered).Seconds())
	}
}
