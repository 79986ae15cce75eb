package conformance

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topic and config changes reach a coordinator some time after they were acknowledged. Probes ask the coordinator itself,
// with short-lived groups of their own, whether it has seen a change. A server that cannot be probed is given a fixed time.

const probeLimit = 5 * time.Second

// probeJoin joins a fresh probe group that reads one topic, and removes it again.
func (r *runner) probeJoin(group, topic string) *kmsg.StreamsGroupHeartbeatResponse {
	code := func(x kmsg.Response) int16 { return x.(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode }
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Version = 1
	req.Group, req.MemberID, req.RebalanceTimeoutMillis = group, "probe", 10000
	req.ProcessID = kmsg.StringPtr("probe")
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	req.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{}
	sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	sub.SubtopologyID = "0"
	sub.SourceTopics = []string{topic}
	req.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{sub}}
	kr, err := r.c.group(group, req, code)
	if err != nil {
		return nil
	}
	resp := kr.(*kmsg.StreamsGroupHeartbeatResponse)
	if resp.ErrorCode != 0 {
		return nil
	}
	leave := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	leave.Version = 1
	leave.Group, leave.MemberID, leave.MemberEpoch, leave.RebalanceTimeoutMillis = group, "probe", -1, -1
	if _, err := r.c.group(group, leave, code); err == nil {
		del := kmsg.NewPtrDeleteGroupsRequest()
		del.Version = 2
		del.Groups = []string{group}
		_, _ = r.c.group(group, del, func(kmsg.Response) int16 { return 0 }) // whether a probe group stays does not matter
	}
	return resp
}

// probeGroup names a fresh probe group that has the same String.hashCode as the group, and so the same coordinator wherever
// groups are placed by their hash: what one node has seen another one need not have.
func (r *runner) probeGroup(group string) string {
	r.probes++
	const base, digits, first = 31, 7, 'A' // 31^7 > 2^32: seven digits reach every hash
	id := []rune(fmt.Sprintf("probe-%s-%d-", r.s.id, r.probes))
	rest := javaHash([]rune(group)) - javaHash(append(id, []rune(strings.Repeat(string(rune(first)), digits))...))
	suffix := make([]rune, digits)
	for i := digits - 1; i >= 0; i-- {
		suffix[i] = first + rune(rest%base)
		rest /= base
	}
	return string(append(id, suffix...))
}

// javaHash is Java's String.hashCode of a string within the basic multilingual plane.
func javaHash(s []rune) (h uint32) {
	for _, c := range s {
		h = 31*h + uint32(c)
	}
	return h
}

// probeTopic waits until the coordinators of all the scenario's groups see the topic with that many partitions; -1: any
// number, 0: not at all.
func (r *runner) probeTopic(topic string, parts int) {
	for _, group := range r.s.groups {
		r.probeTopicAt(group, topic, parts)
	}
	time.Sleep(r.o.Propagation)
}

func (r *runner) probeTopicAt(group, topic string, parts int) {
	for deadline := time.Now().Add(probeLimit); time.Now().Before(deadline); time.Sleep(30 * time.Millisecond) {
		resp := r.probeJoin(r.probeGroup(group), topic)
		if resp == nil {
			return
		}
		missing, tasks := false, 0
		for _, s := range resp.Status {
			missing = missing || s.StatusCode == 1
		}
		for _, t := range resp.ActiveTasks {
			tasks += len(t.Partitions)
		}
		if parts == 0 && missing || parts < 0 && !missing || parts > 0 && tasks == parts {
			return
		}
	}
}

// probeConfig waits until a config set after the one in question has taken effect at the coordinators of all the
// scenario's groups.
func (r *runner) probeConfig() {
	for _, group := range r.s.groups {
		r.probeConfigAt(r.probeGroup(group))
	}
	time.Sleep(r.o.Propagation)
}

func (r *runner) probeConfigAt(group string) {
	want := int32(5000 + r.probes)
	alter := func(op kmsg.IncrementalAlterConfigOp, v *string) bool {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version = 1
		res := kmsg.NewIncrementalAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = 32, group
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = "streams.heartbeat.interval.ms", op, v
		res.Configs = append(res.Configs, c)
		req.Resources = append(req.Resources, res)
		kr, err := r.c.admin(r.c.bootstrap, req, func(kmsg.Response) int16 { return 0 })
		if err != nil {
			return false
		}
		rs := kr.(*kmsg.IncrementalAlterConfigsResponse).Resources
		return len(rs) == 1 && rs[0].ErrorCode == 0
	}
	if alter(kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(fmt.Sprint(want))) {
		for deadline := time.Now().Add(probeLimit); time.Now().Before(deadline); time.Sleep(30 * time.Millisecond) {
			resp := r.probeJoin(group, "probe-no-such-topic")
			if resp == nil || resp.HeartbeatIntervalMillis == want {
				break
			}
		}
		alter(kmsg.IncrementalAlterConfigOpDelete, nil)
	}
}
