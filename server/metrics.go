package server

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
)

// shardMetrics are what the shards of a node measure. docs/metrics.md lists them with Kafka's names.
type shardMetrics struct {
	decisions prometheus.Histogram
	records   prometheus.Histogram
	bytes     prometheus.Histogram
	commits   prometheus.Counter
	deletions prometheus.Counter
	// expirations counts those in the log only: the cluster behind expires its own.
	expirations prometheus.Counter
}

func newShardMetrics(r prometheus.Registerer) *shardMetrics {
	m := &shardMetrics{
		decisions: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "coordd_shard_decision_duration_seconds",
			Help:    "Time of one step of a shard that decided to write records.",
			Buckets: prometheus.ExponentialBuckets(20e-6, 4, 10), // 20 µs to 5 s
		}),
		records: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "coordd_shard_entry_records", Help: "Records of one log entry of a shard.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 8), // 1 to 16,384
		}),
		bytes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "coordd_shard_entry_size_bytes", Help: "Size of one log entry of a shard.",
			Buckets: prometheus.ExponentialBuckets(256, 4, 7), // 256 B to 1 MiB
		}),
		commits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coordd_offset_commits_total", Help: "Offsets of partitions that streams groups committed.",
		}),
		deletions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coordd_offset_deletions_total", Help: "Offsets of partitions of streams groups that were deleted on request.",
		}),
		expirations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coordd_offset_expirations_total", Help: "Offsets of partitions in coordd's log that expired, or went with their topic.",
		}),
	}
	if r != nil {
		r.MustRegister(m.decisions, m.records, m.bytes, m.commits, m.deletions, m.expirations)
	}
	return m
}

// measure makes the node's metrics.
func (n *Node) measure() {
	if n.parts.Registry == nil {
		n.measured = newShardMetrics(nil)
		return
	}
	n.measured = newShardMetrics(n.parts.Registry)
	n.parts.Registry.MustRegister(&groupMetrics{node: n})
}

func (m *shardMetrics) committed(r *offsets.CommitResponse) { m.commits.Add(succeeded(r.Topics)) }

// logged counts what became of offsets in the log.
func (m *shardMetrics) logged(c shard.OffsetCounts) {
	m.commits.Add(float64(c.Committed))
	m.deletions.Add(float64(c.Deleted))
	m.expirations.Add(float64(c.Expired))
}

func (m *shardMetrics) deleted(r *offsets.DeleteResponse) { m.deletions.Add(succeeded(r.Topics)) }

// succeeded is the number of partitions without an error.
func succeeded(topics []offsets.CommitTopicResult) float64 {
	n := 0
	for _, t := range topics {
		for _, p := range t.Partitions {
			if p.Code == coordinator.None {
				n++
			}
		}
	}
	return float64(n)
}

// groupMetrics counts the groups of the shards that this node leads, when it is asked: a heartbeat pays nothing for it. It
// is a prometheus.Collector.
type groupMetrics struct {
	node *Node

	mu   sync.Mutex
	seen map[uint32]census
}

// census is what there was in a shard at a state.
type census struct {
	state   fsm.State
	states  map[streams.GroupState]int
	members int
	offsets int // in the log
	grace   int // groups that go on although their topics do not fit
}

// allStates are the states of a streams group; each is told, also where no group is in it.
var allStates = []streams.GroupState{streams.StateEmpty, streams.StateNotReady, streams.StateAssigning,
	streams.StateReconciling, streams.StateStable, streams.StateDead}

