package devcluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/web"
)

// TestOperatorsMoveLeaderships moves and drains over the admin ports of three nodes, whichever is asked.
func TestOperatorsMoveLeaderships(t *testing.T) {
	base, adminPort := ports(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := Start(ctx, Options{Port: base, AdminPort: adminPort, DataDir: t.TempDir(), Set: []string{"shards=2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(ctx); err != nil {
			t.Error(err)
		}
	}()
	admin := func(node int) web.Client { return web.Client{Address: fmt.Sprintf("127.0.0.1:%d", adminPort+node)} }

	for round, shard := range []int{0, 1, -1} { // -1: the system shard
		for asked := range nodes {
			to := int32((round + asked) % nodes)
			moved, err := admin(asked).MoveLeader(ctx, web.MoveRequest{Shard: shard, To: to})
			if err != nil || moved.Shard != shard || moved.Leader != to {
				t.Fatalf("shard %d to node %d by node %d: %+v %v", shard, to, asked, moved, err)
			}
			if !c.Nodes()[to].Local().Shards[1+shard].Kept {
				t.Errorf("node %d does not serve and keep shard %d", to, shard)
			}
		}
	}
	again, err := admin(0).MoveLeader(ctx, web.MoveRequest{Shard: 0, To: 2})
	if err != nil || again.From != 2 || again.Leader != 2 {
		t.Errorf("to a node that leads already: %+v %v", again, err)
	}

	drained, err := admin(0).DrainNode(ctx, web.DrainRequest{Node: 2})
	if err != nil || !drained.Drained || len(drained.Shards) == 0 {
		t.Fatalf("%+v %v", drained, err)
	}
	for _, s := range drained.Shards {
		if s.Problem != "" || s.Leader == 2 {
			t.Errorf("%+v", s)
		}
	}
	for _, s := range c.Nodes()[2].Local().Shards {
		if s.Role == "leader" {
			t.Errorf("node 2 is drained and leads shard %d", s.Shard)
		}
	}
	if status := c.Nodes()[0].Status(ctx); !status.Nodes[2].Drained || status.Nodes[1].Drained {
		t.Errorf("who is drained: %+v", status.Nodes)
	}

	for _, test := range []struct {
		shard int
		to    int32
		kind  web.RefusalKind
		text  string
	}{
		{0, 2, web.Conflict, "'coordd leaders drain 2 --undo'"},
		{0, 7, web.NotAllowed, "node 7 is not a member of the cluster (its nodes: 0, 1, 2)"},
		{2, 0, web.NotAllowed, "allowed: 0 to 1"},
		{-2, 0, web.NotAllowed, "-1 for the system shard"},
	} {
		_, err := admin(1).MoveLeader(ctx, web.MoveRequest{Shard: test.shard, To: test.to})
		var refused *web.Refusal
		if !errors.As(err, &refused) || refused.Kind != test.kind || !strings.Contains(refused.Text, test.text) {
			t.Errorf("shard %d to node %d: %v", test.shard, test.to, err)
		}
	}
	if _, err := admin(0).DrainNode(ctx, web.DrainRequest{Node: 9}); err == nil || !strings.Contains(err.Error(), "its nodes: 0, 1, 2") {
		t.Errorf("drain of a stranger: %v", err)
	}

	if back, err := admin(1).DrainNode(ctx, web.DrainRequest{Node: 2, Undo: true}); err != nil || back.Drained {
		t.Fatalf("%+v %v", back, err)
	}
	if moved, err := admin(1).MoveLeader(ctx, web.MoveRequest{Shard: 1, To: 2}); err != nil || moved.Leader != 2 {
		t.Errorf("to a node that is taken back: %+v %v", moved, err)
	}
}
