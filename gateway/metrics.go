package gateway

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	connections prometheus.Gauge
	upstreams   prometheus.Gauge
	hops        prometheus.Counter
	parked      prometheus.Counter
	refused     prometheus.Counter
}

func (m *metrics) init(r prometheus.Registerer) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "coordd", Subsystem: "gateway", Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "coordd", Subsystem: "gateway", Name: name, Help: help})
	}
	m.connections = gauge("client_connections", "Client connections that are open.")
	m.upstreams = gauge("upstream_connections", "Connections to upstream brokers that are open on behalf of clients.")
	m.hops = counter("hops_total", "Group requests sent on to the node that leads their shard.")
	m.parked = counter("parked_total", "Group requests that had to wait for a leader of their shard.")
	m.refused = counter("refused_total", "Connections closed for a malformed or unsupported request.")
	if r != nil {
		r.MustRegister(m.connections, m.upstreams, m.hops, m.parked, m.refused)
	}
}
