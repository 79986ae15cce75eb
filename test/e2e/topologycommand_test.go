//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

// TestTopologyCommand rolls a topology out by its content, looks at it with the command, and takes it back.
func TestTopologyCommand(t *testing.T) {
	dir := place(t)
	cluster := startCluster(t, 3, startUpstream(t, "kfake", dir), dir)
	bootstrap := cluster.Nodes[0].Client + "," + cluster.Nodes[1].Client
	ctx := within(t, time.Minute)
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	const group = "changing"
	if _, err := kadm.NewClient(cl).CreateTopics(ctx, 2, 1, nil, "both", "more"); err != nil {
		t.Fatal(err)
	}
	policy := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	resource.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "streams.topology.update.policy", Value: kmsg.StringPtr("latest")}}
	policy.Resources = append(policy.Resources, resource)
	if resp, err := policy.RequestWith(ctx, cl); err != nil || resp.Resources[0].ErrorCode != 0 {
		t.Fatalf("%+v %v", resp, err)
	}
	command := func(args string, says ...string) (failed bool) {
		t.Helper()
		out, err := cluster.CLI(ctx, cluster.Nodes[2], append([]string{"groups", "topology", group}, strings.Fields(args)...)...)
		for _, want := range says {
			if !strings.Contains(out, want) {
				t.Errorf("groups topology %s: %q is missing in\n%s%v", args, want, out, err)
			}
		}
		return err != nil
	}

	before, after := rig.NewProbe(bootstrap, group, "both"), rig.NewProbe(bootstrap, group, "both")
	after.Joining = func(r *kmsg.StreamsGroupHeartbeatRequest) {
		next := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		next.SubtopologyID, next.SourceTopics = "1", []string{"more"}
		r.Topology.Subtopologies = append(r.Topology.Subtopologies, next)
	}
	for _, p := range []*rig.Probe{before, after} {
		if err := p.Settle(20 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if command("", "change from topology epoch 0 to 1:", "subtopologies kept: 0; changed: -; new: 1; lost: -", after.Member, before.Member,
		"roll-out: 1 of 2 members run the group's topology; of 4 tasks 2 are with them, 2 with the others and 0 with nobody yet") {
		t.Error("failed")
	}
	if !command("--abort", "would go from topology epoch 1 back to the topology of epoch 0, as epoch 2:", "lost: 1") {
		t.Error("an abort was made without a confirmation")
	}
	if command("--abort --yes", "that of epoch 0 is the group's again, as epoch 2") {
		t.Error("not taken back")
	}
	command("", "current, as epoch 0", "taken back", "roll-out: 1 of 2 members run the group's topology")
	if err := after.Leave(); err != nil {
		t.Fatal(err)
	}
	command("-o json", `"done": true`, `"restores": 0`)
}
