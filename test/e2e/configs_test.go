//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

// toolsConfigs: settings of groups, and of what is the upstream's, by kafka-configs.
func toolsConfigs(t *testing.T, b *both) {
	of := "configs --entity-type groups --entity-name "
	b.compare(t,
		command{line: "configs --entity-type groups --describe", unordered: true},
		command{line: of + "count --describe", unordered: true},
		command{line: of + "count --describe --all", unordered: true},
		command{line: of + "nobody --describe --all", unordered: true},
		command{line: of + "count --alter --add-config streams.num.standby.replicas=1,streams.heartbeat.interval.ms=700", changes: true},
		command{line: of + "nobody --alter --add-config streams.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000", changes: true},
		command{line: of + "count --describe", unordered: true},
		command{line: of + "count --describe --all", unordered: true},
		command{line: of + "nobody --describe", unordered: true},
		command{line: "configs --entity-type groups --describe", unordered: true},
		command{line: "configs --group nobody --describe", unordered: true},
		command{line: of + "count --alter --delete-config streams.num.standby.replicas", changes: true},
		command{line: of + "count --alter --delete-config streams.num.standby.replicas", changes: true},
		command{line: of + "count --alter --delete-config streams.bogus", changes: true},
		command{line: of + "count --describe", unordered: true},
		command{line: of + "count --alter --add-config streams.session.timeout.ms=1", changes: true, more: true},
		command{line: of + "count --alter --add-config streams.session.timeout.ms=many", changes: true, more: true},
		command{line: of + "count --alter --add-config streams.num.standby.replicas=9", changes: true, more: true},
		command{line: of + "count --alter --add-config streams.num.warmup.replicas=-1", changes: true, more: true},
		command{line: of + "count --alter --add-config streams.assignor.name=bogus", changes: true},
		command{line: of + "count --alter --add-config streams.rack.aware.assignment.tags=[zone,zone]", changes: true, more: true},
		command{line: of + "count --alter --add-config streams.bogus=1", changes: true},
		command{line: of + "count --alter --add-config bogus=1", changes: true},
		command{line: of + "count --alter --delete-config streams.heartbeat.interval.ms", changes: true},
		command{line: of + "nobody --alter --delete-config streams.session.timeout.ms,consumer.heartbeat.interval.ms", changes: true},
		command{line: "configs --entity-type groups --describe", unordered: true},
		command{line: "configs --entity-type topics --entity-name orders --alter --add-config retention.ms=777777", changes: true},
		command{line: "configs --entity-type topics --entity-name orders --describe"},
		command{line: "configs --entity-type topics --entity-name orders --describe --all"},
		command{line: "configs --entity-type brokers --entity-name 1 --describe"},
		command{line: "configs --entity-type brokers --entity-default --describe"},
	)
}

// adminConfigs are the requests below the tools, with all their fields.
func adminConfigs(t *testing.T, b *both) {
	b.changes(t, "AlterConfigs of a group", func(a asked) any {
		req := kmsg.NewPtrAlterConfigsRequest()
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "whole"
		r.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: "streams.heartbeat.interval.ms", Value: kmsg.StringPtr("800")}}
		req.Resources = append(req.Resources, r)
		return ask(a, req)
	})
	for _, valid := range []bool{true, false} {
		b.changes(t, fmt.Sprintf("IncrementalAlterConfigs, only validated: %v", valid), func(a asked) any {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			req.ValidateOnly = valid
			for name, value := range map[string]string{"whole": "45001", "other": "7"} {
				r := kmsg.NewIncrementalAlterConfigsRequestResource()
				r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, name
				r.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "streams.session.timeout.ms", Value: kmsg.StringPtr(value)}}
				req.Resources = append(req.Resources, r)
			}
			slices.SortFunc(req.Resources, func(a, b kmsg.IncrementalAlterConfigsRequestResource) int {
				return cmp.Compare(a.ResourceName, b.ResourceName)
			})
			return ask(a, req)
		})
		for _, some := range [][]string{nil, {"streams.session.timeout.ms", "consumer.session.timeout.ms", "bogus"}} {
			b.reads(t, fmt.Sprintf("DescribeConfigs %v", some), func(a asked) any {
				req := kmsg.NewPtrDescribeConfigsRequest()
				req.IncludeSynonyms, req.IncludeDocumentation = true, some != nil
				for _, name := range []string{"whole", "nobody"} {
					r := kmsg.NewDescribeConfigsRequestResource()
					r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeGroupConfig, name, some
					req.Resources = append(req.Resources, r)
				}
				return ask(a, req)
			})
		}
	}
	b.reads(t, "ListConfigResources of groups", func(a asked) any {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = []int8{int8(kmsg.ConfigResourceTypeGroupConfig)}
		return ask(a, req)
	})
	b.changes(t, "AlterConfigs takes all settings of a group away", func(a asked) any {
		req := kmsg.NewPtrAlterConfigsRequest()
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "whole"
		req.Resources = append(req.Resources, r)
		return ask(a, req)
	})
}

// ask sends a request to any node as it is, in the newest version, and sorts what has no order.
func ask(a asked, req kmsg.Request) any {
	first, _, _ := strings.Cut(a.bootstrap, ",")
	conn, err := rig.Dial(first)
	if err != nil {
		return text(err)
	}
	defer conn.Close()
	resp, err := conn.Do(req, 10*time.Second)
	if err != nil {
		return text(err)
	}
	switch r := resp.(type) {
	case *kmsg.DescribeConfigsResponse:
		slices.SortFunc(r.Resources, func(a, b kmsg.DescribeConfigsResponseResource) int {
			return cmp.Compare(a.ResourceName, b.ResourceName)
		})
		for _, res := range r.Resources {
			slices.SortFunc(res.Configs, func(a, b kmsg.DescribeConfigsResponseResourceConfig) int { return cmp.Compare(a.Name, b.Name) })
			for i := range res.Configs {
				res.Configs[i].Documentation = nil // in other words
				for k := range res.Configs[i].ConfigSynonyms {
					if s := &res.Configs[i].ConfigSynonyms[k]; s.Name == "group.streams.assignors" && s.Value != nil {
						first, _, _ := strings.Cut(*s.Value, ",") // Kafka has one
						s.Value = &first
					}
				}
			}
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		for i := range r.Resources {
			r.Resources[i].ErrorMessage = nil // coordd says more
		}
		slices.SortFunc(r.Resources, func(a, b kmsg.IncrementalAlterConfigsResponseResource) int {
			return cmp.Compare(a.ResourceName, b.ResourceName)
		})
	}
	return resp
}
