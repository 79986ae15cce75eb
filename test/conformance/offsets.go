package conformance

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (r *runner) memberAndEpoch(o fields) (string, int32, *string) {
	id, epoch, instance := "", int32(-1), (*string)(nil)
	if a := o.str("member", ""); a != "" {
		m := r.member(a)
		id, epoch, instance = m.id, m.epoch, m.instance
	}
	if o.has("member_id") {
		id = o.str("member_id", "")
	}
	if v, ok := o["epoch"]; ok {
		if s, ok := v.(string); ok {
			d := 0
			_, _ = fmt.Sscanf(strings.TrimPrefix(s, "last"), "%d", &d) // "last" alone
			epoch += int32(d)
		} else {
			epoch = int32(num(v))
		}
	}
	if o.has("instance") {
		instance = o.strp("instance")
	}
	return id, epoch, instance
}

func offsetCommit(r *runner, arg any) any {
	o := fields(asObj(arg))
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version = int16(o.num("version", 9))
	req.Group = o.str("group", r.s.id)
	req.MemberID, req.Generation, req.InstanceID = r.memberAndEpoch(o)
	ids := topicIDs{r: r}
	offs := asObj(o["offsets"]) // topic -> {partition: offset}
	for _, t := range keys(offs) {
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic = t
		if req.Version >= 10 {
			rt.TopicID = ids.id(t)
		}
		ps := asObj(offs[t])
		for _, p := range keys(ps) {
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			_, err := fmt.Sscan(p, &rp.Partition)
			check(err)
			rp.Offset = num(ps[p])
			rp.LeaderEpoch = -1
			rp.Metadata = kmsg.StringPtr(o.str("metadata", ""))
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	kr, err := r.c.group(req.Group, req, func(x kmsg.Response) int16 {
		for _, t := range x.(*kmsg.OffsetCommitResponse).Topics {
			for _, p := range t.Partitions {
				return p.ErrorCode
			}
		}
		return 0
	})
	check(err)
	out := obj{}
	for _, t := range kr.(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			out[fmt.Sprintf("%s/%d", ids.name(t.Topic, t.TopicID), p.Partition)] = obj{"error": errName(p.ErrorCode)}
		}
	}
	return out
}

// topicIDs translates between names and ids for the request versions that only carry ids.
type topicIDs struct {
	r     *runner
	names map[[16]byte]string
}

// id looks a topic up; one that does not exist gets an id nobody has.
func (t *topicIDs) id(name string) [16]byte {
	m, err := t.r.c.metadata(t.r.c.topicsAt, []string{name})
	check(err)
	id := [16]byte{0xfe, byte(len(name)), 1}
	if len(m.Topics) == 1 && m.Topics[0].ErrorCode == 0 {
		id = m.Topics[0].TopicID
	}
	if t.names == nil {
		t.names = map[[16]byte]string{}
	}
	t.names[id] = name
	return id
}

func (t *topicIDs) name(name string, id [16]byte) string {
	if name == "" && t.names[id] != "" {
		return t.names[id]
	}
	return name
}

func offsetFetch(r *runner, arg any) any {
	o := fields(asObj(arg))
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = int16(o.num("version", 9))
	req.RequireStable = o.bool("require_stable")
	ids := topicIDs{r: r}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = o.str("group", r.s.id)
	id, epoch, _ := r.memberAndEpoch(o)
	if id != "" || o.has("member_id") {
		g.MemberID = &id
	}
	g.MemberEpoch = epoch
	if ts := asObj(o["topics"]); ts != nil { // topic -> [partitions]
		for _, t := range keys(ts) {
			rt := kmsg.NewOffsetFetchRequestGroupTopic()
			rt.Topic = t
			if req.Version >= 10 {
				rt.TopicID = ids.id(t)
			}
			for _, p := range list(ts[t]) {
				rt.Partitions = append(rt.Partitions, int32(num(p)))
			}
			g.Topics = append(g.Topics, rt)
		}
	}
	req.Groups = append(req.Groups, g)
	kr, err := r.c.group(g.Group, req, func(x kmsg.Response) int16 {
		for _, g := range x.(*kmsg.OffsetFetchResponse).Groups {
			return g.ErrorCode
		}
		return 0
	})
	check(err)
	out := obj{}
	for _, g := range kr.(*kmsg.OffsetFetchResponse).Groups {
		out["error"] = errName(g.ErrorCode)
		ps := obj{}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				ps[fmt.Sprintf("%s/%d", ids.name(t.Topic, t.TopicID), p.Partition)] = obj{"error": errName(p.ErrorCode), "offset": int(p.Offset), "metadata": strOut(p.Metadata)}
			}
		}
		out["partitions"] = ps
	}
	return out
}

func offsetDelete(r *runner, arg any) any {
	o := fields(asObj(arg))
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = o.str("group", r.s.id)
	ts := asObj(o["topics"])
	for _, t := range keys(ts) {
		rt := kmsg.NewOffsetDeleteRequestTopic()
		rt.Topic = t
		for _, p := range list(ts[t]) {
			rp := kmsg.NewOffsetDeleteRequestTopicPartition()
			rp.Partition = int32(num(p))
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	kr, err := r.c.group(req.Group, req, func(x kmsg.Response) int16 { return x.(*kmsg.OffsetDeleteResponse).ErrorCode })
	check(err)
	resp := kr.(*kmsg.OffsetDeleteResponse)
	ps := obj{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			ps[fmt.Sprintf("%s/%d", t.Topic, p.Partition)] = obj{"error": errName(p.ErrorCode)}
		}
	}
	return obj{"error": errName(resp.ErrorCode), "partitions": ps}
}
