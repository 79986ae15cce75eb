package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// described asks a node for groups until the answer has no coordinator's trouble in it.
func (a *configAdmin) describedGroups(node int, groups []string) []kmsg.StreamsGroupDescribeResponseGroup {
	a.t.Helper()
	for range 200 {
		req := kmsg.NewPtrStreamsGroupDescribeRequest()
		req.SetVersion(1)
		req.Groups = groups
		resp, ok := a.ask(node, req).(*kmsg.StreamsGroupDescribeResponse)
		trouble := func(g kmsg.StreamsGroupDescribeResponseGroup) bool { return g.ErrorCode >= 14 && g.ErrorCode <= 16 }
		if ok && !slices.ContainsFunc(resp.Groups, trouble) {
			return resp.Groups
		}
		time.Sleep(50 * time.Millisecond)
	}
	a.t.Fatalf("node %d does not describe", node)
	return nil
}

// listed asks all nodes at once for their groups, as clients do; nil when one of them could not tell. States are by group,
// with one entry for each node that told of it.
func (a *configAdmin) listed() map[string][]string {
	groups := map[string][]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	failed := false
	for node := range nodes {
		after := time.Duration(a.rand.IntN(300)) * time.Millisecond // a connection may have to be made first
		wg.Go(func() {
			time.Sleep(after)
			req := kmsg.NewPtrListGroupsRequest()
			req.SetVersion(5)
			resp, ok := a.ask(node, req).(*kmsg.ListGroupsResponse)
			mu.Lock()
			defer mu.Unlock()
			if !ok || resp.ErrorCode != 0 {
				failed = true
				return
			}
			for _, g := range resp.Groups {
				groups[g.Group] = append(groups[g.Group], g.GroupType+" "+g.GroupState)
			}
		})
	}
	wg.Wait()
	if failed {
		return nil
	}
	return groups
}

// shown is all that tools are told of groups, by a node.
func (a *configAdmin) shown(node int, groups []string) string {
	a.t.Helper()
	var b strings.Builder
	for _, g := range a.describedGroups(node, groups) {
		fmt.Fprintf(&b, "%s %s epoch %d assignment epoch %d code %d\n", g.Group, g.State, g.Epoch, g.AssignmentEpoch, g.ErrorCode)
		if g.Topology != nil {
			fmt.Fprintf(&b, "  %+v\n", *g.Topology)
		}
		slices.SortFunc(g.Members, func(a, b kmsg.StreamsGroupDescribeResponseGroupMember) int {
			return cmp.Compare(a.MemberID, b.MemberID)
		})
		for _, m := range g.Members {
			fmt.Fprintf(&b, "  %s epoch %d topology %d process %s has %+v target %+v\n", m.MemberID, m.MemberEpoch, m.TopologyEpoch, m.ProcessID, m.Assignment, m.TargetAssignment)
		}
	}
	for {
		listed := a.listed()
		if listed == nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(listed)) {
			slices.Sort(listed[id])
			fmt.Fprintf(&b, "listed: %s %v\n", id, slices.Compact(listed[id]))
		}
		return b.String()
	}
}

// TestGroupsLookTheSameWhoeverLeads: describe and list show each state of a group alike on every node, after planned
// transfers, after all nodes were killed at once, and after a rolling restart. A group with settings of its own, whose member
// comes at once, sees no change of them.
func TestGroupsLookTheSameWhoeverLeads(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		c := startCluster(t, dir, observer, 1, "group.streams.session.timeout.ms=60000")
		defer c.shutdown()
		awaitNodes(t, c)
		c.up.addTopic("in", 4)
		time.Sleep(time.Minute) // every node has seen it
		admin := newConfigAdmin(t, c)
		member := func(group, id string) *lifeMember {
			return &lifeMember{admin: admin, group: group, source: "in", id: id}
		}
		groups := admin.everyState(member)
		configured := member("configured", "a")
		admin.mustSet("configured", "streams.num.standby.replicas", "0")
		admin.settled(configured)
		epoch := configured.epoch
		groups = append(groups, "configured")
		before := admin.shown(0, groups)
		for _, state := range groups[:5] {
			if want := fmt.Sprintf("listed: %s [streams %s]", state, state); !strings.Contains(before, want) {
				t.Fatalf("%q is missing in\n%s", want, before)
			}
		}
		same := func(after string) {
			t.Helper()
			if r := configured.beat(nil); r.MemberEpoch != epoch || len(r.Status) > 0 {
				t.Errorf("a heartbeat %s: %+v", after, r)
			}
			awaitNodes(t, c)
			for i := range nodes {
				if got := admin.shown(i, groups); got != before {
					t.Errorf("%s, node %d:\n%s\ninstead of\n%s", after, i, got, before)
				}
			}
		}
		same("at first")
		for shard := range shards {
			leader := c.leader(shard)
			if err := c.node(leader).Transfer(context.Background(), shard, int32((leader+1)%nodes)); err != nil {
				t.Fatal(err)
			}
		}
		same("after planned transfers")
		for range 3 {
			c.hops.keepSystemApart(2 * time.Second) // shards are led before the settings of groups are known
			for i := range nodes {
				c.restart(i, true, 300*time.Millisecond)
			}
			c.heal()
			same("after all nodes were killed")
		}
		for i := range nodes {
			c.restart(i, false, 300*time.Millisecond)
			c.heal()
			same("during a rolling restart")
		}
		for _, failure := range observer.broken() {
			t.Error(failure)
		}
	})
}

