package conformance

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func setGroupConfig(r *runner, arg any) any {
	o := fields(asObj(arg))
	group := o.str("group", r.s.id)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	req.ValidateOnly = o.bool("validate_only")
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType = 32
	res.ResourceName = group
	add := func(k string, op kmsg.IncrementalAlterConfigOp, v *string) {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = k, op, v
		res.Configs = append(res.Configs, c)
	}
	set := asObj(o["set"])
	if set == nil && !o.has("delete") && !o.has("append") {
		set = obj{}
		for k, v := range o {
			if strings.Contains(k, ".") {
				set[k] = v
			}
		}
	}
	for _, k := range keys(set) {
		add(k, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(fmt.Sprint(set[k])))
	}
	for _, k := range strs(o["delete"]) {
		add(k, kmsg.IncrementalAlterConfigOpDelete, nil)
	}
	req.Resources = append(req.Resources, res)
	kr, err := r.c.admin(r.c.bootstrap, req, func(x kmsg.Response) int16 { return x.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode })
	check(err)
	rr := kr.(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
	if rr.ErrorCode == 0 && !req.ValidateOnly {
		r.probeConfig()
	}
	return obj{"error": errName(rr.ErrorCode), "message": strOut(rr.ErrorMessage)}
}

func describeConfigs(r *runner, arg any) any {
	o := fields(asObj(arg))
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType = 32
	res.ResourceName = o.str("group", r.s.id)
	if o.has("keys") {
		res.ConfigNames = strs(o["keys"])
	}
	req.Resources = append(req.Resources, res)
	kr, err := r.c.admin(r.c.bootstrap, req, func(kmsg.Response) int16 { return 0 })
	check(err)
	rr := kr.(*kmsg.DescribeConfigsResponse).Resources[0]
	cf := obj{}
	for _, c := range rr.Configs {
		if o.has("prefix") && !strings.HasPrefix(c.Name, o.str("prefix", "")) {
			continue
		}
		cf[c.Name] = fmt.Sprintf("%v (%s)", strOut(c.Value), strings.ToLower(c.Source.String()))
	}
	return obj{"error": errName(rr.ErrorCode), "message": strOut(rr.ErrorMessage), "configs": cf}
}
