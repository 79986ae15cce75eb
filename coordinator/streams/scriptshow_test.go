package streams

import (
	"fmt"
	"strings"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

func showHistory(g *fsm.Group) (out string) {
	for _, v := range TopologyHistory(g) {
		out += fmt.Sprintf("%d declared=%d since=%d", v.Epoch, v.Declared, v.SinceMs)
		if v.Content != nil {
			out += fmt.Sprintf(" subtopologies=%d", len(v.Content.Subtopologies))
		}
		if v.Current {
			out += " current"
		}
		if v.Restores != -1 {
			out += fmt.Sprintf(" restores=%d", v.Restores)
		}
		if v.Aborted {
			out += " aborted"
		}
		if v.Foreign {
			out += " foreign"
		}
		out += fmt.Sprintf(" members=%v\n", v.Members)
	}
	return out
}

func (s *script) show(d *Decision, reply bool) (out string) {
	for _, r := range d.Records {
		if (r.Key.Type != record.TypeJournalEntry || s.journal) && (r.Key.Type != record.TypeGroupTopics || s.numbers) {
			out += showRecord(r) + "\n"
		}
	}
	if d.Cause.Kinds != 0 {
		out += fmt.Sprintf("cause: epoch %d: %s", d.Cause.Epoch, d.Cause.Kinds)
		for _, by := range []string{d.Cause.MemberID, d.Cause.InstanceID, d.Cause.Host, d.Cause.Detail} {
			if by != "" {
				out += ", " + by
			}
		}
		out += "\n"
	}
	if g := d.Grace; g != nil {
		out += fmt.Sprintf("grace: began=%t ready=%t length=%d %s\n", g.Began, g.Ready, g.LengthMs, g.Problem)
	}
	if d.Doubt {
		out += "doubt\n"
	}
	out += showEffects(d.Effects)
	if reply {
		out += showReply(&d.Reply) + "\n"
		if d.Reply.Err == nil && s.settings.RebalanceHeartbeatIntervalMs > 0 && d.Reply.MemberEpoch > 0 {
			out += fmt.Sprintf("   interval=%d\n", d.Reply.HeartbeatIntervalMs)
		}
		if h := d.Holding; s.mayHold && h.Keeps && !h.News && !h.Expects {
			out += "   may be held\n"
		}
	}
	return out
}

func (s *script) describe() string {
	env := s.env()
	d := Describe(s.group(), s.soft, &env, testGroup)
	if d.Err != nil {
		return d.Err.Error() + "\n"
	}
	out := fmt.Sprintf("%s epoch=%d assignment-epoch=%d assignor=%s\n", d.State, d.Epoch, d.AssignmentEpoch, d.AssignorName)
	if d.Topology != nil {
		for _, sub := range d.Topology.Subtopologies {
			out += fmt.Sprintf("sub %s sources=%v sinks=%v repartition=%s changelogs=%s\n", sub.ID, sub.SourceTopics,
				sub.RepartitionSinkTopics, showInternal(sub.RepartitionSourceTopics), showInternal(sub.StateChangelogTopics))
		}
	}
	for _, m := range d.Members {
		out += fmt.Sprintf("%s epoch=%d process=%s %s target %s", m.MemberID, m.MemberEpoch, m.Meta.ProcessID,
			showAssignment(m.Assigned, false), showAssignment(m.Target, false))
		out += showMeta(m.Meta, d.Topology)
		for _, o := range m.TaskOffsets {
			out += fmt.Sprintf(" offset %s_%d:%d", o.Subtopology, o.Partition, o.Offset)
		}
		for _, o := range m.TaskEndOffsets {
			out += fmt.Sprintf(" end %s_%d:%d", o.Subtopology, o.Partition, o.Offset)
		}
		out += "\n"
	}
	return out
}

// showMeta shows what a member does not have by default.
func showMeta(m *record.MemberMetadata, t *topology.Topology) (out string) {
	if m.InstanceID != nil {
		out += " instance=" + *m.InstanceID
	}
	if m.RackID != nil {
		out += " rack=" + *m.RackID
	}
	if m.UserEndpoint != nil {
		out += fmt.Sprintf(" endpoint=%s:%d", m.UserEndpoint.Host, m.UserEndpoint.Port)
	}
	for _, tag := range m.ClientTags {
		out += fmt.Sprintf(" tag %s:%s", tag.Key, tag.Value)
	}
	if t != nil && m.TopologyEpoch != t.Epoch {
		out += fmt.Sprintf(" topology=%d", m.TopologyEpoch)
	}
	return out
}

func showInternal(list []topology.InternalTopic) string {
	var parts []string
	for _, t := range list {
		parts = append(parts, fmt.Sprintf("%s/%d", t.Name, t.Partitions))
	}
	return "[" + strings.Join(parts, " ") + "]"
}
