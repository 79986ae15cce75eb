package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/web"
)

// storeOf is where a group keeps its offsets.
func (o *observer) storeOf(t *testing.T, group string) record.Store {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.shards {
		if g := s.state.Group(group); g != nil {
			return g.Store()
		}
	}
	t.Fatalf("no group %s", group)
	return 0
}

// TestRollingUpgradeToOffsetsInTheLog upgrades a cluster whose groups are to keep their offsets in the log node by node. While a node
// is of the release before, up or down, groups are made with their offsets upstream and none is moved, both with its name; a node of that
// release stops where it meets an offset in the log, which would be an error here. From the last upgrade on the log is used.
func TestRollingUpgradeToOffsetsInTheLog(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		c := startReleases(t, dir, observer, 1, nil, []uint16{1, 1, 1}, "offsets.store=raft")
		defer c.shutdown()
		awaitNodes(t, c)
		c.up.addTopic("life-in", 4)
		time.Sleep(time.Minute) // every node has seen it
		admin := newConfigAdmin(t, c)
		made := 0
		join := func(want record.Store) string {
			t.Helper()
			made++
			m := &lifeMember{admin: admin, id: "m", group: fmt.Sprintf("group-%d", made)}
			m.beat(nil)
			m.leave()
			if got := observer.storeOf(t, m.group); got != want {
				t.Errorf("%s was made in store %v, want %v", m.group, got, want)
			}
			return m.group
		}
		move := func(asked int, group string) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := c.node(asked).MoveOffsets(ctx, web.MoveOffsetsRequest{Group: group, To: "raft"})
			return err
		}
		var first string
		for i := range nodes {
			first = join(record.StoreUpstream)
			last := nodes - 1
			if err := move(i, first); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("node %d (feature level 1", last)) {
				t.Errorf("with %d nodes upgraded a move is answered with %v", i, err)
			}
			c.levels[i] = 0
			c.restart(i, i == 1, 10*time.Second)
			time.Sleep(5 * time.Second)
			other := (i + 1) % nodes
			if why := c.node(other).Local().OffsetsLogHindrance; !strings.Contains(why, fmt.Sprintf("node %d (feature level 1 when it was up last)", i)) {
				t.Errorf("while node %d is down: %q", i, why)
			}
			if group := join(record.StoreUpstream); move(other, group) == nil {
				t.Errorf("moved while node %d is down", i)
			}
			c.down.Wait()
			awaitNodes(t, c)
			time.Sleep(time.Second)
		}
		for i := range nodes {
			if why := c.node(i).Local().OffsetsLogHindrance; why != "" {
				t.Errorf("node %d: %s", i, why)
			}
		}
		join(record.StoreRaft)
		if err := move(0, first); err != nil || observer.storeOf(t, first) != record.StoreRaft {
			t.Errorf("moved with %v, store %v", err, observer.storeOf(t, first))
		}
		for _, failure := range observer.broken() {
			t.Error(failure)
		}
	})
}

// TestANewClusterUsesTheLogAtOnce joins a group as soon as any node of a cluster that has just been started answers.
func TestANewClusterUsesTheLogAtOnce(t *testing.T) {
	for seed := range uint64(5) {
		dir := dataDir(t)
		synctest.Test(t, func(t *testing.T) {
			observer := newObserver()
			c := startCluster(t, dir, observer, seed, "offsets.store=raft")
			defer c.shutdown()
			c.up.addTopic("life-in", 4)
			m := &lifeMember{admin: newConfigAdmin(t, c), id: "m", group: "first"}
			m.beat(nil)
			if got := observer.storeOf(t, m.group); got != record.StoreRaft {
				t.Errorf("the first group was made in store %v", got)
			}
			for _, failure := range observer.broken() {
				t.Error(failure)
			}
		})
	}
}
