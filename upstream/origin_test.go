package upstream

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/topology"
)

// TestOrigin: what the upstream has under an id, of every type that there may be.
func TestOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.node()
		w.mustClaim(o, "ours")
		w.commit(o, commitReq("simple", -1, 1))
		for _, kind := range []string{"classic", "consumer", "share"} {
			w.member(kind)
		}
		for group, want := range map[string]coordinator.Origin{
			"nothing": {}, "simple": {Type: "classic", State: "Empty"}, "ours": {Type: "classic", Protocol: "coordd", State: "Stable"},
			"classic":  {Type: "classic", Protocol: "consumer", State: "Stable"},
			"consumer": {Type: "consumer", State: "Stable"}, "share": {Type: "share", State: "Stable"},
		} {
			var got *coordinator.Origin
			eventually(t, group, func() bool {
				var err error
				got, err = o.client.Origin(context.Background(), group)
				return err == nil && got.State == want.State
			})
			if got.Type != want.Type || got.Type == "classic" && got.Protocol != want.Protocol || got.Topology != nil || len(got.Settings) > 0 || got.Own() != (group == "ours") ||
				got.Empty() != (group == "nothing" || group == "simple") {
				t.Errorf("%s: %+v", group, got)
			}
			if known := group == "classic" || group == "ours"; known != (len(got.Members) == 1) || known && (got.Members[0].ID == "" || got.Members[0].Host == "") {
				t.Errorf("%s: members %+v", group, got.Members)
			}
		}
		w.cluster.Close()
		if got, err := o.client.Origin(context.Background(), "simple"); err == nil {
			t.Errorf("without an upstream: %+v", got)
		}
	})
}

// TestOriginOfAStreamsGroup: the upstream's description becomes a topology.
func TestOriginOfAStreamsGroup(t *testing.T) {
	internal := func(name string, partitions int32, configs ...kmsg.TopicInfoConfig) []kmsg.TopicInfo {
		return []kmsg.TopicInfo{{Topic: name, NumPartitions: partitions, ReplicationFactor: 3, Configs: configs}}
	}
	g := kmsg.NewStreamsGroupDescribeResponseGroup()
	g.Group, g.State, g.Epoch = "app", "Stable", 12
	m := kmsg.NewStreamsGroupDescribeResponseGroupMember()
	m.MemberID, m.InstanceID, m.ClientID, m.ClientHost = "m", kmsg.StringPtr("i"), "c", "/h"
	g.Members = append(g.Members, m)
	g.Topology = &kmsg.StreamsGroupDescribeResponseGroupTopology{Epoch: 3, Subtopologies: []kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology{
		{SubtopologyID: "0", SourceTopics: []string{"in"}, RepartitionSinkTopics: []string{"app-by-user-repartition"}},
		{SubtopologyID: "1", RepartitionSourceTopics: internal("app-by-user-repartition", 8),
			StateChangelogTopics: internal("app-count-changelog", 8, kmsg.TopicInfoConfig{Key: "cleanup.policy", Value: "compact"})},
	}}
	got := coordinator.Origin{Type: "streams", Protocol: "streams", State: "Empty"}
	describeOrigin(&g, &got)
	want := coordinator.Origin{
		Type: "streams", Protocol: "streams", State: "Stable", Epoch: 12, Members: []coordinator.OriginMember{{ID: "m", InstanceID: "i", ClientID: "c", Host: "/h"}},
		Topology: &topology.Topology{Epoch: 3, Subtopologies: []topology.Subtopology{
			{ID: "0", SourceTopics: []string{"in"}, RepartitionSinkTopics: []string{"app-by-user-repartition"}},
			{ID: "1",
				RepartitionSourceTopics: []topology.InternalTopic{{Name: "app-by-user-repartition", Partitions: 8, ReplicationFactor: 3}},
				// A changelog has as many partitions as its subtopology has tasks, which no topology says.
				StateChangelogTopics: []topology.InternalTopic{{Name: "app-count-changelog", ReplicationFactor: 3, Configs: []topology.Config{{Key: "cleanup.policy", Value: "compact"}}}}},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestOriginSettings: only what the group has of its own comes along, and only what concerns streams groups.
func TestOriginSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.node().client
		w.cluster.ControlKey(32, func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
			r := kmsg.NewDescribeConfigsResponseResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "app"
			for _, s := range []struct {
				name, value string
				source      kmsg.ConfigSource
			}{
				{"streams.num.standby.replicas", "1", kmsg.ConfigSourceGroupConfig}, {"streams.session.timeout.ms", "45000", kmsg.ConfigSourceDefaultConfig},
				{"consumer.session.timeout.ms", "50000", kmsg.ConfigSourceGroupConfig},
			} {
				cfg := kmsg.NewDescribeConfigsResponseResourceConfig()
				cfg.Name, cfg.Value, cfg.Source = s.name, kmsg.StringPtr(s.value), s.source
				r.Configs = append(r.Configs, cfg)
			}
			resp.Resources = append(resp.Resources, r)
			return resp, nil, true
		})
		got, err := c.groupSettings(context.Background(), "app")
		if diff := cmp.Diff(map[string]string{"streams.num.standby.replicas": "1"}, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
	})
}

// TestOriginInTrouble: trouble of the upstream is waited for, or told.
func TestOriginInTrouble(t *testing.T) {
	for name, c := range map[string]struct {
		code  int16
		times int
		fails bool
	}{
		"the coordinator moves": {kerr.NotCoordinator.Code, 2, false},
		"no coordinator":        {kerr.CoordinatorNotAvailable.Code, 1 << 20, true},
		"no right to list":      {kerr.ClusterAuthorizationFailed.Code, 1 << 20, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				o := w.node()
				w.commit(o, commitReq("simple", -1, 1))
				left := c.times
				w.cluster.ControlKey(16, func(req kmsg.Request) (kmsg.Response, error, bool) {
					w.cluster.KeepControl()
					if left--; left < 0 {
						return nil, nil, false
					}
					resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
					resp.ErrorCode = c.code
					return resp, nil, true
				})
				got, err := o.client.Origin(context.Background(), "simple")
				if c.fails != (err != nil) || err == nil && got.Type != "classic" {
					t.Errorf("%+v %v", got, err)
				}
			})
		})
	}
}
