package gateway

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

type describedConfigs = kmsg.DescribeConfigsResponseResource

func describedResource(res *kmsg.DescribeConfigsRequestResource) describedConfigs {
	out := kmsg.NewDescribeConfigsResponseResource()
	out.ResourceType, out.ResourceName = res.ResourceType, res.ResourceName
	return out
}

func refusedDescription(res *kmsg.DescribeConfigsRequestResource, e *coordinator.Error) describedConfigs {
	out := describedResource(res)
	out.ErrorCode, out.ErrorMessage = int16(e.Code), &e.Message
	return out
}

// describeConfigs answers an empty list for coordd nodes, and for groups what the upstream says with the streams settings
// that coordd keeps.
func (c *conn) describeConfigs(h protocol.Header, req *kmsg.DescribeConfigsRequest, frame []byte) error {
	var rest, groups []kmsg.DescribeConfigsRequestResource
	all := resourcesOf(req.Resources)
	results := newByResource[describedConfigs](all)
	for i := range req.Resources {
		switch res := &req.Resources[i]; {
		case c.g.isNode(res.ResourceType, res.ResourceName):
			results.at(i, describedResource(res))
		case !c.g.isGroup(res.ResourceType):
			rest = append(rest, *res)
		case res.ResourceName == "":
			results.at(i, refusedDescription(res, groupNameEmpty))
		default:
			groups = append(groups, *res)
		}
	}
	if len(rest) == len(all) {
		return c.forward(c.homeBroker(), h, frame, nil)
	}
	resp := kmsg.NewPtrDescribeConfigsResponse()
	if len(rest) > 0 {
		theirs, err := c.askDescription(req, rest, resp)
		if err != nil {
			return err
		}
		for _, r := range theirs {
			results.add(resource{r.ResourceType, r.ResourceName}, r)
		}
	}
	described, err := c.describeGroups(h, req, groups, resp)
	if err != nil {
		return err
	}
	for _, r := range described {
		results.add(resource{r.ResourceType, r.ResourceName}, r)
	}
	resp.Resources = results.results()
	c.reply(h, resp)
	return nil
}

// askDescription asks the upstream about some of the resources.
func (c *conn) askDescription(req *kmsg.DescribeConfigsRequest, resources []kmsg.DescribeConfigsRequestResource, into *kmsg.DescribeConfigsResponse) ([]describedConfigs, error) {
	part := *req
	part.Resources = resources
	answer, err := c.ask(c.homeBroker(), &part)
	if err != nil {
		return nil, err
	}
	theirs := answer.(*kmsg.DescribeConfigsResponse)
	into.ThrottleMillis = max(into.ThrottleMillis, theirs.ThrottleMillis)
	return theirs.Resources, nil
}

// describeGroups describes groups, in the order given. It asks the upstream first: that knows the client's rights, and the
// settings that are not coordd's.
func (c *conn) describeGroups(h protocol.Header, req *kmsg.DescribeConfigsRequest, groups []kmsg.DescribeConfigsRequestResource, into *kmsg.DescribeConfigsResponse) ([]describedConfigs, error) {
	if len(groups) == 0 {
		return nil, nil
	}
	theirs, err := c.askDescription(req, groups, into)
	if err != nil {
		return nil, err
	}
	results := newByResource[describedConfigs](resourcesOf(groups))
	for _, r := range theirs {
		if r.ErrorCode == 0 || unsupported(r.ErrorCode) {
			r.ErrorCode, r.ErrorMessage = 0, kmsg.StringPtr("")
			r.Configs = slices.DeleteFunc(r.Configs, func(c kmsg.DescribeConfigsResponseResourceConfig) bool {
				return strings.HasPrefix(c.Name, config.GroupPrefix)
			})
		}
		results.add(resource{r.ResourceType, r.ResourceName}, r)
	}
	part := *req
	part.Resources = nil
	var asked []int
	for i := range groups {
		if !results.set[i] {
			results.at(i, describedResource(&groups[i]))
		}
		if results.out[i].ErrorCode == 0 {
			part.Resources = append(part.Resources, groups[i])
			asked = append(asked, i)
		}
	}
	if len(asked) == 0 {
		return results.out, nil
	}
	resp, _, refusal, err := c.askSystem(h, &part)
	if err != nil {
		return nil, err
	}
	for k, i := range asked {
		if refusal != nil {
			results.at(i, refusedDescription(&groups[i], refusal))
		} else if ours := resp.(*kmsg.DescribeConfigsResponse).Resources; k < len(ours) {
			results.out[i].Configs = append(ours[k].Configs, results.out[i].Configs...)
		}
	}
	return results.out, nil
}

func resourcesOf(list []kmsg.DescribeConfigsRequestResource) (all []resource) {
	for i := range list {
		all = append(all, resource{list[i].ResourceType, list[i].ResourceName})
	}
	return all
}

// askSystem has a request about settings of groups answered by the leader of the system shard, wherever that is. refusal
// says that there is none. An alteration has a position.
func (c *conn) askSystem(h protocol.Header, req kmsg.Request) (resp kmsg.Response, position uint64, refusal *coordinator.Error, err error) {
	var out outcome
	frame := appendFrame(nil, h, req.AppendTo(nil))
	c.blocking(func() {
		out, err = c.g.requestAtLeader(&errand{numbered: true, number: SystemShard, c: c}, c.client, frame)
	})
	if err != nil {
		return nil, 0, nil, err
	}
	if out.err != nil {
		message := out.err.Message
		if message == "" {
			message = "The leader of coordd's system shard does not answer; try again."
		}
		return nil, 0, &coordinator.Error{Code: out.err.Code, Message: message}, nil
	}
	size := 4 + int(binary.BigEndian.Uint32(out.answer))
	if rest := out.answer[size:]; len(rest) == 8 {
		position = binary.BigEndian.Uint64(rest)
	}
	resp, err = decodeAnswer(req, out.answer[4:size])
	return resp, position, nil, err
}

// listConfigResources adds the groups with streams settings to those that the upstream lists.
func (c *conn) listConfigResources(h protocol.Header, req *kmsg.ListConfigResourcesRequest, frame []byte) error {
	wanted := len(req.ResourceTypes) == 0 || slices.Contains(req.ResourceTypes, int8(kmsg.ConfigResourceTypeGroupConfig))
	if h.Version < 1 || !wanted || c.g.cfg.GroupConfigs == nil {
		return c.forward(c.homeBroker(), h, frame, nil)
	}
	answer, err := c.ask(c.homeBroker(), req)
	if err != nil {
		return err
	}
	resp := answer.(*kmsg.ListConfigResourcesResponse)
	if resp.ErrorCode != 0 {
		c.reply(h, resp)
		return nil
	}
	own := kmsg.NewPtrListConfigResourcesRequest()
	own.Version, own.ResourceTypes = h.Version, []int8{int8(kmsg.ConfigResourceTypeGroupConfig)}
	answer, _, refusal, err := c.askSystem(h, own)
	switch {
	case err != nil:
		return err
	case refusal != nil:
		resp.ErrorCode, resp.ConfigResources = int16(refusal.Code), nil
		c.reply(h, resp)
		return nil
	}
	listed := map[string]bool{}
	for _, r := range resp.ConfigResources {
		if r.Type == int8(kmsg.ConfigResourceTypeGroupConfig) {
			listed[r.Name] = true
		}
	}
	for _, r := range answer.(*kmsg.ListConfigResourcesResponse).ConfigResources {
		if !listed[r.Name] {
			resp.ConfigResources = append(resp.ConfigResources, r)
		}
	}
	c.reply(h, resp)
	return nil
}
