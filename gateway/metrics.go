package gateway

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

type metrics struct {
	connections prometheus.Gauge
	upstreams   prometheus.Gauge
	hops        prometheus.Counter
	parked      prometheus.Counter
	refused     prometheus.Counter
	answers     answers
}

func (m *metrics) init(g *Gateway, r prometheus.Registerer) {
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
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "coordd", Subsystem: "gateway", Name: "waiting_connections",
		Help: "Client connections that wait for an answer, most of them for that to a held heartbeat.",
	}, func() float64 { return float64(g.waiting()) })
	m.refused = counter("refused_total", "Connections closed for a malformed or unsupported request.")
	if r != nil {
		r.MustRegister(m.connections, waiting, m.upstreams, m.hops, m.parked, m.refused, &m.answers)
	}
}

// waiting is the number of client connections with a request that is not answered.
func (g *Gateway) waiting() (n int) {
	for _, c := range g.connections() {
		c.mu.Lock()
		if c.inflight > 0 {
			n++
		}
		c.mu.Unlock()
	}
	return n
}

// latencyBounds are the upper bounds of the buckets for the time of an answer.
var latencyBounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
}

// latency counts durations in fixed buckets: two atomic additions each, and no allocation. (The histogram of
// client_golang costs several times as much, which a steady heartbeat would feel.)
type latency struct {
	buckets [len(latencyBounds) + 1]atomic.Uint64
	sum     atomic.Int64 // nanoseconds
}

// observe counts n answers that each took d.
func (l *latency) observe(d time.Duration, n int) {
	i := 0
	for i < len(latencyBounds) && d > latencyBounds[i] {
		i++
	}
	l.buckets[i].Add(uint64(n))
	l.sum.Add(int64(d) * int64(n))
}

// latencies is what a scrape sees of one or several latencies.
type latencies struct {
	buckets [len(latencyBounds) + 1]uint64
	sum     time.Duration
}

func (s *latencies) add(l *latency) (count uint64) {
	for i := range l.buckets {
		n := l.buckets[i].Load()
		s.buckets[i] += n
		count += n
	}
	s.sum += time.Duration(l.sum.Load())
	return count
}

func (s *latencies) metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	upTo := make(map[float64]uint64, len(latencyBounds))
	count := uint64(0)
	for i, bound := range latencyBounds {
		count += s.buckets[i]
		upTo[bound.Seconds()] = count
	}
	count += s.buckets[len(latencyBounds)]
	return prometheus.MustNewConstHistogram(desc, count, s.sum.Seconds(), upTo, labels...)
}

// maxKey is the largest API key that is served.
const maxKey = 127

// answers counts the answers that this gateway gave itself, by API and outcome. It is a prometheus.Collector. Answers
// with an error are timed apart, so that the number of those without one, too, only ever rises.
type answers struct {
	good, bad [maxKey + 1]latency
	held      [maxKey + 1]atomic.Uint64 // answers without an error and without a time

	mu    sync.Mutex
	codes map[answerKind]uint64 // of all with an error
}

type answerKind struct {
	key  int16
	code coordinator.Code
}

// failed counts an answer with an error code.
func (a *answers) failed(key int16, code coordinator.Code, d time.Duration) {
	if key < 0 || key > maxKey {
		return
	}
	a.bad[key].observe(d, 1)
	a.code(key, code)
}

func (a *answers) code(key int16, code coordinator.Code) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.codes == nil {
		a.codes = map[answerKind]uint64{}
	}
	a.codes[answerKind{key, code}]++
}

// untimed counts an answer whose time says nothing.
func (a *answers) untimed(key int16, code coordinator.Code) {
	switch {
	case key < 0 || key > maxKey:
	case code != coordinator.None:
		a.code(key, code)
	default:
		a.held[key].Add(1)
	}
}

// done counts n answers without an error that each took d.
func (a *answers) done(key int16, d time.Duration, n int) {
	if key >= 0 && key <= maxKey {
		a.good[key].observe(d, n)
	}
}

var (
	descLatency = prometheus.NewDesc("coordd_gateway_request_duration_seconds",
		"Time from reading a request to its answer, of the requests that coordd answers itself and does not hold back.", []string{"api"}, nil)
	descRequests = prometheus.NewDesc("coordd_gateway_requests_total",
		"Requests that coordd answered itself, by the first error code in the answer; 0 for none.", []string{"api", "code"}, nil)
)

// Describe implements prometheus.Collector.
func (a *answers) Describe(ch chan<- *prometheus.Desc) {
	ch <- descLatency
	ch <- descRequests
}

// Collect implements prometheus.Collector.
func (a *answers) Collect(ch chan<- prometheus.Metric) {
	requests := func(key int16, code coordinator.Code, n uint64) {
		ch <- prometheus.MustNewConstMetric(descRequests, prometheus.CounterValue, float64(n), apiName(key), strconv.Itoa(int(code)))
	}
	for key := range int16(maxKey + 1) {
		var all latencies
		good := all.add(&a.good[key])
		bad, held := all.add(&a.bad[key]), a.held[key].Load()
		if good+bad+held == 0 {
			continue
		}
		ch <- all.metric(descLatency, apiName(key))
		requests(key, coordinator.None, good+held)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for kind, n := range a.codes {
		requests(kind.key, kind.code, n)
	}
}

func apiName(key int16) string {
	if api, ok := protocol.Lookup(key); ok {
		return api.Name
	}
	return strconv.Itoa(int(key))
}
