package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const configGroups = 5

// TestSettingsOfGroupsSurviveTheirLeaders alters settings of groups while the leaders of the system shard are killed. What
// was acknowledged is there for everybody from then on, and the group's coordinator acts by it at the next heartbeat.
func TestSettingsOfGroupsSurviveTheirLeaders(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		c := startCluster(t, dir, observer, 1)
		defer c.shutdown()
		awaitNodes(t, c)
		r := rand.New(rand.NewPCG(1, 2))
		a := newConfigAdmin(t, c)
		var acknowledged [configGroups]int
		kills := 0
		for n := range 200 {
			if n%25 == 12 {
				if leader := c.leader(-1); leader >= 0 {
					c.restart(leader, n%50 == 12, time.Second)
					kills++
				}
			}
			g := r.IntN(configGroups)
			value := 1000 + n
			for !a.alter(g, value) { // refused or lost: the same again until it is known to be made
				time.Sleep(50 * time.Millisecond)
			}
			acknowledged[g] = value
			if got := a.interval(g); got != value {
				t.Fatalf("alteration %d: the heartbeat interval of group %d is %d, acknowledged was %d", n, g, got, value)
			}
		}
		if kills < 5 {
			t.Errorf("only %d leaders were killed", kills)
		}
		c.heal()
		awaitNodes(t, c)
		for g, want := range acknowledged {
			for i := range nodes {
				if got := a.described(i, g); got != strconv.Itoa(want) && want != 0 {
					t.Errorf("node %d says %q of group %d, want %d", i, got, g, want)
				}
			}
		}
	})
}

func awaitNodes(t *testing.T, c *cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i := range nodes {
		if err := c.node(i).AwaitReady(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// configAdmin is an admin client that asks any node.
type configAdmin struct {
	t       *testing.T
	cluster *cluster
	rand    *rand.Rand
}

func newConfigAdmin(t *testing.T, c *cluster) *configAdmin {
	return &configAdmin{t: t, cluster: c, rand: rand.New(rand.NewPCG(1, 3))}
}

func configGroup(g int) string { return fmt.Sprintf("configured-%d", g) }

const heartbeatInterval = "streams.heartbeat.interval.ms"

// ask makes one request to a node; nil when there is no answer.
func (a *configAdmin) ask(node int, req kmsg.Request) kmsg.Response {
	w, err := dial(context.Background(), a.cluster.net.Host(clientHost(0)), nodeHost(node)+":9092", "admin", 5*time.Second)
	if err != nil {
		return nil
	}
	defer w.close()
	resp, err := w.do(req, 10*time.Second)
	if err != nil {
		return nil
	}
	return resp
}

// alter sets the heartbeat interval of a group and says whether that is acknowledged.
func (a *configAdmin) alter(g, value int) bool {
	return a.set(configGroup(g), heartbeatInterval, strconv.Itoa(value))
}

// set alters a setting of a group and says whether that is acknowledged.
func (a *configAdmin) set(group, name, value string) bool {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.SetVersion(1)
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	s := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	s.Name, s.Value = name, &value
	res.Configs = append(res.Configs, s)
	req.Resources = append(req.Resources, res)
	resp, ok := a.ask(a.rand.IntN(nodes), req).(*kmsg.IncrementalAlterConfigsResponse)
	if !ok {
		return false
	}
	code := resp.Resources[0].ErrorCode
	if code != 0 && (code < 14 || code > 16) {
		a.t.Fatalf("setting %s of group %s to %s: code %d", name, group, value, code)
	}
	return code == 0
}

// interval is what a member that joins the group is told.
func (a *configAdmin) interval(g int) int {
	for {
		req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		req.SetVersion(1)
		process := "p"
		req.Group, req.MemberID, req.ProcessID, req.RebalanceTimeoutMillis = configGroup(g), "m", &process, 60000
		sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		sub.SubtopologyID, sub.SourceTopics = "0", []string{"absent"}
		top := kmsg.NewStreamsGroupHeartbeatRequestTopology()
		top.Subtopologies = append(top.Subtopologies, sub)
		req.Topology = &top
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		resp, ok := a.ask(a.rand.IntN(nodes), req).(*kmsg.StreamsGroupHeartbeatResponse)
		if ok && resp.ErrorCode == 0 {
			return int(resp.HeartbeatIntervalMillis)
		}
		if ok && (resp.ErrorCode < 14 || resp.ErrorCode > 16) {
			a.t.Fatalf("heartbeat of group %d: code %d", g, resp.ErrorCode)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// described is the heartbeat interval of a group as a node tells it.
func (a *configAdmin) described(node, g int) string {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.SetVersion(4)
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.ConfigNames = kmsg.ConfigResourceTypeGroupConfig, configGroup(g), []string{heartbeatInterval}
	req.Resources = append(req.Resources, res)
	resp, ok := a.ask(node, req).(*kmsg.DescribeConfigsResponse)
	if !ok || len(resp.Resources) != 1 || len(resp.Resources[0].Configs) != 1 {
		return fmt.Sprintf("%+v", resp)
	}
	return *resp.Resources[0].Configs[0].Value
}
