package conformance

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (r *runner) waitTopic(name string, parts int, exists bool) {
	deadline := time.Now().Add(15 * time.Second)
	for {
		m, err := r.c.metadata(r.c.topicsAt, []string{name})
		check(err)
		n, ready := -1, true
		for _, t := range m.Topics {
			if t.Topic != nil && *t.Topic == name && t.ErrorCode == 0 {
				n = len(t.Partitions)
				for _, p := range t.Partitions {
					ready = ready && p.ErrorCode == 0 && p.Leader >= 0
				}
			}
		}
		if exists && ready && n > 0 && (n == parts || parts < 0) || !exists && n < 0 {
			break
		}
		if time.Now().After(deadline) {
			panic(fmt.Sprintf("topic %s: metadata does not show the change", name))
		}
		time.Sleep(30 * time.Millisecond)
	}
	if !exists {
		parts = 0
	}
	r.probeTopic(name, parts)
}

func createTopic(r *runner, arg any) any {
	l := list(arg)
	out := obj{}
	for _, e := range l {
		o := fields(asObj(e))
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version = 6
		req.TimeoutMillis = 15000
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic = o.str("name", "")
		t.NumPartitions = int32(o.num("partitions", 1))
		t.ReplicationFactor = int16(o.num("replication_factor", -1))
		cf := asObj(o["configs"])
		for _, k := range keys(cf) {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name = k
			c.Value = kmsg.StringPtr(fmt.Sprint(cf[k]))
			t.Configs = append(t.Configs, c)
		}
		req.Topics = append(req.Topics, t)
		kr, err := r.c.admin(r.c.topicsAt, req, func(x kmsg.Response) int16 { return x.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode })
		check(err)
		rt := kr.(*kmsg.CreateTopicsResponse).Topics[0]
		if rt.ErrorCode == 0 {
			r.waitTopic(t.Topic, int(t.NumPartitions), true)
		}
		out[t.Topic] = errName(rt.ErrorCode)
	}
	return out
}

func deleteTopic(r *runner, arg any) any {
	out := obj{}
	for _, name := range strs(arg) {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version = 6
		req.TimeoutMillis = 15000
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
		kr, err := r.c.admin(r.c.topicsAt, req, func(x kmsg.Response) int16 { return x.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode })
		check(err)
		code := kr.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode
		if code == 0 {
			r.waitTopic(name, 0, false)
		}
		out[name] = errName(code)
	}
	return out
}

func growTopic(r *runner, arg any) any {
	o := fields(asObj(arg))
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version = 3
	req.TimeoutMillis = 15000
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic = o.str("name", "")
	t.Count = int32(o.num("partitions", 0))
	req.Topics = append(req.Topics, t)
	kr, err := r.c.admin(r.c.topicsAt, req, func(x kmsg.Response) int16 { return x.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode })
	check(err)
	code := kr.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode
	if code == 0 {
		r.waitTopic(t.Topic, int(t.Count), true)
	}
	return obj{t.Topic: errName(code)}
}

// topics lists all topics of this scenario with partition counts and the configs set on them.
func topics(r *runner, arg any) any {
	m, err := r.c.metadata(r.c.topicsAt, nil)
	check(err)
	out := obj{}
	for _, t := range m.Topics {
		if t.Topic == nil || !r.s.owns(*t.Topic) {
			continue
		}
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.Version = 4
		res := kmsg.NewDescribeConfigsRequestResource()
		res.ResourceType = kmsg.ConfigResourceTypeTopic
		res.ResourceName = *t.Topic
		req.Resources = append(req.Resources, res)
		kr, err := r.c.admin(r.c.topicsAt, req, func(kmsg.Response) int16 { return 0 })
		check(err)
		cf := obj{}
		for _, c := range kr.(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig && c.Value != nil {
				cf[c.Name] = *c.Value
			}
		}
		out[*t.Topic] = obj{"partitions": len(t.Partitions), "configs": cf}
	}
	return out
}

func awaitTopics(r *runner, arg any) any {
	out := obj{}
	for _, n := range strs(arg) {
		r.waitTopic(n, -1, true)
		out[n] = "exists"
	}
	return out
}
