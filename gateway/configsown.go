package gateway

import (
	"encoding/binary"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

// aboutConfigs says whether requests of an API are answered by [Gateway.executeConfigs].
func aboutConfigs(key int16) bool {
	switch key {
	case protocol.KeyDescribeConfigs, protocol.KeyAlterConfigs, protocol.KeyIncrementalAlterConfigs, keyListConfigResources:
		return true
	}
	return false
}

// executeConfigs answers a config request that is only about settings which coordd keeps. This node should lead the system
// shard. done and the error are those of [Gateway.execute].
func (g *Gateway) executeConfigs(h protocol.Header, body []byte, done func(answer []byte, err *coordinator.Error)) error {
	req := kmsg.RequestForKey(h.Key)
	req.SetVersion(h.Version)
	if g.cfg.GroupConfigs == nil {
		return errGroupRequest
	}
	if err := req.ReadFrom(body); err != nil {
		return protocol.ErrMalformed
	}
	answer := func(resp kmsg.Response) { done(protocol.AppendResponse(nil, h, resp), nil) }
	switch r := req.(type) {
	case *kmsg.DescribeConfigsRequest:
		g.describeOwn(r, answer, done)
	case *kmsg.ListConfigResourcesRequest:
		g.cfg.GroupConfigs.List(func(groups []string, err *coordinator.Error) {
			if err != nil {
				done(nil, err)
				return
			}
			resp := kmsg.NewPtrListConfigResourcesResponse()
			for _, group := range groups {
				res := kmsg.NewListConfigResourcesResponseConfigResource()
				res.Name, res.Type = group, int8(kmsg.ConfigResourceTypeGroupConfig)
				resp.ConfigResources = append(resp.ConfigResources, res)
			}
			answer(resp)
		})
	case *kmsg.AlterConfigsRequest:
		g.alterOwn(h, alterAll{r}, replacements(r), done)
	case *kmsg.IncrementalAlterConfigsRequest:
		g.alterOwn(h, alterSome{r}, alterations(r), done)
	}
	return nil
}

func replacements(r *kmsg.AlterConfigsRequest) (list []config.GroupAlteration) {
	for _, res := range r.Resources {
		a := config.GroupAlteration{Group: res.ResourceName, Replace: true}
		for _, c := range res.Configs {
			a.Changes = append(a.Changes, config.GroupChange{Name: c.Name, Op: config.GroupSet, Value: c.Value})
		}
		list = append(list, a)
	}
	return list
}

func alterations(r *kmsg.IncrementalAlterConfigsRequest) (list []config.GroupAlteration) {
	for _, res := range r.Resources {
		a := config.GroupAlteration{Group: res.ResourceName}
		for _, c := range res.Configs {
			a.Changes = append(a.Changes, config.GroupChange{Name: c.Name, Op: config.GroupOp(c.Op), Value: c.Value})
		}
		list = append(list, a)
	}
	return list
}

// alterOwn answers with the position behind the frame; see [conn.alterOwn].
func (g *Gateway) alterOwn(h protocol.Header, req alteration, list []config.GroupAlteration, done func([]byte, *coordinator.Error)) {
	g.cfg.GroupConfigs.Alter(list, req.validateOnly(), func(refusals []*coordinator.Error, position uint64, err *coordinator.Error) {
		if err != nil {
			done(nil, err)
			return
		}
		results := make([]alteredConfigs, len(list))
		for i, res := range req.resources() {
			results[i].resource = res
			if e := refusals[i]; e != nil {
				results[i].code, results[i].message = int16(e.Code), &e.Message
			}
		}
		done(binary.BigEndian.AppendUint64(protocol.AppendResponse(nil, h, req.results(0, results)), position), nil)
	})
}

func (g *Gateway) describeOwn(req *kmsg.DescribeConfigsRequest, answer func(kmsg.Response), done func([]byte, *coordinator.Error)) {
	groups := make([]string, len(req.Resources))
	for i := range req.Resources {
		groups[i] = req.Resources[i].ResourceName
	}
	g.cfg.GroupConfigs.Describe(groups, func(entries [][]config.GroupEntry, err *coordinator.Error) {
		if err != nil {
			done(nil, err)
			return
		}
		resp := kmsg.NewPtrDescribeConfigsResponse()
		for i := range req.Resources {
			res := describedResource(&req.Resources[i])
			res.ErrorMessage = kmsg.StringPtr("") // as Kafka tells success
			for j := range entries[i] {
				e := &entries[i][j]
				if names := req.Resources[i].ConfigNames; len(names) == 0 || slices.Contains(names, e.Name) {
					res.Configs = append(res.Configs, describedSetting(req, e))
				}
			}
			resp.Resources = append(resp.Resources, res)
		}
		answer(resp)
	})
}

var (
	configSources = map[config.GroupSource]kmsg.ConfigSource{
		config.SourceGroup:   kmsg.ConfigSourceGroupConfig,
		config.SourceNode:    kmsg.ConfigSourceStaticBrokerConfig,
		config.SourceDefault: kmsg.ConfigSourceDefaultConfig,
	}
	configTypes = map[config.GroupType]kmsg.ConfigType{
		config.GroupInt: kmsg.ConfigTypeInt, config.GroupLong: kmsg.ConfigTypeLong, config.GroupBool: kmsg.ConfigTypeBoolean,
		config.GroupString: kmsg.ConfigTypeString, config.GroupList: kmsg.ConfigTypeList,
	}
)

func describedSetting(req *kmsg.DescribeConfigsRequest, e *config.GroupEntry) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.ConfigType = e.Name, &e.Value, configTypes[e.Type]
	out.Source = kmsg.ConfigSourceDefaultConfig
	if len(e.Sources) > 0 {
		out.Source = configSources[e.Sources[0].Source]
	}
	if req.IncludeSynonyms {
		for i := range e.Sources {
			s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			s.Name, s.Value, s.Source = e.Sources[i].Name, &e.Sources[i].Value, configSources[e.Sources[i].Source]
			out.ConfigSynonyms = append(out.ConfigSynonyms, s)
		}
	}
	if req.IncludeDocumentation {
		out.Documentation = &e.Help
	}
	return out
}
