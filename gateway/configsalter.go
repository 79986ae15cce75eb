package gateway

import (
	"encoding/binary"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

// alteredConfigs is the result for one resource of both APIs that alter configs.
type alteredConfigs struct {
	resource
	code    int16
	message *string
}

// alteration is AlterConfigs or IncrementalAlterConfigs.
type alteration interface {
	resources() []resource
	validateOnly() bool
	// part is a request for the resource at i, with those of its settings that are wanted.
	part(i int, validateOnly bool, wanted func(name string) bool) (req kmsg.Request, settings int)
	// some is a request for the resources that are wanted.
	some(wanted func(i int) bool) kmsg.Request
	// replaces says that settings which are not in the request are deleted.
	replaces() bool
	results(throttle int32, list []alteredConfigs) kmsg.Response
}

// alterConfigs refuses to alter coordd nodes and what they go by, and splits what is about groups by the names of the settings.
func (c *conn) alterConfigs(h protocol.Header, req alteration, frame []byte) error {
	all := req.resources()
	results := newByResource[alteredConfigs](all)
	rest := make([]bool, len(all))
	numRest := 0
	var throttle int32
	for i, res := range all {
		own := c.g.isGroup(res.typ)
		switch {
		case c.g.isNode(res.typ, res.name):
			results.at(i, alteredConfigs{res, int16(noBrokerConfigs.Code), &noBrokerConfigs.Message})
		case res.typ == kmsg.ConfigResourceTypeBroker && altersNodes(req, i):
			results.at(i, alteredConfigs{res, int16(nodeSettings.Code), &nodeSettings.Message})
		case !own:
			rest[i] = true
			numRest++
		case res.name == "":
			results.at(i, alteredConfigs{res, int16(defaultGroupNames.Code), &defaultGroupNames.Message})
		case len(results.order[res]) > 1:
			results.at(i, alteredConfigs{res, int16(resourceTwice.Code), &resourceTwice.Message})
		}
	}
	if numRest == len(all) {
		return c.forward(c.homeBroker(), h, frame, nil)
	}
	if numRest > 0 {
		theirs, took, err := c.askAlteration(req.some(func(i int) bool { return rest[i] }))
		if err != nil {
			return err
		}
		throttle = took
		for _, r := range theirs {
			results.add(r.resource, r)
		}
	}
	for i, res := range all {
		if rest[i] || results.set[i] {
			continue
		}
		code, message, took, err := c.alterGroup(h, req, i, res.name)
		if err != nil {
			return err
		}
		throttle = max(throttle, took)
		results.at(i, alteredConfigs{res, code, message})
	}
	c.reply(h, req.results(throttle, results.results()))
	return nil
}

// altersNodes says that a request about brokers names settings that coordd's nodes have: the brokers behind would take them,
// and nothing would change.
func altersNodes(req alteration, i int) bool {
	_, settings := req.part(i, true, func(name string) bool { return strings.HasPrefix(name, nodePrefix) })
	return settings > 0
}

// alterGroup alters the settings of the group at i: those of coordd here, all others upstream. The upstream is asked in any case,
// since it knows the client's rights. Where both sides have something to do, coordd's part is judged before the upstream
// does its own, so that a bad value leaves everything as it was.
func (c *conn) alterGroup(h protocol.Header, req alteration, i int, group string) (code int16, message *string, throttle int32, err error) {
	isOwn := func(name string) bool { return strings.HasPrefix(name, config.GroupPrefix) }
	validateOnly := req.validateOnly()
	own, numOwn := req.part(i, validateOnly, isOwn)
	_, numOther := req.part(i, validateOnly, func(name string) bool { return !isOwn(name) })
	if numOwn > 0 && (numOther > 0 || req.replaces()) && !validateOnly {
		trial, _ := req.part(i, true, isOwn)
		if code, message, err := c.alterOwn(h, "", trial); code != 0 || err != nil {
			return code, message, 0, err
		}
	}
	// Without settings of its own the upstream has nothing to do unless it is to drop all that it has.
	other, _ := req.part(i, validateOnly || numOther == 0 && !req.replaces(), func(name string) bool { return !isOwn(name) })
	theirs, throttle, err := c.askAlteration(other)
	if err != nil {
		return 0, nil, 0, err
	}
	for _, r := range theirs {
		if r.code != 0 && (numOther != 0 || !unsupported(r.code)) {
			return r.code, r.message, throttle, nil
		}
	}
	if numOwn == 0 && !req.replaces() {
		return 0, nil, throttle, nil
	}
	code, message, err = c.alterOwn(h, group, own)
	return code, message, throttle, err
}

// alterOwn has the leader of the system shard alter coordd's settings of one group, and waits until the group's coordinator
// acts by them: its node learns of them a little later than the leader of the system shard. A group of "" is not waited for.
func (c *conn) alterOwn(h protocol.Header, group string, req kmsg.Request) (code int16, message *string, err error) {
	resp, position, refusal, err := c.askSystem(h, req)
	switch {
	case err != nil:
		return 0, nil, err
	case refusal != nil:
		return int16(refusal.Code), &refusal.Message, nil
	}
	altered := alteredBy(resp)
	if len(altered) != 1 {
		return int16(coordinator.CoordinatorNotAvailable), nil, nil
	}
	if altered[0].code == 0 && group != "" {
		c.blocking(func() { c.g.awaitSettings(&errand{group: group, c: c}, c.client, position) })
	}
	return altered[0].code, altered[0].message, nil
}

// awaitSettings waits until the leader of a group's shard acts by what was altered up to a position, or that takes too
// long. It blocks.
func (g *Gateway) awaitSettings(e *errand, client *coordinator.Client, position uint64) {
	_, _ = g.atLeader(e, func(a *attempt) error { // the alteration is made in any case
		if a.leader == g.coords.Self() {
			g.cfg.GroupConfigs.Await(position, func() { a.tell(nil, nil) })
		} else {
			g.hops.request(a.leader, hopAwait, client, binary.BigEndian.AppendUint64(nil, position), a)
		}
		return nil
	})
}

// askAlteration has the upstream do its part.
func (c *conn) askAlteration(req kmsg.Request) (results []alteredConfigs, throttle int32, err error) {
	answer, err := c.ask(c.homeBroker(), req)
	if err != nil {
		return nil, 0, err
	}
	throttle, _ = answer.(kmsg.ThrottleResponse).Throttle()
	return alteredBy(answer), throttle, nil
}

func alteredBy(resp kmsg.Response) (list []alteredConfigs) {
	switch r := resp.(type) {
	case *kmsg.AlterConfigsResponse:
		for _, res := range r.Resources {
			list = append(list, alteredConfigs{resource{res.ResourceType, res.ResourceName}, res.ErrorCode, res.ErrorMessage})
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		for _, res := range r.Resources {
			list = append(list, alteredConfigs{resource{res.ResourceType, res.ResourceName}, res.ErrorCode, res.ErrorMessage})
		}
	}
	return list
}

// alterAll is AlterConfigs.
type alterAll struct{ *kmsg.AlterConfigsRequest }

func (a alterAll) validateOnly() bool { return a.ValidateOnly }
func (a alterAll) replaces() bool     { return true }

func (a alterAll) resources() (list []resource) {
	for i := range a.Resources {
		list = append(list, resource{a.Resources[i].ResourceType, a.Resources[i].ResourceName})
	}
	return list
}

func (a alterAll) part(i int, validateOnly bool, wanted func(string) bool) (kmsg.Request, int) {
	res := a.Resources[i]
	res.Configs = nil
	for _, c := range a.Resources[i].Configs {
		if wanted(c.Name) {
			res.Configs = append(res.Configs, c)
		}
	}
	req := *a.AlterConfigsRequest
	req.ValidateOnly, req.Resources = validateOnly, []kmsg.AlterConfigsRequestResource{res}
	return &req, len(res.Configs)
}

func (a alterAll) some(wanted func(int) bool) kmsg.Request {
	req := *a.AlterConfigsRequest
	req.Resources = nil
	for i, res := range a.Resources {
		if wanted(i) {
			req.Resources = append(req.Resources, res)
		}
	}
	return &req
}

func (a alterAll) results(throttle int32, list []alteredConfigs) kmsg.Response {
	resp := kmsg.NewPtrAlterConfigsResponse()
	resp.ThrottleMillis = throttle
	for _, r := range list {
		res := kmsg.NewAlterConfigsResponseResource()
		res.ResourceType, res.ResourceName, res.ErrorCode, res.ErrorMessage = r.typ, r.name, r.code, r.message
		resp.Resources = append(resp.Resources, res)
	}
	return resp
}

// alterSome is IncrementalAlterConfigs.
type alterSome struct {
	*kmsg.IncrementalAlterConfigsRequest
}

func (a alterSome) validateOnly() bool { return a.ValidateOnly }
func (a alterSome) replaces() bool     { return false }

func (a alterSome) resources() (list []resource) {
	for i := range a.Resources {
		list = append(list, resource{a.Resources[i].ResourceType, a.Resources[i].ResourceName})
	}
	return list
}

func (a alterSome) part(i int, validateOnly bool, wanted func(string) bool) (kmsg.Request, int) {
	res := a.Resources[i]
	res.Configs = nil
	for _, c := range a.Resources[i].Configs {
		if wanted(c.Name) {
			res.Configs = append(res.Configs, c)
		}
	}
	req := *a.IncrementalAlterConfigsRequest
	req.ValidateOnly, req.Resources = validateOnly, []kmsg.IncrementalAlterConfigsRequestResource{res}
	return &req, len(res.Configs)
}

func (a alterSome) some(wanted func(int) bool) kmsg.Request {
	req := *a.IncrementalAlterConfigsRequest
	req.Resources = nil
	for i, res := range a.Resources {
		if wanted(i) {
			req.Resources = append(req.Resources, res)
		}
	}
	return &req
}

func (a alterSome) results(throttle int32, list []alteredConfigs) kmsg.Response {
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	resp.ThrottleMillis = throttle
	for _, r := range list {
		res := kmsg.NewIncrementalAlterConfigsResponseResource()
		res.ResourceType, res.ResourceName, res.ErrorCode, res.ErrorMessage = r.typ, r.name, r.code, r.message
		resp.Resources = append(resp.Resources, res)
	}
	return resp
}
