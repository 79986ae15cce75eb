package conformance

import (
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (r *runner) describeOne(group string, ops, desc bool, version int16) obj {
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Version = version
	req.Groups = []string{group}
	req.IncludeAuthorizedOperations = ops
	req.IncludeTopologyDescription = desc
	kr, err := r.c.group(group, req, func(x kmsg.Response) int16 {
		for _, g := range x.(*kmsg.StreamsGroupDescribeResponse).Groups {
			return g.ErrorCode
		}
		return 0
	})
	check(err)
	gs := kr.(*kmsg.StreamsGroupDescribeResponse).Groups
	if len(gs) != 1 {
		panic(fmt.Sprintf("describe gave %d groups", len(gs)))
	}
	g := gs[0]
	o := obj{
		"error": errName(g.ErrorCode), "message": strOut(g.ErrorMessage), "group": g.Group, "state": g.State,
		"epoch": int(g.Epoch), "assignment_epoch": int(g.AssignmentEpoch),
		"authorized_operations": opsOut(g.AuthorizedOperations),
	}
	if version >= 1 {
		o["topology_description_status"] = int(g.TopologyDescriptionStatus)
		o["assignor"] = strOut(g.AssignorName)
	}
	if g.Topology == nil {
		o["topology"] = nil
	} else {
		t := obj{"epoch": int(g.Topology.Epoch)}
		if g.Topology.Subtopologies == nil {
			t["subtopologies"] = nil
		} else {
			subs := obj{}
			for _, s := range g.Topology.Subtopologies {
				subs[s.SubtopologyID] = obj{
					"source_topics": sorted(s.SourceTopics), "repartition_sinks": sorted(s.RepartitionSinkTopics),
					"changelogs": infosOut(s.StateChangelogTopics), "repartition_sources": infosOut(s.RepartitionSourceTopics),
				}
			}
			t["subtopologies"] = subs
		}
		o["topology"] = t
	}
	ms := obj{}
	for _, m := range g.Members {
		mo := obj{
			"epoch": int(m.MemberEpoch), "instance": strOut(m.InstanceID), "rack": strOut(m.RackID), "client_id": m.ClientID,
			"topology_epoch": int(m.TopologyEpoch), "process": m.ProcessID,
			"task_offsets": offsetsOut(notNil(m.TaskOffsets)), "task_end_offsets": offsetsOut(notNil(m.TaskEndOffsets)),
			"assignment": assignmentOut(m.Assignment), "target": assignmentOut(m.TargetAssignment), "is_classic": m.IsClassic,
		}
		if m.UserEndpoint == nil {
			mo["user_endpoint"] = nil
		} else {
			mo["user_endpoint"] = fmt.Sprintf("%s:%d", m.UserEndpoint.Host, m.UserEndpoint.Port)
		}
		tags := obj{}
		for _, t := range m.ClientTags {
			tags[t.Key] = t.Value
		}
		mo["tags"] = tags
		ms[m.MemberID] = mo
	}
	o["members"] = ms
	return o
}

func sorted(l []string) []string {
	l = append([]string{}, l...)
	sort.Strings(l)
	return l
}

func infosOut(l []kmsg.TopicInfo) []string {
	out := []string{}
	for _, t := range l {
		var cf []string
		for _, c := range t.Configs {
			cf = append(cf, c.Key+"="+c.Value)
		}
		sort.Strings(cf)
		out = append(out, fmt.Sprintf("%s partitions=%d rf=%d configs=%v", t.Topic, t.NumPartitions, t.ReplicationFactor, cf))
	}
	sort.Strings(out)
	return out
}

func assignmentOut(a kmsg.StreamsAssignment) obj {
	return obj{"active": tasksOut(notNil(a.ActiveTasks)), "standby": tasksOut(notNil(a.StandbyTasks)), "warmup": tasksOut(notNil(a.WarmupTasks))}
}

// notNil is for arrays that cannot be null on the wire but decode to nil when empty.
func notNil[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

var aclOps = map[int]string{3: "READ", 4: "WRITE", 5: "CREATE", 6: "DELETE", 7: "ALTER", 8: "DESCRIBE", 9: "CLUSTER_ACTION", 10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS", 12: "IDEMPOTENT_WRITE"}

func opsOut(b int32) any {
	if b == math.MinInt32 {
		return nil
	}
	out := []string{}
	for i := range 32 {
		if b&(1<<i) != 0 {
			n := aclOps[i]
			if n == "" {
				n = fmt.Sprintf("OP_%d", i)
			}
			out = append(out, n)
		}
	}
	sort.Strings(out)
	return out
}

func describe(r *runner, arg any) any {
	o := fields(asObj(arg))
	group := r.s.id
	if s, ok := arg.(string); ok {
		group = s
	}
	return r.describeOne(o.str("group", group), o.bool("authorized_operations"), o.bool("topology_description"), int16(o.num("version", 1)))
}

func awaitState(r *runner, arg any) any {
	o := fields(asObj(arg))
	if o == nil {
		o = fields{"state": arg}
	}
	deadline := time.Now().Add(time.Duration(o.num("timeout_ms", 15000)) * time.Millisecond)
	for {
		d := r.describeOne(o.str("group", r.s.id), false, false, 1)
		if d["state"] == o.str("state", "") && (!o.has("members") || len(d["members"].(obj)) == int(o.num("members", 0))) || time.Now().After(deadline) {
			return obj{"error": d["error"], "state": d["state"], "epoch": d["epoch"], "member_ids": keys(d["members"].(obj))}
		}
		time.Sleep(50 * time.Millisecond)
	}
}
