//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
	"github.com/coordd/coordd/web"
)

// TestPlanCommand looks at a join before it comes: nothing is written, and what the table and the JSON say of it is what happens.
func TestPlanCommand(t *testing.T) {
	dir := place(t)
	cluster := startCluster(t, 3, startUpstream(t, "kfake", dir), dir)
	bootstrap := cluster.Nodes[0].Client + "," + cluster.Nodes[1].Client
	ctx := within(t, time.Minute)
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	const group = "planned"
	if _, err := kadm.NewClient(cl).CreateTopics(ctx, 6, 1, nil, "plan-in"); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) (string, error) {
		return cluster.CLI(ctx, cluster.Nodes[2], append([]string{"groups"}, args...)...)
	}
	plan := func(args ...string) (p web.GroupPlan) {
		t.Helper()
		out, err := command(append([]string{"plan", group, "-o", "json"}, args...)...)
		if err != nil {
			t.Fatal(out, err)
		}
		if err := json.Unmarshal([]byte(out), &p); err != nil {
			t.Fatal(out, err)
		}
		return p
	}
	first, second := rig.NewProbe(bootstrap, group, "plan-in"), rig.NewProbe(bootstrap, group, "plan-in")
	stateful := func(r *kmsg.StreamsGroupHeartbeatRequest) {
		changelog := kmsg.NewTopicInfo()
		changelog.Topic = "planned-store-changelog"
		r.Topology.Subtopologies[0].StateChangelogTopics = []kmsg.TopicInfo{changelog}
	}
	first.Joining, second.Joining = stateful, stateful
	if err := first.Settle(20 * time.Second); err != nil {
		t.Fatal(err)
	}

	// position is where the log of the group's shard ends, and the term of its leader: a new one begins with an entry.
	position := func(shard int) (term, index uint64) {
		var shards []web.ShardView
		out, err := cluster.CLI(ctx, cluster.Nodes[2], "leaders", "-o", "json")
		if err == nil {
			err = json.Unmarshal([]byte(out), &shards)
		}
		i := slices.IndexFunc(shards, func(s web.ShardView) bool { return s.Shard == shard })
		if err != nil || i < 0 {
			t.Fatal(out, err)
		}
		return shards[i].Term, shards[i].CommitIndex
	}
	shard := plan().Shard
	term, before := position(shard)
	p := plan("--add", "1")
	var planned []string
	for _, m := range p.Steps[0].Moves {
		if m.From != first.Member || m.To != "new-1-1" || m.Role != "active" {
			t.Errorf("%+v", m)
		}
		planned = append(planned, m.Task)
	}
	if p.Active != 3 || len(planned) != 3 || p.Before.ActiveMax != 6 || p.After.ActiveMin != 3 || p.After.ActiveMax != 3 || !p.Stateful {
		t.Errorf("%+v", p)
	}
	if p := plan(); p.Active != 0 || !p.Complete {
		t.Errorf("without a change: %+v", p)
	}
	for args, says := range map[string]string{
		"--add 1": "from scratch",
		"--add 2 --threads 2 --set streams.num.standby.replicas=1": "standby",
		"--remove " + first.Member:                                 "Nobody would be left", "--remove nobody": first.Member, "--assignor mine": "streams.assignor.name",
	} {
		out, err := command(append([]string{"plan", group}, strings.Fields(args)...)...)
		if !strings.Contains(out+errorText(err), says) {
			t.Errorf("groups plan %s: %q is missing in\n%s%v", args, says, out, err)
		}
	}
	if now, after := position(shard); now == term && after != before {
		t.Errorf("the log ends at %d, before the plans at %d", after, before)
	}

	var received []string
	for end := time.Now().Add(20 * time.Second); received == nil; time.Sleep(50 * time.Millisecond) {
		if err := errors.Join(second.Beat(5*time.Second), first.Beat(5*time.Second)); time.Now().After(end) {
			t.Fatal("the member that joined gets nothing", err)
		}
		var g web.GroupDetail
		if out, err := command("describe", group, "-o", "json"); err != nil || json.Unmarshal([]byte(out), &g) != nil {
			t.Fatal(out, err)
		}
		for _, m := range g.MemberList {
			if m.Member == second.Member && len(m.TargetActive) > 0 {
				received = m.TargetActive
			}
		}
	}
	if !slices.Equal(received, planned) {
		t.Errorf("the member that joined gets %v, planned were %v", received, planned)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
