package gateway

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

// configs passes config requests on, except for those about coordd nodes as brokers: these have no broker configs.
func (c *conn) configs(h protocol.Header, body, frame []byte) error {
	req := kmsg.RequestForKey(h.Key)
	req.SetVersion(h.Version)
	if err := req.ReadFrom(body); err != nil {
		return protocol.ErrMalformed
	}
	var all, own int
	count := func(typ kmsg.ConfigResourceType, name string) {
		all++
		if c.g.isNode(typ, name) {
			own++
		}
	}
	switch r := req.(type) {
	case *kmsg.DescribeConfigsRequest:
		return c.describeConfigs(h, r, frame)
	case *kmsg.AlterConfigsRequest:
		for _, res := range r.Resources {
			count(res.ResourceType, res.ResourceName)
		}
	case *kmsg.IncrementalAlterConfigsRequest:
		for _, res := range r.Resources {
			count(res.ResourceType, res.ResourceName)
		}
	}
	if own > 0 && own == all {
		return c.replyError(h, body, coordinator.Errorf(coordinator.InvalidRequest, "A coordd node has no broker configs."))
	}
	return c.forward(c.homeBroker(), h, frame, nil) // of a mixed batch the upstream refuses the nodes it does not know
}

// isNode says whether a config resource is a coordd node.
func (g *Gateway) isNode(typ kmsg.ConfigResourceType, name string) bool {
	if typ != kmsg.ConfigResourceTypeBroker {
		return false
	}
	id, err := strconv.ParseInt(name, 10, 32)
	return err == nil && int32(id) >= g.cfg.NodeIDBase
}

// describeConfigs answers an empty list for coordd nodes.
func (c *conn) describeConfigs(h protocol.Header, req *kmsg.DescribeConfigsRequest, frame []byte) error {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	rest := req.Resources[:0:0]
	for _, res := range req.Resources {
		if !c.g.isNode(res.ResourceType, res.ResourceName) {
			rest = append(rest, res)
			continue
		}
		empty := kmsg.NewDescribeConfigsResponseResource()
		empty.ResourceType, empty.ResourceName = res.ResourceType, res.ResourceName
		resp.Resources = append(resp.Resources, empty)
	}
	if len(resp.Resources) == 0 {
		return c.forward(c.homeBroker(), h, frame, nil)
	}
	if len(rest) > 0 {
		req.Resources = rest
		answer, err := c.ask(c.homeBroker(), req)
		if err != nil {
			return err
		}
		theirs := answer.(*kmsg.DescribeConfigsResponse)
		resp.ThrottleMillis = theirs.ThrottleMillis
		resp.Resources = append(resp.Resources, theirs.Resources...)
	}
	c.reply(h, resp)
	return nil
}
