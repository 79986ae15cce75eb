package raftnode

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the node's metrics; gauges are read from the groups when they are collected.
type metrics struct {
	reg        prometheus.Registerer
	node       *Node
	registered bool
	elections  *prometheus.CounterVec
	restarts   prometheus.Counter
	drops      *prometheus.CounterVec
	leaders    *prometheus.CounterVec
	commits    prometheus.Histogram
}

var (
	descLeader   = desc("leader", "Whether this node leads the group and serves it.")
	descTerm     = desc("term", "Current term of the group.")
	descCommit   = desc("commit_index", "Last entry of the group known to be committed.")
	descApplied  = desc("applied_index", "Last entry of the group that the state machine holds.")
	descLast     = desc("last_index", "Last entry in this node's log of the group.")
	descFlight   = desc("proposals_in_flight", "Entries that this node proposed and whose outcome is not known yet.")
	descWritable = prometheus.NewDesc("coordd_raft_log_writable",
		"1 while this node can store entries; 0 when its log is full and the disk too, or failed.", nil, nil)
	descRoom = prometheus.NewDesc("coordd_raft_log_room",
		"1 while the disk has room for the log's next segment; 0 is the warning before the log is full.", nil, nil)
)

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("coordd_raft_"+name, help, []string{"group"}, nil)
}

func newMetrics(n *Node, reg prometheus.Registerer) *metrics {
	return &metrics{
		reg: reg, node: n,
		elections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coordd_raft_elections_total",
			Help: "Elections that this node won, by whether the former leader had handed over.",
		}, []string{"planned"}),
		restarts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coordd_raft_watchdog_restarts_total",
			Help: "Groups that gave leadership up because they could not commit.",
		}),
		drops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coordd_raft_connections_dropped_total",
			Help: "Connections to the raft port that were not served, by cause.",
		}, []string{"cause"}),
		leaders: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coordd_raft_leader_changes_total",
			Help: "Changes of the group's leader that this node saw, to another node, to itself or to nobody.",
		}, []string{"group"}),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "coordd_raft_commit_duration_seconds",
			Help:    "Time from the proposal of an entry to its application on this node, the leader.",
			Buckets: prometheus.ExponentialBuckets(250e-6, 2, 14), // 250 µs to 2 s
		}),
	}
}

func (m *metrics) register() error {
	if m.reg == nil {
		return nil
	}
	err := m.reg.Register(m)
	m.registered = err == nil
	return err
}

func (m *metrics) elected(planned bool) {
	m.elections.WithLabelValues(strconv.FormatBool(planned)).Inc()
}

// owned are the metrics that are counted as things happen.
func (m *metrics) owned() []prometheus.Collector {
	return []prometheus.Collector{m.elections, m.restarts, m.drops, m.leaders, m.commits}
}

func (m *metrics) leaderChanged(group uint32) {
	m.leaders.WithLabelValues(strconv.Itoa(int(group))).Inc()
}

func (m *metrics) restarted() { m.restarts.Inc() }

func (m *metrics) droppedConn(cause string) { m.drops.WithLabelValues(cause).Inc() }

func (m *metrics) unregister() {
	if m.registered {
		m.reg.Unregister(m)
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descLeader, descTerm, descCommit, descApplied, descLast, descFlight, descWritable, descRoom} {
		ch <- d
	}
	for _, c := range m.owned() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	noRoom, _ := m.node.entries.Room()
	ch <- prometheus.MustNewConstMetric(descWritable, prometheus.GaugeValue, number(m.node.Storage() == nil))
	ch <- prometheus.MustNewConstMetric(descRoom, prometheus.GaugeValue, number(noRoom == nil))
	for _, g := range m.node.groups {
		s, id := g.Status(), strconv.Itoa(int(g.id))
		for d, v := range map[*prometheus.Desc]float64{
			descLeader: number(s.Serving), descTerm: float64(s.Term), descCommit: float64(s.CommitIndex),
			descApplied: float64(s.AppliedIndex), descLast: float64(s.LastIndex), descFlight: float64(g.inFlight()),
		} {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, id)
		}
	}
	for _, c := range m.owned() {
		c.Collect(ch)
	}
}

// number is 1 for yes.
func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
