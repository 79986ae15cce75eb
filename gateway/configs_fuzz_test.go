package gateway

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

// FuzzGroupConfigs gives bytes to what answers requests about settings of groups: each is refused or answered, once, with
// something that a client can read.
func FuzzGroupConfigs(f *testing.F) {
	keys := []int16{protocol.KeyDescribeConfigs, protocol.KeyAlterConfigs, protocol.KeyIncrementalAlterConfigs, keyListConfigResources}
	name, value := "streams.num.standby.replicas", "1"
	describe := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeGroupConfig, "g", []string{name}
	describe.Resources = append(describe.Resources, resource, kmsg.NewDescribeConfigsRequestResource())
	alter := kmsg.NewPtrAlterConfigsRequest()
	all := kmsg.NewAlterConfigsRequestResource()
	all.ResourceType, all.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "g"
	all.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: name, Value: &value}, {Name: "streams.heartbeat.interval.ms"}}
	alter.Resources = append(alter.Resources, all, all)
	some := incremental(false, []string{"32", "g", name, value, "streams.rack.aware.assignment.tags", "a,b"}, []string{"32", "h", name, "-"})
	for i, req := range []kmsg.Request{describe, alter, some, kmsg.NewPtrListConfigResourcesRequest()} {
		for v := range req.MaxVersion() + 1 {
			req.SetVersion(v)
			f.Add(byte(i), byte(v), req.AppendTo(nil))
		}
	}
	w, _ := newConfigWorld(f, 1)
	w.leadSystem(1)
	g := w.nodes[0].g
	f.Fuzz(func(t *testing.T, which, version byte, body []byte) {
		h := protocol.Header{Key: keys[int(which)%len(keys)]}
		h.Version = int16(version) % (kmsg.RequestForKey(h.Key).MaxVersion() + 1)
		answers := 0
		err := g.executeConfigs(h, body, func(answer []byte, e *coordinator.Error) {
			answers++
			if e != nil {
				return
			}
			resp := kmsg.ResponseForKey(h.Key)
			resp.SetVersion(h.Version)
			if _, body, err := protocol.ResponseBody(h.Key, h.Version, answer[4:]); err != nil || resp.ReadFrom(body) != nil {
				t.Fatalf("the answer cannot be read: %v", err)
			}
		})
		if (err == nil) != (answers == 1) || answers > 1 {
			t.Fatalf("%d answers, %v", answers, err)
		}
	})
}
