package server

import (
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/loglimit"
	"github.com/coordd/coordd/topology"
)

// observer writes the log line and counts the metric of what happens in shards: one line for each change of a group's
// state and each new group epoch; for failures at most one a second and group, and for what members are refused one a second
// and code, since both are tried again, maybe at once; none for a steady heartbeat. Names are cut: clients choose them.
type observer struct {
	log        hclog.Logger
	rebalances *prometheus.CounterVec
	errors     *prometheus.CounterVec

	refused loglimit.Limit[coordinator.Code]
	failed  loglimit.Limit[string]
	// transactional counts commits of transactions to groups whose offsets are in the log.
	transactional loglimit.Limit[string]
}

// maxLogged bounds a name or explanation in a line of the log, in bytes.
const maxLogged = 256

func cut(s string) string {
	if len(s) <= maxLogged {
		return s
	}
	return strings.ToValidUTF8(s[:maxLogged], "") + "…"
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
		if skipped, ok := o.failed.Pass(cut(e.Group)); ok {
			o.log.Error("a decision failed", "group", cut(e.Group), "error", e.Failed, "left-out", skipped)
		}
	case e.Refused != nil:
		o.errors.WithLabelValues(codeLabel(e.Refused.Code)).Inc()
		if skipped, ok := o.refused.Pass(e.Refused.Code); ok {
			o.log.Warn("refused", "group", cut(e.Group), "member", cut(e.Member), "code", int(e.Refused.Code), "reason", cut(e.Refused.Message),
				"left-out", skipped)
		}
	case e.Cause.Kinds != 0:
		o.rebalances.WithLabelValues(e.Cause.Kinds.Label()).Inc()
		o.log.Info("new group epoch", "group", cut(e.Group), "epoch", e.Cause.Epoch, "cause", e.Cause.Kinds.String(),
			"member", cut(e.Cause.MemberID), "host", e.Cause.Host, "detail", cut(e.Cause.Detail))
	case e.Grace != nil:
		o.grace(e.Group, e.Grace)
	case e.Unreported != nil:
		o.log.Warn("warm-ups count as caught up: nothing was reported by which it is known how far behind they are; their tasks move now, and "+
			"their member may have to restore them first", "group", cut(e.Group), "member", cut(e.Unreported.Member), "tasks", cut(taskList(e.Unreported.Tasks)),
			"after", time.Duration(e.Unreported.AfterMs)*time.Millisecond)
	case e.Stalled != nil:
		o.log.Warn("a warm-up makes no progress, others come first: look at its member's log and disk, and at the changelog's leaders", "group", cut(e.Group), "member", cut(e.Stalled.Member),
			"task", cut(taskList(topology.NewTasks(e.Stalled.Task))), "offset", e.Stalled.Offset, "end", e.Stalled.End,
			"after", time.Duration(e.Stalled.AfterMs)*time.Millisecond)
	case e.Kept:
		o.log.Info("new group keeps its committed offsets upstream although offsets.store is raft: there is a group of that id already, which may "+
			"have some; while the group has no members `coordd groups offsets GROUP --move-to raft` moves them", "group", cut(e.Group))
	case e.Hindered != "":
		o.log.Warn("new group keeps its committed offsets upstream although offsets.store is raft; while the group has no members `coordd groups offsets "+
			"GROUP --move-to raft` moves them once all nodes are of a release that can", "group", cut(e.Group), "reason", e.Hindered)
	case e.Transactional:
		if skipped, ok := o.transactional.Pass(cut(e.Group)); ok {
			o.log.Warn("refused a transactional commit: the group's offsets are in coordd's log (offsets.store=raft), which takes no part in Kafka's "+
				"transactions; stop the app, run `coordd groups offsets GROUP --move-to upstream`, and start it again", "group", cut(e.Group),
				"left-out", skipped)
		}
	case e.Moved != nil:
		o.log.Info("offsets of a group moved on an operator's request", "group", cut(e.Group), "from", e.Moved.From.String(), "to", e.Moved.To.String(),
			"offsets", e.Moved.Offsets, "left", e.Moved.Left)
	case e.Expired:
		o.log.Info("group deleted: it had no members for offsets.retention.minutes", "group", cut(e.Group))
	default:
		o.log.Info("group state", "group", cut(e.Group), "shard", number, "from", string(e.Before), "to", string(e.After))
	}
}

// maxTasksLogged is how many tasks a line names.
const maxTasksLogged = 10

func taskList(tasks topology.Tasks) string {
	var names []string
	for t := range tasks.All() {
		if len(names) == maxTasksLogged {
			return fmt.Sprintf("%s and %d more", strings.Join(names, " "), tasks.Len()-len(names))
		}
		names = append(names, fmt.Sprintf("%s_%d", t.Subtopology, t.Partition))
	}
	return strings.Join(names, " ")
}

// grace writes that a group begins or ends to go on although its topics do not fit.
func (o *observer) grace(group string, g *streams.GraceChange) {
	length := time.Duration(g.LengthMs) * time.Millisecond
	switch {
	case g.Began:
		o.log.Warn("topics do not fit: the group goes on with the partition counts of before", "group", cut(group), "for", length, "problem", cut(g.Problem))
	case g.Ready:
		o.log.Info("topics fit again", "group", cut(group), "after", length)
	default:
		o.log.Warn("topics have not fitted for too long: the group no longer goes on", "group", cut(group), "after", length, "problem", cut(g.Problem))
	}
}
