package sim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/web"
)

// received are the tasks that a member gets in a plan as active, sorted.
func received(p *web.GroupPlan, member string) (tasks []string) {
	for _, s := range p.Steps {
		for _, m := range s.Moves {
			if m.To == member && m.Role == "active" {
				tasks = append(tasks, m.Task)
			}
		}
	}
	slices.Sort(tasks)
	return tasks
}

// TestEveryNodePlans: whichever node is asked, the leader of the group's shard plans by what members reported to it; nothing is
// written; and what is planned is what happens.
func TestEveryNodePlans(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		c := startCluster(t, dir, observer, 1)
		defer c.shutdown()
		awaitNodes(t, c)
		c.up.addTopic("life-in", 3)
		time.Sleep(time.Minute) // every node has seen it
		a, b := &lifeMember{admin: newConfigAdmin(t, c), id: "a"}, &lifeMember{admin: newConfigAdmin(t, c), id: "b"}
		a.beat(counting)
		c.settleLife(t, a)
		a.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) {
			for p := range int32(3) {
				offset := kmsg.NewTaskOffset()
				offset.SubtopologyID, offset.Partition, offset.Offset = "1", p, 1000
				r.TaskOffsets = append(r.TaskOffsets, offset)
				r.TaskEndOffsets = append(r.TaskEndOffsets, offset)
			}
		})
		shard := observer.shardOf(lifeGroup)
		written := func() uint64 {
			for _, s := range c.node(0).Local().Shards {
				if s.Shard == shard {
					return s.LastIndex
				}
			}
			t.Fatal("no such shard")
			return 0
		}
		before, ctx := written(), context.Background()
		var planned []string
		for i := range nodes {
			p, err := c.node(i).Plan(ctx, web.PlanRequest{Group: lifeGroup, Add: 1, Set: []string{"streams.num.standby.replicas=0"}})
			if err != nil {
				t.Fatal(err)
			}
			planned = received(&p, "new-1-1")
			if int(p.Coordinator) != c.leader(shard) || p.Reporting != 1 || p.Assignor != "sticky" || p.After.ActiveMax != 3 || p.Active != 3 || len(planned) != 3 ||
				p.Records == 0 || p.Records%1000 != 0 || p.Unknown != 0 {
				t.Errorf("node %d: %+v", i, p)
			}
		}
		p, err := c.node(1).Plan(ctx, web.PlanRequest{Group: lifeGroup, Add: 1, Set: []string{"streams.assignor.name=highly_available"}})
		if err != nil || p.Assignor != "highly_available" || p.Warmup == 0 || len(p.Steps) < 2 || p.Steps[0].Warmup == 0 || !p.Complete || p.After.ActiveMax != 3 {
			t.Errorf("%+v %v", p, err)
		}
		plansAtOnce(t, c, planned)
		refusals(t, c)
		if after := written(); after != before {
			t.Errorf("the log has %d entries, before the plans %d", after, before)
		}

		b.beat(counting)
		c.settleLife(t, a, b)
		g, _ := c.node(0).LocalGroup(lifeGroup)
		for _, m := range g.MemberList {
			if slices.Sort(m.TargetActive); m.Member == "b" && !slices.Equal(m.TargetActive, planned) {
				t.Errorf("b gets %v, planned were %v", m.TargetActive, planned)
			}
		}
		for _, failure := range observer.broken() {
			t.Error(failure)
		}
	})
}

// plansAtOnce: who asks while another plan is computed waits for it, and gets the same.
func plansAtOnce(t *testing.T, c *cluster, want []string) {
	t.Helper()
	var asked sync.WaitGroup
	for i := range 4 * nodes {
		asked.Go(func() {
			p, err := c.node(i%nodes).Plan(context.Background(), web.PlanRequest{Group: lifeGroup, Add: 1})
			if got := received(&p, "new-1-1"); err != nil || !slices.Equal(got, want) {
				t.Errorf("node %d: %v %v", i%nodes, got, err)
			}
		})
	}
	asked.Wait()
}

func refusals(t *testing.T, c *cluster) {
	t.Helper()
	for i := range nodes {
		for _, refused := range []struct {
			web.PlanRequest
			kind web.RefusalKind
			says string
		}{
			{web.PlanRequest{Group: "nobody"}, web.NotFound, "nobody not found"},
			{web.PlanRequest{Group: lifeGroup, Remove: []string{"x"}}, web.NotAllowed, `no member, instance or process "x"; it has the processes process-a (members a)`},
			{web.PlanRequest{Group: lifeGroup, Remove: []string{"process-a"}}, web.NotAllowed, "Nobody would be left"},
			{web.PlanRequest{Group: lifeGroup, Set: []string{"streams.session.timeout.ms=1"}}, web.NotAllowed, "does not change assignments (allowed: streams.num.standby.replicas"},
			{web.PlanRequest{Group: lifeGroup, Set: []string{"streams.num.standby.replicas=99"}}, web.NotAllowed, "streams.num.standby.replicas"},
			{web.PlanRequest{Group: lifeGroup, Set: []string{"streams.num.standby.replicas"}}, web.NotAllowed, "name=value"},
			{web.PlanRequest{Group: lifeGroup, Set: []string{"streams.assignor.name=mine"}}, web.NotAllowed, "streams.assignor.name"},
			{web.PlanRequest{Group: lifeGroup, Set: []string{"streams.num.standby.replicas=1", "streams.num.standby.replicas=1"}}, web.NotAllowed, "stands twice"},
			{web.PlanRequest{Group: lifeGroup, Add: 20_000}, web.NotAllowed, "10000 members in all"},
			{web.PlanRequest{Group: lifeGroup, Add: 1, Tags: []string{"=x"}}, web.NotAllowed, "name=value"},
		} {
			_, err := c.node(i).Plan(context.Background(), refused.PlanRequest)
			var r *web.Refusal
			if !errors.As(err, &r) || r.Kind != refused.kind || !strings.Contains(r.Text, refused.says) {
				t.Errorf("node %d, %+v: %v", i, refused.PlanRequest, err)
			}
		}
	}
}