var (
	descGroups = prometheus.NewDesc("coordd_groups",
		"Groups that this node coordinates, by protocol.", []string{"protocol"}, nil)
	descStreamsGroups = prometheus.NewDesc("coordd_streams_groups",
		"Streams groups that this node coordinates, by state.", []string{"state"}, nil)
	descGrace = prometheus.NewDesc("coordd_streams_groups_in_grace",
		"Streams groups that go on with the partition counts of before although their topics are missing or do not fit.", nil, nil)
	descShardGroups = prometheus.NewDesc("coordd_shard_groups",
		"Groups of a shard, told by its leader.", []string{"shard"}, nil)
	descShardMembers = prometheus.NewDesc("coordd_shard_members",
		"Members of the groups of a shard, told by its leader.", []string{"shard"}, nil)
	descShardOffsets = prometheus.NewDesc("coordd_shard_offsets",
		"Committed offsets in the log of a shard, told by its leader.", []string{"shard"}, nil)
	descShardQueue = prometheus.NewDesc("coordd_shard_queue_length",
		"Requests and other inputs that wait for their turn in a shard, told by its leader.", []string{"shard"}, nil)
	descShardHeld = prometheus.NewDesc("coordd_shard_held_heartbeats",
		"Heartbeats whose answers the leader of a shard holds back now.", []string{"shard"}, nil)
)

// Describe implements prometheus.Collector.
func (g *groupMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descGroups, descStreamsGroups, descGrace, descShardGroups, descShardMembers, descShardOffsets, descShardQueue, descShardHeld} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g *groupMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int, label string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), label)
	}
	groups, grace, states := 0, 0, map[streams.GroupState]int{}
	for number, r := range g.node.shards {
		if leader, ok := (coordinators{g.node}).Leader(uint32(number)); !ok || leader != g.node.config.NodeID {
			g.forget(uint32(number))
			continue
		}
		c := g.count(uint32(number), r.replica.State())
		total := 0
		for state, n := range c.states {
			states[state] += n
			total += n
		}
		groups += total
		grace += c.grace
		shard := strconv.Itoa(number)
		gauge(descShardGroups, total, shard)
		gauge(descShardMembers, c.members, shard)
		gauge(descShardOffsets, c.offsets, shard)
		gauge(descShardQueue, r.queueLength(), shard)
		gauge(descShardHeld, int(r.held.Load()), shard)
	}
	gauge(descGroups, groups, "streams")
	ch <- prometheus.MustNewConstMetric(descGrace, prometheus.GaugeValue, float64(grace))
	for _, state := range allStates {
		gauge(descStreamsGroups, states[state], string(state))
	}
}

// count visits the groups of a shard unless nothing has changed since it did.
func (g *groupMetrics) count(shard uint32, state fsm.State) census {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c, ok := g.seen[shard]; ok && c.state == state {
		return c
	}
	c := census{state: state, states: map[streams.GroupState]int{}}
	for group := range state.Groups() {
		c.states[streams.StateOf(group)]++
		c.members += group.NumMembers()
		c.offsets += group.NumOffsets()
		if streams.InGrace(group) {
			c.grace++
		}
	}
	if g.seen == nil {
		g.seen = map[uint32]census{}
	}
	g.seen[shard] = c
	return c
}

// forget drops what was counted in a shard that this node no longer leads.
func (g *groupMetrics) forget(shard uint32) {
	g.mu.Lock()
	delete(g.seen, shard)
	g.mu.Unlock()
}

// queueLength is how much waits for its turn.
func (r *runner) queueLength() int {
	r.mu.Lock()
	waiting := len(r.inbox)
	r.mu.Unlock()
	return waiting + int(r.queued.Load())
}

// stepped measures a step of the machine that began at a time of the clock: one that decided to write is timed, which
// leaves the steady heartbeats out.
func (r *runner) stepped(began time.Duration, pending int) {
	if now := r.machine.Pending(); now > pending {
		r.node.measured.decisions.Observe((r.node.clock.elapsed() - began).Seconds())
	}
}

// flush ends a run of steps.
func (r *runner) flush() {
	r.machine.Flush()
	note(&r.queued, r.machine.Waiting())
	note(&r.held, r.machine.Held())
}

// note writes only what is new, so that a gauge costs a run of steps nothing where nothing changed.
func note(gauge *atomic.Int64, now int) {
	if n := int64(now); n != gauge.Load() {
		gauge.Store(n)
	}
}
