package devcluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestSettingsOfGroups sets settings of a group with an admin client, and finds them in heartbeats, after the group's
// deletion, and after a restart of all nodes.
func TestSettingsOfGroups(t *testing.T) {
	dir := t.TempDir()
	base, adminPort := ports(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	const group, interval = "app", "streams.heartbeat.interval.ms"
	for round := range 2 {
		c, err := Start(ctx, Options{Port: base, AdminPort: adminPort, DataDir: dir, Set: []string{"group.streams.heartbeat.hold.ms=0"}})
		if err != nil {
			t.Fatal(err)
		}
		versions := kversion.Tip()
		versions.SetMaxKeyVersion(88, 1)
		client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(c.Bootstrap(), ",")...), kgo.MaxVersions(versions))
		if err != nil {
			t.Fatal(err)
		}
		admin := kadm.NewClient(client)
		alter := func(op kmsg.IncrementalAlterConfigOp, name, value string) error {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			res := kmsg.NewIncrementalAlterConfigsRequestResource()
			res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
			res.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Op: op, Value: &value}}
			req.Resources = append(req.Resources, res)
			resp, err := req.RequestWith(ctx, client)
			if err != nil {
				return err
			}
			return kerr.ErrorForCode(resp.Resources[0].ErrorCode)
		}
		if round == 0 {
			if err := alter(kmsg.IncrementalAlterConfigOpSet, interval, "6000"); err != nil {
				t.Fatal(err)
			}
			if err := alter(kmsg.IncrementalAlterConfigOpSet, interval, "4999"); !errors.Is(err, kerr.InvalidConfig) {
				t.Errorf("an interval below the limit: %v", err)
			}
			if err := alter(kmsg.IncrementalAlterConfigOpSet, "consumer.session.timeout.ms", "50000"); err != nil {
				t.Error(err)
			}
			if err := alter(kmsg.IncrementalAlterConfigOpAppend, "streams.rack.aware.assignment.tags", "zone"); err != nil {
				t.Error(err)
			}
		}
		if got := join(ctx, t, client, group); got != 6000 {
			t.Errorf("round %d: members are told an interval of %d", round, got)
		}
		if _, err := admin.DeleteGroup(ctx, group); err != nil {
			t.Error(err)
		}
		req := kmsg.NewPtrDescribeConfigsRequest()
		res := kmsg.NewDescribeConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
		req.Resources = append(req.Resources, res)
		described, err := req.RequestWith(ctx, client)
		if err != nil || described.Resources[0].ErrorCode != 0 {
			t.Fatal(err, described)
		}
		own := map[string]string{}
		for _, c := range described.Resources[0].Configs {
			if c.Source == kmsg.ConfigSourceGroupConfig {
				own[c.Name] = *c.Value
			}
		}
		if len(own) != 3 || own[interval] != "6000" || own["consumer.session.timeout.ms"] != "50000" || own["streams.rack.aware.assignment.tags"] != "zone" {
			t.Errorf("round %d: %v", round, own)
		}
		client.Close()
		if err := c.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// join lets a member join and leave the group, and returns the heartbeat interval that it was told.
func join(ctx context.Context, t *testing.T, client *kgo.Client, group string) int32 {
	t.Helper()
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.ProcessID, req.RebalanceTimeoutMillis = group, "m", kmsg.StringPtr("p"), 60000
	sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	sub.SubtopologyID, sub.SourceTopics = "0", []string{"absent"}
	topology := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	topology.Subtopologies = append(topology.Subtopologies, sub)
	req.Topology = &topology
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	resp, err := req.RequestWith(ctx, client.SeedBrokers()[0])
	if err != nil || resp.ErrorCode != 0 {
		t.Fatal(err, resp)
	}
	leave := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	leave.Group, leave.MemberID, leave.MemberEpoch = group, "m", -1
	if left, err := leave.RequestWith(ctx, client.SeedBrokers()[0]); err != nil || left.ErrorCode != 0 {
		t.Fatal(err, left)
	}
	return resp.HeartbeatIntervalMillis
}
