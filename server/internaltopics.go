package server

import (
	mathrand "math/rand/v2"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coordd/coordd/topicctl"
	"github.com/coordd/coordd/topology"
)

// topicMetrics are what the creation of internal topics measures.
type topicMetrics struct {
	attempts prometheus.Counter
	created  prometheus.Counter
	failed   *prometheus.CounterVec
}

func newTopicMetrics(r prometheus.Registerer, wanted func() int) *topicMetrics {
	m := &topicMetrics{
		attempts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coordd_internal_topic_creation_attempts_total", Help: "Requests to the Kafka cluster behind to create internal topics.",
		}),
		created: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coordd_internal_topics_created_total", Help: "Internal topics that were created.",
		}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coordd_internal_topic_creation_failures_total", Help: "Internal topics that an attempt did not create, by reason.",
		}, []string{"reason"}),
	}
	if r != nil {
		r.MustRegister(m.attempts, m.created, m.failed, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "coordd_internal_topics_wanted", Help: "Internal topics that groups of this node wait for.",
		}, func() float64 { return float64(wanted()) }))
	}
	return m
}

func (m *topicMetrics) observe(o topicctl.Outcome) {
	if !o.NotSent {
		m.attempts.Inc()
	}
	m.created.Add(float64(o.Created))
	for reason, n := range o.Failed {
		m.failed.WithLabelValues(reason).Add(float64(n))
	}
}

// useTopics makes what creates and compares internal topics.
func (n *Node) useTopics() {
	log := n.parts.Logger.Named("topics")
	var measured *topicMetrics
	n.creator = topicctl.NewCreator(topicctl.CreatorConfig{
		Source: n.parts.Topics, Watcher: n.watcher, Logger: log, Rand: mathrand.Float64, Verify: n.verify,
		Changed: func(group string) {
			n.shards[shardOf(group, len(n.shards))].post(input{kind: inputCreation, group: group})
		},
		Observe: func(o topicctl.Outcome) { measured.observe(o) },
	})
	var registry prometheus.Registerer
	if n.parts.Registry != nil {
		registry = n.parts.Registry
		registry.MustRegister(watchMetrics{n.watcher})
	}
	measured = newTopicMetrics(registry, n.creator.Wanted)
	if source, ok := n.parts.Topics.(topicctl.SettingsSource); ok {
		n.comparer = topicctl.NewComparer(topicctl.ComparerConfig{Source: source, Logger: log})
	}
}

// runTopics works until the node stops.
func (n *Node) runTopics() {
	n.run(func() { n.creator.Run(n.ctx) })
	if n.comparer != nil {
		n.run(func() { n.comparer.Run(n.ctx) })
	}
}

// CreationError implements shard.Host.
func (r *runner) CreationError(topic string) string { return r.node.creator.Error(topic) }

// CreateTopics implements shard.Host.
func (r *runner) CreateTopics(group string, topics []topology.InternalTopic) {
	r.node.creator.Create(group, topics)
}

// CompareTopics implements shard.Host.
func (r *runner) CompareTopics(group string, topics []topology.InternalTopic) {
	if r.node.comparer != nil {
		r.node.comparer.Compare(group, topics)
	}
}
