package server

import (
	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/loglimit"
)

// observer writes the log line and counts the metric of what happens in shards: one line for each change of a group's
// state, each new group epoch and each failure; for what members are refused at most one a second and code, since members
// may try again at once; none for a steady heartbeat.
type observer struct {
	log        hclog.Logger
	rebalances *prometheus.CounterVec
	errors     *prometheus.CounterVec

	refused loglimit.Limit[coordinator.Code]
}

func newObserver(log hclog.Logger, registry *prometheus.Registry) *observer {
	o := &observer{
		log: log,
		rebalances: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coordd_streams_group_rebalances_total", Help: "New epochs of streams groups on this node, by the first cause.",
		}, []string{"cause"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coordd_group_errors_total", Help: "Errors answered to members, by error code.",
		}, []string{"code"}),
	}
	for _, cause := range streams.CauseLabels() {
		o.rebalances.WithLabelValues(cause) // so that a rate sees the first one
	}
	if registry != nil {
		registry.MustRegister(o.rebalances, o.errors)
	}
	return o
}

// recordsSkipped makes the log line for records of types that this release does not know; "of" says whose they are. A
// replica that replays its log meets many of them.
func (n *Node) recordsSkipped(of string) func(records int) {
	limit := &loglimit.Limit[struct{}]{}
	return func(records int) {
		if more, ok := limit.Pass(struct{}{}); ok {
			n.log.Warn("records of unknown types left out: a newer release wrote them", "of", of, "records", records, "more-entries", more)
		}
	}
}

func (o *observer) event(number uint32, e shard.Event) {
	switch {
	case e.Failed != nil:
		o.log.Error("a decision failed", "group", e.Group, "error", e.Failed)
	case e.Refused != nil:
		o.errors.WithLabelValues(codeLabel(e.Refused.Code)).Inc()
		if skipped, ok := o.refused.Pass(e.Refused.Code); ok {
			o.log.Warn("refused", "group", e.Group, "member", e.Member, "code", int(e.Refused.Code), "reason", e.Refused.Message,
				"left-out", skipped)
		}
	case e.Cause.Kinds != 0:
		o.rebalances.WithLabelValues(e.Cause.Kinds.Label()).Inc()
		o.log.Info("new group epoch", "group", e.Group, "epoch", e.Cause.Epoch, "cause", e.Cause.Kinds.String(),
			"member", e.Cause.MemberID, "host", e.Cause.Host, "detail", e.Cause.Detail)
	case e.Expired:
		o.log.Info("group deleted: it had no members for offsets.retention.minutes", "group", e.Group)
	default:
		o.log.Info("group state", "group", e.Group, "shard", number, "from", string(e.Before), "to", string(e.After))
	}
}
