package sim

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const lifeGroup = "life"

// lifeMember is a member that the test drives by hand, asking any node, or the one that it is told to.
type lifeMember struct {
	admin *configAdmin
	node  *int
	id    string
	// group and source, its topic, where they are not those of the test of a group's life.
	group, source string
	epoch         int32
	owned         [3][]kmsg.TaskIDs
	last          *kmsg.StreamsGroupHeartbeatResponse
}

// beat sends heartbeats until one is answered, with what change makes of it.
func (m *lifeMember) beat(change func(*kmsg.StreamsGroupHeartbeatRequest)) *kmsg.StreamsGroupHeartbeatResponse {
	m.admin.t.Helper()
	for range 200 {
		req := m.request()
		if change != nil {
			change(req)
		}
		node := m.admin.rand.IntN(nodes)
		if m.node != nil {
			node = *m.node
		}
		resp, ok := m.admin.ask(node, req).(*kmsg.StreamsGroupHeartbeatResponse)
		switch {
		case !ok || resp.ErrorCode >= 14 && resp.ErrorCode <= 16:
			time.Sleep(50 * time.Millisecond)
			continue
		case resp.ErrorCode != 0:
			m.admin.t.Fatalf("%s: code %d: %v", m.id, resp.ErrorCode, resp.ErrorMessage)
		}
		m.last, m.epoch = resp, max(0, resp.MemberEpoch)
		if resp.ActiveTasks != nil {
			m.owned = [3][]kmsg.TaskIDs{resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks}
		}
		return resp
	}
	m.admin.t.Fatalf("%s: no answer", m.id)
	return nil
}

// request is the next heartbeat, with all that the member has.
func (m *lifeMember) request() *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.SetVersion(1)
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = cmp.Or(m.group, lifeGroup), m.id, m.epoch, -1
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = m.owned[0], m.owned[1], m.owned[2]
	if m.epoch == 0 {
		process := "process-" + m.id
		req.ProcessID, req.RebalanceTimeoutMillis = &process, 60000
		endpoint := kmsg.NewStreamsGroupHeartbeatRequestUserEndpoint()
		endpoint.Host, endpoint.Port = m.id, 1
		req.UserEndpoint = &endpoint
		sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		sub.SubtopologyID, sub.SourceTopics = "0", []string{cmp.Or(m.source, "life-in")}
		top := kmsg.NewStreamsGroupHeartbeatRequestTopology()
		top.Subtopologies = append(top.Subtopologies, sub)
		req.Topology = &top
		none := []kmsg.TaskIDs{}
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = none, none, none
	}
	return req
}

func (m *lifeMember) leave() {
	m.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) { r.MemberEpoch = -1 })
}

// settle lets members go on until the group is stable.
func (c *cluster) settleLife(t *testing.T, members ...*lifeMember) {
	t.Helper()
	for range 60 {
		for _, m := range members {
			m.beat(nil)
		}
		time.Sleep(200 * time.Millisecond)
		if g, ok := c.node(0).LocalGroup(lifeGroup); ok && g.State == "Stable" && g.Members == len(members) {
			return
		}
	}
	t.Fatal("not stable")
}

