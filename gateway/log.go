package gateway

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
)

// causeLog writes at most one line a second for each cause: what clients send must not fill the log.
type causeLog struct {
	logger hclog.Logger
	mu     sync.Mutex
	last   map[string]*causeCount
}

type causeCount struct {
	at         time.Time
	suppressed int
}

// note logs a warning. cause is one of a fixed set of words.
func (l *causeLog) note(cause, msg string, args ...any) {
	now := time.Now()
	l.mu.Lock()
	if l.last == nil {
		l.last = map[string]*causeCount{}
	}
	c := l.last[cause]
	if c == nil {
		c = &causeCount{}
		l.last[cause] = c
	}
	if now.Sub(c.at) < time.Second {
		c.suppressed++
		l.mu.Unlock()
		return
	}
	suppressed := c.suppressed
	c.at, c.suppressed = now, 0
	l.mu.Unlock()
	if suppressed > 0 {
		args = append(args, "more of these since the last line", suppressed)
	}
	l.logger.Warn(msg, args...)
}

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
