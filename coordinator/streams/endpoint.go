package streams

import (
	"cmp"
	"slices"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// noEndpoints is the list of a group without endpoints: present, empty.
var noEndpoints = []EndpointPartitions{}

// largeGroup is the number of members from which on changes of endpoints are collected.
const largeGroup = 100

// endpointPause is the least time between two endpoint epochs of a large group, in milliseconds. Each epoch makes a list
// with an entry for every member and sends it to every member; while a large group rebalances, every heartbeat changes it.
func endpointPause(g *fsm.Group) int64 {
	n := numMembers(g)
	if n < largeGroup {
		return 0
	}
	return int64(n / 10)
}

// endpoints sets the endpoint epoch of the response, and the list where the member has not seen that epoch yet. The join
// that creates a group is told the epoch 0 even when it brings an endpoint, as in Kafka, but has its list compared with
// the epoch that the endpoint makes.
func (h *heartbeat) endpoints(d *Decision, next *record.CurrentAssignment) {
	var epoch int32
	if h.soft != nil {
		epoch = h.soft.EndpointEpoch
		switch {
		case !h.soft.EndpointsStale && !h.endpointChanged(next):
		case h.env.Now-h.soft.endpointsAt < endpointPause(h.group):
			d.Soft.EndpointsStale = true
		default:
			epoch++
			d.Soft.EndpointsChanged, d.Soft.EndpointEpoch, d.Soft.endpointsAt = true, epoch, h.env.Now
		}
	}
	d.Reply.EndpointEpoch = epoch
	seen := epoch
	if h.soft == nil && h.meta.UserEndpoint != nil {
		seen++
	}
	if seen == h.req.EndpointEpoch {
		return
	}
	if h.soft != nil && h.soft.endpoints != nil && h.soft.endpointsEpoch == epoch && h.soft.endpointsOf == h.topics.Configured {
		d.Reply.Endpoints = h.soft.endpoints
		return
	}
	list := h.endpointList(next)
	d.Reply.Endpoints = list
	d.Soft.endpoints, d.Soft.endpointsEpoch, d.Soft.endpointsOf = list, epoch, h.topics.Configured
}

// endpointChanged reports whether this heartbeat changes what is to be found at the member's endpoint.
func (h *heartbeat) endpointChanged(next *record.CurrentAssignment) bool {
	if !equalPtr(h.oldMeta.UserEndpoint, h.meta.UserEndpoint) {
		return true
	}
	return h.meta.UserEndpoint != nil && next != h.current && !next.Assigned.Equal(h.current.Assigned)
}

// endpointList has an entry for each member with an endpoint, sorted by member id. Several members of a process may
// have the same endpoint; clients unite their entries. What a task reads is as in the topology that its member runs; a member
// of one that the group does not know has no entry.
func (h *heartbeat) endpointList(next *record.CurrentAssignment) []EndpointPartitions {
	list := noEndpoints
	add := func(meta *record.MemberMetadata, c *record.CurrentAssignment) {
		if meta.UserEndpoint == nil {
			return
		}
		if t := h.line.content(meta.TopologyEpoch); t != nil {
			list = append(list, EndpointPartitions{
				Endpoint: *meta.UserEndpoint,
				Active:   h.partitionsOf(t, c.Assigned.Active),
				Standby:  h.partitionsOf(t, c.Assigned.Standby, c.Assigned.Warmup),
			})
		}
	}
	added := false
	if h.group != nil {
		for m := range h.group.Members() {
			if !added && m.ID >= h.memberID {
				add(h.meta, next)
				added = true
			}
			if m.ID == h.memberID || h.replaced != nil && m.ID == h.replaced.ID {
				continue
			}
			add(metaOf(m), currentOf(m))
		}
	}
	if !added {
		add(h.meta, next)
	}
	return list
}

// partitionsOf are the partitions that tasks of a topology read, sorted. A topic that does not have the task's partition, or does
// not exist any more, is left out.
func (h *heartbeat) partitionsOf(t *topology.Topology, roles ...topology.Tasks) []TopicPartitions {
	var out []TopicPartitions
	for _, tasks := range roles {
		for i := range tasks {
			s := t.Subtopology(tasks[i].Subtopology)
			if s == nil {
				continue
			}
			for _, topic := range h.sourcesOf(s) {
				out = h.appendPartitions(out, topic, tasks[i].Partitions)
			}
			for j := range s.RepartitionSourceTopics {
				out = h.appendPartitions(out, s.RepartitionSourceTopics[j].Name, tasks[i].Partitions)
			}
		}
	}
	slices.SortFunc(out, func(a, b TopicPartitions) int { return cmp.Compare(a.Topic, b.Topic) })
	return mergeTopics(out)
}

// sourcesOf are the source topics of a subtopology, with those that its patterns match. These are not known of a subtopology
// that the group's topology has not, or has with other content.
func (h *heartbeat) sourcesOf(s *topology.Subtopology) []string {
	if now := h.topology.Subtopology(s.ID); len(s.SourceTopicRegex) > 0 && now != nil && (now == s || now.Equal(s)) {
		if c := h.topics.Configured.Subtopology(s.ID); c != nil {
			return c.SourceTopics
		}
	}
	return s.SourceTopics
}

// matchOthers says that the patterns of the topology match other topics than before: those are to be found at the endpoints of
// members whose tasks may be the same.
func (c *ConfiguredTopics) matchOthers(before *ConfiguredTopics) bool {
	if before == nil || before.Topology != c.Topology || before.Configured == c.Configured || !c.Topology.HasPatterns() {
		return false
	}
	was, now := before.Configured.Subtopologies, c.Configured.Subtopologies
	return !slices.EqualFunc(was, now, func(a, b topology.ConfiguredSubtopology) bool {
		return slices.Equal(a.SourceTopics, b.SourceTopics)
	})
}

func (h *heartbeat) appendPartitions(out []TopicPartitions, topic string, partitions []int32) []TopicPartitions {
	if h.env.Metadata == nil {
		return out
	}
	t, ok := h.env.Metadata.Topic(topic)
	if !ok {
		return out
	}
	var kept []int32
	for _, p := range partitions {
		if p < t.Partitions {
			kept = append(kept, p)
		}
	}
	if kept == nil {
		return out
	}
	return append(out, TopicPartitions{Topic: topic, Partitions: kept})
}

// mergeTopics unites entries of one topic, which stand side by side.
func mergeTopics(in []TopicPartitions) []TopicPartitions {
	out := in[:0]
	for _, tp := range in {
		if n := len(out); n > 0 && out[n-1].Topic == tp.Topic {
			merged := append(out[n-1].Partitions, tp.Partitions...)
			slices.Sort(merged)
			out[n-1].Partitions = slices.Compact(merged)
			continue
		}
		out = append(out, tp)
	}
	return out
}
