package conformance

import (
	"fmt"
	"sort"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func topicInfos(v any) []kmsg.TopicInfo {
	out := []kmsg.TopicInfo{}
	for _, e := range list(v) {
		ti := kmsg.NewTopicInfo()
		if s, ok := e.(string); ok {
			ti.Topic = s
		} else {
			o := fields(asObj(e))
			ti.Topic = o.str("name", "")
			ti.NumPartitions = int32(o.num("partitions", 0))
			ti.ReplicationFactor = int16(o.num("replication_factor", 0))
			cf := asObj(o["configs"])
			for _, k := range keys(cf) {
				c := kmsg.NewTopicInfoConfig()
				c.Key, c.Value = k, fmt.Sprint(cf[k])
				ti.Configs = append(ti.Configs, c)
			}
		}
		out = append(out, ti)
	}
	return out
}

func keys(o obj) []string {
	out := []string{}
	for k := range o {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

func int16s(v any) []int16 {
	out := []int16{}
	for _, e := range list(v) {
		out = append(out, int16(num(e)))
	}
	return out
}

func (r *runner) topology(v any) *kmsg.StreamsGroupHeartbeatRequestTopology {
	if v == nil {
		return nil
	}
	o := asObj(v)
	if o == nil {
		var ok bool
		if o, ok = r.s.Topologies[fmt.Sprint(v)]; !ok {
			panic(fmt.Sprintf("no topology named %v", v))
		}
	}
	for k := range o {
		switch k {
		case "epoch", "subtopologies", "like":
		default:
			panic("unknown topology key " + k)
		}
	}
	if l, ok := o["like"]; ok { // another topology with another epoch
		base := r.topology(l)
		base.Epoch = int32(fields(o).num("epoch", int64(base.Epoch)))
		return base
	}
	t := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	t.Epoch = int32(fields(o).num("epoch", 0))
	for _, e := range list(o["subtopologies"]) {
		so := fields(asObj(e))
		for k := range so {
			switch k {
			case "id", "source_topics", "source_topic_regex", "changelogs", "repartition_sinks", "repartition_sources", "copartition_groups":
			default:
				panic("unknown subtopology key " + k)
			}
		}
		st := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		st.SubtopologyID = so.str("id", "")
		st.SourceTopics = strs(so["source_topics"])
		st.SourceTopicRegex = strs(so["source_topic_regex"])
		st.StateChangelogTopics = topicInfos(so["changelogs"])
		st.RepartitionSinkTopics = strs(so["repartition_sinks"])
		st.RepartitionSourceTopics = topicInfos(so["repartition_sources"])
		for _, g := range list(so["copartition_groups"]) {
			gm := asObj(g)
			cg := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup()
			cg.SourceTopics = int16s(gm["source_topics"])
			cg.SourceTopicRegex = int16s(gm["source_topic_regex"])
			cg.RepartitionSourceTopics = int16s(gm["repartition_sources"])
			st.CopartitionGroups = append(st.CopartitionGroups, cg)
		}
		t.Subtopologies = append(t.Subtopologies, st)
	}
	return &t
}