// offsets are the positions of tasks that a describe tells of a member.
func (a *configAdmin) offsets(member string) []kmsg.TaskOffset {
	for range 100 {
		req := kmsg.NewPtrStreamsGroupDescribeRequest()
		req.Groups = []string{lifeGroup}
		resp, ok := a.ask(a.rand.IntN(nodes), req).(*kmsg.StreamsGroupDescribeResponse)
		if ok && resp.Groups[0].ErrorCode == 0 {
			for _, m := range resp.Groups[0].Members {
				if m.MemberID == member {
					return m.TaskOffsets
				}
			}
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

// TestLifeOfAGroupOverLeaders: a planned transfer keeps what only the leader knows, kills keep what is in the log, and an
// empty group goes when its time is over, whoever led meanwhile.
func TestLifeOfAGroupOverLeaders(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		c := startCluster(t, dir, observer, 1, "offsets.retention.minutes=2", "offsets.retention.check.interval.ms=5000")
		defer c.shutdown()
		awaitNodes(t, c)
		c.up.addTopic("life-in", 2)
		time.Sleep(time.Minute) // every node has seen it
		admin := newConfigAdmin(t, c)
		a, b := &lifeMember{admin: admin, id: "a"}, &lifeMember{admin: admin, id: "b"}
		c.settleLife(t, a, b)
		shard := observer.shardOf(lifeGroup)

		offset := kmsg.NewTaskOffset()
		offset.SubtopologyID, offset.Partition, offset.Offset = "0", 1, 4711
		a.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) {
			r.TaskOffsets = []kmsg.TaskOffset{offset}
		})
		before := b.beat(nil).EndpointInformationEpoch
		const wanted = 3
		moved := 0
		for tries := 0; moved < wanted; tries++ {
			if tries == 3*wanted {
				t.Fatalf("%d of %d planned transfers reached the node that was asked to lead", moved, tries)
			}
			leader := c.leader(shard)
			if err := c.node(leader).Transfer(context.Background(), shard, int32((leader+1)%nodes)); err != nil {
				t.Fatal(err)
			}
			awaitLeader(t, c, shard, -1)
			if c.leader(shard) != (leader+1)%nodes {
				// An election that was not planned: another node was quicker. What only the leader knew is gone.
				a.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) { r.TaskOffsets = []kmsg.TaskOffset{offset} })
				before = b.beat(nil).EndpointInformationEpoch
				continue
			}
			moved++
			if got := b.beat(nil).EndpointInformationEpoch; got != before {
				t.Errorf("endpoint epoch %d after a planned transfer, %d before", got, before)
			}
			if got := admin.offsets("a"); len(got) != 1 || got[0].Offset != 4711 {
				t.Errorf("task offsets after a planned transfer: %v", got)
			}
		}

		a.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ShutdownApplication = true })
		c.killLeader(t, shard)
		shutdown := func(s kmsg.StreamsGroupHeartbeatResponseStatus) bool { return s.StatusCode == 4 }
		if status := b.beat(nil).Status; !slices.ContainsFunc(status, shutdown) {
			t.Errorf("the shutdown request is forgotten after a failover: %v", status)
		}
		c.settleLife(t, a, b)
		for i := range nodes {
			j, err := c.node(i).Journal(context.Background(), lifeGroup)
			if err != nil || len(j.Entries) == 0 || j.Entries[0].Outcome != "settled" || j.Entries[0].Epoch != j.Epoch {
				t.Errorf("node %d: %v, %+v", i, err, j)
			}
		}

		a.leave()
		b.leave()
		emptied := time.Now()
		for range 3 {
			time.Sleep(35 * time.Second)
			if _, ok := c.node(0).LocalGroup(lifeGroup); !ok {
				t.Fatalf("deleted after %v", time.Since(emptied))
			}
			c.killLeader(t, shard)
		}
		time.Sleep(time.Until(emptied.Add(2*time.Minute + 10*time.Second)))
		for i := range nodes {
			if _, ok := c.node(i).LocalGroup(lifeGroup); ok {
				t.Errorf("node %d has the group still", i)
			}
		}
		for _, failure := range observer.broken() {
			t.Error(failure)
		}
	})
}

// killLeader kills the leader of a shard and returns when another one serves and the killed one is back.
func (c *cluster) killLeader(t *testing.T, shard int) {
	t.Helper()
	leader := c.leader(shard)
	if leader < 0 {
		t.Fatal("no leader")
	}
	c.restart(leader, true, 500*time.Millisecond)
	awaitLeader(t, c, shard, leader)
	c.heal()
	awaitNodes(t, c)
}

// awaitLeader waits until a node serves the shard, and one other than the given one.
func awaitLeader(t *testing.T, c *cluster, shard, other int) {
	t.Helper()
	for range 500 {
		if leader := c.leader(shard); leader >= 0 && leader != other {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("no new leader")
}
