package conformance

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var heartbeatKeys = map[string]bool{
	"member": true, "version": true, "group": true, "member_id": true, "epoch": true, "endpoint_epoch": true, "instance": true, "rack": true,
	"rebalance_timeout_ms": true, "topology": true, "active": true, "standby": true, "warmup": true, "tasks": true, "process": true,
	"user_endpoint": true, "tags": true, "task_offsets": true, "task_end_offsets": true, "shutdown": true, "remember": true,
}

type beatKind int

const (
	beatRegular beatKind = iota
	beatJoin
	beatLeave
	beatStaticLeave
)

func (r *runner) heartbeat(kind beatKind, m *member, o fields) (*kmsg.StreamsGroupHeartbeatResponse, string) {
	for k := range o {
		if !heartbeatKeys[k] {
			panic("unknown heartbeat field " + k)
		}
	}
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Version = int16(o.num("version", 1))
	req.Group = o.str("group", r.s.id)
	req.MemberID = m.id
	req.MemberEpoch = m.epoch
	req.EndpointInformationEpoch = m.endpointEpoch
	req.RebalanceTimeoutMillis = -1
	req.InstanceID = m.instance
	if o.has("tasks") {
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = m.report(o.str("tasks", ""))
	}
	setEndpoint := func(s *string) {
		if s == nil {
			req.UserEndpoint = nil
			return
		}
		i := strings.LastIndex(*s, ":")
		p, err := strconv.Atoi((*s)[i+1:])
		check(err)
		req.UserEndpoint = &kmsg.StreamsGroupHeartbeatRequestUserEndpoint{Host: (*s)[:i], Port: uint16(p)}
	}
	setTags := func(t obj) {
		if t == nil {
			req.ClientTags = nil
			return
		}
		req.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{}
		for _, k := range keys(t) {
			req.ClientTags = append(req.ClientTags, kmsg.StreamsGroupHeartbeatRequestClientTag{Key: k, Value: fmt.Sprint(t[k])})
		}
	}
	switch kind {
	case beatJoin:
		req.MemberEpoch, req.EndpointInformationEpoch = 0, 0
		req.RebalanceTimeoutMillis = m.rebalance
		req.RackID = m.rack
		p := m.process
		req.ProcessID = &p
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		if !o.has("topology") {
			req.Topology = r.topology(m.topology)
		}
		setEndpoint(m.endpoint)
		if m.tags != nil {
			setTags(m.tags)
		} else {
			setTags(obj{})
		}
	case beatLeave:
		req.MemberEpoch = -1
	case beatStaticLeave:
		req.MemberEpoch = -2
	}
	for k, v := range o {
		switch k {
		case "member_id":
			req.MemberID = fmt.Sprint(v)
		case "epoch":
			if s, ok := v.(string); ok { // last, last+1, last-1
				d := 0
				if rest := strings.TrimPrefix(s, "last"); rest != "" {
					n, err := strconv.Atoi(rest)
					check(err)
					d = n
				}
				req.MemberEpoch = m.epoch + int32(d)
			} else {
				req.MemberEpoch = int32(num(v))
			}
		case "endpoint_epoch":
			req.EndpointInformationEpoch = int32(num(v))
		case "instance":
			req.InstanceID = o.strp(k)
			if kind == beatJoin {
				m.instance = req.InstanceID
			}
		case "rack":
			req.RackID = o.strp(k)
		case "rebalance_timeout_ms":
			req.RebalanceTimeoutMillis = int32(num(v))
		case "topology":
			req.Topology = r.topology(v)
		case "active":
			req.ActiveTasks = parseTasks(v, m.active)
		case "standby":
			req.StandbyTasks = parseTasks(v, m.standby)
		case "warmup":
			req.WarmupTasks = parseTasks(v, m.warmup)
		case "process":
			req.ProcessID = o.strp(k)
			if v != nil {
				m.process = fmt.Sprint(v)
			}
		case "user_endpoint":
			setEndpoint(o.strp(k))
		case "tags":
			if v == nil {
				setTags(nil)
			} else {
				setTags(asObj(v))
			}
		case "task_offsets":
			req.TaskOffsets = parseOffsets(v)
		case "task_end_offsets":
			req.TaskEndOffsets = parseOffsets(v)
		case "shutdown":
			req.ShutdownApplication = o.bool(k)
		}
	}
	sent := time.Now()
	kr, err := r.c.group(req.Group, req, func(x kmsg.Response) int16 { return x.(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode })
	check(err)
	resp := kr.(*kmsg.StreamsGroupHeartbeatResponse)
	if r.o.Heard != nil {
		r.o.Heard(req, resp)
	}
	r.unrepeat(m, req, resp, sent)
	if v, ok := o["remember"]; resp.ErrorCode == 0 && (!ok || v == true) {
		m.epoch = resp.MemberEpoch
		m.endpointEpoch = resp.EndpointInformationEpoch
		if resp.ActiveTasks != nil && !m.has(resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks) {
			m.before = [3][]kmsg.TaskIDs{m.active, m.standby, m.warmup}
		}
		if resp.ActiveTasks != nil {
			m.active = resp.ActiveTasks
		}
		if resp.StandbyTasks != nil {
			m.standby = resp.StandbyTasks
		}
		if resp.WarmupTasks != nil {
			m.warmup = resp.WarmupTasks
		}
	}
	return resp, req.MemberID
}

// unrepeat takes the task lists out of an answer that only repeats them: a server may do so (see Options.Repeats) when the
// member has not acknowledged them for a heartbeat interval, which depends on how fast the steps were.
func (r *runner) unrepeat(m *member, req *kmsg.StreamsGroupHeartbeatRequest, resp *kmsg.StreamsGroupHeartbeatResponse, sent time.Time) {
	if resp.ErrorCode != 0 {
		return
	}
	interval := time.Duration(resp.HeartbeatIntervalMillis) * time.Millisecond
	switch {
	case req.ActiveTasks != nil && m.has(req.ActiveTasks, req.StandbyTasks, req.WarmupTasks):
		m.told = time.Time{}
	case req.MemberEpoch <= 0 || req.ActiveTasks != nil || req.MemberEpoch != m.epoch || resp.ActiveTasks == nil:
	case r.o.Repeats && !m.told.IsZero() && time.Since(m.told) >= interval && m.has(resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks):
		resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks = nil, nil, nil
		m.told = sent
	}
	if resp.ActiveTasks != nil {
		m.told = sent
	}
}

// has says whether these are the tasks that the member was assigned last.
func (m *member) has(active, standby, warmup []kmsg.TaskIDs) bool {
	return show(tasksOut(notNil(active))) == show(tasksOut(notNil(m.active))) &&
		show(tasksOut(notNil(standby))) == show(tasksOut(notNil(m.standby))) &&
		show(tasksOut(notNil(warmup))) == show(tasksOut(notNil(m.warmup)))
}

func statusOut(st []kmsg.StreamsGroupHeartbeatResponseStatus) any {
	if st == nil {
		return nil
	}
	sort.SliceStable(st, func(i, j int) bool { return st[i].StatusCode < st[j].StatusCode })
	out := []any{}
	for _, s := range st {
		out = append(out, obj{"status": statusName(s.StatusCode), "detail": s.StatusDetail})
	}
	return out
}

func strOut(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

func (r *runner) heartbeatOut(resp *kmsg.StreamsGroupHeartbeatResponse) obj {
	o := obj{"error": errName(resp.ErrorCode), "message": strOut(resp.ErrorMessage)}
	if resp.ErrorCode != 0 {
		return o
	}
	o["member_id"] = resp.MemberID
	o["epoch"] = int(resp.MemberEpoch)
	o["heartbeat_interval_ms"] = int(resp.HeartbeatIntervalMillis)
	o["task_offset_interval_ms"] = int(resp.TaskOffsetIntervalMillis)
	if resp.Version >= 1 {
		o["acceptable_recovery_lag"] = int(resp.AcceptableRecoveryLag)
		o["topology_description_required"] = resp.TopologyDescriptionRequired
	} else {
		o["acceptable_recovery_lag_legacy"] = int(resp.AcceptableRecoveryLagLegacy)
	}
	o["status"] = statusOut(resp.Status)
	o["active"], o["standby"], o["warmup"] = tasksOut(resp.ActiveTasks), tasksOut(resp.StandbyTasks), tasksOut(resp.WarmupTasks)
	o["endpoint_epoch"] = int(resp.EndpointInformationEpoch)
	if resp.PartitionsByUserEndpoint == nil {
		o["endpoints"] = nil
	} else {
		var l []string
		for _, e := range resp.PartitionsByUserEndpoint {
			var a, s []string
			for _, t := range e.ActivePartitions {
				a = append(a, t.Topic+partitionsOut(t.Partitions))
			}
			for _, t := range e.StandbyPartitions {
				s = append(s, t.Topic+partitionsOut(t.Partitions))
			}
			sort.Strings(a)
			sort.Strings(s)
			l = append(l, fmt.Sprintf("%s:%d active=%v standby=%v", e.UserEndpoint.Host, e.UserEndpoint.Port, a, s))
		}
		sort.Strings(l)
		if l == nil {
			l = []string{}
		}
		o["endpoints"] = l
	}
	return o
}

func partitionsOut(ps []int32) string {
	ps = append([]int32{}, ps...)
	sort.Slice(ps, func(i, j int) bool { return ps[i] < ps[j] })
	s := make([]string, len(ps))
	for i, p := range ps {
		s[i] = strconv.Itoa(int(p))
	}
	return "/" + strings.Join(s, ",")
}

func heartbeatOp(kind beatKind) operation {
	return func(r *runner, arg any) any {
		one := func(a any) obj {
			o := fields{}
			alias := ""
			if m := asObj(a); m != nil {
				for k, v := range m {
					o[k] = v
				}
				alias = o.str("member", "A")
			} else {
				alias = fmt.Sprint(a)
			}
			resp, _ := r.heartbeat(kind, r.member(alias), o)
			return r.heartbeatOut(resp)
		}
		if l, ok := arg.([]any); ok {
			out := obj{}
			for _, a := range l {
				out[fmt.Sprint(a)] = one(a)
			}
			return obj{"members": out}
		}
		return one(arg)
	}
}
