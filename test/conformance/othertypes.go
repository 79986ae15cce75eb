package conformance

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func consumerHeartbeat(r *runner, arg any) any {
	o := fields(asObj(arg))
	m := r.member(o.str("member", "C"))
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version = 1
	req.Group = o.str("group", r.s.id)
	req.MemberID = m.id
	req.MemberEpoch = m.epoch
	if o.has("epoch") {
		req.MemberEpoch = int32(o.num("epoch", 0))
	}
	req.RebalanceTimeoutMillis = -1
	if req.MemberEpoch == 0 {
		req.RebalanceTimeoutMillis = 60000
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	if o.has("topics") {
		req.SubscribedTopicNames = strs(o["topics"])
	}
	kr, err := r.c.group(req.Group, req, func(x kmsg.Response) int16 { return x.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode })
	check(err)
	resp := kr.(*kmsg.ConsumerGroupHeartbeatResponse)
	out := obj{"error": errName(resp.ErrorCode), "message": strOut(resp.ErrorMessage)}
	if resp.ErrorCode == 0 {
		m.epoch = resp.MemberEpoch
		out["epoch"] = int(resp.MemberEpoch)
	}
	return out
}

func consumerDescribe(r *runner, arg any) any {
	group := r.s.id
	if s, ok := arg.(string); ok {
		group = s
	}
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{group}
	kr, err := r.c.group(group, req, func(x kmsg.Response) int16 { return x.(*kmsg.ConsumerGroupDescribeResponse).Groups[0].ErrorCode })
	check(err)
	g := kr.(*kmsg.ConsumerGroupDescribeResponse).Groups[0]
	return obj{"error": errName(g.ErrorCode), "message": strOut(g.ErrorMessage), "state": g.State, "members": len(g.Members)}
}

func classicJoin(r *runner, arg any) any {
	o := fields(asObj(arg))
	m := r.member(o.str("member", "K"))
	group := o.str("group", r.s.id)
	id := ""
	if m.joinedClassic {
		id = m.id
	}
	if o.has("member_id") {
		id = o.str("member_id", "")
	}
	var resp *kmsg.JoinGroupResponse
	for range 2 {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version = 9
		req.Group = group
		req.SessionTimeoutMillis = int32(o.num("session_timeout_ms", 30000))
		req.RebalanceTimeoutMillis = int32(o.num("rebalance_timeout_ms", 10000))
		req.MemberID = id
		req.InstanceID = m.instance
		req.ProtocolType = o.str("protocol_type", "consumer")
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name = o.str("protocol", "range")
		meta := kmsg.NewConsumerMemberMetadata()
		meta.Version = 0
		meta.Topics = strs(o["topics"])
		p.Metadata = meta.AppendTo(nil)
		req.Protocols = append(req.Protocols, p)
		kr, err := r.c.group(group, req, func(x kmsg.Response) int16 { return x.(*kmsg.JoinGroupResponse).ErrorCode })
		check(err)
		resp = kr.(*kmsg.JoinGroupResponse)
		if resp.ErrorCode == 79 {
			id = resp.MemberID
			continue
		}
		break
	}
	out := obj{"error": errName(resp.ErrorCode)}
	if resp.ErrorCode != 0 {
		return out
	}
	m.id, m.generation, m.joinedClassic = resp.MemberID, resp.Generation, true
	m.epoch = resp.Generation
	out["generation"], out["leader"], out["members"] = int(resp.Generation), resp.LeaderID == resp.MemberID, len(resp.Members)
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version = 5
	req.Group, req.Generation, req.MemberID, req.InstanceID = group, resp.Generation, resp.MemberID, m.instance
	req.ProtocolType, req.Protocol = resp.ProtocolType, resp.Protocol
	for _, jm := range resp.Members {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID = jm.MemberID
		as := kmsg.NewConsumerMemberAssignment()
		a.MemberAssignment = as.AppendTo(nil)
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	kr, err := r.c.group(group, req, func(x kmsg.Response) int16 { return x.(*kmsg.SyncGroupResponse).ErrorCode })
	check(err)
	out["sync"] = obj{"error": errName(kr.(*kmsg.SyncGroupResponse).ErrorCode)}
	return out
}

func classicHeartbeat(r *runner, arg any) any {
	o := fields(asObj(arg))
	m := r.member(o.str("member", "K"))
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version = 4
	req.Group = o.str("group", r.s.id)
	req.MemberID, req.Generation, req.InstanceID = m.id, m.generation, m.instance
	if o.has("member_id") {
		req.MemberID = o.str("member_id", "")
	}
	if o.has("generation") {
		req.Generation = int32(o.num("generation", 0))
	}
	kr, err := r.c.group(req.Group, req, func(x kmsg.Response) int16 { return x.(*kmsg.HeartbeatResponse).ErrorCode })
	check(err)
	return obj{"error": errName(kr.(*kmsg.HeartbeatResponse).ErrorCode)}
}

func classicLeave(r *runner, arg any) any {
	o := fields(asObj(arg))
	m := r.member(o.str("member", "K"))
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version = 5
	req.Group = o.str("group", r.s.id)
	lm := kmsg.NewLeaveGroupRequestMember()
	lm.MemberID, lm.InstanceID = m.id, m.instance
	if o.has("member_id") {
		lm.MemberID = o.str("member_id", "")
	}
	if o.has("instance") {
		lm.InstanceID = o.strp("instance")
	}
	req.Members = append(req.Members, lm)
	kr, err := r.c.group(req.Group, req, func(x kmsg.Response) int16 { return x.(*kmsg.LeaveGroupResponse).ErrorCode })
	check(err)
	resp := kr.(*kmsg.LeaveGroupResponse)
	out := obj{"error": errName(resp.ErrorCode)}
	for _, x := range resp.Members {
		out["member"] = obj{"error": errName(x.ErrorCode)}
	}
	return out
}

func classicDescribe(r *runner, arg any) any {
	group := r.s.id
	if s, ok := arg.(string); ok {
		group = s
	}
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version = 6
	req.Groups = []string{group}
	kr, err := r.c.group(group, req, func(x kmsg.Response) int16 { return x.(*kmsg.DescribeGroupsResponse).Groups[0].ErrorCode })
	check(err)
	g := kr.(*kmsg.DescribeGroupsResponse).Groups[0]
	return obj{"error": errName(g.ErrorCode), "message": strOut(g.ErrorMessage), "state": g.State, "protocol_type": g.ProtocolType, "members": len(g.Members)}
}