// mustSet alters a setting of a group.
func (a *configAdmin) mustSet(group, name, value string) {
	for !a.set(group, name, value) {
		time.Sleep(50 * time.Millisecond)
	}
}

// settled lets a member go on until it has had time to get its tasks.
func (a *configAdmin) settled(m *lifeMember) {
	a.t.Helper()
	for range 30 {
		m.beat(nil)
		time.Sleep(100 * time.Millisecond)
	}
	if len(m.owned[0]) == 0 {
		a.t.Fatalf("%s of %s has no tasks", m.id, m.group)
	}
}

// everyState makes a group in each state, by which it is named.
func (a *configAdmin) everyState(member func(group, id string) *lifeMember) []string {
	empty := member("Empty", "a")
	empty.beat(nil)
	empty.leave()
	a.settled(member("Stable", "a"))
	a.settled(member("Reconciling", "a"))
	member("Reconciling", "b").beat(nil)
	missing := member("NotReady", "a")
	missing.source = "absent"
	missing.beat(nil)
	a.mustSet("Assigning", "streams.initial.rebalance.delay.ms", "600000")
	member("Assigning", "a").beat(nil)
	time.Sleep(2 * time.Second) // the target of the second one, which waits for the interval
	return []string{"Assigning", "Empty", "NotReady", "Reconciling", "Stable"}
}

// TestEveryGroupIsListed: whoever asks all nodes for their groups is told of each, also while the shards move from node to
// node, and by each node that tells of it in the state that was acknowledged last; once the shards stay, by one node.
func TestEveryGroupIsListed(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		// Each member has its turn now and then only, and the first heartbeat of a group without topics waits for the upstream.
		c := startCluster(t, dir, observer, 1, "group.streams.session.timeout.ms=60000")
		defer c.shutdown()
		awaitNodes(t, c)
		admin := newConfigAdmin(t, c)
		var members []*lifeMember
		want := map[string]string{}
		for i := range 24 {
			m := &lifeMember{admin: admin, group: fmt.Sprintf("listed-%02d", i), source: "absent", id: "m"}
			m.beat(nil)
			members, want[m.group] = append(members, m), "streams NotReady"
		}
		turn := func(m *lifeMember) {
			if want[m.group] == "streams Empty" {
				m.beat(nil)
				want[m.group] = "streams NotReady"
			} else {
				m.leave()
				want[m.group] = "streams Empty"
			}
		}
		ctx, stop := context.WithCancel(context.Background())
		var moving sync.WaitGroup
		moves := [shards]int{}
		for shard := range shards {
			r := rand.New(rand.NewPCG(1, uint64(shard)))
			moving.Go(func() {
				for ctx.Err() == nil {
					if leader := c.leader(shard); leader >= 0 && c.node(leader).Transfer(ctx, shard, int32((leader+1)%nodes)) == nil {
						moves[shard]++
					}
					time.Sleep(time.Second + time.Duration(r.IntN(2000))*time.Millisecond)
				}
			})
		}
		complete, twice := 0, 0
		r := rand.New(rand.NewPCG(1, 4))
		for i := range 1000 {
			time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
			turn(members[i%len(members)])
			listed := admin.listed()
			if listed == nil {
				continue // told to ask again
			}
			complete++
			for id, told := range listed {
				if slices.ContainsFunc(told, func(state string) bool { return state != want[id] }) {
					t.Errorf("%s is listed as %v, want %s", id, told, want[id])
				}
				twice += len(told) - 1
			}
			if len(listed) != len(want) {
				t.Errorf("%d of %d groups are listed", len(listed), len(want))
			}
		}
		stop()
		moving.Wait()
		t.Logf("%d lists, %d entries twice, moves %v", complete, twice, moves)
		if complete < 500 || slices.Min(moves[:]) < 10 {
			t.Errorf("only %d lists, moves %v", complete, moves)
		}
		c.awaitListedOnce(t, admin, len(want))
	})
}

// awaitListedOnce waits until every group is told of by one node.
func (c *cluster) awaitListedOnce(t *testing.T, admin *configAdmin, groups int) {
	t.Helper()
	var listed map[string][]string
	for range 30 {
		time.Sleep(time.Second)
		told := 0
		listed = admin.listed()
		for _, states := range listed {
			told += len(states)
		}
		if len(listed) == groups && told == groups {
			return
		}
	}
	t.Errorf("the shards stay where they are and groups are listed as %v", listed)
}
